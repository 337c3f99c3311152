"""Every dense family, from a checkpoint with random weights to a quantized one that others load."""

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
)

from sarqc import Recipe, method
from sarqc.calibration.job import SolvedLayer
from sarqc.calibration.pipeline import calibrate
from sarqc.checkpoints.plain import save_plain, stored_tensors
from sarqc.engine.keys import describe, layer_keys
from sarqc.engine.plan import plan
from sarqc.errors import Refused
from sarqc.evaluation.perplexity import measure_perplexity
from sarqc.events import EpochDone
from sarqc.models import walk as walk_module
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.families import FAMILIES, family_of
from sarqc.models.linears import weight_of
from sarqc.models.loading import LoadedModel
from sarqc.models.walk import BlockWalk
from sarqc.quantization.methods import Method
from tests.calibration.test_pipeline import a_plan, fresh, inputs_of
from tests.models.cases import CASES, make_checkpoint

every_case = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, tiny_llama: Path) -> dict[str, Path]:
    """Return the checkpoints by the names of their cases."""
    return {name: make_checkpoint(name, tmp_path_factory.mktemp("family"), tiny_llama) for name in CASES}


@pytest.fixture(scope="module")
def sequences() -> torch.Tensor:
    return torch.randint(0, 4096, (5, 32), generator=torch.Generator().manual_seed(1))


def test_every_known_type_is_tried():
    known = {model_type for family in FAMILIES for model_type in family.model_types}
    assert known == {case.config.model_type for case in CASES.values()}


@every_case
def test_all_linears_are_found(folders, name):
    checkpoint = read_checkpoint(folders[name])
    model = AutoModelForCausalLM.from_pretrained(folders[name])
    found = set()
    for layer in checkpoint.layers:
        block = model.get_submodule(f"model.layers.{layer.block}")
        assert tuple(weight_of(block, layer.name.removeprefix(f"model.layers.{layer.block}.")).shape) == layer.shape
        assert (layer.expert is None) == (".experts." not in layer.name)
        found.add(f"{checkpoint.family.in_file(layer.name)}.weight")
    routers = {f"{checkpoint.family.in_file(f'model.layers.{block}.mlp.gate')}.weight" for block in range(3)}
    matrices = {path for path, shape in checkpoint.shapes.items() if len(shape) == 2 and "layers" in path}
    assert found == matrices - routers
    share = sum(layer.shape[0] * layer.shape[1] for layer in checkpoint.layers) / model.num_parameters()
    assert checkpoint.share_quantized == pytest.approx(share)


@pytest.mark.thorough
@every_case
@pytest.mark.parametrize("batch_tokens", [64, 100_000])
def test_the_walk_is_the_models_own_forward(folders, sequences, monkeypatch, name, batch_tokens):
    monkeypatch.setattr(walk_module, "batch_tokens", lambda **_: batch_tokens)
    loaded = fresh(folders[name])
    names = [layer.name for layer in loaded.checkpoint.layers if layer.expert is None]
    expected = inputs_of(loaded, names, sequences)
    seen: dict[str, list[torch.Tensor]] = {path: [] for path in names}
    handles = [
        loaded.model.get_submodule(path).register_forward_pre_hook(
            lambda _module, given, path=path: seen[path].append(given[0])
        )
        for path in names
    ]
    walk = BlockWalk(loaded, sequences)
    for block in loaded.blocks():
        walk.advance(walk.outputs(block))
    for handle in handles:
        handle.remove()
    for path in names:
        torch.testing.assert_close(torch.cat(seen[path]), expected[path], rtol=1e-4, atol=1e-4)


@every_case
def test_a_block_as_a_function_is_the_block(folders, sequences, name):
    loaded = fresh(folders[name])
    walk = BlockWalk(loaded, sequences)
    for block in loaded.blocks():
        outputs = walk.outputs(block)
        paths = [path for group in loaded.groups(block) for path in group.linears]
        weights = {path: weight_of(block, path) for path in paths}
        assert torch.equal(walk.forward(block)(weights, walk.hidden[0]), outputs[0])
        walk.advance(outputs)


