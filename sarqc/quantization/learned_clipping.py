"""Learnable weight clipping through a whole block: OmniQuant weight-only, and with λ its SARQC form.

Each group's range is [sigmoid(lower) · min, sigmoid(upper) · max] with two learned logits. What the block is run on
is at every step what would be stored: hard codes times scales in the storage dtype, rounded to the storage dtype.
Gradients pass straight through these roundings; the clamping of codes and scales has its true gradient. They are
written out by hand, so that autograd sees nothing but the block's own forward pass.

Axes: O out_features, I in_features, G groups of a row, K channels of a group, B sequences of a batch, T tokens,
D hidden size.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sarqc.errors import NumericalError, Refused
from sarqc.quantization.grid import (
    dequantize,
    parameters_of_range,
    scale_limits,
    span_of_range,
    split_groups,
    unbounded_codes,
)
from sarqc.quantization.methods import LearnedClipping
from sarqc.quantization.objective import saliency, sar_loss
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer
from sarqc.quantization.solving import BlockRun, Context, Epoch, LayerJob, Solved

FIRST_LOGIT = 4.0  # sigmoid(4) = 0.982: next to no clipping
GAMMA = 0.5  # of the saliency in the drift term


def solve(jobs: Sequence[LayerJob], context: Context) -> Iterator[Epoch | Solved]:
    """All linears of the context's block: for each point an ``Epoch`` before the first step and after each epoch, then
    the layers.

    Statistics are of each linear's inputs on the quantized prefix, names those that the block's function knows. One
    sequence makes one step; only its graph is ever held.

    Ours: the logits of the epoch with the smallest objective are kept, the untouched ones included and the earlier of
    equals. Raises ``Refused`` for names, shapes or bit widths that do not fit, ``NumericalError`` for NaN or infinity.
    """
    assert context.block is not None  # the method needs it
    _check_linears([job.layer for job in jobs])
    _check_batches(context.block.inputs, context.block.targets)
    return _learn(jobs, context.block)


def _learn(jobs: Sequence[LayerJob], block: BlockRun) -> Iterator[Epoch | Solved]:
    for index, point in enumerate(jobs[0].points_of(LearnedClipping)):
        linears = {job.layer.name: ClippedLinear(job.layer, point) for job in jobs}
        layers = yield from _Block(linears, point, block).learn()
        yield from (Solved(number, index, layers[job.layer.name]) for number, job in enumerate(jobs))


@dataclass(frozen=True)
class Rounded:
    """One linear on the grids of its clipped ranges: codes (O, G, K), scales and zero_points (O, G)."""

    codes: Tensor
    scales: Tensor
    zero_points: Tensor
    stored: Tensor  # (O, I) in the storage dtype: what the codes stand for
    inside: Tensor  # (O, G, K): W where its code was not clamped, 0 elsewhere
    clamped: Tensor  # (O, G, K): 1 where the code was clamped, 0 elsewhere


class ClippedLinear:
    """A linear's weights as a function of its two logits per group, with the gradient of it.

    Logits are (2, O, G): the upper ones, then the lower ones.
    """

    def __init__(self, layer: CheckedLayer, method: LearnedClipping) -> None:
        self.layer, self.grid = layer, layer.grid
        self.s = saliency(layer.abs_mean, layer.weight, GAMMA) if method.saliency == "saliency" else None  # (I,)
        self.groups = split_groups(layer.weight, self.grid.group_size_for(layer.weight.shape[-1]))  # (O, G, K)
        self.ends = torch.stack([self.groups.amax(dim=-1), self.groups.amin(dim=-1)])  # (2, O, G)
        if self.grid.kind == "asymmetric":  # the range holds 0 however much of it is clipped
            self.ends[0].clamp_(min=0)
            self.ends[1].clamp_(max=0)

    def first_logits(self) -> Tensor:
        return torch.full_like(self.ends, FIRST_LOGIT)

    def round(self, logits: Tensor) -> Rounded:
        """The hard weights of these logits."""
        high, low = torch.sigmoid(logits) * self.ends  # (O, G) each
        scales, zero_points = parameters_of_range(low, high, self.grid, self.layer.storage)
        scale, zero_point = scales.unsqueeze(-1), zero_points.unsqueeze(-1)
        unbounded = unbounded_codes(self.groups, scale, zero_point)  # (O, G, K)
        codes = unbounded.clamp(self.grid.lowest, self.grid.highest)
        clamped = unbounded.sub_(codes).abs_().clamp_(max=1)  # numbers, as masks are many times slower on a CPU
        stored = dequantize(codes, scale, zero_point).flatten(-2).to(self.layer.storage)
        return Rounded(codes, scales, zero_points, stored, self.groups - clamped * self.groups, clamped)

    def gradient(self, logits: Tensor, rounded: Rounded, slope: Tensor) -> Tensor:
        """The gradient with respect to the logits, from that with respect to the stored weight: (O, I) -> (2, O, G).

        With q the code and z the zero point Ŵ = (q - z) · scale, where q - z is W/scale as long as it is not clamped.
        """
        slope = slope.unflatten(-1, self.groups.shape[1:])  # (O, G, K)
        shares = torch.sigmoid(logits)  # (2, O, G)
        high, low = shares * self.ends
        scales, zero_points = rounded.scales, rounded.zero_points
        levels = dequantize(rounded.codes, scales.unsqueeze(-1), zero_points.unsqueeze(-1))  # (O, G, K)
        by_scale = (slope * (levels - rounded.inside)).sum(dim=-1) / scales  # (O, G)
        by_low = torch.zeros_like(low)
        if self.grid.kind == "asymmetric":  # a clamped weight moves with the zero point, round(-low/scale)
            by_zero = -scales * (slope * rounded.clamped).sum(dim=-1)
            # A clamped zero point does not move. Exact equality is meant: both sides are the same rounding.
            by_zero *= torch.round(-low / scales) == zero_points
            by_scale += by_zero * low / scales.square()
            by_low -= by_zero / scales
        scale = span_of_range(low, high, self.grid) / self.grid.steps  # before it is clamped and rounded
        smallest, largest = scale_limits(self.layer.storage)
        by_span = by_scale / self.grid.steps * ((scale >= smallest) & (scale <= largest))
        if self.grid.kind == "asymmetric":
            by_high = by_span
            by_low -= by_span
        else:  # the larger end in absolute value sets the scale; equals share
            share = (torch.sign(high.abs() - low.abs()) + 1) / 2
            by_high = by_span * share * torch.sign(high)
            by_low = by_span * (1 - share) * torch.sign(low)
        return torch.stack([by_high, by_low]) * self.ends * shares * (1 - shares)

    def drift(self, rounded: Rounded) -> Tensor:
        """ΔW of the stored weight, in working precision: (O, I)."""
        return rounded.stored.to(self.layer.weight.dtype) - self.layer.weight


class _Block:
    """The learning of all linears of a block at once."""

    def __init__(
        self,
        linears: dict[str, ClippedLinear],
        method: LearnedClipping,
        block: BlockRun,
    ) -> None:
        self.linears, self.method, self.forward = linears, method, block.forward
        pairs = zip(block.inputs, block.targets, strict=True)
        self.batches = [(states.detach(), target.detach()) for states, target in pairs if states.numel()]
        self.epochs = method.epochs_at(next(iter(linears.values())).grid.bits)
        self.recon_unit = self.sar_unit = 1.0  # what the two terms are divided by
        self.first_error = 1.0  # root mean square, before the first step

    def learn(self) -> Generator[Epoch, None, dict[str, QuantizedLayer]]:
        """One ``Epoch`` after another; returns the layers by name."""
        logits = {name: linear.first_logits() for name, linear in self.linears.items()}
        # A constant rate, as OmniQuant's: at 2 bits on the embedded model a cosine decay to 0 ended 15 to 42 % higher
        # with 8 sequences, where the logits run out of steps on their way; with 32, 1 to 4 % lower than the best epoch.
        optimiser = torch.optim.AdamW(list(logits.values()), lr=self.method.learning_rate, weight_decay=0.0)
        first = self._measure(logits, 0)
        self.first_error = math.sqrt(first.recon) or 1.0
        if self.method.normalise == "initial":
            self.recon_unit, self.sar_unit = first.recon or 1.0, first.sar or 1.0
            first = replace(first, objective=self._objective(first.recon, first.sar))
        yield first
        best, kept = first, _copy(logits)
        for epoch in range(1, self.epochs + 1):
            for states, targets in self.batches:
                for sequence, target in zip(states.split(1), targets.split(1), strict=True):
                    self._step(logits, optimiser, sequence, target)
            reached = self._measure(logits, epoch)
            if reached.objective < best.objective:
                best, kept = reached, _copy(logits)
            yield reached
        return {name: self._layer(linear, kept[name], first, best) for name, linear in self.linears.items()}

    @torch.no_grad()
    def _step(
        self, logits: dict[str, Tensor], optimiser: torch.optim.Optimizer, sequence: Tensor, target: Tensor
    ) -> None:
        rounded = {name: linear.round(logits[name]) for name, linear in self.linears.items()}
        # The error is divided before it is differentiated and the slopes are multiplied after: the same gradient, but
        # slopes of about 1 on their way through the block.
        unit = self.first_error * sequence.shape[1]  # in which half precision neither underflows nor overflows
        with torch.enable_grad():
            leaves = {name: part.stored.to(sequence.dtype).detach().requires_grad_() for name, part in rounded.items()}
            error = self._squared_error(leaves, sequence, target) / unit
            slopes = torch.autograd.grad(error, list(leaves.values()), allow_unused=True)
        per_error = unit / target.numel() / self.recon_unit
        for (name, linear), slope in zip(self.linears.items(), slopes, strict=True):
            by_weight = torch.zeros_like(linear.layer.weight)  # (O, I), for a linear that the sequence did not reach
            if slope is not None:
                by_weight = slope.to(by_weight.dtype) * per_error
            if self.method.lam > 0:
                drift = linear.drift(rounded[name])
                weighted = drift if linear.s is None else drift * linear.s.square()
                by_weight.add_(weighted, alpha=2 * self.method.lam / self.sar_unit)
            logits[name].grad = linear.gradient(logits[name], rounded[name], by_weight)
        optimiser.step()

    @torch.no_grad()
    def _measure(self, logits: dict[str, Tensor], epoch: int) -> Epoch:
        dtype = self.batches[0][0].dtype
        weights, sar, error, size = {}, 0.0, 0.0, 0
        for name, linear in self.linears.items():
            rounded = linear.round(logits[name])
            sar += float(sar_loss(linear.drift(rounded), linear.s))
            weights[name] = rounded.stored.to(dtype)
        for states, targets in self.batches:
            error += float(self._squared_error(weights, states, targets))
            size += targets.numel()
        reached = Epoch(epoch, self.epochs, self._objective(error / size, sar), error / size, sar)
        if not math.isfinite(reached.objective):
            cause = "Look for NaN in the block's inputs" if epoch == 0 else "Take a smaller learning rate"
            raise NumericalError(
                f"the objective is not finite (mean squared error {reached.recon}, drift term {sar})",
                f"learned clipping, epoch {epoch} of {self.epochs}",
                f"{cause}, or load the model in a wider dtype.",
            )
        return reached

    def _squared_error(self, weights: dict[str, Tensor], states: Tensor, targets: Tensor) -> Tensor:
        outputs = self.forward(weights, states)  # (B, T, D)
        if outputs.shape != targets.shape:
            raise Refused(
                f"the block makes {tuple(outputs.shape)} and the targets are {tuple(targets.shape)}",
                "targets",
                "Give the float block's outputs for the same sequences.",
            )
        dtype = torch.promote_types(outputs.dtype, torch.float32)
        return (outputs.to(dtype) - targets.to(outputs.device, dtype)).square().sum()

    def _objective(self, recon: float, sar: float) -> float:
        return recon / self.recon_unit + self.method.lam * sar / self.sar_unit

    @torch.no_grad()
    def _layer(self, linear: ClippedLinear, logits: Tensor, first: Epoch, best: Epoch) -> QuantizedLayer:
        rounded = linear.round(logits)
        learned = {
            "epochs": self.epochs,
            "best_epoch": best.epoch,
            "objective": best.objective,
            "initial_objective": first.objective,
        }
        return linear.layer.quantized(
            rounded.codes.flatten(-2), rounded.scales, rounded.zero_points, rounded.stored,
            drift_scale=linear.s, chosen=self.method.settled() | learned,
        )  # fmt: skip


def _copy(logits: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: values.clone() for name, values in logits.items()}


def _check_linears(layers: Sequence[CheckedLayer]) -> None:
    names = [layer.name for layer in layers]
    if len(set(names)) < len(names):
        raise Refused("linears share a name", ", ".join(names), "Name each as the block's function does.")
    bits = sorted({layer.grid.bits for layer in layers})
    if len(bits) > 1:
        raise Refused(
            f"its linears have {' and '.join(map(str, bits))} bits", "grids", "Give one bit width for a whole block."
        )


def _check_batches(inputs: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
    shapes = [[tuple(batch.shape) for batch in batches] for batches in (inputs, targets)]
    if shapes[0] != shapes[1]:
        raise Refused(f"inputs are {shapes[0]} and targets {shapes[1]}", "targets", "Give a target for every input.")
    if any(len(shape) != 3 for shape in shapes[0]):
        raise Refused(f"inputs are {shapes[0]}", "inputs", "Give batches of (sequences, tokens, hidden size).")
    if not any(math.prod(shape) for shape in shapes[0]):
        raise Refused("there is no sequence to learn from", "inputs", "Give at least one calibration sequence.")
