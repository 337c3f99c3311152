"""Scales tuned by the predictions of the whole model, with the codes that it has.

The unknowns θ are the scales of all quantized linears, on the affine grid their biases too. They minimise

    mean over tokens of KL(p_float ‖ p_θ)  +  KL₀ · Σ λ_l d_l(θ) / Σ d_l(θ₀),    d_l = ‖(Ŵ_l - W_l) diag(S_l)‖²,

sums over linears l, by Adam on ln(scale / first scale) and on (bias - first bias) / first scale. KL₀ and d_l(θ₀) are
the values before the first step: there the penalty is λ times the divergence, whatever the sizes of the model and of S.
On a group d is a quadratic function of its scale a and bias b, so that six sums replace its weights:

    Σ_j S_j² (a c_j + b - w_j)²,    c = code - zero point.

After each epoch the numbers are rounded as a checkpoint stores them, and judged with these on sequences that nothing is
fitted to. The best epoch is kept, the start included.

Axes: O out_features, I in_features, G groups of a row, K channels of a group, B sequences of a step.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from sarqc.errors import NumericalError
from sarqc.quantization.block_learning import in_a_fixed_order
from sarqc.quantization.grid import scale_limits, split_groups
from sarqc.quantization.quantized_layer import QuantizedLayer

RATE = 3e-3  # of Adam, a relative change of a scale a step; it falls linearly to 0
PATIENCE = 2  # epochs without a smaller divergence on unseen sequences

Weights = Mapping[str, Tensor]  # (O, I) by the name of the linear


class Predictions(Protocol):
    """Divergence of a model's predictions from the float model's, as a function of the weights of its linears."""

    @property
    def steps(self) -> int:
        """Number of steps of an epoch."""

    def divergence(self, weights: Weights, step: int) -> Tensor:
        """Return the mean KL(float ‖ quantized) in nats a token on the sequences of a step, with its gradient."""

    def held_out_divergence(self, weights: Weights) -> float:
        """Return the same, without a gradient, on sequences that nothing is fitted to."""


@dataclass(frozen=True)
class DistillationEpoch:
    """State after an epoch.

    Attributes:
        epoch: Number of the epoch; 0 before the first step.
        calibration_kl: Mean KL(float ‖ quantized) in nats a token over the steps of the epoch, each before its update.
        held_out_kl: The same on unseen sequences, with the rounded scales after the epoch.
        drift: √(Σ d_l / Σ ‖W_l diag(S_l)‖²) of the rounded scales.
    """

    epoch: int
    calibration_kl: float
    held_out_kl: float
    drift: float


@dataclass(frozen=True)
class DistillationStep:
    """Steps done within an epoch, of all its steps."""

    done: int
    steps: int


class _Levels(torch.autograd.Function):
    """a c + b (O, I) from scales a and biases b (O, G). Only the small integers c (O, G, K) wait for the gradient."""

    @staticmethod
    def forward(ctx: Any, scales: Tensor, biases: Tensor | None, basis: Tensor) -> Tensor:
        ctx.save_for_backward(basis)
        ctx.has_biases = biases is not None
        levels = basis.to(scales.dtype) * scales.unsqueeze(-1)
        return (levels if biases is None else levels + biases.unsqueeze(-1)).flatten(-2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None]:
        (basis,) = ctx.saved_tensors
        of_groups = gradients[0].reshape(basis.shape)
        of_scales = (of_groups * basis).sum(dim=-1)
        return of_scales, of_groups.sum(dim=-1) if ctx.has_biases else None, None


class TunedScales:
    """Scales of one linear, and on the affine grid biases, as unknowns.

    Args:
        layer: The linear without channel scales and row scales. Its codes and zero points stay.
        weight: (O, I), the float weight.
        s: S (I,) of the penalty.
        lam: λ.
    """

    def __init__(self, layer: QuantizedLayer, weight: Tensor, s: Tensor, lam: float) -> None:
        work = torch.promote_types(layer.scales.dtype, torch.float32)
        groups = layer.scales.shape[-1]
        self._layer, self.lam = layer, lam
        self._scales = layer.scales.to(work)
        self._biases = None if layer.biases is None else layer.biases.to(work)
        basis = split_groups(layer.codes.to(torch.int16), layer.codes.shape[-1] // groups)
        self._basis = basis - layer.zero_points.unsqueeze(-1)  # (O, G, K) int16
        self.stretch = torch.zeros_like(self._scales, requires_grad=True)  # ln(scale / first scale)
        self.shift = None if self._biases is None else torch.zeros_like(self._biases, requires_grad=True)
        size = weight.shape[-1] // groups
        square, aim = split_groups(s.to(work).square(), size), split_groups(weight.to(work), size)  # (G, K), (O, G, K)
        basis, one = self._basis.to(work), torch.ones_like(aim)
        factors = ((basis, basis), (basis, one), (one, one), (basis, aim), (aim, one), (aim, aim))
        self._sums = tuple((square * x * y).sum(dim=-1, dtype=torch.float64) for x, y in factors)  # (O, G) each

    def parameters(self) -> list[Tensor]:
        """Return the unknowns, all 0 at first."""
        return [self.stretch] if self.shift is None else [self.stretch, self.shift]

    def numbers(self) -> tuple[Tensor, Tensor | None]:
        """Return the scales and biases (O, G) in working precision, as functions of the unknowns."""
        scales = self._scales * self.stretch.exp()
        return scales, None if self.shift is None or self._biases is None else self._biases + self._scales * self.shift

    def weight(self) -> Tensor:
        """Return Ŵ (O, I) in working precision, as a function of the unknowns."""
        levels: Tensor = _Levels.apply(*self.numbers(), self._basis)  # type: ignore[no-untyped-call]
        return levels

    def penalty(self) -> Tensor:
        """Return d = ‖(Ŵ - W) diag(S)‖² in float64, as a function of the unknowns."""
        return self._penalty_of(*self.numbers())

    def energy(self) -> float:
        """Return ‖W diag(S)‖²."""
        return float(self._sums[-1].sum())

    def rounded(self) -> QuantizedLayer:
        """Return the linear with its scales and biases rounded to storage; its report stays that of the solver."""
        with torch.no_grad():
            scales, biases = self.numbers()
            storage = self._layer.scales.dtype
            largest = torch.finfo(storage).max
            layer = replace(
                self._layer,
                scales=scales.clamp(*scale_limits(storage)).to(storage),
                biases=None if biases is None else biases.clamp(-largest, largest).to(storage),
            )
            return replace(layer, dequantized=layer.stored())

    def penalty_of(self, layer: QuantizedLayer) -> float:
        """Return d of a linear that ``rounded`` returned."""
        return max(0.0, float(self._penalty_of(layer.scales, layer.biases)))  # a difference of sums may round below 0

    def _penalty_of(self, scales: Tensor, biases: Tensor | None) -> Tensor:
        a = scales.double()
        b = torch.zeros_like(a) if biases is None else biases.double()
        cc, c, one, cw, w, ww = self._sums
        return (a * a * cc + 2 * a * b * c + b * b * one - 2 * a * cw - 2 * b * w + ww).sum()


def distilled(
    linears: Mapping[str, TunedScales], predictions: Predictions, *, epochs: int, rate: float = RATE
) -> Generator[DistillationEpoch | DistillationStep, None, dict[str, QuantizedLayer]]:
    """Tune the scales of all linears.

    Args:
        linears: The linears by name.
        predictions: The model as a function of their weights.
        epochs: Largest number of passes over the sequences.
        rate: Rate of Adam at the first step.

    Yields:
        The state before the first step and after each epoch; in an epoch each step.

    Returns:
        The linears with the scales of the epoch with the smallest divergence on unseen sequences, the first of equals.

    Raises:
        NumericalError: If the divergence is not finite before the first step.
    """
    best = {name: linear.rounded() for name, linear in linears.items()}
    start = _first(linears, predictions, best)
    if not math.isfinite(start.calibration_kl + start.held_out_kl):
        raise NumericalError(
            f"the divergence of the quantized model is not finite ({start.calibration_kl}, {start.held_out_kl})",
            "scales, epoch 0", "Leave distill out, or load the model in a wider dtype.",
        )  # fmt: skip
    yield start
    least, since = start.held_out_kl, 0
    drift = sum(linear.penalty_of(best[name]) for name, linear in linears.items())
    factor = start.calibration_kl / drift if drift > 0 else 0.0
    unknowns = [unknown for linear in linears.values() for unknown in linear.parameters()]
    optimiser = torch.optim.Adam(unknowns, lr=rate)
    steps = epochs * predictions.steps
    for epoch in range(1, epochs + 1):
        total = 0.0
        for step in range(predictions.steps):
            optimiser.param_groups[0]["lr"] = rate * (1 - ((epoch - 1) * predictions.steps + step) / steps)
            optimiser.zero_grad()
            total += _step(linears, predictions, step, factor)
            optimiser.step()
            yield DistillationStep(step + 1, predictions.steps)
        layers = {name: linear.rounded() for name, linear in linears.items()}
        held_out = _held_out(predictions, layers)
        yield DistillationEpoch(epoch, total / predictions.steps, held_out, _drift(linears, layers))
        since += 1
        if held_out < least:
            best, least, since = layers, held_out, 0
        if since == PATIENCE or not math.isfinite(total):
            break  # numbers that are not finite never become finite again
    return best


def _first(
    linears: Mapping[str, TunedScales], predictions: Predictions, layers: Mapping[str, QuantizedLayer]
) -> DistillationEpoch:
    """The state before the first step."""
    with torch.no_grad():
        weights = {name: linear.weight() for name, linear in linears.items()}
        divergences = [float(predictions.divergence(weights, step)) for step in range(predictions.steps)]
    mean = sum(divergences) / len(divergences)
    return DistillationEpoch(0, mean, _held_out(predictions, layers), _drift(linears, layers))


def _step(linears: Mapping[str, TunedScales], predictions: Predictions, step: int, factor: float) -> float:
    """Adds the gradient of the objective on the sequences of a step; returns their divergence."""
    with torch.enable_grad():
        divergence = predictions.divergence({name: linear.weight() for name, linear in linears.items()}, step)
    with in_a_fixed_order(divergence.device):
        divergence.backward()
    for linear in linears.values():
        if linear.lam > 0 and factor > 0:
            (factor * linear.lam * linear.penalty()).backward()
    return float(divergence.detach())


def _held_out(predictions: Predictions, layers: Mapping[str, QuantizedLayer]) -> float:
    with torch.no_grad():
        return predictions.held_out_divergence({name: layer.dequantized for name, layer in layers.items()})


def _drift(linears: Mapping[str, TunedScales], layers: Mapping[str, QuantizedLayer]) -> float:
    """√(Σ d / Σ ‖W diag(S)‖²)."""
    energy = sum(linear.energy() for linear in linears.values())
    moved = sum(linear.penalty_of(layers[name]) for name, linear in linears.items())
    return math.sqrt(moved / energy) if energy > 0 else 0.0
