"""Methods that work on an input group or on a whole block, in a whole model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sarqc import LayerStatistics, method
from sarqc.calibration.job import CalibrationJob, Curves, SolvedLayer
from sarqc.calibration.pipeline import calibrate
from sarqc.engine.keys import describe, layer_keys
from sarqc.errors import NumericalError
from sarqc.events import EpochDone, RoundingChecked
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.loading import LoadedModel
from sarqc.quantization.methods import Method
from tests.calibration.test_pipeline import a_plan, fresh, inputs_of, solved_by, weights
from tests.quantization.test_early_stopping import EARLY
from tests.quantizing import quantize_block

FOLDABLE = method("sarqc-gs", lam=0.3, mode="foldable")
LEARNED = method("sarqc-omniquant", lam=0.1, epochs=2)
ROUNDED = method("sarqc-signround", lam=0.1, steps=4, warm_start="gptq")


def plan_of(loaded: LoadedModel, chosen: Method, inputs_from: str = "quantized", **changes: object) -> CalibrationJob:
    return replace(a_plan(loaded, inputs_from=inputs_from), method=chosen, **changes)


def steps_of(loaded: LoadedModel, plan: CalibrationJob, store: Path) -> list[SolvedLayer | EpochDone]:
    return list(calibrate(loaded, plan, ArtefactStore(store), layer_keys(describe(loaded), plan)))


def logits_of(loaded: LoadedModel, plan: CalibrationJob) -> torch.Tensor:
    with torch.no_grad():
        return loaded.model(torch.from_numpy(plan.sequences.calibration.copy())).logits


def difference(one: LoadedModel, other: LoadedModel, plan: CalibrationJob) -> float:
    return float((logits_of(one, plan) - logits_of(other, plan)).square().mean())


@pytest.mark.thorough
@pytest.mark.parametrize("inputs_from", ["quantized", "float"])
def test_a_folded_model_is_the_one_with_scaled_weights(random_llama, tmp_path, inputs_from):
    loaded = fresh(random_llama)
    plan = plan_of(loaded, FOLDABLE, inputs_from)
    solved = solved_by(loaded, plan, tmp_path)
    unfolded = fresh(random_llama)
    for one in solved:
        unfolded.model.get_submodule(one.info.name).weight.data.copy_(one.quantized.dequantized)
    folded, expected, original = (logits_of(model, plan) for model in (loaded, unfolded, fresh(random_llama)))
    assert (folded - expected).abs().max() < 1e-4 * expected.abs().max()
    assert (folded - original).abs().max() > 1e-2 * expected.abs().max()
    by_name = {one.info.name: one.quantized for one in solved}
    folded_norms = 0
    for index, block in enumerate(loaded.blocks()):
        q, k, v = (by_name[f"model.layers.{index}.self_attn.{name}_proj"].channel_scale for name in "qkv")
        norm = unfolded.blocks()[index].input_layernorm.weight
        if q is None:
            assert k is v is None
            assert torch.equal(block.input_layernorm.weight, norm)
            continue
        folded_norms += 1
        assert torch.equal(q, k)
        assert torch.equal(q, v)
        assert torch.equal(block.input_layernorm.weight, norm / q)
    assert folded_norms > 0


def states_of(
    quantized: LoadedModel, original: LoadedModel, block: int, tokens: torch.Tensor
) -> tuple[list[torch.Tensor], dict[str, object]]:
    """Return what enters the block on one prefix, what leaves it on the other, and its arguments."""
    found: list[torch.Tensor] = []
    arguments: dict[str, object] = {}

    def before(_module: object, given: tuple, named: dict) -> None:
        found.append(given[0])
        arguments.update(named)

    def after(_module: object, _given: object, made: torch.Tensor) -> None:
        found.append(made)

    hooks = [
        quantized.blocks()[block].register_forward_pre_hook(before, with_kwargs=True),
        original.blocks()[block].register_forward_hook(after),
    ]
    with torch.no_grad():
        quantized.model(tokens, use_cache=False)
        original.model(tokens, use_cache=False)
    for hook in hooks:
        hook.remove()
    return found, arguments


@pytest.mark.thorough
def test_learning_sees_the_quantized_prefix_and_aims_at_the_float_model(random_llama, tmp_path):
    loaded = fresh(random_llama)
    plan = plan_of(loaded, LEARNED)
    solved = {one.info.name: one.quantized for one in solved_by(loaded, plan, tmp_path)}
    reference, original = fresh(random_llama), fresh(random_llama)
    tokens = torch.from_numpy(plan.sequences.calibration.copy())
    for block in range(3):
        prefix = f"model.layers.{block}."
        names = {layer.name.removeprefix(prefix): layer.name
                 for layer in reference.checkpoint.layers if layer.block == block}  # fmt: skip
        states, arguments = states_of(reference, original, block, tokens)
        inputs = inputs_of(reference, [*names.values()], tokens)
        module = reference.blocks()[block]
        *_, expected = quantize_block(
            {path: reference.model.get_submodule(name).weight for path, name in names.items()},
            {path: LayerStatistics.from_inputs(inputs[name]) for path, name in names.items()},
            {path: plan.grids[name] for path, name in names.items()},
            LEARNED,
            forward=lambda given, hidden, module=module, arguments=arguments: torch.func.functional_call(
                module, {f"{path}.weight": part for path, part in given.items()}, (hidden,), dict(arguments)
            ),
            inputs=[states[0]],
            targets=[states[1]],
        )
        for path, name in names.items():
            assert (solved[name].codes != expected[path].codes).float().mean() < 0.02, name
            reference.model.get_submodule(name).weight.data.copy_(loaded.model.get_submodule(name).weight)
    rounded = fresh(random_llama)
    solved_by(rounded, plan_of(rounded, method("rtn")))
    assert difference(loaded, original, plan) < difference(rounded, original, plan)


STOPPED = method("sarqc-signround", lam=0.1, steps=5, warm_start="column_solver", **EARLY)


@pytest.mark.parametrize("inputs_from", ["quantized", "float"])
def test_early_stopping_judges_each_block_by_held_out_sequences(random_llama, tmp_path, inputs_from):
    loaded, original = fresh(random_llama), fresh(random_llama)
    plan = plan_of(loaded, STOPPED, inputs_from)
    steps = steps_of(loaded, plan, tmp_path)
    layers = [step for step in steps if isinstance(step, SolvedLayer)]
    first = {one.info.block: one for one in reversed(layers)}
    ids = torch.from_numpy(plan.sequences.held_out.copy())
    ends: dict[int, list[torch.Tensor]] = {}  # of each block: outputs of the float model, then of the quantized one

    def note(index: int) -> Callable[..., None]:
        return lambda _block, _given, made: ends.setdefault(index, []).append(made)

    for model in (original, loaded):
        for index, block in enumerate(model.blocks()):
            block.register_forward_hook(note(index))
        with torch.no_grad():
            model.model(ids)
    for index, solved in first.items():
        report = solved.quantized.report
        told = [step for step in steps if isinstance(step, RoundingChecked) and step.block == index]
        assert [(one.step, one.held_out_error) for one in told] == [
            (check["step"], check["held_out_error"]) for check in report.checks
        ]
        kept = min(report.checks, key=lambda check: check["held_out_error"])
        assert report.chosen["best_step"] == kept["step"]
        if inputs_from == "quantized" or index == 0:  # else its inputs are not those of the quantized model
            exact, rounded = (made[0] if isinstance(made, tuple) else made for made in ends[index])
            assert kept["held_out_error"] == pytest.approx(float((rounded - exact).square().mean()), rel=1e-4)
    again = fresh(random_llama)
    kept_layers = steps_of(again, plan_of(again, STOPPED, inputs_from), tmp_path)
    assert all(one.from_cache for one in kept_layers)
    assert [one.quantized.report for one in kept_layers] == [one.quantized.report for one in layers]


def test_a_block_that_learns_nothing_finite_is_named(random_llama, tmp_path):
    loaded = fresh(random_llama)
    loaded.blocks()[1].input_layernorm.weight.data.fill_(1e30)  # overflows within the block
    with pytest.raises(NumericalError, match=r"model\.layers\.1"):
        steps_of(loaded, plan_of(loaded, LEARNED), tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "chosen", [FOLDABLE, LEARNED, ROUNDED, STOPPED], ids=["foldable", "learned", "rounded", "stopped"]
)
def test_a_curve_along_lambda(random_llama, tmp_path, chosen):
    loaded = fresh(random_llama)
    layers = solved_by(loaded, plan_of(loaded, chosen, curves=Curves((0.0, 2.0))), tmp_path / "a")
    alone = fresh(random_llama)
    single = solved_by(alone, plan_of(alone, chosen), tmp_path / "b")
    assert all(one.curve.lams == (0.0, chosen.lam, 2.0) for one in layers)
    assert [one.quantized.report for one in layers] == [one.quantized.report for one in single]
    assert all(torch.equal(a, b) for a, b in zip(weights(loaded).values(), weights(alone).values(), strict=True))
    sar = np.sum([one.curve.sar for one in layers], axis=0)
    if chosen is not STOPPED:  # of which held-out text chooses the steps
        assert sar[2] < sar[0]
