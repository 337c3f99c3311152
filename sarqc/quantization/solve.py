"""The verbs: quantize one layer or a group of them, or sweep λ and γ. Everything a caller needs of this package.

Axes: C candidates, O out_features, I in_features, G groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from sarqc.errors import NumericalError, Refused, SarqcError
from sarqc.quantization.column_solver import column_shift, factorise, shifted_weight, solve_columns
from sarqc.quantization.grid import Grid, dequantize_groups, round_to_grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import ColumnSolver, Method, RoundToNearest, ScaleSearch
from sarqc.quantization.objective import drift_weights, regularised_gram, saliency
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer, settled
from sarqc.quantization.scale_search import search_points

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


def quantize_group(
    weights: dict[str, Tensor],
    statistics: LayerStatistics,
    grid: Grid,
    method: ScaleSearch,
    *,
    held_out: LayerStatistics | None = None,
    ties: Tensor | None = None,
    row_scales: dict[str, Tensor] | None = None,
) -> dict[str, QuantizedLayer]:
    """Integer weights for linears that read the same tensor, with one channel scale s̃ for all of them.

    weights: (O, I) each, of one dtype, by name; statistics: of the tensor that they read. s̃ is made of the column
    means over the rows of all of them together and judged by the sums of their losses, so that the operation before
    can take up 1/s̃. ties: (I,) integers, channels with equal numbers get one scale: where several channels come from
    one row of a linear before. With all channels tied s̃ is 1. row_scales: (O,) for some of the weights, the channel
    scales by which the operation after multiplies their outputs; the rows are divided by exactly these numbers.
    Losses and ``dequantized`` are in the coordinates of the given weights. Errors are those of ``quantize_layer``,
    naming the linear, and ``Refused`` for a method whose ``unit`` is not the group.
    """
    points = quantize_group_points(
        weights, statistics, grid, [method], held_out=held_out, ties=ties, row_scales=row_scales
    )
    return next(points)


def quantize_group_points(
    weights: dict[str, Tensor],
    statistics: LayerStatistics,
    grid: Grid,
    points: Sequence[ScaleSearch],
    *,
    held_out: LayerStatistics | None = None,
    ties: Tensor | None = None,
    row_scales: dict[str, Tensor] | None = None,
) -> Iterator[dict[str, QuantizedLayer]]:
    """``quantize_group`` at several points, in order, which differ in λ only: the candidates are made once."""
    row_scales = row_scales or {}
    _check_group(weights, points, len(statistics.abs_sum), ties, row_scales)
    layers = []
    for name, weight in weights.items():
        try:
            layers.append(CheckedLayer(weight, statistics, grid, held_out, row_scales.get(name)))
        except SarqcError as error:
            raise error.at(name) from None
    yield from (dict(zip(weights, solved, strict=True)) for solved in search_points(layers, points, ties))


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


def _check_group(
    weights: dict[str, Tensor],
    points: Sequence[ScaleSearch],
    width: int,
    ties: Tensor | None,
    row_scales: dict[str, Tensor],
) -> None:
    if points[0].unit != "group":
        raise Refused(
            f"{type(points[0]).__name__} works on a {points[0].unit}, not on a group of linears",
            "method",
            "Take a scale search with mode foldable.",
        )
    if len({weight.dtype for weight in weights.values()}) != 1:
        raise Refused(
            "the weights of a group are of several dtypes, or there are none", ", ".join(weights), "Give them in one."
        )
    if ties is not None and (tuple(ties.shape) != (width,) or ties.is_floating_point()):
        raise Refused(f"ties are {tuple(ties.shape)} {ties.dtype}", "ties", f"Give {width} integers.")
    if unknown := row_scales.keys() - weights.keys():
        raise Refused("row scales for linears that are not here", ", ".join(sorted(unknown)), "Give their weights too.")


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
            yield from (solved for (solved,) in search_points([self], points))
        elif isinstance(points[0], ColumnSolver):
            size = self._columns_at_once(points[0], budget_bytes)
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

    def _columns_at_once(self, point: ColumnSolver, budget_bytes: int) -> int:
        """How many candidates the column solver may take together, at least one."""
        rows, width = self.weight.shape
        numbers = width * width + (9 * width + 3 * self.grid.group_size_for(width)) * rows  # of one candidate
        if point.shift != "none":  # its own targets or working values, and one more matrix
            numbers += width * width + 2 * rows * width
        factorising = 6 * 8 * width * width  # one at a time, in float64
        return max(1, (budget_bytes - factorising) // (numbers * self.weight.element_size()))

    def _columns(self, points: list[ColumnSolver]) -> Iterator[QuantizedLayer]:
        width = self.weight.shape[-1]
        factors = self.weight.new_empty(len(points), width, width)
        shifts = torch.empty_like(factors) if points[0].shift == "published" else None
        targets = self.weight.new_empty(len(points), *self.weight.shape) if points[0].shift == "full" else None
        floors, drift_scales = [], []
        for position, point in enumerate(points):
            s_squared = None
            if point.saliency == "saliency":
                s_squared = saliency(self.abs_mean, self.weight, point.gamma).square()  # (I,)
            factor = factorise(regularised_gram(self.gram, s_squared, point.lam))
            factors[position] = factor.unit_upper
            if shifts is not None:
                shifts[position] = column_shift(factor.upper, self.cross, point.shift_strength)
            elif targets is not None:
                targets[position] = shifted_weight(self.weight, factor.upper, self.cross, point.shift_strength)
            floors.append(factor.diagonal_floor)
            drift_scales.append(drift_weights(self.gram, s_squared).sqrt())
        codes, scales, zero_points = solve_columns(
            self.weight if targets is None else targets,
            factors,
            self.grid,
            self.storage,
            block_size=points[0].block_size,
            static_groups=points[0].static_groups,
            shifts=shifts,
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
