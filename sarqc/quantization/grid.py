"""Integer grids: the levels that a group of weights may take, and the codes that name them.

A group has a scale and a zero point. While a layer is solved, the zero point of the affine grid is its bias, in the
unit of the weights; a finished layer stores the two under different names.

Axes at the ends of lines: O out_features, I in_features, G groups of a row, K channels of a group; ... leading ones.
"""

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from sarqc.errors import Refused
from sarqc.quantization.methods import FEWEST_PARTS, LATTICE, NEIGHBOURS, PARTS, SHRUNK, Range
from sarqc.quantization.storage import KINDS, Kind


@dataclass(frozen=True)
class Grid:
    """An integer grid of 2^bits levels for each group of a row.

    | kind | scale | codes |
    |---|---|---|
    | symmetric | absmax / (2^(b-1) - 1) | -2^(b-1) … 2^(b-1)-1 |
    | full_range | absmax / ((2^b - 1)/2) | -2^(b-1) … 2^(b-1)-1 |
    | asymmetric | (max - min)/(2^b - 1), the range always holds 0 | 0 … 2^b - 1, zero point round(-min/scale) |
    | affine | (max - min)/(2^b - 1) | 0 … 2^b - 1, a code names scale · code + bias, bias min |

    Attributes:
        bits: Bit width, 2 to 8.
        group_size: Consecutive input channels that share a scale; None for the whole row.
        kind: Row of the table above.

    Raises:
        Refused: If the bit width, the kind or the group size is not valid.
    """

    bits: int
    group_size: int | None
    kind: Kind

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 8:
            raise Refused(f"{self.bits} bits", "grid", "Choose 2 to 8 bits.")
        if self.kind not in KINDS:
            raise Refused(f"unknown grid “{self.kind}”", "grid", f"Choose one of {', '.join(KINDS)}.")
        if self.group_size is not None and self.group_size < 1:
            raise Refused(f"a group of {self.group_size} channels", "grid", "Choose a group size of 1 or more.")

    @property
    def is_affine(self) -> bool:
        """True if a group stores a bias instead of a zero point."""
        return self.kind == "affine"

    @property
    def has_two_ends(self) -> bool:
        """True if the lower and the upper end of a group's range are apart."""
        return self.kind in ("asymmetric", "affine")

    @property
    def lowest(self) -> int:
        """Smallest code."""
        return 0 if self.has_two_ends else -(1 << (self.bits - 1))

    @property
    def highest(self) -> int:
        """Largest code."""
        return self.lowest + (1 << self.bits) - 1

    @property
    def steps(self) -> float:
        """Number of scales in the span of a group's weights: absmax, or max - min if the range is not symmetric."""
        levels = (1 << self.bits) - 1
        return {"symmetric": (levels - 1) // 2, "full_range": levels / 2}.get(self.kind, levels)

    def group_size_for(self, in_features: int) -> int:
        """Return the number of channels of a group in a layer of this width.

        Raises:
            Refused: If groups do not divide the width.
        """
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
    """Return the scale and zero point of each group, which lies along the last axis.

    Args:
        groups: (..., K), the weights of each group.
        grid: Grid of the codes.
        storage: Dtype in which scales and biases are stored.
        source: Source of a group's range. ``"minmax"`` spans its extremes. ``"search"`` takes the range [p·min, p·max],
            p = 1, 0.975 … 0.4, with the smallest Σ_j h_j (Q(w)_j - w_j)², the first of equals. ``"joint"`` takes
            [p·min, q·max]: after these p = q all other pairs of 1, 0.9 … 0.4, then the neighbours of the best at steps
            of 0.05 and of 0.025, not below 0.3. A symmetric range has one end: there it is ``"search"``.
        importance: h ≥ 0, broadcasts with ``groups``; None for 1. Used by searches only.

    Returns:
        scales: (...), in the dtype of ``groups``.
        zero_points: (...), in the dtype of ``groups``.
    """
    low, high = groups.amin(dim=-1), groups.amax(dim=-1)  # (...)
    if source == "minmax":
        return parameters_of_range(low, high, grid, storage)
    # Solvers hold columns contiguous. A search reads each group some dozens of times: on a CPU a copy with contiguous
    # groups makes it two to five times as fast.
    search = _RangeSearch(groups.contiguous(), low, high, grid, storage, importance)
    for parts in SHRUNK[1:]:
        search.attempt(parts, parts)
    if source == "joint" and grid.has_two_ends:
        for lower, upper in itertools.permutations(LATTICE, 2):
            search.attempt(lower, upper)
        for step in NEIGHBOURS:
            best_lower, best_upper = search.lower, search.upper
            for left, right in itertools.product((-step, 0, step), repeat=2):
                if left or right:
                    ends = (best_lower + left, best_upper + right)
                    search.attempt(*(end.clamp(FEWEST_PARTS, PARTS) for end in ends))
    return search.scales, search.zero_points


class _RangeSearch:
    """Ranges of groups (..., K) in the order in which they are tried, and the best so far.

    Attributes:
        lower: (...), share of the lower end of the best range, in ``PARTS``.
        upper: (...), the same of the upper end.
        scales: (...), of the best range.
        zero_points: (...), of the best range.
    """

    def __init__(
        self, groups: Tensor, low: Tensor, high: Tensor, grid: Grid, storage: torch.dtype, importance: Tensor | None
    ) -> None:
        self._groups, self._low, self._high, self._importance = groups, low, high, importance
        self._grid, self._storage = grid, storage
        self.scales, self.zero_points, self._least = self._tried(PARTS, PARTS)
        self.lower = self.upper = torch.full_like(low, PARTS)

    def attempt(self, lower: Tensor | int, upper: Tensor | int) -> None:
        """Try the range [lower/PARTS · min, upper/PARTS · max] of each group."""
        scales, zero_points, error = self._tried(lower, upper)
        # Strictly less: of ranges with equal errors the first stays.
        is_less = error < self._least
        self._least = torch.where(is_less, error, self._least)
        self.scales = torch.where(is_less, scales, self.scales)
        self.zero_points = torch.where(is_less, zero_points, self.zero_points)
        self.lower = torch.where(is_less, lower, self.lower)
        self.upper = torch.where(is_less, upper, self.upper)

    def _tried(self, lower: Tensor | int, upper: Tensor | int) -> tuple[Tensor, Tensor, Tensor]:
        """Return scales and zero points (...) of a range, and Σ_j h_j (Q(w)_j - w_j)²."""
        scales, zero_points = parameters_of_range(
            lower / PARTS * self._low, upper / PARTS * self._high, self._grid, self._storage
        )
        scale, zero_point = scales.unsqueeze(-1), zero_points.unsqueeze(-1)
        codes = nearest_codes(self._groups, scale, zero_point, self._grid)
        # In the memory of the codes: a search of ranges would otherwise spend its time on getting memory.
        levels = codes.mul_(scale).add_(zero_point) if self._grid.is_affine else codes.sub_(zero_point).mul_(scale)
        error = levels.sub_(self._groups).square_()
        return scales, zero_points, (error if self._importance is None else error.mul_(self._importance)).sum(dim=-1)


def parameters_of_range(low: Tensor, high: Tensor, grid: Grid, storage: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the scale and zero point whose levels span from ``low`` to ``high``.

    Scales and biases are rounded to the storage dtype before codes are chosen, so that the stored numbers dequantize to
    exactly the evaluated weights. A scale that would round to 0 or overflow is clamped to the smallest or largest
    number of the dtype. A group of zeros, and on the affine grid a group of equal weights, gets the scale 1.

    Args:
        low: (...), lower end of each range.
        high: (...), upper end of each range.
        grid: Grid of the codes.
        storage: Dtype in which scales and biases are stored.

    Returns:
        scales: (...).
        zero_points: (...), biases on the affine grid.
    """
    span = span_of_range(low, high, grid)  # (...)
    # Codes are chosen for the scale as it will be stored: its rounding to ``storage`` must not come afterwards.
    stored = round_to_storage(span / grid.steps, storage, scale_limits(storage)[0])
    scales = torch.where(span == 0, torch.ones_like(stored), stored)
    if grid.is_affine:
        return scales, round_to_storage(low, storage)
    if grid.kind != "asymmetric":
        return scales, torch.zeros_like(scales)
    return scales, torch.round(-low.clamp(max=0) / scales).clamp(grid.lowest, grid.highest)


def span_of_range(low: Tensor, high: Tensor, grid: Grid) -> Tensor:
    """Return the width that ``grid.steps`` scales cover: absmax, or max - min.

    The asymmetric range is widened to hold 0. The span is 0 if learned clipping has moved the ends past each other.
    Arguments are those of ``parameters_of_range``; the result has their shape.
    """
    if grid.is_affine:
        return (high - low).clamp(min=0)
    if grid.kind == "asymmetric":
        return high.clamp(min=0) - low.clamp(max=0)
    return torch.maximum(low.abs(), high.abs())


def scale_limits(storage: torch.dtype) -> tuple[float, float]:
    """Return the smallest and the largest scale that a dtype can hold."""
    limits = torch.finfo(storage)
    return limits.tiny * limits.eps, limits.max


def round_to_storage(values: Tensor, storage: torch.dtype, least: float | None = None) -> Tensor:
    """Return values as a storage dtype has held them, clamped to its numbers from ``least`` on."""
    largest = torch.finfo(storage).max
    return values.clamp(-largest if least is None else least, largest).to(storage).to(values.dtype)


def nearest_codes(values: Tensor, scales: Tensor, zero_points: Tensor, grid: Grid, out: Tensor | None = None) -> Tensor:
    """Return the codes of the nearest levels, ties to even, as floating-point integers; all tensors broadcast.

    With ``out`` they are written there.
    """
    return unbounded_codes(values, scales, zero_points, grid.is_affine, out=out).clamp_(grid.lowest, grid.highest)


def unbounded_codes(
    values: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    is_affine: bool,
    offsets: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the codes of the nearest levels on a grid without ends.

    All tensors broadcast. ``offsets``, in units of the scale, are added before rounding. With ``out`` the codes are
    written there.
    """
    codes = torch.div(values - zero_points if is_affine else values, scales, out=out)
    if offsets is not None:
        codes.add_(offsets)
    codes.round_()
    return codes if is_affine else codes.add_(zero_points)


def dequantize(
    codes: Tensor, scales: Tensor, zero_points: Tensor, is_affine: bool, out: Tensor | None = None
) -> Tensor:
    """Return the levels that the codes name; all tensors broadcast. With ``out`` they are written there.

    (codes - zero_points) · scales, or scales · codes + zero_points on the affine grid, whose biases these are.
    """
    if is_affine:
        return torch.add(torch.mul(codes, scales, out=out), zero_points, out=out)
    return torch.mul(torch.sub(codes, zero_points, out=out), scales, out=out)


def split_groups(weight: Tensor, group_size: int) -> Tensor:
    """Return a view of the last axis as groups: (..., O, I) becomes (..., O, G, K)."""
    groups: Tensor = weight.unflatten(-1, (-1, group_size))
    return groups


def round_to_grid(
    weight: Tensor, grid: Grid, storage: torch.dtype, source: Range = "minmax", importance: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Round weights to the nearest level of their group's grid.

    Args:
        weight: (..., O, I).
        grid: Grid of the codes.
        storage: Dtype in which scales and biases are stored.
        source: Source of a group's range, see ``scales_and_zero_points``.
        importance: (..., I), weights of the errors in a searched range; None for 1.

    Returns:
        codes: (..., O, I).
        scales: (..., O, G).
        zero_points: (..., O, G), biases on the affine grid.

    Raises:
        Refused: If groups do not divide the width.
    """
    size = grid.group_size_for(weight.shape[-1])
    groups = split_groups(weight, size)  # (..., O, G, K)
    weights = None if importance is None else split_groups(importance.unsqueeze(-2), size)  # (..., 1, G, K)
    scales, zero_points = scales_and_zero_points(groups, grid, storage, source, weights)  # (..., O, G)
    codes = nearest_codes(groups, scales.unsqueeze(-1), zero_points.unsqueeze(-1), grid)  # (..., O, G, K)
    return codes.flatten(-2), scales, zero_points


def dequantize_groups(codes: Tensor, scales: Tensor, zero_points: Tensor, is_affine: bool) -> Tensor:
    """Return the levels (..., O, I) of codes (..., O, I) with scales and zero_points (..., O, G)."""
    groups = split_groups(codes, codes.shape[-1] // scales.shape[-1])
    return dequantize(groups, scales.unsqueeze(-1), zero_points.unsqueeze(-1), is_affine).flatten(-2)
