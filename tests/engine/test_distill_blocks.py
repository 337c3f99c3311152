"""Distillation of scales block by block: beside transformers in float64, kept, resumed, streamed, and for mixtures."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from sarqc.calibration.block_distance import PairedWalks
from sarqc.calibration.job import CalibrationJob, calibration_job
from sarqc.calibration.pipeline import calibrate
from sarqc.engine import costs, distill_blocks
from sarqc.engine.distill_blocks import blocks_outcome
from sarqc.engine.keys import describe, layer_keys
from sarqc.engine.plan import plan, prepare
from sarqc.errors import Refused
from sarqc.events import BlockDistilled, Event
from sarqc.models.loading import LoadedModel, load
from sarqc.quantization.quantized_layer import QuantizedLayer
from sarqc.quantization.scale_distillation import TunedNorm, TunedScales
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from tests.engine.running import of_type, run, summary_of
from tests.engine.test_distill import assert_chain_rule
from tests.models.cases import make_checkpoint

SEQUENCES, HELD_OUT = 6, 3


@pytest.fixture
def document(random_llama, text_file):
    return {
        "model": str(random_llama), "bits": 2, "group_size": 16, "grid": "affine", "method": "rtn",
        "calibration": str(text_file), "samples": SEQUENCES, "length": 32, "held_out_samples": HELD_OUT,
        "distill": 3, "distill_by": "block",
    }  # fmt: skip


@pytest.fixture
def mixture(tiny_llama, tmp_path):
    return make_checkpoint("qwen3_moe, one block dense", tmp_path / "mixture", tiny_llama)


def blocks_of(events: list[Event]) -> list[BlockDistilled]:
    return of_type(events, BlockDistilled)


def of_transformers(folder: Path, dtype: torch.dtype = torch.float64) -> nn.Module:
    implementation = {"experts_implementation": "eager"} if "mixture" in str(folder) else {}  # kernels lack float64
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **implementation)


def outputs_of(model, tokens: Tensor) -> list[Tensor]:
    """Outputs (N, T, D) of each block."""
    found = []
    handles = [
        block.register_forward_hook(
            lambda _module, _given, made: found.append(made[0] if type(made) is tuple else made)
        )
        for block in model.model.layers
    ]
    model(tokens)
    for handle in handles:
        handle.remove()
    return found


def relative_errors(original: Path, quantized: Path, sequences) -> list[float]:
    tokens = torch.from_numpy(sequences.copy())
    with torch.no_grad():
        pairs = zip(*(outputs_of(of_transformers(folder), tokens) for folder in (quantized, original)), strict=True)
        return [float((made - wanted).square().sum() / wanted.square().sum()) for made, wanted in pairs]


def test_errors_of_blocks_are_those_of_the_exported_model(document, random_llama, fresh_settings, tmp_path):
    document |= {"distill_codes": True, "distill_norms": True}
    events = run(document, fresh_settings, checkpoint_dir=tmp_path / "model")
    blocks, summary = blocks_of(events), summary_of(events)
    assert summary["written"]["other_tensors"] == []
    assert [block.block for block in blocks] == [0, 1, 2]
    held_out = prepare(Recipe.parse(document), fresh_settings).sequences.held_out
    expected = relative_errors(random_llama, tmp_path / "model", held_out)
    assert [block.held_out for block in blocks] == pytest.approx(expected, rel=1e-4)
    assert all(block.held_out <= block.held_out_before for block in blocks)
    assert any(block.kept for block in blocks)
    assert summary["distillation"]["words"].startswith("Scales, codes and 6 norms distilled block by block")
    run(document | {"distill": 0}, fresh_settings, checkpoint_dir=tmp_path / "before")
    first = relative_errors(random_llama, tmp_path / "before", held_out)[0]
    assert blocks[0].held_out_before == pytest.approx(first, rel=1e-4)
    own, there = of_transformers(random_llama), of_transformers(tmp_path / "model")
    assert torch.equal(own.model.norm.weight, there.model.norm.weight)  # outside the blocks


def solved(
    document: dict[str, Any], settings: Settings
) -> tuple[LoadedModel, CalibrationJob, dict[str, QuantizedLayer]]:
    recipe = Recipe.parse(document)
    prepared = prepare(recipe, settings)
    loaded = load(prepared.checkpoint, torch.device("cpu"))
    job = calibration_job(recipe, prepared.checkpoint, prepared.sequences, prepared.per_channel)
    steps = calibrate(loaded, job, None, layer_keys(describe(loaded), job))
    return loaded, job, {step.info.name: step.quantized for step in steps}


@pytest.mark.parametrize("is_mixture", [False, True])
def test_loss_and_gradient_of_a_block_are_those_of_transformers_model(
    document, random_llama, mixture, fresh_settings, is_mixture
):
    """In float64 by autograd: slopes of the weights, and of scales and biases from those by the chain rule."""
    folder = mixture if is_mixture else random_llama
    loaded, job, layers = solved(document | {"model": str(folder)}, fresh_settings)
    index, step = 2, 4
    walk = PairedWalks(loaded, job)
    original, quantized = of_transformers(folder), of_transformers(folder)
    for number, block in enumerate(loaded.blocks()):
        prefix = f"model.layers.{number}."
        loaded.files.fill(loaded.model, prefix.removesuffix("."), loaded.device, loaded.compute_dtype)
        means = walk.pass_float(block, with_means=number == index)
        own = {name.removeprefix(prefix): layer for name, layer in layers.items() if name.startswith(prefix)}
        if number == index:
            break
        for path in own:
            loaded.weight(prefix + path).data.copy_(own[path].dequantized)
        block_there = quantized.model.layers[number]
        block_there.load_state_dict({name: value.double() for name, value in block.state_dict().items()})
        walk.advance(block)
    assert means.keys() >= own.keys()
    tuned = {
        path: TunedScales(layer, loaded.weight(prefix + path), torch.ones(layer.codes.shape[1]), 0.0)
        for path, layer in own.items()
    }
    norm = TunedNorm(loaded.weight(f"{prefix}input_layernorm"))
    distance = walk.distance(block)
    assert distance.steps == SEQUENCES
    weights = {path: linear.weight() for path, linear in tuned.items()}
    error = distance.step_distance(weights | {"input_layernorm": norm.weight()}, step)
    error.backward()

    for path, layer in own.items():
        loaded.weight(prefix + path).data.copy_(layer.dequantized)
    there = quantized.model.layers[index]
    there.load_state_dict({name: value.double() for name, value in block.state_dict().items()})
    tokens = torch.from_numpy(job.sequences.calibration.copy())
    with torch.no_grad():
        targets = outputs_of(original, tokens)[index]
    there.requires_grad_(True)
    made = outputs_of(quantized, tokens[step : step + 1])[index]
    expected = (made - targets[step]).square().sum() / targets.square().sum() * SEQUENCES
    expected.backward()
    assert float(error.detach()) == pytest.approx(float(expected.detach()), rel=1e-4)
    unit = there.input_layernorm.weight.detach().square().mean().sqrt()
    slope = there.input_layernorm.weight.grad * unit
    torch.testing.assert_close(norm.change.grad.double(), slope, rtol=2e-3, atol=2e-3 * float(slope.abs().max()))
    compared = 0
    for path, linear in tuned.items():
        slope = slope_of(there, path)
        assert_chain_rule(linear, own[path], slope, room=1e-9)
        compared += sum(bool(unknown.grad.any()) for unknown in linear.parameters())
    assert compared > 8


def slope_of(block, path: str) -> Tensor:
    """(O, I), of a linear or of an expert's slice in the tensors of transformers."""
    before, _, after = path.partition(".experts.")
    if not after:
        return block.get_submodule(path).weight.grad
    number, name = after.split(".")
    experts = block.get_submodule(f"{before}.experts")
    if name == "down_proj":
        return experts.down_proj.grad[int(number)]
    gate, up = experts.gate_up_proj.grad[int(number)].chunk(2)
    return gate if name == "gate_proj" else up


