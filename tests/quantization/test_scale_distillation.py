"""Scales and codes tuned by the whole model's predictions: loss and gradients against numpy and autograd in float64."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sarqc import Grid, LayerStatistics, method, quantize_layer
from sarqc.errors import NumericalError
from sarqc.quantization.quantized_layer import QuantizedLayer
from sarqc.quantization.scale_distillation import (
    PATIENCE,
    DistillationEpoch,
    DistillationStep,
    TunedCodes,
    TunedNorm,
    TunedScales,
    distilled,
)
from sarqc.quantization.storage import Kind

INPUTS, HIDDEN, OUTPUTS, GROUP, SEQUENCES, TOKENS = 32, 16, 11, 8, 4, 24
KINDS: tuple[Kind, ...] = ("symmetric", "full_range", "asymmetric", "affine")


@dataclass
class TwoLinears:
    """softmax(V diag(n) tanh(U x)) as a ``Distance``; U and V are the linears, and n is a norm where there is one."""

    sequences: Tensor  # (N, T, INPUTS)
    unseen: Tensor
    original: Mapping[str, Tensor]

    @property
    def steps(self) -> int:
        return len(self.sequences)

    def magnification(self, first: float) -> float:
        return 1.0

    def step_distance(self, weights: Mapping[str, Tensor], step: int) -> Tensor:
        return self._kl(weights, self.sequences[step])

    def held_out(self, weights: Mapping[str, Tensor]) -> float:
        return float(self._kl(weights, self.unseen.flatten(0, 1)))

    def logits(self, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
        u, v = (weights[name].to(x.dtype) for name in ("u", "v"))
        inner = (x @ u.mT).tanh()
        return (inner * weights["n"].to(x.dtype) if "n" in weights else inner) @ v.mT

    def _kl(self, weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
        p, q = (self.logits(which, x).log_softmax(-1) for which in (self.original, weights))
        return (p.exp() * (p - q)).sum(-1).mean()


@dataclass
class Case:
    model: TwoLinears
    layers: dict[str, QuantizedLayer]
    s: dict[str, Tensor]
    grid: Grid

    def tuned(self, lam: float = 0.0) -> dict[str, TunedScales]:
        return {
            name: TunedScales(layer, self.model.original[name], self.s[name], lam)
            for name, layer in self.layers.items()
        }

    def with_codes(self, lam: float = 0.0) -> dict[str, TunedCodes]:
        return {
            name: TunedCodes(layer, self.model.original[name], self.s[name], lam, self.grid)
            for name, layer in self.layers.items()
        }


def case(kind: Kind = "asymmetric", dtype: torch.dtype = torch.float32, bits: int = 2) -> Case:
    random = torch.Generator().manual_seed(5)
    weights = {
        "u": torch.randn(HIDDEN, INPUTS, generator=random, dtype=torch.float64) / INPUTS**0.5,
        "v": torch.randn(OUTPUTS, HIDDEN, generator=random, dtype=torch.float64),
    }
    stored = {name: weight.to(dtype) for name, weight in weights.items()}
    x = torch.randn(2 * SEQUENCES, TOKENS, INPUTS, generator=random, dtype=torch.float64) * torch.linspace(
        0.2, 3, INPUTS, dtype=torch.float64
    )
    work = torch.float64 if dtype == torch.float64 else torch.float32
    grid, point = Grid(bits, GROUP, kind), method("gptq")
    inputs = {"u": x.flatten(0, 1), "v": (x.flatten(0, 1) @ weights["u"].mT).tanh()}
    layers = {
        name: quantize_layer(weight, LayerStatistics.from_inputs(inputs[name]), grid, point)
        for name, weight in stored.items()
    }
    s = {name: torch.linspace(0.5, 2, weight.shape[-1], dtype=torch.float64) for name, weight in stored.items()}
    model = TwoLinears(x[:SEQUENCES].to(work), x[SEQUENCES:].to(work), {n: w.to(work) for n, w in stored.items()})
    return Case(model, layers, s, grid)


def walked(tuned: Mapping[str, TunedScales], model: TwoLinears, **choices: Any) -> tuple[list[DistillationEpoch], Any]:
    steps, epochs = distilled(tuned, model, **choices), []
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return epochs, end.value
        if isinstance(step, DistillationEpoch):
            epochs.append(step)


def run(
    tuned: Mapping[str, TunedScales], model: TwoLinears, **choices: Any
) -> tuple[list[DistillationEpoch], dict[str, QuantizedLayer]]:
    epochs, found = walked(tuned, model, **choices)
    return epochs, found.layers


def levels(layer: QuantizedLayer) -> np.ndarray:
    """Ŵ weight by weight, float64."""
    codes, zeros, scales = (part.double().numpy() for part in (layer.codes, layer.zero_points, layer.scales))
    weight = np.zeros(codes.shape)
    for row, column in np.ndindex(*codes.shape):
        group = column // GROUP
        weight[row, column] = (codes[row, column] - zeros[row, group]) * scales[row, group]
        if layer.biases is not None:
            weight[row, column] += float(layer.biases[row, group])
    return weight


def kl_by_numpy(model: TwoLinears, weights: Mapping[str, np.ndarray], x: np.ndarray) -> float:
    """Mean over tokens of Σ p ln(p/q), token by token."""
    total = 0.0
    for token in x:
        distributions = []
        for which in ({name: weight.double().numpy() for name, weight in model.original.items()}, weights):
            logits = which["v"] @ np.tanh(which["u"] @ token)
            distributions.append(np.exp(logits) / np.exp(logits).sum())
        p, q = distributions
        total += float(np.sum(p * np.log(p / q)))
    return total / len(x)


@pytest.mark.parametrize("kind", KINDS)
def test_the_start_is_what_numpy_finds(kind):
    here = case(kind)
    epochs, _ = run(here.tuned(), here.model, epochs=1)
    weights = {name: levels(layer) for name, layer in here.layers.items()}
    x, unseen = (part.double().flatten(0, 1).numpy() for part in (here.model.sequences, here.model.unseen))
    assert epochs[0].calibration == pytest.approx(kl_by_numpy(here.model, weights, x), rel=1e-5)
    assert epochs[0].held_out == pytest.approx(kl_by_numpy(here.model, weights, unseen), rel=1e-5)
    moved = energy = 0.0
    for name, weight in weights.items():
        original, s = here.model.original[name].double().numpy(), here.s[name].numpy()
        moved += float((((weight - original) * s) ** 2).sum())
        energy += float(((original * s) ** 2).sum())
    assert epochs[0].drift == pytest.approx((moved / energy) ** 0.5, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_the_plainly_written_objective(kind):
    here = case(kind, torch.float64)
    tuned, lam, factor = here.tuned(0.3), 0.3, 1.7
    random = torch.Generator().manual_seed(1)
    plain: dict[str, list[Tensor]] = {}
    for name, linear in tuned.items():
        for unknown in linear.parameters():
            unknown.data.copy_(0.1 * torch.randn(unknown.shape, generator=random, dtype=torch.float64))
        plain[name] = [unknown.detach().clone().requires_grad_() for unknown in linear.parameters()]
    (here.model.step_distance({name: linear.weight() for name, linear in tuned.items()}, 2)).backward()
    for linear in tuned.values():
        linear.add_penalty_gradient(factor * lam)

    objective, weights = torch.zeros((), dtype=torch.float64), {}
    for name, layer in here.layers.items():
        weights[name] = plainly(layer, layer.codes, plain[name])
        moved = (weights[name] - here.model.original[name]) @ torch.diag(here.s[name])
        objective = objective + factor * lam * (moved**2).sum()
    x = here.model.sequences[2]
    p = torch.softmax(here.model.logits(here.model.original, x), -1)
    q = torch.softmax(here.model.logits(weights, x), -1)
    (objective + (p * (p / q).log()).sum() / TOKENS).backward()
    for name, linear in tuned.items():
        for unknown, expected in zip(linear.parameters(), plain[name], strict=True):
            assert expected.grad.abs().max() > 1e-4
            torch.testing.assert_close(unknown.grad, expected.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bits", [2, 8])
def test_positions_begin_at_the_codes_and_lean_towards_the_float_weight(kind, bits):
    here = case(kind, torch.float64, bits)
    for name, linear in here.with_codes().items():
        layer, weight = here.layers[name], here.model.original[name]
        kept = linear.rounded()
        assert torch.equal(kept.codes, layer.codes)
        assert kept.codes.dtype == layer.codes.dtype
        assert torch.equal(kept.stored(), layer.stored())
        levels_away = (weight - layer.stored()) / layer.scales.repeat_interleave(GROUP, 1)
        leaning = linear._positions.detach().flatten(-2) - layer.codes
        torch.testing.assert_close(leaning, 0.6 * levels_away.clamp(-0.5, 0.5), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_pass_the_rounding_of_positions(kind):
    """That of the distance is as without rounding, at the codes; that of the penalty for positions is at these."""
    here, lam = case(kind, torch.float64), 0.4
    tuned = here.with_codes(lam)
    random, expected, weights = torch.Generator().manual_seed(2), {}, {}
    objective = torch.zeros((), dtype=torch.float64)
    for name, linear in tuned.items():
        for unknown in linear.parameters():
            unknown.data.copy_(0.1 * torch.randn(unknown.shape, generator=random, dtype=torch.float64))
        linear._positions.data.add_(3 * torch.randn(linear._positions.shape, generator=random, dtype=torch.float64))
        positions = linear._positions.detach().flatten(-2)
        codes = positions.round().clamp(here.grid.lowest, here.grid.highest).requires_grad_()
        others = [unknown.detach().clone().requires_grad_() for unknown in linear.parameters()]
        weights[name] = plainly(here.layers[name], codes, others)
        moved = plainly(here.layers[name], codes.detach(), others) - here.model.original[name]
        objective = objective + lam * ((moved @ torch.diag(here.s[name])) ** 2).sum()
        positions.requires_grad_()
        moved = plainly(here.layers[name], positions, [one.detach() for one in others]) - here.model.original[name]
        (lam * ((moved @ torch.diag(here.s[name])) ** 2).sum()).backward()
        expected[name] = [[codes, positions], *([one] for one in others)]
    found = here.model.step_distance({name: linear.weight() for name, linear in tuned.items()}, 1)
    of_plain = here.model.step_distance(weights, 1)
    torch.testing.assert_close(found, of_plain)
    found.backward()
    (objective + of_plain).backward()
    for linear in tuned.values():
        linear.add_penalty_gradient(lam)
    for name, linear in tuned.items():
        for unknown, parts in zip([linear._positions, *linear.parameters()], expected[name], strict=True):
            gradient = sum(part.grad for part in parts)
            assert gradient.abs().max() > 1e-4
            torch.testing.assert_close(unknown.grad.reshape(gradient.shape), gradient, rtol=1e-9, atol=1e-12)


def plainly(layer: QuantizedLayer, codes: Tensor, unknowns: list[Tensor]) -> Tensor:
    """Ŵ from codes, which need not be whole."""
    stretch, *shift = unknowns
    spread = [part.repeat_interleave(GROUP, 1) for part in (layer.scales, layer.zero_points, stretch)]
    weight = (codes - spread[1]) * spread[0] * spread[2].exp()
    if layer.biases is not None:
        weight = weight + (layer.biases + layer.scales * shift[0]).repeat_interleave(GROUP, 1)
    return weight


@pytest.mark.parametrize("kind", KINDS)
def test_positions_move_along_the_sign_and_stay_on_the_grid(kind):
    here = case(kind, torch.float64)
    for linear in here.with_codes().values():
        before = linear._positions.detach().clone()
        direction = torch.linspace(-1, 2, before.numel(), dtype=torch.float64).reshape(before.shape)
        linear._positions.grad = 1e-9 * direction
        linear.move(0.25)
        lowest, highest = here.grid.lowest - 0.5, here.grid.highest + 0.5
        expected = np.clip(before.numpy() - 0.25 * np.sign(direction.numpy()), lowest, highest)
        np.testing.assert_allclose(linear._positions.detach().numpy(), expected)
        for _ in range(3):
            linear._positions.grad = direction
            linear.move(100.0)
        codes = linear.rounded().codes.numpy().reshape(direction.shape)
        assert (codes == np.where(direction.numpy() > 0, here.grid.lowest, here.grid.highest)).all()


@pytest.mark.parametrize("tunes_codes", [False, True], ids=["scales", "scales and codes"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_tuned_is_judged_as_it_is_stored(kind, dtype, tunes_codes):
    here = case(kind, dtype)
    tuned = here.with_codes(0.1) if tunes_codes else here.tuned(0.1)
    epochs, layers = run(tuned, here.model, epochs=6, rate=0.005, travel=0.6)
    best = min(epochs, key=lambda epoch: epoch.held_out)
    assert best.held_out == here.model.held_out({name: layer.dequantized for name, layer in layers.items()})
    assert best.held_out < epochs[0].held_out
    changed = count = 0
    for name, layer in layers.items():
        before = here.layers[name]
        changed += int((layer.codes != before.codes).sum())
        count += layer.codes.numel()
        assert layer.codes.dtype == before.codes.dtype
        assert int(layer.codes.min()) >= here.grid.lowest
        assert int(layer.codes.max()) <= here.grid.highest
        assert torch.equal(layer.zero_points, before.zero_points)
        assert layer.scales.dtype == layer.dequantized.dtype == dtype
        assert not torch.equal(layer.scales, before.scales)
        if kind == "affine":
            assert layer.biases.dtype == dtype
            assert not torch.equal(layer.biases, before.biases)
        assert torch.equal(layer.stored(), layer.dequantized)
        assert layer.report == before.report
    assert (epochs[-1].changed > 0) == tunes_codes
    assert epochs[0].changed == 0
    assert best.changed == pytest.approx(changed / count)


@pytest.mark.parametrize("bits", [2, 4])
def test_the_first_step_moves_the_outermost_levels_as_far_at_any_width(bits):
    """Adam's first step is its rate along the sign of the gradient."""
    here = case("affine", torch.float64, bits)
    tuned = here.with_codes()
    steps = distilled(tuned, here.model, epochs=1, rate=0.01)
    while not isinstance(next(steps), DistillationStep):
        pass
    for linear in tuned.values():
        for unknown in linear.parameters():
            moved = unknown.detach().abs() * (2**bits - 1)
            torch.testing.assert_close(moved, torch.full_like(moved, 0.01 * 3), rtol=1e-3, atol=0)


