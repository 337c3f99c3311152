"""The verbs: quantize one layer or a group of them, or sweep λ and γ. Everything a caller needs of this package.

Axes: C candidates, O out_features, I in_features, G groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from sarqc.errors import NumericalError, Refused, SarqcError
from sarqc.quantization.column_solver import column_shift, factorise, shifted_weight, solve_columns
from sarqc.quantization.grid import Grid, dequantize_groups, round_to_grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import ColumnSolver, Method, RoundToNearest, ScaleSearch
from sarqc.quantization.objective import drift_weights, regularised_gram, saliency
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer
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
    layer = _Layer(weight, statistics, grid, held_out)
    return _solve([(layer, point) for point in points], budget_bytes)


@dataclass(frozen=True)
class LayerJob:
    """One of several layers that are solved together; ``name`` is for errors."""

    name: str
    weight: Tensor  # (O, I)
    statistics: LayerStatistics
    points: Sequence[Method]
    held_out: LayerStatistics | None = None


def quantize_layers(
    jobs: Sequence[LayerJob], grid: Grid, *, budget_bytes: int = BUDGET_BYTES
) -> Iterator[list[QuantizedLayer]]:
    """``quantize_points`` for several layers of one shape, with points of one family, such as the experts of a block.

    Column solves run as batches over layers and points together. Yields the points of each layer, in the order of the
    jobs. Errors name the layer.
    """
    solved = quantize_one_by_one(jobs, grid, budget_bytes=budget_bytes)
    for job in jobs:
        yield [next(solved) for _ in job.points]


def quantize_one_by_one(
    jobs: Sequence[LayerJob], grid: Grid, *, budget_bytes: int = BUDGET_BYTES
) -> Iterator[QuantizedLayer]:
    """``quantize_layers``, whose points come one after the other, as soon as the batch of each is solved."""
    if len({tuple(job.weight.shape) for job in jobs}) > 1:
        names = ", ".join(job.name for job in jobs)
        raise Refused("layers of several shapes are not solved together", names, "Give those of one shape at a time.")
    pairs: list[tuple[_Layer, Method]] = []
    for job in jobs:
        try:
            layer = _Layer(job.weight, job.statistics, grid, job.held_out, name=job.name)
        except SarqcError as error:
            raise error.at(job.name) from None
        pairs += [(layer, point) for point in job.points]
    yield from _solve(pairs, budget_bytes)


def quantize_group(
    weights: dict[str, Tensor],
    statistics: LayerStatistics | Mapping[str, LayerStatistics],
    grid: Grid,
    method: ScaleSearch,
    *,
    held_out: LayerStatistics | Mapping[str, LayerStatistics] | None = None,
    ties: Tensor | None = None,
    row_scales: dict[str, Tensor] | None = None,
) -> dict[str, QuantizedLayer]:
    """Integer weights for linears that read the same tensor, with one channel scale s̃ for all of them.

    weights: (O, I) each, of one dtype, by name; statistics: of the tensor that they read, or by name where each reads
    some of its tokens, as experts do (mean |x| of the tensor is then that of all tokens read). s̃ is made of the column
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
    statistics: LayerStatistics | Mapping[str, LayerStatistics],
    grid: Grid,
    points: Sequence[ScaleSearch],
    *,
    held_out: LayerStatistics | Mapping[str, LayerStatistics] | None = None,
    ties: Tensor | None = None,
    row_scales: dict[str, Tensor] | None = None,
) -> Iterator[dict[str, QuantizedLayer]]:
    """``quantize_group`` at several points, in order, which differ in λ only: the candidates are made once."""
    row_scales = row_scales or {}
    seen, unseen = (
        part if isinstance(part, Mapping) else dict.fromkeys(weights, part) for part in (statistics, held_out)
    )
    width = next((len(part.abs_sum) for part in seen.values()), 0)
    _check_group(weights, points, width, ties, row_scales)
    layers = []
    for name, weight in weights.items():
        try:
            layers.append(CheckedLayer(weight, seen[name], grid, unseen[name], row_scales.get(name)))
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
    points = method.points(lams, gammas)
    solved = quantize_points(weight, statistics, grid, points, held_out=held_out, budget_bytes=budget_bytes)
    reports = [layer.report for layer in solved]

    def table(name: str) -> Tensor:
        values = [math.nan if (value := getattr(report, name)) is None else value for report in reports]
        return torch.tensor(values, dtype=torch.float64).reshape(len(gammas), len(lams))

    def solve_again(i_gamma: int, i_lambda: int) -> QuantizedLayer:
        return quantize_layer(weight, statistics, grid, points[i_gamma * len(lams) + i_lambda], held_out=held_out)

    tables = {name: table(name) for name in _SWEPT}
    return LayerSweep(lams=tuple(lams), gammas=tuple(gammas), dequantized=solve_again, **tables)


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
    """A layer with what its errors call it."""

    def __init__(self, *given: Any, name: str = "") -> None:
        super().__init__(*given)
        self.name = name

    def round(self) -> QuantizedLayer:
        codes, scales, zero_points = round_to_grid(self.weight, self.grid, self.storage)
        dequantized = dequantize_groups(codes, scales, zero_points).to(self.storage)
        return self.quantized(codes, scales, zero_points, dequantized, chosen=RoundToNearest().settled())