@pytest.mark.thorough
def test_the_same_bits_again_streamed_and_after_an_end_between_blocks(document, fresh_settings, tmp_path, monkeypatch):
    first = run(document, fresh_settings)
    streamed = fresh_settings.model_copy(update={"weights": "streamed", "state_dir": tmp_path / "streamed"})
    tuned = distill_blocks._tuned
    visited = []

    def ends(tuning, walk, block, layers, reports):
        visited.append(layers[0].block)
        if visited == [0, 1]:
            raise KeyboardInterrupt
        return tuned(tuning, walk, block, layers, reports)

    monkeypatch.setattr(distill_blocks, "_tuned", ends)
    with pytest.raises(KeyboardInterrupt):
        run(document, streamed)
    second = run(document, streamed)
    assert visited == [0, 1, 1, 2]
    third = run(document, streamed, checkpoint_dir=tmp_path / "model")
    assert visited == [0, 1, 1, 2]
    assert blocks_of(first) == blocks_of(second) == blocks_of(third)
    assert summary_of(first)["stamp"] == summary_of(second)["stamp"] == summary_of(third)["stamp"]
    assert summary_of(third)["written"]["other_tensors"] == []


@pytest.mark.thorough
def test_a_block_has_inputs_of_the_float_model_where_the_recipe_says_so(
    document, random_llama, fresh_settings, tmp_path
):
    run(document | {"distill": 0}, fresh_settings, checkpoint_dir=tmp_path / "before")
    blocks = blocks_of(run(document | {"inputs_from": "float"}, fresh_settings))
    sequences = prepare(Recipe.parse(document), fresh_settings).sequences.held_out
    tokens = torch.from_numpy(sequences.copy())
    with torch.no_grad():
        original, quantized = (of_transformers(folder) for folder in (random_llama, tmp_path / "before"))
        wanted = outputs_of(original, tokens)[1]
        original.model.layers[1] = quantized.model.layers[1]
        made = outputs_of(original, tokens)[1]
    expected = float((made - wanted).square().sum() / wanted.square().sum())
    assert blocks[1].held_out_before == pytest.approx(expected, rel=1e-4)


