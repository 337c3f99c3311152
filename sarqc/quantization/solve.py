"""The verbs: quantize one layer, or sweep its λ and γ. Everything a caller needs of this package.

Axes: C candidates, A values of α, O out_features, I in_features, G groups.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

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
from sarqc.quantization.scale_search import Candidate, candidates, choose, quantize_scaled

SWEEP_BYTES = 1 << 30  # what the candidates solved at once may take; more are solved in turns


@dataclass(frozen=True)
class LayerReport:
    """What happened to one layer. Losses are those of the stored weights; nothing here depends on the clock.

    recon_loss: tr(ΔW gram ΔWᵀ); sar_loss: ‖ΔW S‖² with the method's own S; drift: ‖ΔW‖²;
    relative_recon: over tr(W gram Wᵀ); relative_sar: over ‖W S‖²; relative_drift: ‖ΔW‖/‖W‖; held_out_*: unseen inputs.
    chosen: the method with the values it settled on; diagonal_floor: what had to be added to the diagonal of G.
    """

    recon_loss: float
    sar_loss: float
    drift: float
    relative_recon: float
    relative_sar: float
    relative_drift: float
    held_out_loss: float | None
    relative_held_out: float | None
    chosen: dict[str, Any]
    diagonal_floor: float
    n_tokens: int
    flags: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class QuantizedLayer:
    """Integer weights and what turns them back: dequantized = ((codes - zero_points) · scales) / channel_scale."""

    codes: Tensor  # (O, I) int8 (uint8 at 8 asymmetric bits)
    scales: Tensor  # (O, G) in the dtype of the weight
    zero_points: Tensor  # (O, G) int16
    channel_scale: Tensor | None  # (I,) in the dtype of the weight
    dequantized: Tensor  # (O, I) in the dtype of the weight
    report: LayerReport


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
) -> Iterator[QuantizedLayer]:
    """One quantized layer for each point, in order: methods of one family that differ in λ, γ or nothing.

    What does not depend on λ and γ is shared, and column solves run as a batch within ``SWEEP_BYTES``. Each result
    equals that of ``quantize_layer``, whose arguments and errors these are.
    """
    layer = _Layer(weight, statistics, grid, held_out)
    for solved in layer.solve(list(points)):
        for position in range(len(solved.chosen)):
            yield solved.quantized(position)


def sweep_layer(
    weight: Tensor,
    statistics: LayerStatistics,
    grid: Grid,
    method: Method,
    *,
    lams: Sequence[float],
    gammas: Sequence[float | None] = (None,),
    held_out: LayerStatistics | None = None,
) -> LayerSweep:
    """The losses of one linear for every λ and γ.

    Arguments as for ``quantize_layer``; ``method`` gives what is not swept. γ must be (None,) for a method without
    it. The point (γ, λ) has the losses of ``quantize_layer`` with these values.
    """
    points = sweep_points(method, lams, gammas)
    reports = [layer.report for layer in quantize_points(weight, statistics, grid, points, held_out=held_out)]

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


@dataclass(frozen=True)
class _Solved:
    """A batch of candidates with everything that their losses need."""

    layer: _Layer
    codes: Tensor  # (C, O, I)
    scales: Tensor  # (C, O, G)
    zero_points: Tensor  # (C, O, G)
    channel_scales: list[Tensor | None]  # C of (I,)
    dequantized: Tensor  # (C, O, I) in the dtype of the stored weight
    drift_scales: list[Tensor | None]  # C of S (I,)
    floors: list[float]
    chosen: list[dict[str, Any]]

    def quantized(self, position: int) -> QuantizedLayer:
        layer = self.layer
        channel_scale = self.channel_scales[position]
        return QuantizedLayer(
            codes=self.codes[position].to(torch.uint8 if layer.grid.highest > 127 else torch.int8),
            scales=self.scales[position].to(layer.storage),
            zero_points=self.zero_points[position].to(torch.int16),
            channel_scale=None if channel_scale is None else channel_scale.to(layer.storage),
            dequantized=self.dequantized[position],
            report=self._report(position),
        )

    def _report(self, position: int) -> LayerReport:
        layer = self.layer
        delta = self.dequantized[position].to(layer.weight.dtype) - layer.weight  # (O, I)
        recon = float(recon_loss(delta, layer.gram))
        sar = float(sar_loss(delta, self.drift_scales[position]))
        drift = float(sar_loss(delta))
        unseen = None if layer.unseen_gram is None else float(recon_loss(delta, layer.unseen_gram))
        raised = {
            "diagonal_floor": self.floors[position] > 0,
            "no_tokens": layer.n_tokens == 0,
            "fewer_tokens_than_channels": 0 < layer.n_tokens < layer.weight.shape[-1],
        }
        return LayerReport(
            recon_loss=recon,
            sar_loss=sar,
            drift=drift,
            relative_recon=_ratio(recon, layer.energy),
            relative_sar=_ratio(sar, float(sar_loss(layer.weight, self.drift_scales[position]))),
            relative_drift=math.sqrt(_ratio(drift, layer.norm)),
            held_out_loss=unseen,
            relative_held_out=None if unseen is None else _ratio(unseen, layer.unseen_energy),
            chosen=self.chosen[position],
            diagonal_floor=self.floors[position],
            n_tokens=layer.n_tokens,
            flags=tuple(flag for flag, is_raised in raised.items() if is_raised),
        )


class _Layer:
    """A checked layer in working precision, and the one place that knows which solver serves which method."""

    def __init__(self, weight: Tensor, statistics: LayerStatistics, grid: Grid, held_out: LayerStatistics | None):
        _check(weight, statistics, held_out)
        grid.group_size_for(weight.shape[-1])
        dtype = torch.promote_types(weight.dtype, torch.float32)
        self.storage, self.grid = weight.dtype, grid
        self.weight = weight.detach().to(dtype)  # (O, I)
        self.gram = statistics.gram.to(weight.device, dtype)  # (I, I)
        self.abs_mean = statistics.abs_mean.to(weight.device, dtype)  # (I,)
        self.cross = None if statistics.cross is None else statistics.cross.to(weight.device, dtype)  # (I, I)
        self.n_tokens = statistics.n_tokens
        self.unseen_gram = None if held_out is None else held_out.gram.to(weight.device, dtype)
        self.energy = float(recon_loss(self.weight, self.gram))
        self.norm = float(sar_loss(self.weight))
        self.unseen_energy = 0.0 if self.unseen_gram is None else float(recon_loss(self.weight, self.unseen_gram))

    def solve(self, points: list[Method]) -> Iterator[_Solved]:
        """The points in batches that fit the budget."""
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
        else:
            rows, width = self.weight.shape
            each = (4 * rows * width + 2 * width * width) * self.weight.element_size()
            if points[0].shift != "none":  # its own targets or working values, and one more matrix
                each += (2 * rows * width + width * width) * self.weight.element_size()
            size = max(1, SWEEP_BYTES // each)
            yield from (self._columns(points[start : start + size]) for start in range(0, len(points), size))

    def _round(self) -> _Solved:
        codes, scales, zero_points = round_to_grid(self.weight, self.grid, self.storage)
        dequantized = dequantize_groups(codes, scales, zero_points).to(self.storage)
        return _Solved(
            self, codes[None], scales[None], zero_points[None], [None], dequantized[None], [None], [0.0],
            [{"method": "RoundToNearest"}],
        )  # fmt: skip

    def _columns(self, points: list[ColumnSolver]) -> _Solved:
        factors, shifts, targets, floors, drift_scales, chosen = [], [], [], [], [], []
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
            chosen.append(_settled(point))
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
        none = [None] * len(points)
        return _Solved(self, codes, scales, zero_points, none, dequantized, drift_scales, floors, chosen)

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

    def _search(self, points: list[ScaleSearch]) -> Iterator[_Solved]:
        losses = self.search_losses(points[0])
        for point in points:
            best = losses.found[choose(losses.recon, losses.sar, point.lam)]
            codes, scales, zero_points, dequantized = quantize_scaled(
                self.weight, best.channel_scale, self.grid, self.storage
            )
            yield _Solved(
                self, codes[None], scales[None], zero_points[None],
                [None if best.alpha is None else best.channel_scale], dequantized.to(self.storage)[None],
                [losses.drift_scale], [0.0], [_settled(point) | {"alpha": best.alpha}],
            )  # fmt: skip


def _settled(point: Method) -> dict[str, Any]:
    names = ["lam", "gamma", "saliency", "mode", "include_identity", "static_groups"]
    if getattr(point, "shift", "none") != "none":
        names += ["shift", "shift_strength"]
    return {"method": type(point).__name__} | {name: getattr(point, name) for name in names if hasattr(point, name)}


def _check(weight: Tensor, statistics: LayerStatistics, held_out: LayerStatistics | None) -> None:
    if weight.ndim != 2 or not weight.is_floating_point() or 0 in weight.shape:
        raise Refused(
            f"weight is {tuple(weight.shape)} {weight.dtype}", "weight", "Give a floating-point (out, in) matrix."
        )
    for name, part in (("statistics", statistics), ("held_out", held_out)):
        if part is not None and part.gram.shape[-1] != weight.shape[-1]:
            raise Refused(
                f"{name} are of {part.gram.shape[-1]} channels, the weight has {weight.shape[-1]}",
                name,
                "Give the statistics of this layer's inputs.",
            )
    if not torch.isfinite(weight).all():
        row, column = (int(index) for index in (~torch.isfinite(weight)).nonzero()[0])
        raise NumericalError(
            f"the weight is not finite at row {row}, column {column}", "weight", "Repair or re-download the checkpoint."
        )


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0  # no inputs or no weight to compare with