def _solve(pairs: Sequence[tuple[_Layer, Method]], budget_bytes: int) -> Iterator[QuantizedLayer]:
    """Each layer at its point, in order; column solves in batches that fit the budget.

    The one place that knows which solver serves which method. All layers are of one shape, all points of one family,
    and those of one layer lie together.
    """
    layer, point = pairs[0]
    for one, _ in pairs:
        if "cross" in point.needs and one.cross is None:
            raise Refused(
                "the method aims at the float model's inputs, of which these statistics know nothing",
                one.name or "layer statistics",
                "Give LayerStatistics.from_inputs(inputs, float_inputs); in a recipe set inputs_from to quantized.",
            )
    if isinstance(point, RoundToNearest):
        yield from (layer.round() for layer, _ in pairs)
    elif isinstance(point, ScaleSearch):
        for _, of_layer in groupby(pairs, key=lambda pair: id(pair[0])):
            together = list(of_layer)
            yield from (solved for (solved,) in search_points([together[0][0]], [one for _, one in together]))
    elif isinstance(point, ColumnSolver):
        size = _columns_at_once(layer, point, budget_bytes)
        for start in range(0, len(pairs), size):
            yield from _columns(pairs[start : start + size])
    else:
        raise Refused(
            f"{type(point).__name__} works on a {point.unit}, not on a single layer",
            "method",
            "Call quantize_block, or run a recipe.",
        )


def _columns_at_once(layer: _Layer, point: ColumnSolver, budget_bytes: int) -> int:
    """How many layers and points the column solver may take together, at least one."""
    rows, width = layer.weight.shape
    group_size = layer.grid.group_size_for(width)
    numbers = point.numbers_of_point(rows, width, group_size, shifted=point.shift != "none")
    factorising = 6 * 8 * width * width  # one at a time, in float64
    return max(1, (budget_bytes - factorising) // (numbers * layer.weight.element_size()))


def _columns(pairs: Sequence[tuple[_Layer, ColumnSolver]]) -> Iterator[QuantizedLayer]:
    first, settings = pairs[0]
    width = first.weight.shape[-1]
    factors = first.weight.new_empty(len(pairs), width, width)
    shifts = torch.empty_like(factors) if settings.shift == "published" else None
    targets = first.weight.new_empty(len(pairs), *first.weight.shape)
    floors, drift_scales = [], []
    for position, (layer, point) in enumerate(pairs):
        try:
            s_squared = None
            if point.saliency == "saliency":
                s_squared = saliency(layer.abs_mean, layer.weight, point.gamma).square()  # (I,)
            factor = factorise(regularised_gram(layer.gram, s_squared, point.lam))
        except SarqcError as error:
            raise (error.at(layer.name) if layer.name else error) from None
        factors[position] = factor.unit_upper
        targets[position] = layer.weight
        if shifts is not None:
            shifts[position] = column_shift(factor.upper, layer.cross, point.shift_strength)
        elif point.shift == "full":
            targets[position] = shifted_weight(layer.weight, factor.upper, layer.cross, point.shift_strength)
        floors.append(factor.diagonal_floor)
        drift_scales.append(drift_weights(layer.gram, s_squared).sqrt())
    codes, scales, zero_points = solve_columns(
        targets,
        factors,
        first.grid,
        first.storage,
        block_size=settings.block_size,
        static_groups=settings.static_groups,
        shifts=shifts,
    )
    dequantized = dequantize_groups(codes, scales, zero_points).to(first.storage)
    for position, (layer, point) in enumerate(pairs):
        if point.shift != "none" and not torch.isfinite(dequantized[position]).all():
            raise NumericalError(
                "the shift towards the float model's inputs is too large to be represented",
                layer.name or "column solver",
                "Take a larger λ or more calibration text.",
            )
        yield layer.quantized(
            codes[position], scales[position], zero_points[position], dequantized[position],
            drift_scale=drift_scales[position], diagonal_floor=floors[position], chosen=point.settled(),
        )  # fmt: skip
