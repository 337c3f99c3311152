"""Learned rounding that starts at the column solver's codes and stops by held-out outputs, against float64 oracles."""

from dataclasses import asdict

import pytest
import torch
from torch import Tensor

from sarqc import Grid, method, quantize_layer
from sarqc.errors import NumericalError, Refused
from sarqc.quantization.block_learning import PATIENCE, check_steps
from sarqc.quantization.learned_rounding import MARGIN, RoundedLinear
from sarqc.quantization.methods import CHECKS, ColumnSolver, LearnedRounding
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer
from sarqc.quantization.solving import StepCheck
from sarqc.recipe import Recipe
from tests import oracles_rounding
from tests.quantization.test_learned_clipping import KINDS, Block, uneven_linear
from tests.quantization.test_learned_rounding import assert_gradients_are_autograds, saliencies_of, sequences_of
from tests.quantizing import quantize_block, zeros_of

WARM = {"warm_start": "column_solver"}
EARLY = {"stopping": "early"}
FITTED = {"range": "search", "order": "activation", "refine": 3}


def solver_of(lam: float, fitting: dict[str, object]) -> ColumnSolver:
    """Return the column solver as a recipe of its own would ask for it."""
    if lam == 0:
        return method("gptq", static_groups=True, **fitting)
    return method("sarqc-gbs", lam=lam, gamma=0.5, static_groups=True, **fitting)


def stop(
    block: Block, grid: Grid, unseen: tuple[list[Tensor], list[Tensor]], given: dict[str, object] | None = None,
    **choices: object,
) -> tuple[list[StepCheck], dict[str, QuantizedLayer]]:  # fmt: skip
    """Return the checks and the layers of learning with early stopping."""
    *checks, layers = quantize_block(
        block.weights, block.statistics, dict.fromkeys(block.weights, grid),
        LearnedRounding(**{"steps": 15} | EARLY | choices), forward=block,
        **{"inputs": block.inputs, "targets": block.targets} | (given or {}), held_out_inputs=unseen[0],
        held_out_targets=unseen[1],
    )  # fmt: skip
    assert all(isinstance(check, StepCheck) for check in checks)
    return checks, layers


def unseen_of(block: Block, seed: int = 1) -> tuple[list[Tensor], list[Tensor]]:
    """Other sequences, in two batches, with the outputs of the block's own weights."""
    inputs = Block(seed=seed).inputs
    exact = {name: weight.to(inputs[0].dtype) for name, weight in block.weights.items()}
    return inputs, [block(exact, part) for part in inputs]


def test_without_held_out_samples_a_recipe_makes_all_steps():
    document = {"model": "m", "calibration": "c", "method": "signround"}
    recipe = Recipe.parse(document | EARLY)
    (words,) = recipe.ignored()
    assert words.startswith("Early stopping = early has no effect on signround, which makes all its steps")
    assert recipe.to_method() == Recipe.parse(document).to_method()
    assert recipe.baseline_method() == Recipe.parse(document).baseline_method()
    with pytest.raises(Refused, match="stopping is “late”"):
        method("signround", stopping="late")


def errors_of(block: Block, weights: dict[str, Tensor], inputs: list[Tensor], targets: list[Tensor]) -> float:
    made = torch.cat([block(weights, part) for part in inputs])
    return float((made - torch.cat(targets)).square().mean())


# The start


