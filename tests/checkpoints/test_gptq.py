"""GPTQ's format: the solver's codes and zero points bit by bit, in the convention that config.json names."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from benchmarks.quality.dequantize import from_gptq
from sarqc import Grid, Recipe
from sarqc.checkpoints.formats import why_not
from sarqc.checkpoints.gptq import save_gptq
from sarqc.errors import Refused
from sarqc.models.families import LayerInfo
from tests.checkpoints.made import quantized, unpacked
from tests.models.cases import make_checkpoint

SIDES = {"intermediate_size": 96, "num_key_value_heads": 4}  # so that 32 divides every side
EXPERTS = SIDES | {"moe_intermediate_size": 32, "head_dim": 8}


@pytest.mark.thorough
@pytest.mark.parametrize("bits", [2, 3, 4])
@pytest.mark.parametrize("kind", ["symmetric", "asymmetric"])
@pytest.mark.parametrize("name", ["llama", "qwen3_moe, one block dense"])
def test_every_number_is_where_its_readers_look(tiny_llama, tmp_path, name, kind, bits):
    folder = make_checkpoint(name, tmp_path / "float", tiny_llama, **(SIDES if name == "llama" else EXPERTS))
    loaded, layers, grids = quantized(folder, Grid(bits, 16, kind), "gptq")
    save_gptq(loaded, layers, grids, tmp_path / "model")
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    config = json.loads((tmp_path / "model" / "config.json").read_text())["quantization_config"]
    is_second = kind == "asymmetric"
    assert (config["checkpoint_format"], config["sym"]) == (("gptq_v2", False) if is_second else ("gptq", True))
    assert (config["bits"], config["group_size"], config["desc_act"]) == (bits, 16, False)
    lowest = 0 if is_second else -(2 ** (bits - 1))
    zeros_used = set()
    for linear, layer in layers.items():
        out, width = layer.codes.shape
        parts = {part: tensors[f"{linear}.{part}"] for part in ("qweight", "qzeros", "scales", "g_idx")}
        assert parts["qweight"].shape == (width * bits // 32, out)
        assert parts["qzeros"].shape == (width // 16, out * bits // 32)
        assert np.array_equal(unpacked(parts["qweight"].T.numpy(), bits, width), layer.codes.numpy() - lowest)
        zeros = unpacked(parts["qzeros"].numpy(), bits, out).T + (0 if is_second else 1)
        assert np.array_equal(zeros, layer.zero_points.numpy() - lowest)
        zeros_used |= set(zeros.ravel().tolist())
        assert torch.equal(parts["scales"].T, layer.scales)
        assert parts["g_idx"].tolist() == [channel // 16 for channel in range(width)]
        assert f"{linear}.weight" not in tensors
        if not is_second:
            weight = from_gptq({key: tensor.numpy() for key, tensor in tensors.items()}, linear, bits)
            assert np.array_equal(weight.astype(np.float32), layer.stored().numpy())
    assert len(zeros_used) == 1 or is_second
    routers = [rule for rule in config.get("dynamic", {}) if rule.startswith("-:")]
    assert len(routers) == (0 if name == "llama" else 2)
    assert all(r"mlp\.gate$" in rule for rule in routers)


def test_a_zero_point_of_0_does_not_touch_its_neighbours(tiny_llama, tmp_path):
    folder = make_checkpoint("llama", tmp_path / "float", tiny_llama, **SIDES)
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder)
    model.model.layers[0].self_attn.q_proj.weight.data[::2].abs_()  # rows without a negative weight
    model.save_pretrained(folder)
    loaded, layers, grids = quantized(folder, Grid(4, 16, "asymmetric"), "rtn")
    name = "model.layers.0.self_attn.q_proj"
    assert (layers[name].zero_points[::2] == 0).all()
    assert (layers[name].zero_points[1::2] > 0).any()
    save_gptq(loaded, layers, grids, tmp_path / "model")
    words = load_file(tmp_path / "model" / "model.safetensors")[f"{name}.qzeros"]
    assert np.array_equal(unpacked(words.numpy(), 4, 32).T, layers[name].zero_points.numpy())


def test_layers_that_groups_do_not_divide_have_a_rule(tiny_llama, tmp_path):
    folder = make_checkpoint("llama", tmp_path / "float", tiny_llama, **SIDES, hidden_size=64, head_dim=16)
    loaded, layers, grids = quantized(folder, Grid(4, 64, "symmetric"), "rtn")  # 96 is not a multiple of it
    save_gptq(loaded, layers, grids, tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())["quantization_config"]
    assert config["group_size"] == 64
    rules = {f"+:^model\\.layers\\.{block}\\.mlp\\.down_proj$": {"group_size": -1} for block in range(3)}
    assert config["dynamic"] == rules


def test_what_it_can_t_carry_is_refused():
    given = {"model": "m", "calibration": "c", "bits": 3, "group_size": 16}
    assert "biases" in why_not(Recipe.parse(given | {"grid": "affine"}), "gptq").what
    recipe = Recipe.parse(given | {"grid": "asymmetric"})
    assert why_not(recipe, "gptq") is None
    narrow = LayerInfo(name="a.down_proj", block=0, module="down_proj", shape=(32, 48))
    assert "a.down_proj, 32 × 48" in why_not(recipe, "gptq", [narrow]).what


def test_biases_are_refused_by_the_writer_too(random_llama, tmp_path):
    with pytest.raises(Refused, match="biases"):
        save_gptq(*quantized(random_llama, Grid(3, 16, "affine"), "rtn"), tmp_path / "model")