def test_a_model_that_fails_is_left_as_it_was(folders, sequences, monkeypatch):
    loaded = fresh(folders["mistral"])

    def fail(*_given: object, **_named: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(loaded.model.base_model.rotary_emb, "forward", fail)
    with pytest.raises(ValueError, match="broken"):
        BlockWalk(loaded, sequences)
    assert not any("forward" in vars(block) for block in loaded.blocks())


def quantize(folder: Path, chosen: Method) -> tuple[LoadedModel, list[SolvedLayer], list[EpochDone]]:
    loaded = fresh(folder)
    chosen_job = replace(a_plan(loaded), method=chosen)
    steps = list(calibrate(loaded, chosen_job, None, layer_keys(describe(loaded), chosen_job)))
    layers = [step for step in steps if isinstance(step, SolvedLayer)]
    assert [layer.info for layer in layers] == loaded.checkpoint.layers
    return loaded, layers, [step for step in steps if isinstance(step, EpochDone)]


def logits_of(model: nn.Module, sequences: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(sequences).logits


Check = Callable[[LoadedModel], None]


@pytest.fixture
def check_export(sequences: torch.Tensor, text_file: Path, tmp_path: Path) -> Check:
    """Check that the model can be measured, and that transformers loads from its files the model that was measured."""

    def check(loaded: LoadedModel) -> None:
        ids = np.array(loaded.tokenizer(text_file.read_text(encoding="utf-8"))["input_ids"][:640])
        perplexity = measure_perplexity(loaded, ids, "text", 32)
        expected, folder = logits_of(loaded.model, sequences), tmp_path / "out"
        save_plain(loaded, folder)
        again = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        assert again.config.model_type == loaded.model.config.model_type
        assert AutoTokenizer.from_pretrained(folder)("Once upon a time") == loaded.tokenizer("Once upon a time")
        assert torch.equal(logits_of(again, sequences), expected)
        read = fresh(folder)
        assert {*read.checkpoint.dtypes.values()} == {*loaded.checkpoint.dtypes.values()}
        assert measure_perplexity(read, ids, "text", 32) == perplexity

    return check


@pytest.mark.thorough
@every_case
def test_quantized_and_loaded_again(folders, check_export, name):
    loaded, layers, _ = quantize(folders[name], method("sarqc-gbs"))
    original = fresh(folders[name])
    before, after = dict(stored_tensors(original)), dict(stored_tensors(loaded))
    assert list(before) == list(after)
    changed = {path for path in before if not torch.equal(before[path], after[path])}
    assert changed == {f"{loaded.family.in_file(layer.info.name)}.weight" for layer in layers}
    check_export(loaded)


@pytest.mark.thorough
@every_case
def test_folded_and_loaded_again(folders, sequences, check_export, name):
    loaded, layers, _ = quantize(folders[name], method("awq", mode="foldable"))
    unfolded, by_name = fresh(folders[name]), {layer.info.name: layer.quantized for layer in layers}
    for path, quantized in by_name.items():
        unfolded.weight(path).data.copy_(quantized.dequantized)
    expected = logits_of(unfolded.model, sequences)
    coarse = 1e-4 if CASES[name].dtype == torch.float32 else 0.1  # norms and biases are rounded with their scale
    assert (logits_of(loaded.model, sequences) - expected).abs().max() < coarse * expected.abs().max()
    assert not any("not_foldable" in quantized.report.flags for quantized in by_name.values())
    scales = [quantized.row_scale for path, quantized in by_name.items() if path.endswith("v_proj")]
    assert any(scale is not None for scale in scales)  # values took up what the output projection asked for
    for path, quantized in ((path, one) for path, one in by_name.items() if ".experts." not in path):
        bias, float_bias = loaded.model.get_submodule(path).bias, unfolded.model.get_submodule(path).bias
        if bias is not None:
            scaled = float_bias if quantized.row_scale is None else float_bias / quantized.row_scale
            torch.testing.assert_close(bias, scaled)
    check_export(loaded)
    loaded.reset()
    original = dict(stored_tensors(fresh(folders[name])))
    assert all(torch.equal(tensor, original[path]) for path, tensor in stored_tensors(loaded))


@pytest.mark.thorough
@pytest.mark.parametrize("chosen", [method("omniquant", epochs=1), method("signround", steps=1)])
@pytest.mark.parametrize("name", ["qwen2, windows", "qwen3_moe, one block dense"])
def test_learned_and_loaded_again(folders, check_export, name, chosen):
    loaded, _, told = quantize(folders[name], chosen)
    assert [(step.block, step.epoch) for step in told] == [(block, epoch) for block in range(3) for epoch in (0, 1)]
    assert np.isfinite([step.objective for step in told]).all()
    check_export(loaded)


def in_types(folder: Path, target: Path, linears: list[torch.dtype], others: torch.dtype) -> Path:
    """Return the checkpoint with its blocks' matrices in these dtypes, in turn, and all others in another."""
    shutil.copytree(folder, target)
    names, tensors = itertools.cycle(linears), load_file(target / "model.safetensors")
    for name, tensor in tensors.items():
        matrix = tensor.ndim > 1 and ".layers." in name
        tensors[name] = tensor.to(next(names) if matrix else others)
    save_file(tensors, target / "model.safetensors", {"format": "pt"})
    return target


THREE = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["llama", "qwen3_moe"])
@pytest.mark.parametrize(
    "chosen", [method("sarqc-gbs"), method("awq"), method("omniquant", epochs=1)], ids=lambda chosen: chosen.solver
)
def test_linears_of_several_types_are_exported_as_they_were_evaluated(folders, check_export, tmp_path, name, chosen):
    loaded, layers, _ = quantize(in_types(folders[name], tmp_path / "in", THREE, torch.float32), chosen)
    assert {layer.quantized.scales.dtype for layer in layers} == {*THREE}
    for layer in layers:
        storage = loaded.stored_as(f"{layer.info.name}.weight")
        assert layer.quantized.scales.dtype == storage
        weight = loaded.weight(layer.info.name)
        assert torch.equal(weight.to(storage).to(weight.dtype), weight)
    check_export(loaded)


@pytest.mark.thorough
@pytest.mark.parametrize("norms", [torch.float16, torch.float32])
def test_what_takes_up_a_scale_is_exported_as_it_was_evaluated(folders, check_export, tmp_path, norms):
    linears = torch.float32 if norms == torch.float16 else torch.float16
    folder = in_types(folders["qwen2"], tmp_path / "in", [linears], norms)
    loaded, _, _ = quantize(folder, method("awq", mode="foldable"))
    assert loaded.stored_as("model.layers.0.input_layernorm.weight") == norms
    check_export(loaded)


def test_types_are_in_the_keys_where_there_are_several(folders, tmp_path):
    """The same float weights, stored in one dtype, in two, and in the same two the other way round."""
    half = in_types(folders["llama"], tmp_path / "half", [torch.float16], torch.float16)
    kinds = [[torch.float32], [torch.float32, torch.float16], [torch.float16, torch.float32]]
    keys = []
    for number, linears in enumerate(kinds):
        loaded = fresh(in_types(half, tmp_path / str(number), linears, torch.float32))
        keys.append(tuple(layer_keys(describe(loaded), a_plan(loaded)).values()))
    assert len({*keys}) == 3


def test_linears_of_several_types_can_not_share_a_channel_scale(folders, text_file, tmp_path, fresh_settings):
    folder = in_types(folders["llama"], tmp_path / "in", THREE, torch.float32)
    recipe = {
        "model": str(folder), "calibration": str(text_file), "samples": 2, "length": 32, "group_size": 16,
        "method": "awq",
    }  # fmt: skip
    plan(Recipe.parse(recipe), fresh_settings)
    with pytest.raises(Refused, match=r"is stored as \w+ and .* as \w+"):
        plan(Recipe.parse(recipe | {"mode": "foldable"}), fresh_settings)


def test_families_share_no_type():
    types = [model_type for family in FAMILIES for model_type in family.model_types]
    assert len(types) == len(set(types))
    assert all(model_type in family_of(model_type, "tests").model_types for model_type in types)