def test_it_needs_little_memory_and_says_so_where_that_is_missing(document, mixture, fresh_settings, monkeypatch):
    streamed = fresh_settings.model_copy(update={"weights": "streamed"})
    plan(Recipe.parse(document), streamed)
    monkeypatch.setattr(costs, "_distilling_bytes", lambda _work, computed: 8e9 * computed)
    tight = fresh_settings.model_copy(update={"memory_gib": 8})
    with pytest.raises(Refused, match="distillation of scales block by block needs") as caught:
        plan(Recipe.parse(document), tight)
    [fix] = caught.value.fixes
    plan(Recipe.parse(document | fix.values), tight)
    effort = {name: value for name, value in document.items() if not name.startswith("distill")} | {"effort": "best"}
    shown = plan(Recipe.parse(effort | {"model": str(mixture), "grid": "asymmetric"}), tight)
    assert shown.warnings[0].startswith("effort best leaves distillation out: distillation of scales block by block")
    assert (shown.effort, shown.fitting["distill"]) == ("best", 0)


def test_the_words_are_those_of_the_numbers():
    def block(index, before, after, kept):
        return {"block": index, "epochs": 3, "kept": kept, "held_out_before": before, "held_out": after,
                "drift_before": 0.4, "drift": 0.4}  # fmt: skip

    found = blocks_outcome([block(0, 0.4, 0.1, 2), block(1, 0.2, 0.2, 0)])
    assert found["words"] == (
        "Scales distilled block by block: held-out error of the outputs lower in 1 of 2 blocks, by 50.0% on the mean. "
        "Errors of layers are those before."
    )
    stays = blocks_outcome([block(0, 0.4, 0.4, 0)], norms=2)
    assert stays["words"] == (
        "Scales and 2 norms stay as they were: no epoch lowered the held-out error of any of 1 blocks."
    )
