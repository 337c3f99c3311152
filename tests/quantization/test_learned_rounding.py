"""Learned rounding: its gradient, its sign steps and its start, against autograd and plain SignRound."""

import pytest
import torch
from torch import Tensor

from sarqc import Grid, method, quantize_layer
from sarqc.errors import Refused
from sarqc.quantization import round_to_nearest
from sarqc.quantization.learned_rounding import RoundedLinear, SignDescent
from sarqc.quantization.methods import SHRINKS, ColumnSolver, LearnedRounding, RoundToNearest
from sarqc.quantization.quantized_layer import CheckedLayer
from sarqc.quantization.solving import Context, LayerJob
from tests import oracles, oracles_clipping, oracles_rounding
from tests.quantization.test_learned_clipping import KINDS, Block, uneven_linear

GPTQ = {"warm_start": "gptq"}


def linear_of(grid: Grid, dtype: torch.dtype = torch.float64, **choices: object) -> RoundedLinear:
    """Weights with groups of zeros, of one sign and with equal ends."""
    return RoundedLinear(uneven_linear(grid, dtype).layer, LearnedRounding(**choices))


def some_values(linear: RoundedLinear, seed: int) -> list[Tensor]:
    """Offsets and factors anywhere in their bounds; row 3 has equal factors, so that its ends stay equal."""
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.rand(linear.groups.shape, generator=generator, dtype=torch.float64) - 0.5
    factors = 0.5 + 0.5 * torch.rand(linear.ends.shape, generator=generator, dtype=torch.float64)
    factors[1, 3] = factors[0, 3]
    return [offsets, factors]


# Gradient and steps


def assert_gradients_are_autograds(
    linear: RoundedLinear, bits: int, kind: str, group_size: int | None, begun: Tensor | None = None, atol: float = 0
) -> None:
    """At the first values and at others; of weights that begin elsewhere than at their own."""
    weight = linear.layer.weight
    slope = 20 * torch.from_numpy(oracles.uneven_weight(77, *weight.shape))
    for seed in range(4):
        learned = some_values(linear, seed) if seed else linear.first()
        rounded = linear.round(learned)
        by_offset, by_factor = linear.gradient(learned, rounded, slope)
        offsets, factors = (part.clone() for part in learned)
        values = oracles_rounding.Values(offsets.flatten(-2), factors[0], factors[1])
        for part in values.all():
            part.requires_grad_()
        wanted = oracles_rounding.fake_weight(weight, values, bits, kind, group_size, begun)
        (wanted * slope).sum().backward()
        assert torch.allclose(rounded.stored, wanted, rtol=1e-12, atol=atol)
        assert torch.allclose(by_offset.flatten(-2), values.offsets.grad, rtol=1e-9, atol=1e-12)
        assert torch.allclose(by_factor, torch.stack([values.upper.grad, values.lower.grad]), rtol=1e-9, atol=1e-12)
        assert by_offset.abs().max() > 1e-3
        assert by_factor.abs().max() > 1e-3


@pytest.mark.parametrize("group_size", [16, None])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [2, 4])
def test_weights_and_gradient_are_autograds(bits, kind, group_size):
    assert_gradients_are_autograds(linear_of(Grid(bits, group_size, kind)), bits, kind, group_size)


def test_steps_follow_the_sign_at_a_falling_rate_and_stop_at_the_bounds():
    offsets, factors = torch.tensor([0.0, 0.0, 0.0, 0.49]), torch.tensor([1.0, 1.0, 0.52, 0.4])
    descent = SignDescent({"linear": [offsets, factors]}, steps=4)
    seen = []
    for _ in range(4):
        offsets.grad, factors.grad = torch.tensor([3.0, -0.001, 0.0, -1.0]), torch.tensor([2.0, -2.0, 9.0, 1.0])
        descent.step()
        seen.append(offsets[0].item())
    assert seen == [-0.25, -0.4375, -0.5, -0.5]  # 1/4, 3/16, and 2/16 would have been too much
    assert offsets.tolist() == [-0.5, 0.5, 0.0, 0.5]
    assert factors[:3].tolist() == [0.5, 1.0, 0.5]
    assert factors[3].item() == pytest.approx(0.4)  # began below: that is its bound


# Learning


def sequences_of(block: Block, tokens: int) -> list[Tensor]:
    return list(torch.cat(block.inputs).reshape(-1, tokens, 32)), list(torch.cat(block.targets).reshape(-1, tokens, 32))


def saliencies_of(block: Block) -> dict[str, Tensor]:
    return {
        name: oracles_clipping.half_saliency(block.statistics[name].abs_mean, weight)
        for name, weight in block.weights.items()
    }


