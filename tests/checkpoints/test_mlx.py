"""MLX's format: scale · code + bias, exactly the level of the grid; experts stacked."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from sarqc import Grid, Recipe
from sarqc.checkpoints.formats import why_not
from sarqc.checkpoints.mlx import group_of, save_mlx
from sarqc.errors import Refused
from sarqc.models.families import LayerInfo
from tests.checkpoints.made import quantized, unpacked
from tests.models.cases import make_checkpoint

WIDE = {"hidden_size": 64, "intermediate_size": 64}


def test_groups_are_made_of_those_that_there_are():
    assert [group_of(channels) for channels in (32, 64, 96, 128, 256, 320, 1408)] == [32, 64, 32, 128, 128, 64, 128]
    assert group_of(16) is None
    assert group_of(48) is None


@pytest.mark.thorough
@pytest.mark.parametrize("bits", [2, 3, 4])
@pytest.mark.parametrize("kind", ["symmetric", "full_range", "affine"])
@pytest.mark.parametrize("group_size", [32, None])
def test_scale_times_code_plus_bias(tiny_llama, tmp_path, kind, bits, group_size):
    folder = make_checkpoint("qwen3", tmp_path / "float", tiny_llama, **WIDE)  # in bfloat16
    loaded, layers, grids = quantized(folder, Grid(bits, group_size, kind), "gptq")
    save_mlx(loaded, layers, grids, tmp_path / "model")
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    size = 32 if group_size else 64  # whole rows of 64 channels are groups of 64
    assert config["quantization"]["group_size"] == size
    assert (config["quantization"]["bits"], config["quantization"]["mode"]) == (bits, "affine")
    assert config["quantization_config"] == config["quantization"]
    assert config["rope_theta"] == config["rope_parameters"]["rope_theta"]  # where mlx-lm looks
    for name, layer in layers.items():
        width = layer.codes.shape[1]
        words, scales, biases = (tensors[f"{name}.{part}"] for part in ("weight", "scales", "biases"))
        assert (words.dtype, scales.dtype, biases.dtype) == (torch.uint32, torch.bfloat16, torch.bfloat16)
        codes = unpacked(words.view(torch.int32).numpy(), bits, width)
        wide = [part.double().repeat_interleave(width // part.shape[1], dim=1) for part in (scales, biases)]
        exact = wide[0] * torch.from_numpy(codes) + wide[1]  # bfloat16 times a small code: exact in double
        assert torch.equal(exact.to(torch.bfloat16), layer.stored())
    assert "model.embed_tokens.weight" in tensors


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe, one block dense"])
def test_experts_are_stacked(tiny_llama, tmp_path, name):
    more = {} if name == "mixtral" else {"moe_intermediate_size": 32}
    folder = make_checkpoint(name, tmp_path / "float", tiny_llama, **WIDE, **more)
    loaded, layers, grids = quantized(folder, Grid(3, 32, "symmetric"), "rtn")
    save_mlx(loaded, layers, grids, tmp_path / "model")
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    mlp = "block_sparse_moe" if name == "mixtral" else "mlp"
    experts = loaded.checkpoint.experts(2)
    for part in ("gate_proj", "up_proj", "down_proj"):
        stacked = tensors[f"model.layers.2.{mlp}.switch_mlp.{part}.weight"]
        assert len(stacked) == experts
        for expert in range(experts):
            layer = layers[f"model.layers.2.mlp.experts.{expert}.{part}"]
            codes = unpacked(stacked[expert].view(torch.int32).numpy(), 3, layer.codes.shape[1])
            assert np.array_equal(codes, layer.codes.numpy() + 4)
            scales, biases = (tensors[f"model.layers.2.{mlp}.switch_mlp.{part}.{one}"] for one in ("scales", "biases"))
            assert torch.equal(scales[expert], layer.scales)
            assert torch.equal(biases[expert], -4 * layer.scales)
    assert f"model.layers.2.{mlp}.gate.weight" in tensors
    assert not any(".experts." in one for one in tensors)


def test_a_part_of_the_experts_is_refused(tiny_llama, tmp_path):
    folder = make_checkpoint("mixtral", tmp_path / "float", tiny_llama, **WIDE)
    loaded, layers, grids = quantized(folder, Grid(3, 32, "symmetric"), "rtn")
    some = loaded.checkpoint.restricted("model.layers.0.mlp.experts.1.up_proj")
    from dataclasses import replace

    with pytest.raises(Refused, match="only some are quantized"):
        save_mlx(replace(loaded, checkpoint=some), layers, grids, tmp_path / "model")


def test_what_it_can_t_carry_is_refused(random_llama, tmp_path):
    given = {"model": "m", "calibration": "c", "bits": 3, "group_size": 32, "grid": "symmetric"}
    assert why_not(Recipe.parse(given), "mlx") is None
    assert "zero points" in why_not(Recipe.parse(given | {"grid": "asymmetric"}), "mlx").what
    assert "multiples of 32" in why_not(Recipe.parse(given | {"group_size": 16}), "mlx").what
    narrow = LayerInfo(name="a.down_proj", block=0, module="down_proj", shape=(32, 48))
    assert "48 input channels of a.down_proj" in why_not(Recipe.parse(given), "mlx", [narrow]).what
    for kind, words in (("asymmetric", "zero points"), ("symmetric", "not made of 32")):
        with pytest.raises(Refused, match=words):
            save_mlx(*quantized(random_llama, Grid(3, 16, kind), "rtn"), tmp_path / "model")
