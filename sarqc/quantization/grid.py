"""The integer grids: which levels a group of weights may take, and the codes that name them.

A group has a scale and a zero point. While a layer is solved, the zero point of the affine grid is its bias, in the
unit of the weights; in what is kept of a layer the two have different names.

Axes at the ends of lines: O out_features, I in_features, G groups of a row, K channels of a group; ... leading ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from sarqc.errors import Refused
from sarqc.quantization.methods import SHRINKS, Range

Kind = Literal["symmetric", "full_range", "asymmetric", "affine"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Grid:
    """2^bits levels for each group of ``group_size`` consecutive input channels of a row; None: the whole row.

    | kind | scale | codes |
    |---|---|---|
    | symmetric | absmax / (2^(b-1) - 1) | -2^(b-1) … 2^(b-1)-1 |
    | full_range | absmax / ((2^b - 1)/2) | -2^(b-1) … 2^(b-1)-1 |
    | asymmetric | (max - min)/(2^b - 1), the range always holds 0 | 0 … 2^b - 1, zero point round(-min/scale) |
    | affine | (max - min)/(2^b - 1) | 0 … 2^b - 1, a code names scale · code + bias, bias min |
    """

    bits: int
    group_size: int | None
    kind: Kind

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 8:
            raise Refused(f"{self.bits} bits", "grid", "Choose 2 to 8 bits.")
        if self.kind not in KINDS:
            raise Refused(f"there is no grid “{self.kind}”", "grid", f"Choose one of {', '.join(KINDS)}.")
        if self.group_size is not None and self.group_size < 1:
            raise Refused(f"a group of {self.group_size} channels", "grid", "Choose a group size of 1 or more.")

    @property
    def is_affine(self) -> bool:
        """Whether a group stores a bias where other grids have a zero point."""
        return self.kind == "affine"

    @property
    def lowest(self) -> int:
        """Smallest code."""
        return 0 if self.kind in ("asymmetric", "affine") else -(1 << (self.bits - 1))

    @property
    def highest(self) -> int:
        """Largest code."""
        return self.lowest + (1 << self.bits) - 1

    @property
    def steps(self) -> float:
        """Scales that fit in the span of a group's weights: absmax, or max - min where the range is not symmetric."""
        levels = (1 << self.bits) - 1
        return {"symmetric": (levels - 1) // 2, "full_range": levels / 2}.get(self.kind, levels)

    def group_size_for(self, in_features: int) -> int:
        """Channels of a group in a layer of this width. Raises ``Refused`` where groups do not fit."""
        if self.group_size is None:
            return in_features
        if in_features % self.group_size:
            fitting = [size for size in (256, 128, 64, 32, 16, 8, 4, 2) if in_features % size == 0]
            sizes = f"{', '.join(map(str, fitting))} divide it; or" if fitting else "No usual size divides it;"
            raise Refused(
                f"groups of {self.group_size} do not divide {in_features} input channels",
                "group size",
                f"{sizes} take per_channel.",
            )
        return self.group_size


def scales_and_zero_points(
    groups: Tensor, grid: Grid, storage: torch.dtype, source: Range = "minmax", importance: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The scale and zero point of each group, which lies along the last axis.

    ``"minmax"`` spans its extremes; ``"search"`` takes the range [p·min, p·max], p in ``SHRINKS``, with the smallest
    Σ_j h_j (Q(w)_j - w_j)², the largest p of equals. groups (..., K), importance: h ≥ 0, broadcasts with ``groups``,
    None for 1 -> scales (...), zero_points (...), both in the dtype of ``groups``.
    """
    low, high = groups.amin(dim=-1), groups.amax(dim=-1)  # (...)
    scales, zero_points = parameters_of_range(low, high, grid, storage)
    if source == "minmax":
        return scales, zero_points
    least = _rounding_error(groups, scales, zero_points, importance, grid)
    for shrink in SHRINKS[1:]:
        scale, zero_point = parameters_of_range(shrink * low, shrink * high, grid, storage)
        error = _rounding_error(groups, scale, zero_point, importance, grid)
        is_less = error < least
        least = torch.where(is_less, error, least)
        scales = torch.where(is_less, scale, scales)
        zero_points = torch.where(is_less, zero_point, zero_points)
    return scales, zero_points


def _rounding_error(
    groups: Tensor, scales: Tensor, zero_points: Tensor, importance: Tensor | None, grid: Grid
) -> Tensor:
    """Σ_j h_j (Q(w)_j - w_j)²: groups (..., K) -> (...)."""
    scales, zero_points = scales.unsqueeze(-1), zero_points.unsqueeze(-1)
    codes = nearest_codes(groups, scales, zero_points, grid)
    error = dequantize(codes, scales, zero_points, grid.is_affine).sub_(groups).square_()
    return (error if importance is None else error.mul_(importance)).sum(dim=-1)


def parameters_of_range(low: Tensor, high: Tensor, grid: Grid, storage: torch.dtype) -> tuple[Tensor, Tensor]:
    """The scale and zero point that span from ``low`` to ``high``: (...), (...) -> scales (...), zero_points (...).

    Scales and biases are rounded to the ``storage`` dtype first, so that what is stored dequantizes to exactly what was
    evaluated; a scale that would round to 0, or what would overflow, is clamped to the dtype's smallest or largest
    number. A group of zeros, and on the affine grid one of equal weights, gets the scale 1.
    """
    span = span_of_range(low, high, grid)  # (...)
    stored = (span / grid.steps).clamp(*scale_limits(storage)).to(storage).to(span.dtype)
    scales = torch.where(span == 0, torch.ones_like(stored), stored)
    if grid.is_affine:
        largest = torch.finfo(storage).max
        return scales, low.clamp(-largest, largest).to(storage).to(low.dtype)
    if grid.kind != "asymmetric":
        return scales, torch.zeros_like(scales)
    return scales, torch.round(-low.clamp(max=0) / scales).clamp(grid.lowest, grid.highest)


def span_of_range(low: Tensor, high: Tensor, grid: Grid) -> Tensor:
    """What ``grid.steps`` scales cover, (...), (...) -> (...): absmax, or max - min, the asymmetric range with 0 in it.

    Of ends that learned clipping has moved past each other, 0.
    """
    if grid.is_affine:
        return (high - low).clamp(min=0)
    if grid.kind == "asymmetric":
        return high.clamp(min=0) - low.clamp(max=0)
    return torch.maximum(low.abs(), high.abs())


def scale_limits(storage: torch.dtype) -> tuple[float, float]:
    """The smallest and the largest scale that a dtype can hold."""
    limits = torch.finfo(storage)
    return limits.tiny * limits.eps, limits.max


def nearest_codes(values: Tensor, scales: Tensor, zero_points: Tensor, grid: Grid) -> Tensor:
    """Codes of the nearest levels, ties to even, as floating-point integers; all arguments broadcast."""
    return unbounded_codes(values, scales, zero_points, grid.is_affine).clamp_(grid.lowest, grid.highest)


def unbounded_codes(
    values: Tensor, scales: Tensor, zero_points: Tensor, is_affine: bool, offsets: Tensor | None = None
) -> Tensor:
    """The codes that ``nearest_codes`` would give if the grid had no ends; offsets are added before rounding."""
    codes = (values - zero_points if is_affine else values) / scales
    if offsets is not None:
        codes.add_(offsets)
    codes.round_()
    return codes if is_affine else codes.add_(zero_points)


def dequantize(codes: Tensor, scales: Tensor, zero_points: Tensor, is_affine: bool) -> Tensor:
    """The levels that the codes name; all tensors broadcast.

    (codes - zero_points) · scales, or scales · codes + zero_points on the affine grid, whose biases these are.
    """
    return codes * scales + zero_points if is_affine else (codes - zero_points) * scales


def split_groups(weight: Tensor, group_size: int) -> Tensor:
    """A view of the last axis as groups: (..., O, I) -> (..., O, G, K)."""
    groups: Tensor = weight.unflatten(-1, (-1, group_size))
    return groups


def round_to_grid(
    weight: Tensor, grid: Grid, storage: torch.dtype, source: Range = "minmax", importance: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Round to nearest: (..., O, I) -> codes (..., O, I), scales (..., O, G), zero_points (..., O, G).

    source, importance (..., I): where a group's range comes from, see ``scales_and_zero_points``.
    """
    size = grid.group_size_for(weight.shape[-1])
    groups = split_groups(weight, size)  # (..., O, G, K)
    weights = None if importance is None else split_groups(importance.unsqueeze(-2), size)  # (..., 1, G, K)
    scales, zero_points = scales_and_zero_points(groups, grid, storage, source, weights)  # (..., O, G)
    codes = nearest_codes(groups, scales.unsqueeze(-1), zero_points.unsqueeze(-1), grid)  # (..., O, G, K)
    return codes.flatten(-2), scales, zero_points


def dequantize_groups(codes: Tensor, scales: Tensor, zero_points: Tensor, is_affine: bool) -> Tensor:
    """codes (..., O, I), scales and zero_points (..., O, G) -> levels (..., O, I)."""
    groups = split_groups(codes, codes.shape[-1] // scales.shape[-1])
    return dequantize(groups, scales.unsqueeze(-1), zero_points.unsqueeze(-1), is_affine).flatten(-2)
