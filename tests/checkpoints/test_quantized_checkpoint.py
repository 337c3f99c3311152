"""Checkpoints of every format that others write: the numbers that were stored, the weight once rounded, the same bytes
when they are written again."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from sarqc import Grid
from sarqc.checkpoints.compressed_tensors import save_packed
from sarqc.checkpoints.gptq import save_gptq
from sarqc.checkpoints.layout import describe
from sarqc.checkpoints.mlx import save_mlx
from sarqc.checkpoints.quantized_checkpoint import SPREAD, QuantizedCheckpoint
from sarqc.errors import Refused
from sarqc.models.checkpoint import Checkpoint, read_checkpoint
from tests.checkpoints import foreign
from tests.checkpoints.foreign import Linear
from tests.checkpoints.made import quantized
from tests.models.cases import make_checkpoint

SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_key_value_heads": 4, "num_hidden_layers": 1}
ONE_BLOCK = SIZES | {"layer_types": ["full_attention"]}  # as Qwen2 says it
Stored = Callable[[str, Linear], dict[str, Tensor]]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, tiny_llama: Path) -> Path:
    """Return a float model with one block, biases, and a head that is the embedding."""
    folder = tmp_path_factory.mktemp("opening") / "float"
    return make_checkpoint("qwen2", folder, tiny_llama, **ONE_BLOCK)


def of_compressed_tensors(bits: int, size: int | None, *, symmetric: bool = False, **more: object) -> dict[str, Any]:
    weights = {"num_bits": bits, "type": "int", "symmetric": symmetric, "group_size": size, "dynamic": False,
               "strategy": "channel" if size is None else "group"}  # fmt: skip
    group = {"targets": ["Linear"], "weights": weights, "input_activations": None}
    said = {"quant_method": "compressed-tensors", "format": "pack-quantized", "version": "0.19.0"}
    return {"quantization_config": said | {"ignore": ["lm_head"], "config_groups": {"group_0": group}} | more}


def of_gptq(bits: int, size: int, *, sym: bool = False, **more: object) -> dict[str, Any]:
    return {"quantization_config": {"quant_method": "gptq", "bits": bits, "group_size": size, "sym": sym,
                                    "checkpoint_format": "gptq_v2", "desc_act": False} | more}  # fmt: skip


def of_auto_round(bits: int, packing: str, *, sym: bool) -> dict[str, Any]:
    return {"quantization_config": {"quant_method": "auto-round", "packing_format": packing, "bits": bits, "sym": sym,
                                    "group_size": 32, "data_type": "int", "autoround_version": "0.16.1"}}  # fmt: skip


OF_AWQ = {
    "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}
}
BY_GPTQMODEL = {"checkpoint_format": "gptq", "meta": {"quantizer": ["gptqmodel:7.7.0"]}}
# Each format as others write it: bits, group (None: whole rows), symmetric, how it is stored, and what is said of it.
CASES: dict[str, tuple[int, int | None, bool, Stored, dict[str, Any]]] = {
    "gptq": (4, 32, True, partial(foreign.gptq, first=True), of_gptq(4, 32, sym=True, checkpoint_format="gptq")),
    "gptq, zero points that borrow": (2, 32, False, partial(foreign.gptq, first=True), of_gptq(2, 32, **BY_GPTQMODEL)),
    "gptq, 3 bits": (3, 32, False, partial(foreign.gptq, first=True), of_gptq(3, 32, **BY_GPTQMODEL)),
    "gptq, second convention": (3, None, False, foreign.gptq, of_gptq(3, -1)),
    "gptq, 8 bits": (8, 32, False, foreign.gptq, of_gptq(8, 32)),
    "awq": (4, 32, False, foreign.awq, OF_AWQ),
    "awq of GPTQModel": (3, 32, False, foreign.awq, {"quantization_config": {
        "quant_method": "awq", "bits": 3, "group_size": 32, "checkpoint_format": "gemm", "sym": False}}),
    "auto-round": (2, 32, False, partial(foreign.gptq, with_order=False), of_auto_round(2, "auto_round", sym=False)),
    "auto-round, less one": (3, 32, True, partial(foreign.gptq, first=True, with_order=False),
                             of_auto_round(3, "auto_round:auto_gptq", sym=True)),
    "auto-round, awq": (4, 32, False, foreign.awq, of_auto_round(4, "auto_round:auto_awq", sym=False)),
    "compressed-tensors": (4, 32, False, foreign.packed, of_compressed_tensors(4, 32)),
    "compressed-tensors, rows": (3, None, True, partial(foreign.packed, symmetric=True),
                                 of_compressed_tensors(3, None, symmetric=True)),
    "compressed-tensors, 8 bits": (8, 32, False, foreign.packed, of_compressed_tensors(8, 32)),
    "compressed-tensors, bytes": (5, 32, False, foreign.in_bytes,
                                  of_compressed_tensors(5, 32, format="naive-quantized")),
    "compressed-tensors, bytes, symmetric": (8, None, True, partial(foreign.in_bytes, symmetric=True),
                                             of_compressed_tensors(8, None, symmetric=True, format="int-quantized")),
}  # fmt: skip


def made(source: Path, target: Path, case: str, seed: int = 0) -> tuple[Checkpoint, dict[str, Linear], Path]:
    bits, size, symmetric, stored, config = CASES[case]
    checkpoint, rng = read_checkpoint(source), np.random.default_rng(seed)
    linears = {
        info.name: foreign.linear(info.shape, bits, size or info.shape[1], rng, symmetric=symmetric)
        for info in checkpoint.layers
    }
    return checkpoint, linears, foreign.write(source, target, linears, stored, config)


def unsigned(opened: QuantizedCheckpoint, name: str, codes: Tensor) -> np.ndarray:
    return codes.numpy().astype(int) - opened.grids[name].lowest


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_what_was_stored_is_read_and_written_again(source, tmp_path, case):
    checkpoint, linears, folder = made(source, tmp_path / "theirs", case)
    bits, size, symmetric, *_ = CASES[case]
    opened = QuantizedCheckpoint.open(folder, checkpoint)
    assert opened.format == case.split(",")[0].split(" ")[0]
    assert [info.name for info in opened.layers] == list(linears)
    assert set(opened.grids.values()) == {Grid(bits, size, "full_range" if symmetric else "asymmetric")}
    same, other, rng = {}, {}, np.random.default_rng(1)
    for info in opened.layers:
        found, grid = opened.read(info), opened.grids[info.name]
        assert np.array_equal(unsigned(opened, info.name, found.codes), linears[info.name].codes)
        assert torch.equal(found.scales, linears[info.name].scales)
        shift = grid.lowest
        assert np.array_equal(found.zero_points.numpy() - shift, linears[info.name].zero_points)
        assert torch.equal(found.weight, linears[info.name].weight)
        assert (found.weight.dtype, found.biases, found.flag) == (torch.float16, None, "")
        assert (found.codes.dtype, found.zero_points.dtype) == (
            torch.uint8 if grid.highest > 127 else torch.int8, torch.int16,
        )  # fmt: skip
        assert torch.equal(opened.tensor(f"{info.name}.weight"), found.weight)
        same[info.name] = found.codes
        numbers = rng.integers(grid.lowest, grid.highest + 1, info.shape)
        other[info.name] = torch.from_numpy(numbers).to(found.codes.dtype)
    floats = load_file(source / "model.safetensors")
    for name in ("model.norm.weight", "model.layers.0.self_attn.q_proj.bias", "model.embed_tokens.weight"):
        assert torch.equal(opened.tensor(name), floats[name])
    opened.write_with(same, tmp_path / "same")
    assert foreign.hashes(tmp_path / "same") == foreign.hashes(folder)
    last = opened.layers[-1].name
    opened.write_with({name: codes for name, codes in other.items() if name != last}, tmp_path / "other")
    again = QuantizedCheckpoint.open(tmp_path / "other", checkpoint)
    for info in again.layers:
        wanted = same if info.name == last else other
        assert torch.equal(again.read(info).codes, wanted[info.name])
    _only_codes_differ(folder, tmp_path / "other")


def _only_codes_differ(before: Path, after: Path) -> None:
    names = {path.name for path in before.iterdir()}
    assert names == {path.name for path in after.iterdir()}
    for name in names:
        first, second = (before / name).read_bytes(), (after / name).read_bytes()
        if not name.endswith(".safetensors"):
            assert first == second
            continue
        header = 8 + int.from_bytes(first[:8], "little")
        assert first[:header] == second[:header]
        old, new = load_file(before / name), load_file(after / name)
        differ = {tensor for tensor in old if not torch.equal(old[tensor], new[tensor])}
        assert all(tensor.endswith(("qweight", "weight_packed", "_proj.weight")) for tensor in differ)


@pytest.mark.parametrize("layout", ["gptq", "compressed-tensors"])
def test_channels_in_order_of_activation_are_groups_by_themselves(source, tmp_path, layout):
    checkpoint, rng = read_checkpoint(source), np.random.default_rng(2)
    linears = {
        info.name: foreign.linear(info.shape, 4, 32, rng, order=rng.permutation(info.shape[1]))
        for info in checkpoint.layers
    }
    stored, config = (
        (foreign.gptq, of_gptq(4, 32, desc_act=True)) if layout == "gptq"
        else (partial(foreign.packed, with_order=True), of_compressed_tensors(4, 32))
    )  # fmt: skip
    folder = foreign.write(source, tmp_path / "theirs", linears, stored, config)
    opened = QuantizedCheckpoint.open(folder, checkpoint)
    assert set(opened.grids.values()) == {Grid(4, 1, "asymmetric")}
    for info in opened.layers:
        found, one = opened.read(info), linears[info.name]
        assert found.flag == SPREAD
        assert torch.equal(found.scales, one.scales[:, one.group_of])
        assert np.array_equal(found.zero_points.numpy(), one.zero_points[:, one.group_of])
        assert torch.equal(found.weight, one.weight)
    opened.write_with({info.name: opened.read(info).codes for info in opened.layers}, tmp_path / "same")
    assert foreign.hashes(tmp_path / "same") == foreign.hashes(folder)


def test_a_last_group_may_be_shorter(source, tmp_path):
    checkpoint, rng = read_checkpoint(source), np.random.default_rng(3)
    linears = {info.name: foreign.linear(info.shape, 4, 64, rng) for info in checkpoint.layers}  # 96 are one and a half
    folder = foreign.write(
        source, tmp_path / "theirs", linears, partial(foreign.gptq, with_order=False), of_gptq(4, 64)
    )
    opened = QuantizedCheckpoint.open(folder, checkpoint)
    down = next(info for info in opened.layers if info.shape[1] == 96)
    assert opened.grids[down.name] == Grid(4, 1, "asymmetric")
    assert torch.equal(opened.read(down).weight, linears[down.name].weight)
    assert opened.grids[opened.layers[0].name] == Grid(4, 64, "asymmetric")


def test_rules_give_linears_bits_and_groups_of_their_own(source, tmp_path):
    checkpoint, rng = read_checkpoint(source), np.random.default_rng(4)
    own = {"k_proj": (8, 64), "down_proj": (2, 32)}
    linears = {
        info.name: foreign.linear(info.shape, *own.get(info.module, (4, 32)), rng)
        for info in checkpoint.layers if info.module != "up_proj"
    }  # fmt: skip
    rules = {r"-:.*up_proj$": {}, r"+:.*\.k_": {"bits": 8, "group_size": 64}, r".*down_proj$": {"bits": 2}}
    folder = foreign.write(source, tmp_path / "gptq", linears, foreign.gptq, of_gptq(4, 32, dynamic=rules))
    extra = {"model.layers.0.self_attn.k_proj": {"bits": 8, "group_size": 64}, ".*down_proj.*": {"bits": 2},
             "model.layers.0.mlp.up_proj": {"bits": 16}}  # fmt: skip
    config = of_auto_round(4, "auto_round", sym=False)
    config["quantization_config"]["extra_config"] = extra
    other = foreign.write(source, tmp_path / "auto-round", linears, foreign.gptq, config)
    said = of_compressed_tensors(4, 32)
    groups = said["quantization_config"]["config_groups"]
    weights = groups["group_0"]["weights"]
    groups["group_1"] = {"targets": ["re:.*down_proj$"], "weights": weights | {"num_bits": 2}}
    groups["group_2"] = {"targets": ["model.layers.0.self_attn.k_proj"],
                         "weights": weights | {"num_bits": 8, "group_size": 64}}  # fmt: skip
    third = foreign.write(source, tmp_path / "compressed-tensors", linears, foreign.packed, said)
    for theirs in (folder, other, third):
        opened = QuantizedCheckpoint.open(theirs, checkpoint)
        assert {info.name for info in opened.layers} == set(linears)
        for info in opened.layers:
            bits, size = own.get(info.module, (4, 32))
            assert opened.grids[info.name] == Grid(bits, size, "asymmetric")
            assert torch.equal(opened.read(info).weight, linears[info.name].weight)
        up = "model.layers.0.mlp.up_proj.weight"
        assert torch.equal(opened.tensor(up), load_file(source / "model.safetensors")[up])


OURS = {"packed": (save_packed, "asymmetric"), "gptq": (save_gptq, "asymmetric"), "mlx": (save_mlx, "affine")}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["llama", "qwen3_moe, one block dense"])
@pytest.mark.parametrize("checkpoint_format", OURS)
def test_our_own_exports_are_opened_like_any_other(tiny_llama, tmp_path, name, checkpoint_format):
    more = {"moe_intermediate_size": 32, "head_dim": 16} if name != "llama" else {}
    folder = make_checkpoint(name, tmp_path / "float", tiny_llama, **(SIZES | {"num_hidden_layers": 2}), **more)
    save, kind = OURS[checkpoint_format]
    loaded, layers, grids = quantized(folder, Grid(4, 32, kind))
    save(loaded, layers, grids, tmp_path / "model")
    opened = QuantizedCheckpoint.open(tmp_path / "model", read_checkpoint(folder))
    assert opened.grids == grids
    for info in opened.layers:
        found, layer = opened.read(info), layers[info.name]
        assert torch.equal(found.codes, layer.codes)
        assert torch.equal(found.scales, layer.scales)
        assert torch.equal(found.zero_points, layer.zero_points)
        assert (found.biases is None) == (layer.biases is None)
        assert found.biases is None or torch.equal(found.biases, layer.biases)
        if checkpoint_format != "mlx":  # which rounds twice
            assert torch.equal(found.weight, layer.stored())
    for stored in opened._described.floats:
        assert torch.equal(opened.tensor(stored), loaded.files.read(stored))
    opened.write_with({info.name: opened.read(info).codes for info in opened.layers}, tmp_path / "same")
    assert foreign.hashes(tmp_path / "same") == foreign.hashes(tmp_path / "model")


def test_mlx_has_codes_for_embedding_and_router_too(tiny_llama, tmp_path):
    more = {"moe_intermediate_size": 32, "head_dim": 16, "mlp_only_layers": []}
    folder = make_checkpoint("qwen3_moe", tmp_path / "float", tiny_llama, **SIZES, **more)
    checkpoint, rng = read_checkpoint(folder), np.random.default_rng(5)
    tensors = load_file(folder / "model.safetensors")
    plain = {name: tuple(tensors[f"{name}.weight"].shape) for name in ("model.embed_tokens", "model.layers.0.mlp.gate")}
    linears = {name: foreign.linear(shape, 8, 64, rng) for name, shape in plain.items()}
    linears |= {info.name: foreign.linear(info.shape, 6, 32, rng) for info in checkpoint.layers if info.expert is None}
    experts = [info for info in checkpoint.layers if info.expert is not None]
    of_experts = {info.name: foreign.linear(info.shape, 3, 32, rng) for info in experts}
    stacks: dict[str, Tensor] = {}
    for part in ("gate_proj", "up_proj", "down_proj"):
        each = [foreign.mlx("", of_experts[info.name]) for info in experts if info.name.endswith(part)]
        for suffix in ("weight", "scales", "biases"):
            stacked = torch.stack([one[f".{suffix}"].view(torch.int32) if suffix == "weight" else one[f".{suffix}"]
                                   for one in each])  # fmt: skip
            stacks[f"model.layers.0.mlp.switch_mlp.{part}.{suffix}"] = (
                stacked.view(torch.uint32) if suffix == "weight" else stacked
            )
    config = {"quantization": {"bits": 6, "group_size": 32, "mode": "affine", "model.embed_tokens": {"bits": 8}}}
    theirs = foreign.write(folder, tmp_path / "theirs", linears, foreign.mlx, config, stacks)
    for path in theirs.glob("*.safetensors"):
        kept = {name: tensor for name, tensor in load_file(path).items() if ".experts." not in name}
        save_file(kept, path)
    index = json.loads((theirs / "model.safetensors.index.json").read_text())
    index["weight_map"] = {name: file for name, file in index["weight_map"].items() if ".experts." not in name}
    (theirs / "model.safetensors.index.json").write_text(json.dumps(index))
    opened = QuantizedCheckpoint.open(theirs, checkpoint)
    assert len(opened.layers) == len(checkpoint.layers)
    for info in opened.layers:
        found, one = opened.read(info), (linears | of_experts)[info.name]
        assert opened.grids[info.name] == Grid(one.bits, 32, "affine")
        assert np.array_equal(unsigned(opened, info.name, found.codes), one.codes)
        assert torch.equal(found.biases, one.biases)
    for name in plain:
        one = linears[name]
        product = (torch.from_numpy(one.codes) * one.scales[:, one.group_of].double()).to(torch.float16)
        weight = (product.double() + one.biases[:, one.group_of].double()).to(torch.float16)
        assert torch.equal(opened.tensor(f"{name}.weight"), weight)
    config["quantization"]["mode"] = "mxfp4"
    wrong = foreign.write(folder, tmp_path / "wrong", {}, foreign.mlx, config)
    with pytest.raises(Refused, match="of the mode “mxfp4”"):
        describe(wrong, checkpoint)


def _edited(folder: Path, **changes: object) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] |= changes
    (folder / "config.json").write_text(json.dumps(config))


GROUP = {"targets": ["Linear"], "weights": {"num_bits": 4, "group_size": 32, "symmetric": False, "type": "int"}}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("gptq", {"quant_method": "fp8"}, "quantized as “fp8”"),
    ("gptq", {"quant_method": "bitsandbytes"}, "bitsandbytes"),
    ("gptq", {"checkpoint_format": "marlin"}, "laid out as “marlin”"),
    ("gptq", {"bits": 5}, "5 bits are not read"),
    ("gptq", {"bits": 8}, "qweight should be I32"),
    ("gptq", {"bits": "4"}, "bits"),
    ("gptq", {"group_size": 64}, "groups are stored where groups of 64"),
    ("gptq", {"rotation": "hadamard"}, "rotated"),
    ("gptq", {"adapter": {"name": "lora"}}, "adapter"),
    ("gptq", {"pack_dtype": "int16"}, "words of int16"),
    ("awq", {"version": "gemv"}, "“gemv”"),
    ("auto-round", {"data_type": "mx_fp"}, "mx_fp"),
    ("auto-round", {"act_bits": 8}, "activations are quantized"),
    ("auto-round", {"rotation_config": {"kind": "hadamard"}}, "rotated"),
    ("auto-round", {"packing_format": "auto_round:fp8"}, "packed as"),
    ("auto-round", {"packing_format": "auto_round:auto_gptq"}, "one zero point throughout"),
    ("compressed-tensors", {"config_groups": {"a": GROUP | {"input_activations": {"num_bits": 8}}}}, "activations"),
    ("compressed-tensors", {"config_groups": {"a": GROUP | {"weights": {"num_bits": 4, "type": "float"}}}}, "float"),
    ("compressed-tensors", {"config_groups": {"a": GROUP | {"targets": ["Conv2d"]}}}, "no target"),
    ("compressed-tensors", {"config_groups": {"W4A16": ["Linear"]}}, "not one that is read"),
    ("compressed-tensors", {"config_groups": {"a": GROUP | {"weights": GROUP["weights"] | {"strategy": "tensor"}}}},
     "one for each tensor"),
    ("compressed-tensors", {"format": "marlin-24"}, "in the format “marlin-24”"),
    ("compressed-tensors", {"config_groups": {"a": GROUP | {"format": "marlin-24"}}}, "in the format “marlin-24”"),
    ("compressed-tensors", {"transform_config": {"config_groups": {"u": {}}}}, "transformed"),
    ("compressed-tensors", {"kv_cache_scheme": {"num_bits": 8}}, "keys and values"),
]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize(("case", "changes", "words"), REFUSED)
def test_what_can_t_be_read_is_refused_at_once(source, tmp_path, case, changes, words):
    checkpoint, _, folder = made(source, tmp_path / "theirs", case)
    _edited(folder, **changes)
    with pytest.raises(Refused) as error:
        describe(folder, checkpoint)
    assert words in error.value.what
    assert error.value.where.startswith("theirs")
    assert error.value.remedy.endswith(".")
    assert str(tmp_path) not in str(error.value)


def test_the_model_must_be_the_original_s(source, tmp_path, random_llama):
    checkpoint, linears, folder = made(source, tmp_path / "theirs", "gptq")
    with pytest.raises(Refused, match="model of type 'qwen2'"):
        describe(folder, read_checkpoint(random_llama))
    with pytest.raises(Refused, match="says nothing of quantization"):
        describe(source, checkpoint)
    (tmp_path / "gguf").mkdir()
    (tmp_path / "gguf" / "model.gguf").touch()
    with pytest.raises(Refused, match="GGUF"):
        describe(tmp_path / "gguf", checkpoint)
    stored, config = CASES["gptq"][3:]
    for number, (more, words) in enumerate([
        ({"model.layers.0.mlp.up_proj.bias": torch.ones(96)}, "no place for"),
        ({"model.layers.0.mlp.up_proj.lora_a": torch.zeros(4, 64)}, "no place for"),
        ({"model.norm.weight": torch.ones(32)}, r"is \(32,\)"),
        ({"model.norm.weight": torch.ones(64, dtype=torch.int8)}, "stored as I8"),
        ({"model.layers.0.mlp.up_proj.qweight": torch.ones(8, 9, dtype=torch.int32)}, "qweight should be"),
        ({"model.layers.0.mlp.up_proj.weight": torch.ones(96, 64)}, "no place for"),
    ]):  # fmt: skip
        target = foreign.write(source, tmp_path / str(number), linears, stored, config, more)
        with pytest.raises(Refused, match=words):
            describe(target, checkpoint)
    zero = {"model.layers.0.mlp.up_proj.bias": torch.zeros(96)}  # as AutoGPTQ gave one to every linear
    assert describe(foreign.write(source, tmp_path / "zero", linears, stored, config, zero), checkpoint).layers


def test_who_made_it_is_said_where_it_is_known(source, tmp_path):
    expected = {"gptq": "", "gptq, 3 bits": "gptqmodel 7.7.0", "auto-round": "auto-round 0.16.1",
                "compressed-tensors": "compressed-tensors 0.19.0"}  # fmt: skip
    for number, (case, maker) in enumerate(expected.items()):
        checkpoint, _, folder = made(source, tmp_path / str(number), case)
        assert describe(folder, checkpoint).made_by == maker


def test_zero_points_of_the_second_convention_say_what_to_set(source, tmp_path):
    checkpoint, linears, _ = made(source, tmp_path / "first", "gptq")
    folder = foreign.write(source, tmp_path / "theirs", linears, foreign.gptq, CASES["gptq"][4])
    opened = QuantizedCheckpoint.open(folder, checkpoint)
    with pytest.raises(Refused, match="said to be symmetric") as error:
        opened.read(first := opened.layers[0])
    assert "set checkpoint_format to gptq_v2" in error.value.remedy
    _edited(folder, checkpoint_format="gptq_v2")
    assert torch.equal(QuantizedCheckpoint.open(folder, checkpoint).read(first).weight, linears[first.name].weight)


def test_zero_points_in_bytes_beside_packed_codes_are_read(source, tmp_path):
    """As compressed-tensors stored them before April 2025."""

    def stored(name: str, one: Linear) -> dict[str, Tensor]:
        zeros = {f"{name}.weight_zero_point": torch.from_numpy((one.zero_points - 8).astype(np.int8))}
        return foreign.packed(name, one) | zeros

    checkpoint, linears, _ = made(source, tmp_path / "now", "compressed-tensors")
    folder = foreign.write(source, tmp_path / "theirs", linears, stored, CASES["compressed-tensors"][4])
    opened = QuantizedCheckpoint.open(folder, checkpoint)
    for info in opened.layers:
        assert torch.equal(opened.read(info).weight, linears[info.name].weight)


def test_weights_that_are_not_compressed_are_said_to_be_so(source, tmp_path):
    folder = foreign.write(source, tmp_path / "theirs", {}, foreign.packed, CASES["compressed-tensors"][4])
    with pytest.raises(Refused, match="are not compressed"):
        describe(folder, read_checkpoint(source))


def test_files_appear_whole_or_not_at_all(source, tmp_path):
    checkpoint, _, folder = made(source, tmp_path / "theirs", "gptq")
    opened = QuantizedCheckpoint.open(folder, checkpoint)
    first = opened.layers[0]
    codes = opened.read(first).codes
    (tmp_path / "there").mkdir()
    with pytest.raises(Refused, match="the name is already taken"):
        opened.write_with({first.name: codes}, tmp_path / "there")
    wrong = {"a": {"no such linear": codes}, "b": {first.name: codes[1:]}, "c": {first.name: codes.int() + 100}}
    for name, given_codes in wrong.items():
        with pytest.raises(Refused):
            opened.write_with(given_codes, tmp_path / name)
        assert not (tmp_path / name).exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
