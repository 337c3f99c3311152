"""The verbs: quantize one layer, or sweep its λ and γ. Everything a caller needs of this package.

Axes: C candidates, A values of α, O out_features, I in_features, G groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from sarqc.errors import NumericalError, Refused
from sarqc.quantization.column_solver import column_shift, factorise, shifted_weight, solve_columns
from sarqc.quantization.grid import Grid, dequantize_groups, round_to_grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import ColumnSolver, Method, RoundToNearest, ScaleSearch
from sarqc.quantization.objective import (
    column_means,
    drift_weights,
    floored,
    recon_loss,
    regularised_gram,
    saliency,
    sar_loss,
)
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer, settled
from sarqc.quantization.scale_search import Candidate, candidates, choose, quantize_scaled

BUDGET_BYTES = 1 << 30  # what the candidates solved at once may take by default; more are solved in turns


@dataclass(frozen=True)
class LayerSweep:
    """One layer over a grid of γ and λ. Tensors are (n_gamma, n_lambda) float64 on the CPU; NaN: not measured."""

    lams: tuple[float, ...]
    gammas: tuple[float | None, ...]
    recon_loss: Tensor
    sar_loss: Tensor
    drift: Tensor
    relative_recon: Tensor
    relative_sar: Tensor  # sar_loss / ‖W S‖², so that methods with another S can be compared
    relative_drift: Tensor
    held_out_loss: Tensor
    relative_held_out: Tensor
    diagonal_floor: Tensor
    dequantized: Callable[[int, int], QuantizedLayer]  # (i_gamma, i_lambda): solved again, which is exact, not kept


_SWEPT = tuple(field.name for field in fields(LayerSweep) if field.name not in ("lams", "gammas", "dequantized"))


def quantize_layer(
    weight: Tensor,
    statistics: LayerStatistics,
    grid: Grid,
    method: Method,
    *,
    held_out: LayerStatistics | None = None,
) -> QuantizedLayer:
    """Integer weights for one linear.

    weight: (O, I), any floating dtype, which is also the dtype in which scales are stored; the mathematics runs in
    float32, in float64 for a float64 weight. statistics: of the calibration inputs; held_out: of inputs that nothing
    is fitted to. No argument is changed. Raises ``Refused`` for shapes or groups that do not fit and for statistics
    without what the method ``needs``, ``NumericalError`` for NaN or infinity.
    """
    return next(quantize_points(weight, statistics, grid, [method], held_out=held_out))


def quantize_points(
    weight: Tensor,
    statistics: LayerStatistics,
    grid: Grid,
    points: Sequence[Method],
    *,
    held_out: LayerStatistics | None = None,
    budget_bytes: int = BUDGET_BYTES,
) -> Iterator[QuantizedLayer]:
    """One quantized layer for each point, in order: methods of one family that differ in λ, γ or nothing.

    What does not depend on λ and γ is shared, and column solves run as batches whose working memory stays within
    ``budget_bytes``, but for one that alone needs more. Each result equals that of ``quantize_layer``, whose other
    arguments and errors these are.
    """
    return _Layer(weight, statistics, grid, held_out).solve(list(points), budget_bytes)


def sweep_layer(
    weight: Tensor,
    statistics: LayerStatistics,
    grid: Grid,
    method: Method,
    *,
    lams: Sequence[float],
    gammas: Sequence[float | None] = (None,),
    held_out: LayerStatistics | None = None,
    budget_bytes: int = BUDGET_BYTES,
) -> LayerSweep:
    """The losses of one linear for every λ and γ.

    Arguments as for ``quantize_points``; ``method`` gives what is not swept. γ must be (None,) for a method without
    it. The point (γ, λ) has the losses of ``quantize_layer`` with these values.
    """
    points = sweep_points(method, lams, gammas)
    solved = quantize_points(weight, statistics, grid, points, held_out=held_out, budget_bytes=budget_bytes)
    reports = [layer.report for layer in solved]

    def table(name: str) -> Tensor:
        values = [math.nan if (value := getattr(report, name)) is None else value for report in reports]
        return torch.tensor(values, dtype=torch.float64).reshape(len(gammas), len(lams))

    def solve_again(i_gamma: int, i_lambda: int) -> QuantizedLayer:
        return quantize_layer(weight, statistics, grid, points[i_gamma * len(lams) + i_lambda], held_out=held_out)

    tables = {name: table(name) for name in _SWEPT}
    return LayerSweep(lams=tuple(lams), gammas=tuple(gammas), dequantized=solve_again, **tables)


def sweep_points(method: Method, lams: Sequence[float], gammas: Sequence[float | None] = (None,)) -> list[Method]:
    """The method at every λ and γ, γ outer and λ inner. Raises ``Refused`` for a γ that the method has not."""
    if isinstance(method, RoundToNearest):
        return [method] * (len(lams) * len(gammas))
    if any(gamma is not None for gamma in gammas) and not isinstance(method, ColumnSolver):
        raise Refused(f"{type(method).__name__} has no γ to sweep", "sweep", "Leave the γ values out.")
    return [
        replace(method, lam=lam) if gamma is None else replace(method, lam=lam, gamma=gamma)
        for gamma in gammas
        for lam in lams
    ]


def search_losses(
    weight: Tensor, statistics: LayerStatistics, grid: Grid, method: ScaleSearch
) -> tuple[tuple[float | None, ...], Tensor, Tensor]:
    """What a scale search chooses from: α (None for s̃ = 1), recon_loss (A,) and sar_loss (A,), float64 on the CPU.

    Arguments and errors as for ``quantize_layer``; the method's λ plays no part. Losses are those before Ŵ is
    rounded to the dtype of the weight. A layer that saw no token has one candidate, s̃ = 1.
    """
    if not isinstance(method, ScaleSearch):
        raise Refused(f"{type(method).__name__} has no candidates", "method", "Take awq, rqc-gs or sarqc-gs.")
    losses = _Layer(weight, statistics, grid, None).search_losses(method)
    return tuple(candidate.alpha for candidate in losses.found), losses.recon, losses.sar


@dataclass(frozen=True)
class _SearchLosses:
    found: list[Candidate]
    drift_scale: Tensor | None  # S (I,)
    recon: Tensor  # (A,) float64
    sar: Tensor  # (A,) float64


class _Layer(CheckedLayer):
    """The one place that knows which solver serves which method."""

    def solve(self, points: list[Method], budget_bytes: int) -> Iterator[QuantizedLayer]:
        """The points in order, column solves in batches that fit the budget."""

        if "cross" in points[0].needs and self.cross is None:
            raise Refused(
                "the method aims at the float model's inputs, of which these statistics know nothing",
                "layer statistics",
                "Give LayerStatistics.from_inputs(inputs, float_inputs); in a recipe set inputs_from to quantized.",
            )
        if isinstance(points[0], RoundToNearest):
            yield from (self._round() for _ in points)
        elif isinstance(points[0], ScaleSearch):
            yield from self._search(points)
        elif isinstance(points[0], ColumnSolver):
            rows, width = self.weight.shape
            each = (4 * rows * width + 2 * width * width) * self.weight.element_size()
            if points[0].shift != "none":  # its own targets or working values, and one more matrix
                each += (2 * rows * width + width * width) * self.weight.element_size()
            size = max(1, budget_bytes // each)
            for start in range(0, len(points), size):
                yield from self._columns(points[start : start + size])
        else:
            raise Refused(
                f"{type(points[0]).__name__} works on a {points[0].unit}, not on a single layer",
                "method",
                "Call quantize_block, or run a recipe.",
            )

    def _round(self) -> QuantizedLayer:
        codes, scales, zero_points = round_to_grid(self.weight, self.grid, self.storage)
        dequantized = dequantize_groups(codes, scales, zero_points).to(self.storage)
        return self.quantized(codes, scales, zero_points, dequantized, chosen={"method": "RoundToNearest"})

    def _columns(self, points: list[ColumnSolver]) -> Iterator[QuantizedLayer]:
        factors, shifts, targets, floors, drift_scales = [], [], [], [], []
        for point in points:
            s_squared = None
            if point.saliency == "saliency":
                s_squared = saliency(self.abs_mean, self.weight, point.gamma).square()  # (I,)
            factor = factorise(regularised_gram(self.gram, s_squared, point.lam))
            factors.append(factor.unit_upper)
            if point.shift == "published":
                shifts.append(column_shift(factor.upper, self.cross, point.shift_strength))
            elif point.shift == "full":
                targets.append(shifted_weight(self.weight, factor.upper, self.cross, point.shift_strength))
            floors.append(factor.diagonal_floor)
            drift_scales.append(drift_weights(self.gram, s_squared).sqrt())
        codes, scales, zero_points = solve_columns(
            torch.stack(targets) if targets else self.weight,
            torch.stack(factors),
            self.grid,
            self.storage,
            block_size=points[0].block_size,
            static_groups=points[0].static_groups,
            shifts=torch.stack(shifts) if shifts else None,
        )
        dequantized = dequantize_groups(codes, scales, zero_points).to(self.storage)
        if points[0].shift != "none" and not torch.isfinite(dequantized).all():
            raise NumericalError(
                "the shift towards the float model's inputs is too large to be represented",
                "column solver",
                "Take a larger λ or more calibration text.",
            )
        for position, point in enumerate(points):
            yield self.quantized(
                codes[position], scales[position], zero_points[position], dequantized[position],
                drift_scale=drift_scales[position], diagonal_floor=floors[position], chosen=settled(point),
            )  # fmt: skip

    def search_losses(self, point: ScaleSearch) -> _SearchLosses:
        """Every candidate of the search and its two losses; λ plays no part in them."""
        found = candidates(self.abs_mean, self.weight, self.storage, include_identity=point.include_identity)
        if self.n_tokens == 0:  # nothing to judge by: round to nearest
            found = [Candidate(None, torch.ones_like(self.abs_mean))]
        drift_scale = None
        if point.saliency == "saliency":
            drift_scale = floored(self.abs_mean) / floored(column_means(self.weight))  # (I,)
        recon, sar = [], []
        for candidate in found:
            delta = quantize_scaled(self.weight, candidate.channel_scale, self.grid, self.storage)[-1] - self.weight
            recon.append(recon_loss(delta, self.gram))
            sar.append(sar_loss(delta, drift_scale))
        # Chosen among in float64, so that only the losses are rounded and not their comparison.
        return _SearchLosses(found, drift_scale, torch.stack(recon).cpu().double(), torch.stack(sar).cpu().double())

    def _search(self, points: list[ScaleSearch]) -> Iterator[QuantizedLayer]:
        losses = self.search_losses(points[0])
        for point in points:
            best = losses.found[choose(losses.recon, losses.sar, point.lam)]
            codes, scales, zero_points, dequantized = quantize_scaled(
                self.weight, best.channel_scale, self.grid, self.storage
            )
            yield self.quantized(
                codes, scales, zero_points, dequantized.to(self.storage),
                channel_scale=None if best.alpha is None else best.channel_scale,
                drift_scale=losses.drift_scale, chosen=settled(point) | {"alpha": best.alpha},
            )  # fmt: skip