@pytest.mark.thorough
@pytest.mark.parametrize("lam", [0.0, 0.2])
@pytest.mark.parametrize(("kind", "bits"), [("asymmetric", 2), ("symmetric", 3), ("full_range", 2), ("affine", 2)])
def test_every_epoch_is_plain_signround(kind, bits, lam):
    """Twelve sequences: steps of eight and of four, the last epoch cut short."""
    block, grid = Block(), Grid(bits, 16, kind)
    inputs, targets = sequences_of(block, 5)
    plain, learned = oracles_rounding.signround(
        block.weights, saliencies_of(block), bits, kind, 16, block, inputs, targets, steps=7, lam=lam
    )
    epochs, layers = block.quantize(
        grid, LearnedRounding(lam=lam, steps=7), inputs=[torch.stack(inputs)], targets=[torch.stack(targets)]
    )
    assert [epoch.epoch for epoch in epochs] == [0, 1, 2, 3, 4]
    assert [epoch.objective for epoch in epochs] == pytest.approx(plain.objective, rel=1e-9)
    assert [epoch.sar for epoch in epochs] == pytest.approx(plain.sar, rel=1e-9)
    assert all(part.abs().max() <= 0.5 for part in (values.offsets for values in learned.values()))
    best = min(epochs, key=lambda epoch: epoch.objective)
    assert best.epoch > 0
    assert layers["up"].report.chosen["objective"] == best.objective
    assert layers["up"].report.chosen["best_epoch"] == best.epoch
    if best.epoch == 4:
        for name, layer in layers.items():
            assert torch.allclose(layer.dequantized, plain.weights[name], rtol=1e-9)


def test_a_start_that_is_best_is_kept():
    """The targets are what the rounded block makes: every step away from it is worse."""
    block, grid = Block(), Grid(2, 16, "asymmetric")
    rounded = {
        name: quantize_layer(weight, block.statistics[name], grid, method("rtn")).dequantized
        for name, weight in block.weights.items()
    }
    moved = [block(rounded, part) + 1e-9 for part in block.inputs]
    epochs, layers = block.quantize(grid, LearnedRounding(steps=5), targets=moved)
    assert min(epoch.objective for epoch in epochs[1:]) > epochs[0].objective
    for name, layer in layers.items():
        assert layer.report.chosen["best_epoch"] == 0
        assert torch.equal(layer.dequantized, rounded[name])


# Starts


@pytest.mark.parametrize("source", ["minmax", "search"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_it_begins_at_the_nearest_codes_of_its_ranges(dtype, kind, source):
    grid = Grid(3, 16, kind)
    linear = linear_of(grid, dtype, range=source)
    layer, (offsets, factors) = linear.layer, linear.first()
    rounded = linear.round([offsets, factors])
    assert (offsets == 0).all()
    assert torch.isin(factors, factors.new_tensor(SHRINKS)).all()
    assert bool((factors < 1).any()) is (source == "search")
    (solved,) = round_to_nearest.solve([LayerJob(layer, [RoundToNearest(range=source)])], Context())
    plain = solved.layer
    assert torch.equal(rounded.codes.flatten(-2), plain.codes.to(layer.weight.dtype))
    assert torch.equal(rounded.stored, plain.dequantized)


@pytest.mark.parametrize("fitting", [{}, {"range": "search", "order": "activation"}], ids=["plain", "fitted"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_warm_start_has_the_codes_of_the_column_solver(kind, fitting):
    """All but those further than one step from the nearest code, which no offset reaches."""
    block, grid = Block(), Grid(3, 16, kind)
    for name, weight in block.weights.items():
        statistics = block.statistics[name]
        solved = quantize_layer(weight, statistics, grid, ColumnSolver(lam=0.01, static_groups=True, **fitting))
        layer = CheckedLayer(weight, statistics, grid, None, name=name)
        linear = RoundedLinear(layer, LearnedRounding(**GPTQ, **fitting))
        offsets, factors = linear.first()
        rounded = linear.round([offsets, factors])
        assert torch.equal(rounded.scales, solved.scales)
        origins = solved.zero_points if solved.biases is None else solved.biases
        assert torch.equal(rounded.zero_points, origins.to(torch.float64))
        nearest = linear.round([torch.zeros_like(offsets), factors]).codes.flatten(-2)
        wanted, codes = solved.codes.to(nearest.dtype), rounded.codes.flatten(-2)
        assert torch.equal(offsets.flatten(-2), (wanted - nearest).clamp(-0.5, 0.5))
        differs = wanted != nearest
        assert differs.float().mean() > 0.05
        # An offset of half a step reaches the neighbour on the weight's own side, and stays where that is the other.
        assert (codes != nearest)[differs].float().mean() > 0.5
        assert ((codes == wanted) | (codes == nearest) | ((wanted - nearest).abs() > 1)).all()


def test_what_makes_no_sense_is_refused():
    for choices in (
        {"steps": 0}, {"warm_start": "awq"}, {"order": "activation"}, {"range": "widest"},
        {"refine": 1}, {"refine": 1, "warm_start": "gptq"}, {"range": "joint", "warm_start": "column_solver"},
    ):  # fmt: skip
        with pytest.raises(Refused) as refused:
            method("signround", **choices)
        assert refused.value.remedy
    method("signround", order="activation", **GPTQ)
