"""Packed checkpoints: the solver's codes bit by bit, and after loading the logits of the evaluated model."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from benchmarks.quality.dequantize import from_compressed_tensors
from sarqc import Grid, Recipe, execute
from sarqc.checkpoints.codes import pack_bits, unpack_bits
from sarqc.checkpoints.compressed_tensors import save_packed
from sarqc.checkpoints.formats import FORMATS, check_format, who_can_load, why_not
from sarqc.checkpoints.plain import save_plain
from sarqc.errors import Refused
from sarqc.models.loading import LoadedModel
from tests.checkpoints.made import Layers, in_dtype, logits, quantized, unpacked
from tests.models.cases import make_checkpoint


def loaded_again(folder: Path, dtype: torch.dtype) -> torch.nn.Module:
    model, info = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    assert not any(info.values()), info
    return model.eval()


def assert_round_trip(loaded: LoadedModel, layers: Layers, grids: dict[str, Grid], folder: Path) -> dict:
    """Save and load, and return the file's tensors."""
    before = logits(loaded.model)
    save_packed(loaded, layers, grids, folder)
    assert torch.equal(logits(loaded.model), before)  # saving leaves the model as it was
    tensors = load_file(folder / "model.safetensors")
    for name, layer in layers.items():
        out, width = layer.codes.shape
        name_there = loaded.family.in_file(name)
        words = tensors[f"{name_there}.weight_packed"]
        assert words.shape == (out, -(-width * grids[name].bits // 32))
        codes = unpacked(words.numpy(), grids[name].bits, width) - 2 ** (grids[name].bits - 1)
        assert np.array_equal(codes, layer.codes.numpy())
        assert torch.equal(tensors[f"{name_there}.weight_scale"], layer.scales)
        assert tensors[f"{name_there}.weight_shape"].tolist() == [out, width]
        assert f"{name_there}.weight" not in tensors
    storage = loaded.stored_as(f"{loaded.checkpoint.layers[0].name}.weight")
    again = loaded_again(folder, storage)
    if storage == loaded.compute_dtype:
        assert torch.equal(logits(again), before)
    else:
        logits(again)  # weights are dequantized in the first pass
        assert torch.equal(logits(again.to(loaded.compute_dtype)), before)
    return tensors


@pytest.mark.parametrize("bits", [2, 3, 4])
@pytest.mark.parametrize("kind", ["symmetric", "full_range"])
@pytest.mark.parametrize("group_size", [16, None])
def test_round_trip_bit_for_bit(random_llama, tmp_path, bits, kind, group_size):
    loaded, layers, grids = quantized(random_llama, Grid(bits, group_size, kind), "rtn")
    tensors = assert_round_trip(loaded, layers, grids, tmp_path / "model")
    used = {int(code) for layer in layers.values() for code in layer.codes.unique()}
    assert max(used) == 2 ** (bits - 1) - 1
    assert min(used) == -(2 ** (bits - 1)) or kind == "symmetric"
    assert sum(name.endswith("weight_packed") for name in tensors) == 21
    assert "lm_head.weight" not in tensors  # tied to the embedding, which is stored as it was
    original = load_file(random_llama / "model.safetensors")
    for name in ("model.embed_tokens.weight", "model.layers.1.input_layernorm.weight"):
        assert torch.equal(tensors[name], original[name])


@pytest.mark.thorough
def test_a_solver_s_codes_and_layers_that_groups_do_not_divide(random_llama, tmp_path):
    loaded, layers, grids = quantized(random_llama, Grid(3, 32, "symmetric"))
    assert {grid.group_size for grid in grids.values()} == {32, None}
    assert_round_trip(loaded, layers, grids, tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())["quantization_config"]
    assert config["ignore"] == ["lm_head"]
    first, second = config["config_groups"].values()
    assert (first["targets"], first["weights"]["strategy"]) == (["Linear"], "group")
    assert second["targets"] == [f"model.layers.{block}.mlp.down_proj" for block in range(3)]
    assert second["weights"]["strategy"] == "channel"


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_checkpoints_keep_their_weights(random_llama, tmp_path, dtype):
    folder = in_dtype(random_llama, tmp_path / "narrow", dtype)
    loaded, layers, grids = quantized(folder, Grid(4, 16, "full_range"), "rtn")
    tensors = assert_round_trip(loaded, layers, grids, tmp_path / "model")
    assert {tensor.dtype for tensor in tensors.values()} == {dtype, torch.int32, torch.int64}


@pytest.mark.thorough
def test_a_foldable_search_is_carried(random_llama, tmp_path):
    loaded, layers, grids = quantized(random_llama, Grid(3, 16, "symmetric"), "awq", mode="foldable")
    assert any(layer.channel_scale is not None for layer in layers.values())
    assert_round_trip(loaded, layers, grids, tmp_path / "model")


@pytest.mark.thorough
@pytest.mark.parametrize("bits", [2, 3, 4])
@pytest.mark.parametrize("name", ["mixtral", "qwen3_moe, one block dense", "qwen3_moe"])
def test_mixtures_of_experts(tiny_llama, tmp_path, name, bits):
    folder = make_checkpoint(name, tmp_path / "float", tiny_llama)
    chosen = {2: ("gptq", {}), 3: ("rtn", {}), 4: ("awq", {"mode": "foldable"})}[bits]
    loaded, layers, grids = quantized(folder, Grid(bits, 16, "symmetric"), chosen[0], **chosen[1])
    assert any(".experts." in name for name in layers)
    assert_round_trip(loaded, layers, grids, tmp_path / "model")


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "choices"), [("gptq", {}), ("awq", {"mode": "foldable"})])
def test_biases_and_a_head_of_its_own(random_llama, tmp_path, name, choices):
    torch.manual_seed(0)
    config = AutoConfig.from_pretrained(random_llama, attention_bias=True, mlp_bias=True, tie_word_embeddings=False)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    for parameter in model.parameters():
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path / "float")
    AutoTokenizer.from_pretrained(random_llama).save_pretrained(tmp_path / "float")
    loaded, layers, grids = quantized(tmp_path / "float", Grid(4, 16, "symmetric"), name, **choices)
    tensors = assert_round_trip(loaded, layers, grids, tmp_path / "model")
    assert torch.equal(tensors["lm_head.weight"], model.lm_head.weight)
    assert "model.layers.0.self_attn.q_proj.bias" in tensors