@pytest.mark.parametrize("lam", [0.0, 0.2])
@pytest.mark.parametrize("fitting", [{}, FITTED], ids=["plain", "fitted"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_before_the_first_step_it_is_the_column_solver(dtype, kind, fitting, lam):
    block = Block(dtype)
    for (name, weight), bits in zip(block.weights.items(), (2, 3, 4), strict=True):
        grid = Grid(bits, 16, kind)
        solved = quantize_layer(weight, block.statistics[name], grid, solver_of(lam, fitting))
        layer = CheckedLayer(weight, block.statistics[name], grid, None, name=name)
        linear = RoundedLinear(layer, LearnedRounding(lam=lam, **WARM, **fitting))
        offsets, factors = linear.first()
        rounded = linear.round([offsets, factors])
        assert (offsets == 0).all()
        assert torch.equal(rounded.codes.flatten(-2), solved.codes.to(rounded.codes.dtype))
        assert torch.equal(rounded.scales, solved.scales.to(rounded.scales.dtype))
        assert torch.equal(rounded.zero_points, zeros_of(solved).to(rounded.zero_points.dtype))
        assert torch.equal(rounded.stored, solved.dequantized)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_rounded_is_the_best_value_of_each_weight_near_its_code(kind):
    """tr(ΔW G ΔWᵀ) as a function of one weight is smallest where its derivative is 0: by differences, one at a time."""
    block, grid = Block(), Grid(3, 16, kind)
    weight, statistics = block.weights["up"], block.statistics["up"]
    solved = quantize_layer(weight, statistics, grid, solver_of(0.2, {}))
    layer = CheckedLayer(weight, statistics, grid, None)
    found = RoundedLinear(layer, LearnedRounding(lam=0.2, **WARM)).groups.flatten(-2)
    s = saliencies_of(block)["up"].square()
    gram = statistics.gram + torch.diag(0.2 * statistics.gram.diagonal().mean() * s / s.mean())
    scales, zeros = (part.repeat_interleave(16, dim=1).double() for part in (solved.scales, zeros_of(solved)))

    def objective(row: int, column: int, value: float) -> float:
        delta = solved.dequantized[row] - weight[row]
        delta[column] = value - weight[row, column]
        return float(delta @ gram @ delta)

    clipped = 0
    for row, column in ((0, 0), (1, 5), (2, 17), (3, 31), (4, 8), (5, 20), (6, 30), (7, 2)):
        up, middle, down = (objective(row, column, value) for value in (1.0, 0.0, -1.0))
        best = (down - up) / (2 * (up + down - 2 * middle))  # of a parabola
        scale, zero, code = (float(part[row, column]) for part in (scales, zeros, solved.codes))
        place = (best - zero) / scale if kind == "affine" else best / scale + zero
        half = 0.5 - MARGIN
        wanted = place
        if code != grid.lowest:
            wanted = max(wanted, code - half)
        if code != grid.highest:
            wanted = min(wanted, code + half)
        clipped += wanted != place
        level = wanted * scale + zero if kind == "affine" else (wanted - zero) * scale
        assert float(found[row, column]) == pytest.approx(level, rel=1e-6, abs=1e-9 * scale)
    assert clipped < 8


# Gradient and steps


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [2, 4])
def test_weights_and_gradient_are_autograds(bits, kind):
    linear = RoundedLinear(uneven_linear(Grid(bits, 16, kind), torch.float64).layer, LearnedRounding(lam=0.1, **WARM))
    begun = linear.groups.flatten(-2)
    assert not torch.equal(linear.layer.weight, begun)
    assert_gradients_are_autograds(linear, bits, kind, 16, begun, atol=1e-15)


@pytest.mark.parametrize("start", [{}, WARM], ids=["nearest", "column_solver"])
@pytest.mark.parametrize("lam", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["asymmetric", "affine"])
def test_the_kept_state_is_that_of_its_step(kind, lam, start):
    """Plain SignRound in float64 with penalty, ended after the kept step of a schedule of 12."""
    block, grid = Block(), Grid(2, 16, kind)
    inputs, targets = sequences_of(block, 5)
    unseen = unseen_of(block)
    seen = {"inputs": [torch.stack(inputs)], "targets": [torch.stack(targets)]}
    checks, layers = stop(block, grid, unseen, seen, lam=lam, steps=12, **start)
    assert [check.step for check in checks] == list(range(checks[-1].step + 1))
    begun = None
    if start:
        found = {
            name: CheckedLayer(weight, block.statistics[name], grid, None) for name, weight in block.weights.items()
        }
        choice = LearnedRounding(lam=lam, **start)
        begun = {name: RoundedLinear(layer, choice).groups.flatten(-2) for name, layer in found.items()}
    kept = layers["up"].report.chosen["best_step"]
    assert kept == min(checks, key=lambda check: check.held_out_error).step
    energy = sum(float(weight.square().sum()) for weight in block.weights.values())
    for until in sorted({0, kept, checks[-1].step}):
        _, values = oracles_rounding.signround(
            block.weights, saliencies_of(block), 2, kind, 16, block, inputs, targets, steps=12, lam=lam, begun=begun,
            until=until,
        )  # fmt: skip
        weights = {}
        for name, weight in block.weights.items():
            start_of = None if begun is None else begun[name]
            weights[name] = oracles_rounding.fake_weight(weight, values[name], 2, kind, 16, start_of).detach()
        check = checks[until]
        assert check.error == pytest.approx(errors_of(block, weights, *seen.values()))
        assert check.held_out_error == pytest.approx(errors_of(block, weights, *unseen), rel=1e-9)
        moved = sum(float((weights[name] - weight).square().sum()) for name, weight in block.weights.items())
        assert check.drift == pytest.approx((moved / energy) ** 0.5, rel=1e-9)
        if until == kept:
            for name, layer in layers.items():
                assert torch.allclose(layer.dequantized, weights[name], rtol=1e-9, atol=1e-12)


# Stopping


def test_checks_are_in_the_report_of_the_first_linear():
    block = Block()
    checks, layers = stop(block, Grid(2, 16, "asymmetric"), unseen_of(block))
    first, *others = layers.values()
    assert [*first.report.checks] == [asdict(check) for check in checks]
    assert first.report.to_json()["checks"] == first.report.checks
    assert all("checks" not in layer.report.to_json() for layer in others)


def test_a_start_that_no_step_improves_is_kept_and_the_steps_end():
    """What the column solver's codes make of the held-out inputs is what is wanted there."""
    block, grid = Block(), Grid(2, 16, "asymmetric")
    solved = {
        name: quantize_layer(weight, block.statistics[name], grid, solver_of(0.0, {})).dequantized
        for name, weight in block.weights.items()
    }
    inputs = unseen_of(block)[0]
    checks, layers = stop(block, grid, (inputs, [block(solved, part) for part in inputs]), steps=60, **WARM)
    errors = [check.held_out_error for check in checks]
    assert errors[0] == 0 < min(errors[1:])
    after = errors[1:]
    ends = [
        count for count in range(PATIENCE + 1, len(after) + 1)
        if min(after[count - PATIENCE : count]) >= min(after[: count - PATIENCE])
    ]  # fmt: skip
    assert ends == [len(after)]
    assert checks[-1].step == check_steps(60, CHECKS)[len(after) - 1] < 60
    assert checks[-1].error < checks[0].error  # calibration alone would have gone on
    for name, layer in layers.items():
        assert layer.report.chosen["best_step"] == 0
        assert torch.equal(layer.dequantized, solved[name])


def test_checks_are_spread_evenly_and_end_with_the_last_step():
    assert check_steps(200, 20) == list(range(10, 201, 10))
    assert check_steps(7, 20) == list(range(1, 8))
    assert check_steps(50, 20)[:5] == [3, 5, 8, 10, 13]
    assert check_steps(50, 20)[-1] == 50


def test_without_stopping_held_out_sequences_change_nothing():
    block, grid = Block(torch.float32), Grid(2, 16, "asymmetric")
    unseen = tuple([part.float() for part in parts] for parts in unseen_of(block))
    given = {"held_out_inputs": unseen[0], "held_out_targets": unseen[1]}
    epochs, layers = block.quantize(grid, LearnedRounding(steps=6))
    beside, same = block.quantize(grid, LearnedRounding(steps=6), **given)
    assert beside == epochs
    for name, layer in layers.items():
        assert torch.equal(layer.dequantized, same[name].dequantized)
        assert layer.report == same[name].report
        assert layer.report.checks == ()


def test_what_can_not_be_judged_is_refused():
    block, grid = Block(), Grid(2, 16, "asymmetric")
    with pytest.raises(Refused, match="held-out sequences"):
        stop(block, grid, ([], []))
    inputs, targets = unseen_of(block)
    with pytest.raises(Refused, match="held-out inputs"):
        stop(block, grid, (inputs, targets[:1]))
    with pytest.raises(NumericalError, match="held-out"):
        stop(block, grid, (inputs, [part * torch.nan for part in targets]))
