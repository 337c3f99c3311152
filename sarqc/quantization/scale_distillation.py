"""Scales tuned by the distance of a model, or of one of its blocks, from the float one, and on request codes.

The unknowns θ are the scales of all quantized linears, on the affine grid their biases too, and on request their codes
and the weights of norms. They minimise

    E(θ)  +  E(θ₀) · Σ λ_l d_l(θ) / Σ d_l(θ₀),    d_l = ‖(Ŵ_l - W_l) diag(S_l)‖²,

sums over linears l, by Adam on ln(scale / first scale), on (bias - first bias) / first scale and on
(weight - first weight) / root mean square of the first weights of a norm. E is the distance: mean KL(p_float ‖ p_θ) of
a model's predictions, or the relative squared error of a block's outputs. θ₀ are the values before the first step:
there the penalty is λ times the distance, whatever the sizes of the model and of S. Where codes stay, d is on a group
a quadratic function of its scale a and bias b, so that six sums replace its weights:

    Σ_j S_j² (a c_j + b - w_j)²,    c = code - zero point.

Codes are tuned as positions u, real numbers between the least and the largest code, and are round(u). The gradient of
E passes the rounding as if it were not there (straight through). That of d is taken at u itself, since at round(u) it
would drive a u to the middle between two levels; so the penalty draws u to where the float weight lies. A step moves
each u along the sign of their sum. At first u lies towards the float weight from its code, ``TOWARDS_FLOAT`` of the
way, so that the codes are those of the solver, and those change most easily whose weight lies between two levels.

After each epoch the numbers are rounded as a checkpoint stores them, and judged with these on sequences that nothing is
fitted to. The best epoch is returned, the start included.

Axes: O out_features, I in_features, G groups of a row, K channels of a group, D weights of a norm.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from sarqc.errors import NumericalError
from sarqc.quantization.block_learning import fixed_order
from sarqc.quantization.grid import Grid, round_to_storage, scale_limits, split_groups
from sarqc.quantization.quantized_layer import QuantizedLayer

RATE = 3e-3  # of Adam, a relative change of a scale a step; it falls linearly to 0
TRAVEL = 0.4  # of a position in all steps, in levels, if all have one sign; its rate falls in the same way
TOWARDS_FLOAT = 0.6  # first distance of a position from its code, of that to the float weight or to half a level
PATIENCE = 2  # epochs without a smaller distance on unseen sequences

Weights = Mapping[str, Tensor]  # (O, I) by the name of the linear, (D,) by that of the norm


class Distance(Protocol):
    """Distance from the float model as a function of the weights of linears and norms."""

    @property
    def steps(self) -> int:
        """Number of steps of an epoch."""

    def step_distance(self, weights: Weights, step: int) -> Tensor:
        """Return the distance on the sequences of a step, with its gradient; their mean is that of an epoch."""

    def held_out(self, weights: Weights) -> float:
        """Return the distance, without a gradient, on sequences that nothing is fitted to."""

    def magnification(self, first: float) -> float:
        """Return a factor of the objective whose slopes do not underflow in half precision; Adam does not depend on it.

        Args:
            first: Distance before the first step.
        """


@dataclass(frozen=True)
class DistillationEpoch:
    """State after an epoch.

    Attributes:
        epoch: Number of the epoch; 0 before the first step.
        calibration: Mean distance over the steps of the epoch, each before its update.
        held_out: Distance on unseen sequences, with the rounded numbers after the epoch.
        drift: √(Σ d_l / Σ ‖W_l diag(S_l)‖²) of the rounded scales.
        changed: Share of the codes that are not those before the first step.
    """

    epoch: int
    calibration: float
    held_out: float
    drift: float
    changed: float = 0.0


@dataclass(frozen=True)
class DistillationStep:
    """Steps done within an epoch, of all its steps."""

    done: int
    steps: int


class _Levels(torch.autograd.Function):
    """a c + b (O, I) from scales a and biases b (O, G). Only the small integers c (O, G, K) wait for the gradient.

    Positions (O, G, K), whose rounding c are, get it straight through.
    """

    @staticmethod
    def forward(ctx: Any, scales: Tensor, biases: Tensor | None, basis: Tensor, _positions: Tensor | None) -> Tensor:
        ctx.save_for_backward(scales, basis)
        ctx.has_biases = biases is not None
        levels = basis.to(scales.dtype) * scales.unsqueeze(-1)
        return (levels if biases is None else levels + biases.unsqueeze(-1)).flatten(-2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor | None, None, Tensor | None]:
        scales, basis = ctx.saved_tensors
        of_groups = gradients[0].reshape(basis.shape)
        of_scales = (of_groups * basis).sum(dim=-1)
        of_biases = of_groups.sum(dim=-1) if ctx.has_biases else None
        return of_scales, of_biases, None, of_groups * scales.unsqueeze(-1) if ctx.needs_input_grad[3] else None


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
        self._layer, self.lam = replace(layer, dequantized=layer.codes[:0]), lam  # made of the codes where it is needed
        self._scales = layer.scales.to(work)
        self._biases = None if layer.biases is None else layer.biases.to(work)
        basis = split_groups(layer.codes.to(torch.int16), layer.codes.shape[-1] // groups)
        self._basis = basis - layer.zero_points.unsqueeze(-1)  # (O, G, K) int16
        self.stretch = torch.zeros_like(self._scales, requires_grad=True)  # ln(scale / first scale)
        self.shift = None if self._biases is None else torch.zeros_like(self._biases, requires_grad=True)
        size = weight.shape[-1] // groups
        square, aim = split_groups(s.to(work).square(), size), split_groups(weight.to(work), size)  # (G, K), (O, G, K)
        self._energies = (square * aim * aim).sum(dim=-1, dtype=torch.float64)  # (O, G)
        self._prepare_penalty(square, aim)

    def parameters(self) -> list[Tensor]:
        """Return the unknowns, all 0 at first."""
        return [self.stretch] if self.shift is None else [self.stretch, self.shift]

    def rate(self) -> float:
        """Return the rate of Adam at its first step, as a part of ``RATE``."""
        return 1.0

    def move(self, rate: float) -> None:
        """Move positions of codes along the sign of their gradient, which is used up; there are none here.

        Args:
            rate: Length of the step in levels.
        """

    def numbers(self) -> tuple[Tensor, Tensor | None]:
        """Return the scales and biases (O, G) in working precision, as functions of the unknowns."""
        scales = self._scales * self.stretch.exp()
        return scales, None if self.shift is None or self._biases is None else self._biases + self._scales * self.shift

    def weight(self) -> Tensor:
        """Return Ŵ (O, I) in working precision, as a function of the unknowns."""
        return self._weight_of(self._basis)

    def add_penalty_gradient(self, factor: float) -> None:
        """Add the gradient of factor · d to that of the unknowns, d = ‖(Ŵ - W) diag(S)‖²."""
        (factor * self._penalty_of(*self.numbers())).backward()

    def energy(self) -> float:
        """Return ‖W diag(S)‖²."""
        return float(self._energies.sum())

    def rounded(self) -> QuantizedLayer:
        """Return the linear with its scales and biases rounded to storage, without its dequantized weight.

        Its report stays that of the solver.
        """
        with torch.no_grad():
            scales, biases = self.numbers()
            storage = self._layer.scales.dtype
            return replace(
                self._layer,
                scales=round_to_storage(scales, storage, scale_limits(storage)[0]).to(storage),
                biases=None if biases is None else round_to_storage(biases, storage).to(storage),
            )

    def changed(self, layer: QuantizedLayer) -> int:
        """Return how many codes of a linear that ``rounded`` returned are not those before the first step."""
        return int((layer.codes != self._layer.codes).sum())

    def penalty_of(self, layer: QuantizedLayer) -> float:
        """Return d of a linear that ``rounded`` returned."""
        return max(0.0, float(self._penalty_of(layer.scales, layer.biases)))  # a difference of sums may round below 0

    def _prepare_penalty(self, square: Tensor, aim: Tensor) -> None:
        """Compute the sums that d needs beside the energies from S² (G, K) and the float weight (O, G, K)."""
        basis, ones = self._basis.to(aim.dtype), torch.ones_like(aim)
        factors = ((basis, basis), (basis, ones), (ones, ones), (basis, aim), (aim, ones))
        self._sums = tuple((square * x * y).sum(dim=-1, dtype=torch.float64) for x, y in factors)  # (O, G) each

    def _weight_of(self, basis: Tensor, positions: Tensor | None = None) -> Tensor:
        levels: Tensor = _Levels.apply(*self.numbers(), basis, positions)  # type: ignore[no-untyped-call]
        return levels

    def _penalty_of(self, scales: Tensor, biases: Tensor | None) -> Tensor:
        a = scales.double()
        b = torch.zeros_like(a) if biases is None else biases.double()
        cc, c, ones, cw, w = self._sums
        return (a * a * cc + 2 * a * b * c + b * b * ones - 2 * a * cw - 2 * b * w + self._energies).sum()


class TunedCodes(TunedScales):
    """Codes of one linear as unknowns, with its scales and biases; its zero points stay.

    Arguments are those of ``TunedScales``, and the grid of the linear.
    """

    def __init__(self, layer: QuantizedLayer, weight: Tensor, s: Tensor, lam: float, grid: Grid) -> None:
        super().__init__(layer, weight, s, lam)
        del self._basis  # of codes that stay
        self._grid, self._weight, self._s = grid, weight, s.to(self._scales.dtype)
        size = weight.shape[-1] // layer.scales.shape[-1]
        codes = split_groups(layer.codes.to(self._scales.dtype), size)  # (O, G, K)
        zeros = layer.zero_points.to(self._scales.dtype) if self._biases is None else -self._biases / self._scales
        aims = split_groups(weight.to(self._scales.dtype), size) / self._scales.unsqueeze(-1) + zeros.unsqueeze(-1)
        away = torch.nan_to_num((aims - codes).clamp_(-0.5, 0.5))  # a scale of 0 leaves no direction
        self._positions = codes.add_(away, alpha=TOWARDS_FLOAT).requires_grad_()

    def rate(self) -> float:
        """Return the rate of Adam as a part of ``RATE``: a step moves the outermost levels as far as at 2 bits."""
        return 3 / (self._grid.highest - self._grid.lowest)

    def weight(self) -> Tensor:
        """Return Ŵ (O, I) in working precision, as a function of the unknowns."""
        return self._weight_of(self._codes().sub_(self._layer.zero_points.unsqueeze(-1)), self._positions)

    def add_penalty_gradient(self, factor: float) -> None:
        """Add the gradient of factor · d to that of the unknowns: for scales and biases at the codes, else at u."""
        scales, biases = self.numbers()
        with torch.no_grad():
            a, zeros = scales.unsqueeze(-1), self._layer.zero_points.unsqueeze(-1)
            aims = split_groups(self._weight, self._positions.shape[-1])  # (O, G, K)
            if biases is not None:
                aims = aims - biases.unsqueeze(-1)
            slope = split_groups(2 * factor * self._s.square(), self._positions.shape[-1])  # (G, K)
            basis = self._codes().sub_(zeros)
            of_levels = basis.mul(a).sub_(aims).mul_(slope)  # ∂(factor · d)/∂Ŵ
            of_scales, of_biases = of_levels.mul(basis).sum(dim=-1), of_levels.sum(dim=-1)
            of_positions = self._positions.sub(zeros).mul_(a).sub_(aims).mul_(slope).mul_(a)
        gradient = self._positions.grad
        self._positions.grad = of_positions if gradient is None else gradient.add_(of_positions)
        if biases is None:
            torch.autograd.backward(scales, of_scales)
        else:
            torch.autograd.backward((scales, biases), (of_scales, of_biases))

    def move(self, rate: float) -> None:
        """Move positions of codes along the sign of their gradient, which is used up."""
        gradient = self._positions.grad
        assert gradient is not None
        with torch.no_grad():
            lowest, highest = self._grid.lowest - 0.5, self._grid.highest + 0.5
            self._positions.sub_(gradient.sign(), alpha=rate).clamp_(lowest, highest)
        self._positions.grad = None

    def rounded(self) -> QuantizedLayer:
        """Return the linear with its codes, and its scales and biases rounded to storage, as ``TunedScales`` does."""
        return replace(super().rounded(), codes=self._codes().flatten(-2).to(self._layer.codes.dtype))

    def penalty_of(self, layer: QuantizedLayer) -> float:
        """Return d of a linear that ``rounded`` returned."""
        away = (layer.levels(layer.codes) - self._weight) * self._s
        return float(away.square().sum(dtype=torch.float64))

    def _prepare_penalty(self, square: Tensor, aim: Tensor) -> None:
        """Prepare no sums: d is that of the weights."""

    def _codes(self) -> Tensor:
        """Return codes (O, G, K) of the positions, as int16."""
        return self._positions.detach().round().clamp_(self._grid.lowest, self._grid.highest).to(torch.int16)


def tuned_linear(layer: QuantizedLayer, weight: Tensor, s: Tensor, lam: float, grid: Grid | None) -> TunedScales:
    """Return a linear whose scales are unknowns, with a grid its codes too; see ``TunedScales``, ``TunedCodes``."""
    return TunedScales(layer, weight, s, lam) if grid is None else TunedCodes(layer, weight, s, lam, grid)


class TunedNorm:
    """Weights of one norm as unknowns.

    Args:
        weight: (D,), the float weights, whose dtype is that of storage.
    """

    def __init__(self, weight: Tensor) -> None:
        self._storage = weight.dtype
        self._first = weight.to(torch.promote_types(weight.dtype, torch.float32))
        self._unit = float(self._first.square().mean().sqrt()) or 1.0
        self.change = torch.zeros_like(self._first, requires_grad=True)  # (weight - first weight) / unit

    def parameters(self) -> list[Tensor]:
        """Return the unknowns, all 0 at first."""
        return [self.change]

    def weight(self) -> Tensor:
        """Return the weights (D,) in working precision, as a function of the unknowns."""
        return self._first + self._unit * self.change

    def rounded(self) -> Tensor:
        """Return the weights (D,) rounded to storage."""
        return round_to_storage(self.weight().detach(), self._storage).to(self._storage)


class Distilled(NamedTuple):
    """Tuned numbers, rounded as a checkpoint stores them."""

    layers: dict[str, QuantizedLayer]  # by name of the linear
    norms: dict[str, Tensor]  # (D,) by name of the norm

    def weights(self) -> dict[str, Tensor]:
        """Return all weights by name, those of the linears made from their codes."""
        return {name: layer.stored() for name, layer in self.layers.items()} | self.norms

    def dequantized(self) -> Distilled:
        """Return the same with the dequantized weight of every linear."""
        return self._replace(
            layers={name: replace(layer, dequantized=layer.stored()) for name, layer in self.layers.items()}
        )


NO_NORMS: Mapping[str, TunedNorm] = MappingProxyType({})


@dataclass(frozen=True)
class _Tuning:
    """Everything that is tuned together."""

    linears: Mapping[str, TunedScales]
    norms: Mapping[str, TunedNorm]

    def parameters(self) -> list[tuple[list[Tensor], float]]:
        """Return unknowns that Adam tunes, with the parts of its rate."""
        of_linears = [(linear.parameters(), linear.rate()) for linear in self.linears.values()]
        return of_linears + [(norm.parameters(), 1.0) for norm in self.norms.values()]

    def weights(self) -> dict[str, Tensor]:
        of_linears = {name: linear.weight() for name, linear in self.linears.items()}
        return of_linears | {name: norm.weight() for name, norm in self.norms.items()}

    def rounded(self) -> Distilled:
        return Distilled(
            {name: linear.rounded() for name, linear in self.linears.items()},
            {name: norm.rounded() for name, norm in self.norms.items()},
        )

    def changed(self, layers: Mapping[str, QuantizedLayer]) -> float:
        """Return the share of the codes of all linears that differ from those before the first step."""
        count = sum(layer.codes.numel() for layer in layers.values())
        return sum(linear.changed(layers[name]) for name, linear in self.linears.items()) / count

    def penalty_of(self, layers: Mapping[str, QuantizedLayer]) -> float:
        return sum(linear.penalty_of(layers[name]) for name, linear in self.linears.items())

    def drift(self, layers: Mapping[str, QuantizedLayer]) -> float:
        """Return √(Σ d / Σ ‖W diag(S)‖²)."""
        energy = sum(linear.energy() for linear in self.linears.values())
        return math.sqrt(self.penalty_of(layers) / energy) if energy > 0 else 0.0


def distilled(
    linears: Mapping[str, TunedScales],
    distance: Distance,
    *,
    epochs: int,
    norms: Mapping[str, TunedNorm] = NO_NORMS,
    rate: float = RATE,
    travel: float = TRAVEL,
) -> Generator[DistillationEpoch | DistillationStep, None, Distilled]:
    """Tune the scales of all linears, the codes of those that are ``TunedCodes``, and the weights of norms.

    Args:
        linears: The linears by name.
        distance: Distance as a function of the weights.
        epochs: Largest number of passes over the sequences.
        norms: Norms by name.
        rate: Rate of Adam at the first step; of codes at more than 2 bits a part of it.
        travel: Length of the way of a position in all steps if they have one sign, in levels.

    Yields:
        The state before the first step and after each epoch; in an epoch each step.

    Returns:
        The numbers of the epoch with the smallest distance on unseen sequences, the first of equals.

    Raises:
        NumericalError: If the distance is not finite before the first step.
    """
    tuning = _Tuning(linears, norms)
    best = tuning.rounded()
    start = _first(tuning, distance, best)
    if not math.isfinite(start.calibration + start.held_out):
        raise NumericalError(
            f"the distance from the float model is not finite ({start.calibration}, {start.held_out})",
            "scales, epoch 0",
            "Leave distill out, or load the model in a wider dtype.",
        )
    yield start
    least, since = start.held_out, 0
    drift = tuning.penalty_of(best.layers)
    magnification = distance.magnification(start.calibration)
    factor = magnification * start.calibration / drift if drift > 0 else 0.0
    unknowns = tuning.parameters()
    optimiser = torch.optim.Adam([{"params": tensors} for tensors, _ in unknowns])
    steps = epochs * distance.steps
    for epoch in range(1, epochs + 1):
        total = 0.0
        for step in range(distance.steps):
            left = 1 - ((epoch - 1) * distance.steps + step) / steps
            for group, (_, part) in zip(optimiser.param_groups, unknowns, strict=True):
                group["lr"] = rate * part * left
            optimiser.zero_grad()
            total += _step(tuning, distance, step, magnification, factor)
            optimiser.step()
            for linear in linears.values():
                linear.move(2 * travel / steps * left)
            yield DistillationStep(step + 1, distance.steps)
        reached = tuning.rounded()
        held_out = _held_out(distance, reached)
        drifted, changed = tuning.drift(reached.layers), tuning.changed(reached.layers)
        yield DistillationEpoch(epoch, total / distance.steps, held_out, drifted, changed)
        since += 1
        if held_out < least:
            best, least, since = reached, held_out, 0
        if since == PATIENCE or not math.isfinite(total):
            break  # numbers that are not finite never become finite again
    return best.dequantized()


def _first(tuning: _Tuning, distance: Distance, start: Distilled) -> DistillationEpoch:
    """Return the state before the first step."""
    with torch.no_grad():
        weights = tuning.weights()
        distances = [float(distance.step_distance(weights, step)) for step in range(distance.steps)]
    mean = sum(distances) / len(distances)
    return DistillationEpoch(0, mean, _held_out(distance, start), tuning.drift(start.layers))


def _step(tuning: _Tuning, distance: Distance, step: int, magnification: float, factor: float) -> float:
    """Add the gradient of the objective on the sequences of a step; return their distance."""
    with torch.enable_grad():
        measured = distance.step_distance(tuning.weights(), step)
    with fixed_order(measured.device):
        (magnification * measured).backward()
    for linear in tuning.linears.values():
        if linear.lam > 0 and factor > 0:
            linear.add_penalty_gradient(factor * linear.lam)
    return float(measured.detach())


def _held_out(distance: Distance, reached: Distilled) -> float:
    with torch.no_grad():
        return distance.held_out(reached.weights())