@pytest.mark.thorough
@given(st.integers(1, 8), st.integers(1, 70), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_what_is_packed_is_unpacked(bits, width, rows, seed):
    numbers = torch.randint(0, 2**bits, (rows, width), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
    words = pack_bits(numbers, bits)
    assert words.shape == (rows, -(-width * bits // 32))
    assert torch.equal(unpack_bits(words, bits, width), numbers)
    assert np.array_equal(unpacked(words.numpy(), bits, width), numbers.numpy())


@pytest.mark.parametrize("group_size", [16, None])
def test_zero_points_are_packed_as_the_library_unpacks_them(random_llama, tmp_path, group_size):
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.quantization import QuantizationScheme

    loaded, layers, grids = quantized(random_llama, Grid(4, group_size, "asymmetric"))
    save_packed(loaded, layers, grids, tmp_path / "model")
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    config = json.loads((tmp_path / "model" / "config.json").read_text())["quantization_config"]
    (group,) = config["config_groups"].values()
    assert not group["weights"]["symmetric"]
    library = BaseCompressor.get_value_from_registry("pack-quantized")
    used = set()
    for name, layer in layers.items():
        parts = {part: tensors[f"{name}.weight_{part}"] for part in ("packed", "scale", "shape", "zero_point")}
        words, zeros = unpacked(parts["zero_point"].T.numpy(), 4, len(layer.codes)).T, layer.zero_points.numpy()
        assert np.array_equal(words, zeros)
        used |= set(zeros.ravel().tolist())
        named = {f"weight_{part}": tensor for part, tensor in parts.items()}
        assert torch.equal(library.decompress(named, QuantizationScheme(**group))["weight"], layer.stored())
        weight = from_compressed_tensors({key: tensor.numpy() for key, tensor in tensors.items()}, name, 4)
        assert np.array_equal(weight.astype(np.float32), layer.stored().numpy())
    assert len(used) > 5


def test_codes_that_are_not_the_weight_are_refused(random_llama, tmp_path):
    loaded, layers, grids = quantized(random_llama, Grid(3, 16, "symmetric"), "awq")  # scales stay in each linear
    with pytest.raises(Refused, match="codes and scales alone"):
        save_packed(loaded, layers, grids, tmp_path / "model")
    loaded, layers, grids = quantized(random_llama, Grid(3, 16, "affine"), "rtn")
    with pytest.raises(Refused, match="biases"):
        save_packed(loaded, layers, grids, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("checkpoint_format", ["plain", "packed"])
@pytest.mark.parametrize("break_in", ["weights", "tokenizer"])
def test_nothing_half_written_is_left(random_llama, tmp_path, monkeypatch, break_in, checkpoint_format):
    loaded, layers, grids = quantized(random_llama, Grid(3, 16, "symmetric"), "rtn")
    weights = {name: tensor.clone() for name, tensor in loaded.model.state_dict().items()}

    def fail(*args: object, **kwargs: object) -> None:
        raise OSError("the disk is full")

    if break_in == "weights":
        monkeypatch.setattr(safetensors.torch, "save_file", fail)
    else:
        monkeypatch.setattr(shutil, "copyfile", fail)
    arguments = (loaded, layers, grids) if checkpoint_format == "packed" else (loaded,)
    save = save_packed if checkpoint_format == "packed" else save_plain
    with pytest.raises(OSError, match="full"):
        save(*arguments, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []
    assert all(torch.equal(tensor, weights[name]) for name, tensor in loaded.model.state_dict().items())


@pytest.fixture
def recipe(random_llama: Path, text_file: Path) -> Callable[..., Recipe]:
    base = {
        "model": str(random_llama), "bits": 3, "grid": "symmetric", "group_size": 16, "method": "gptq",
        "calibration": str(text_file), "samples": 4, "length": 32,
    }  # fmt: skip
    return lambda **changes: Recipe.parse(base | changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"grid": "asymmetric"}, "reader takes the format’s zero points at 3 bits"),
        ({"grid": "affine"}, "biases"),
        ({"method": "awq"}, "per_linear"),
        ({"method": "sarqc-gs", "lambda": "auto"}, "per_linear"),
    ],
)
def test_refusals_come_before_any_work(recipe, fresh_settings, tmp_path, changes, words):
    asked = recipe(**changes)
    assert words in why_not(asked, "packed").what
    with pytest.raises(Refused, match=words) as caught:
        next(execute(asked, fresh_settings, checkpoint_dir=tmp_path / "model", checkpoint_format="packed"))
    assert "plain" in caught.value.remedy
    assert not fresh_settings.resolved_state_dir().exists()
    carriers = {carrier.format: carrier for carrier in who_can_load(asked, is_mixture=False)}
    assert list(carriers) == list(FORMATS)
    assert (carriers["plain"].possible, carriers["packed"].possible) == (True, False)
    assert words in carriers["packed"].note
    check_format(asked, "plain")


def test_a_format_that_lacks_zero_points_offers_the_grid_without(recipe):
    asked = recipe(bits=2, grid="asymmetric", group_size=32)
    for carrier in who_can_load(asked, is_mixture=False):
        assert carrier.possible == (not carrier.fixes)
        for fix in carrier.fixes:
            mended = {one.format: one for one in who_can_load(asked.model_copy(update=fix.values), is_mixture=False)}
            assert mended[carrier.format].possible, fix
    # Another grid does not help where scales are those of single channels.
    searched = who_can_load(recipe(method="awq", grid="asymmetric", bits=2), is_mixture=False)
    assert [one.fixes for one in searched if not one.possible] == [(), (), ()]


def test_what_is_carried_is_not_refused(recipe):
    for changes in (
        {},
        {"grid": "full_range"},
        {"bits": 2},
        {"group_size": None},
        {"bits": 4, "grid": "asymmetric"},
        {"method": "awq", "mode": "foldable"},
    ):
        asked = recipe(**changes)
        assert check_format(asked, "packed") == "packed"
        assert all(row.possible for row in who_can_load(asked, is_mixture=False)[:2])
    with pytest.raises(Refused, match="gguf"):
        check_format(recipe(), "gguf")