def with_a_norm(dtype: torch.dtype = torch.float32) -> tuple[Case, TunedNorm]:
    here = case("affine", dtype)
    norm = torch.linspace(-0.5, 2, HIDDEN, dtype=dtype)
    here.model.original = {**here.model.original, "n": norm.to(here.model.sequences.dtype)}
    return here, TunedNorm(norm)


def test_the_gradient_of_a_norm_is_that_of_the_plainly_written_divergence():
    here, norm = with_a_norm(torch.float64)
    original = here.model.original["n"]
    norm.change.data.copy_(torch.linspace(-0.2, 0.1, HIDDEN))
    tuned = {name: linear.weight() for name, linear in here.tuned().items()}
    here.model.step_distance(tuned | {"n": norm.weight()}, 1).backward()
    unit = original.square().mean().sqrt()
    plain = torch.linspace(-0.2, 0.1, HIDDEN).double().requires_grad_()
    x = here.model.sequences[1]
    logits = [
        (x @ weights["u"].mT).tanh() @ torch.diag(n) @ weights["v"].mT
        for weights, n in ((here.model.original, original), (tuned, original + unit * plain))
    ]
    p, q = (torch.softmax(one, -1) for one in logits)
    [expected] = torch.autograd.grad((p * (p / q).log()).sum() / TOKENS, plain)
    assert expected.abs().max() > 1e-4
    torch.testing.assert_close(norm.change.grad, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_norm_is_tuned_with_the_scales_and_judged_as_it_is_stored(dtype):
    here, norm = with_a_norm(dtype)
    epochs, found = walked(here.tuned(0.1), here.model, epochs=4, norms={"n": norm}, rate=0.005)
    held_out = [epoch.held_out for epoch in epochs]
    assert min(held_out) < held_out[0]
    assert found.norms["n"].dtype == dtype
    assert not torch.equal(found.norms["n"].float(), here.model.original["n"])
    assert here.model.held_out(found.weights()) == min(held_out)


@pytest.mark.parametrize("rate", [5.0, 1e6])
def test_the_start_is_kept_where_every_epoch_is_worse(rate):
    here = case("affine")
    epochs, layers = run(here.tuned(), here.model, epochs=10, rate=rate)
    assert len(epochs) <= 1 + PATIENCE
    for name, layer in layers.items():
        assert torch.equal(layer.scales, here.layers[name].scales)
        assert torch.equal(layer.dequantized, here.layers[name].stored())


def test_a_model_without_numbers_is_an_error():
    here = case()
    here.model.original = {name: weight * torch.nan for name, weight in here.model.original.items()}
    tuned = case().tuned()
    with pytest.raises(NumericalError, match="not finite"):
        run(tuned, here.model, epochs=1)
