"""The column solver: GPTQ, RQC-GBS and SARQC-GBS differ only in their Gram, GPTAQ in a shift.

For G = R Rᵀ with R upper triangular, F = R · diag(R)⁻¹ is unit upper, and GPTQ's compensated column is

    Ŵ_j = Q(W_j + Σ_{i<j} δ_i F_ij),   δ = W - Ŵ,

which needs no inverse (n³/3 operations instead of 4n³/3) and gives GPTQ's codes in exact arithmetic: GPTQ's factor of
G⁻¹ is R⁻¹, and tr(δ G δᵀ) = Σ_j R_jj² (δ F)_j² is minimised column by column by the line above.

GPTAQ adds w_j P_j to the later columns, P = α triu(cross Uᵀ, 1) U with U = R⁻¹ and w_j column j's value before it is
rounded. So w = W - (w - Ŵ)(F⁻¹ - I) + w P, and multiplied by F, with U F = diag(R)⁻¹:

    w_j = W_j + Σ_{i<j} (δ_i F_ij + w_i M_ij),   M = P F = α triu(cross R⁻ᵀ, 1) diag(R)⁻¹.

FOEM's first-order term (β, a = 1 - β) pulls what column j has gained back by β when its turn comes, and leaves β times
the rest of it out of the error that later columns get: with N = F⁻¹ and c the gain without the pull,

    w_j - W_j = a c_j,   c = -(w - Ŵ - β (w - W)) (N - I) + w P.

Solved for w - W this is the line above with F_β = I + a (F - I) K⁻¹ and M_β = a M K⁻¹, K = a² I + (1 - a²) F, which is
unit upper. So the loop does not change.

A layer of an existing quantized checkpoint keeps its scales and zero points, which are then known before the first
turn.

Columns may be taken in another order than they are stored in. Then G, F, M and all that the loop holds are in the order
of their turns. A column's group stays that of its place in the weight, and its scale is known before the first turn.

Axes: C candidates, O out_features, I in_features, G groups of a row, K channels of a group. Work is held transposed,
(C, I, O), so that one column of the weight is contiguous.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sarqc.errors import NumericalError, Refused, SarqcError
from sarqc.quantization.column_updates import take_turns
from sarqc.quantization.columns import Columns
from sarqc.quantization.counts import FACTORISING
from sarqc.quantization.grid import (
    Grid,
    dequantize_groups,
    scales_and_zero_points,
    split_groups,
)
from sarqc.quantization.layer_statistics import is_finite
from sarqc.quantization.methods import ColumnSolver, Range
from sarqc.quantization.objective import drift_weights, regularised_gram, saliency
from sarqc.quantization.quantized_layer import CheckedLayer, ImportedCodes
from sarqc.quantization.recorded import Recorder, started
from sarqc.quantization.refinement import put_rows, take_rows
from sarqc.quantization.scale_refit import fitted_codes
from sarqc.quantization.solving import LITTLE_MEMORY, NOT_RECORDED, Context, LayerJob, Solved

_FIRST_FLOOR = 1e-6  # of the largest diagonal entry
_LAST_FLOOR = 1e2
_NO_SCALE = 1e-20  # replaces an existing scale of 0: whatever the code, its level is negligible beside a weight


def solve(jobs: Sequence[LayerJob], context: Context) -> Iterator[Solved]:
    """Solve each linear at each of its points, in batches over both that fit the budget.

    Args:
        jobs: Linears of one shape with their points.
        context: Budget of a batch and recorder.

    Yields:
        The points of one linear after the other; flagged if a batch had to be made smaller or could not be recorded.

    Raises:
        NumericalError: If a Gram has no Cholesky factor, or a shift is too large to be represented.
    """
    points = [
        _Point(number, index, job.layer, method)
        for number, job in enumerate(jobs)
        for index, method in enumerate(job.points_of(ColumnSolver))
    ]
    size, start, had_room = _points_at_once(points[0], context.budget_bytes), 0, True
    while start < len(points):
        together = points[start : start + size]
        try:
            solved = _solve_together(together, context.recorder)
        except torch.OutOfMemoryError:
            if len(together) == 1:
                raise
            size, had_room = len(together) // 2, False
            continue
        flags = [LITTLE_MEMORY] * (not had_room)
        flags += [NOT_RECORDED] * (context.recorder is not None and context.recorder.failed)
        for step in solved:
            yield step._replace(layer=step.layer.flagged(*flags))
        start += len(together)


@dataclass(frozen=True)
class _Point:
    """One linear at one of its points, with the positions of both."""

    job: int
    index: int
    layer: CheckedLayer
    method: ColumnSolver


def _points_at_once(first: _Point, budget_bytes: int) -> int:
    """Return the number of points that may be solved together, at least one."""
    layer, method = first.layer, first.method
    rows, width = layer.weight.shape
    group_size = width if layer.imported is not None else layer.grid.group_size_for(width)
    numbers = method.numbers_of_point(rows, width, group_size, shifted=method.shift != "none")
    factorising = FACTORISING * width * width  # one at a time
    return max(1, (budget_bytes - factorising) // (numbers * layer.weight.element_size()))


def _solve_together(points: Sequence[_Point], recorder: Recorder | None) -> Iterator[Solved]:
    """Solve the points as one batch; all memory is taken before this returns, but for what one report needs."""
    first, settings = points[0].layer, points[0].method
    batch = _Batch.of(points)
    stated = [_state(point, batch, position) for position, point in enumerate(points)]
    tensors = {
        "weight": batch.weights,
        "factors": batch.factors,
        "orders": batch.orders,
        "importance": batch.importance,
        **({} if batch.shifts is None else {"shifts": batch.shifts}),
        **({} if batch.retained is None else {"retained": batch.retained}),
    }
    imported = [point.layer.imported for point in points if point.layer.imported is not None]
    if imported:
        if settings.refit:
            raise Refused(
                f"{settings.refit} rounds of refitting would change scales that stay",
                first.name or "layer",
                "Set refit to 0, or leave the quantized checkpoint out.",
            )
        scales = _stacked(imported, "scales", first.weight)
        tensors["existing_scales"] = torch.where(scales == 0, _NO_SCALE, scales)
        tensors["existing_zero_points"] = _stacked(imported, "zero_points", first.weight)
    if settings.begins_with_existing:
        codes = _stacked(imported, "codes", first.weight)
        scales, zero_points = tensors["existing_scales"], tensors["existing_zero_points"]
    else:
        codes, scales, zero_points = (recorder or started)(
            solve_columns,
            tensors,
            grid=first.grid,
            storage=first.storage,
            block_size=settings.block_size,
            static_groups=settings.has_static_groups,
            source=settings.range,
        )
    if batch.aims is not None and batch.grams is not None:
        codes, scales, zero_points = fitted_codes(
            batch.aims,
            codes,
            scales,
            zero_points,
            batch.grams,
            first.grid,
            first.storage,
            passes=settings.refine,
            rounds=settings.refit,
            orders=batch.orders,
        )
    if imported:
        scales = _stacked(imported, "scales", first.weight)
        dequantized = torch.stack([layer.weight_of(own) for layer, own in zip(imported, codes, strict=True)])
    else:
        dequantized = dequantize_groups(codes, scales, zero_points, first.grid.is_affine).to(first.storage)
    return _results(points, stated, codes, scales, zero_points, dequantized)


def _stacked(imported: Sequence[ImportedCodes], name: str, like: Tensor) -> Tensor:
    """Return codes, scales or zero points of several layers, in the type of a weight: (C, …)."""
    return torch.stack([getattr(layer, name) for layer in imported]).to(like)


def _results(
    points: Sequence[_Point],
    stated: Sequence[dict[str, Any]],
    codes: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    dequantized: Tensor,
) -> Iterator[Solved]:
    """Yield the layers of a batch: codes and dequantized (C, O, I), scales and zero_points (C, O, G)."""
    for position, (point, facts) in enumerate(zip(points, stated, strict=True)):
        if point.method.shift != "none" and not is_finite(dequantized[position]):
            raise NumericalError(
                "the shift towards the float model's inputs overflows",
                point.layer.name or "column solver",
                "Use a larger λ or more calibration text.",
            )
        solved = point.layer.quantized(
            codes[position], scales[position], zero_points[position], dequantized[position], **facts
        )
        yield Solved(point.job, point.index, solved)


@dataclass(frozen=True)
class _Batch:
    """Tensors of all points of a batch, filled in one point at a time so that large parts exist once.

    Factors and shifts are in the order of turns, all else as stored.
    """

    weights: Tensor  # (C, O, I), W or W*
    factors: Tensor  # (C, I, I), F
    orders: Tensor  # (C, I), the column of each turn
    importance: Tensor  # (C, I), diag G
    shifts: Tensor | None  # (C, I, I), M of GPTAQ's sequential form
    retained: Tensor | None  # (C,), 1 - β, where a point has a first-order term
    grams: Tensor | None  # (C, I, I), G, where codes are refined
    aims: Tensor | None  # (C, O, I), the target of the refinement: W, or W* with a shift

    @classmethod
    def of(cls, points: Sequence[_Point]) -> _Batch:
        weight, method, count = points[0].layer.weight, points[0].method, len(points)
        width = weight.shape[-1]
        weights, factors = weight.new_empty(count, *weight.shape), weight.new_empty(count, width, width)
        aims = None
        if method.improves_codes:
            aims = torch.empty_like(weights) if method.shift == "published" else weights
        return cls(
            weights,
            factors,
            torch.arange(width, device=weight.device).repeat(count, 1),
            weight.new_empty(count, width),
            torch.empty_like(factors) if method.shift == "published" else None,
            weight.new_tensor([1 - point.method.first_order for point in points])
            if any(point.method.first_order for point in points)
            else None,
            torch.empty_like(factors) if method.improves_codes else None,
            aims,
        )


def _state(point: _Point, batch: _Batch, position: int) -> dict[str, Any]:
    """Write the problem of a point into the batch; return its entries for the report."""
    layer, method = point.layer, point.method
    try:
        s_squared = _s_squared(layer, method)
        lam = method.lam_for(layer.n_tokens, layer.weight.shape[-1])
        gram = regularised_gram(layer.gram, s_squared, lam)
        order = batch.orders[position]
        batch.importance[position] = gram.diagonal()
        if method.order == "activation":
            # Columns with large G_jj come first, while most others are still there to compensate for their errors. A
            # stable sort keeps the stored order of channels with equal G_jj.
            order.copy_(gram.diagonal().argsort(descending=True, stable=True))
            factor = factorise(gram, order)
        else:
            factor = factorise(gram)
    except SarqcError as error:
        raise (error.at(layer.name) if layer.name else error) from None
    batch.weights[position], batch.factors[position] = layer.weight, factor.unit_upper
    if batch.grams is not None:
        batch.grams[position] = gram
    if layer.cross is not None and method.shift != "none":
        cross, upper = layer.cross[order][:, order], factor.upper
        if batch.shifts is not None:
            batch.shifts[position] = column_shift(upper, cross, method.shift_strength)
        target = batch.aims if batch.shifts is not None else batch.weights
        if target is not None:
            target[position][:, order] = shifted_weight(layer.weight[:, order], upper, cross, method.shift_strength)
    if method.first_order:
        shift = None if batch.shifts is None else batch.shifts[position]
        pull_back(batch.factors[position], shift, method.first_order)
    return {
        "drift_scale": drift_weights(layer.gram, s_squared).sqrt(),
        "diagonal_floor": factor.diagonal_floor,
        "chosen": method.settled() | ({} if method.expert_damping == "plain" else {"lam_used": lam}),
    }


def _s_squared(layer: CheckedLayer, method: ColumnSolver) -> Tensor | None:
    """Return s² (I,) of a method; None for 1."""
    if method.saliency == "identity" or method.gamma is None:
        return None
    return saliency(layer.abs_mean, layer.weight, method.gamma).square()


def gram_of(layer: CheckedLayer, method: ColumnSolver) -> Tensor:
    """Return the regularised G (I, I) of a layer, in whose objective tr(ΔW G ΔWᵀ) a method solves it."""
    lam = method.lam_for(layer.n_tokens, layer.weight.shape[-1])
    return regularised_gram(layer.gram, _s_squared(layer, method), lam)


@dataclass(frozen=True)
class Factor:
    """R and F of one regularised Gram, and the value added to the diagonal so that they exist (0 for none)."""

    flipped: Tensor  # (I, I) float64, R with both axes reversed
    unit_upper: Tensor  # (I, I), F
    diagonal_floor: float

    @property
    def upper(self) -> Tensor:
        """R (I, I), float64."""
        return self.flipped.flip(0, 1)


def factorise(gram: Tensor, order: Tensor | None = None) -> Factor:
    """Return the factor of one G (I, I), computed in float64 with F in the dtype of G.

    With ``order`` (I,), the column of each turn, G is first put into that order.

    A channel whose diagonal is 0 carries no weight in the loss: its diagonal becomes 1, so that it is rounded to
    nearest. If G is not positive definite, the smallest of 1e-6, 1e-5, … times the Gram's own largest diagonal entry
    that works is added and reported.

    Raises:
        NumericalError: If no such value up to 100 times the largest entry works.
    """
    # A lower factor of the flipped G is an upper factor of G. Flips are of G's dtype, where they move half the bytes.
    matrix = gram.flip(0, 1) if order is None else gram.index_select(0, order.flip(0)).index_select(1, order.flip(0))
    # In float64 whatever the weight is: with few tokens and a small λ the condition of G is beyond float32.
    matrix = matrix.to(torch.float64)
    diagonal = matrix.diagonal()
    largest = float(diagonal.max())
    diagonal.copy_(torch.where(diagonal == 0, torch.ones_like(diagonal), diagonal))
    lower, failed = torch.linalg.cholesky_ex(matrix)
    relative = _FIRST_FLOOR
    floor = 0.0
    # A tenfold step may take up to ten times the floor that was needed. Finer ones cost a factorisation each; that they
    # would be worth it was never measured.
    while failed:
        if relative > _LAST_FLOOR:
            raise NumericalError(
                "the regularised Gram has no Cholesky factor even with a floor on its diagonal",
                "column solver",
                "Look at the calibration inputs: the Gram must be symmetric and positive.",
            )
        floor = relative * largest
        lower, failed = torch.linalg.cholesky_ex(matrix + torch.diag_embed(torch.full_like(diagonal, floor)))
        relative *= 10
    return Factor(lower, (lower / lower.diagonal()).to(gram.dtype).flip(0, 1), floor)


def column_shift(upper: Tensor, cross: Tensor, strength: float) -> Tensor:
    """Return M of GPTAQ's sequential form (see above), strictly upper (I, I).

    Args:
        upper: R (I, I).
        cross: (I, I), Σ (x_float - x) xᵀ.
        strength: α.
    """
    carried = torch.linalg.solve_triangular(upper.mT, cross.to(upper.dtype), upper=False, left=False)  # cross R⁻ᵀ
    shift: Tensor = (strength * carried / upper.diagonal()).triu(1).to(cross.dtype)
    return shift


def pull_back(factor: Tensor, shift: Tensor | None, beta: float) -> None:
    """Replace F and M by those with a first-order term, F_β and M_β (see above).

    Args:
        factor: F (I, I), unit upper; overwritten.
        shift: M (I, I), strictly upper; overwritten. None without a shift.
        beta: β, from 0 to 1.
    """
    retained = 1 - beta
    gains = factor.to(torch.float64).triu(1)  # F - I
    solvable = (1 - retained**2) * gains  # K, whose diagonal of ones is understood

    def solved(left: Tensor) -> Tensor:
        wide = left.to(gains.dtype)
        part: Tensor = torch.linalg.solve_triangular(solvable, wide, upper=True, left=False, unitriangular=True)
        return retained * part

    factor.copy_(solved(gains))
    factor.diagonal().fill_(1)
    if shift is not None:
        shift.copy_(solved(shift))


def shifted_weight(weight: Tensor, upper: Tensor, cross: Tensor, strength: float) -> Tensor:
    """Return W* = W + strength · W cross G⁻¹ (O, I).

    At strength 1, tr((Ŵ - W*) G (Ŵ - W*)ᵀ) is ‖Ŵ X - W X_float‖² plus the drift penalty, but for a constant.

    Args:
        weight: W (O, I).
        upper: R (I, I), the factor of G.
        cross: (I, I), Σ (x_float - x) xᵀ.
        strength: α.
    """
    wide = weight.to(upper.dtype)
    half = torch.linalg.solve_triangular(upper.mT, wide @ cross.to(upper.dtype), upper=False, left=False)  # (O, I)
    shift: Tensor = torch.linalg.solve_triangular(upper, half, upper=True, left=False)  # (O, I)
    return (wide + strength * shift).to(weight.dtype)


def solve_columns(
    weight: Tensor,
    factors: Tensor,
    grid: Grid,
    storage: torch.dtype,
    *,
    block_size: int,
    static_groups: bool = False,
    shifts: Tensor | None = None,
    orders: Tensor | None = None,
    source: Range = "minmax",
    importance: Tensor | None = None,
    retained: Tensor | None = None,
    existing_scales: Tensor | None = None,
    existing_zero_points: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the codes of every candidate at once, column by column.

    Columns are taken in order, and each compensates for those before it. Group scales are dynamic by default: they come
    from the working copy of the group when its first column is reached.

    Args:
        weight: (O, I) or (C, O, I).
        factors: F (C, I, I), unit upper, in the order of turns.
        grid: Grid of the codes.
        storage: Dtype in which scales and biases are stored.
        block_size: Columns between two updates of the rest of their group; changes the speed, not the result.
        static_groups: Take group scales from ``weight`` instead of the working copy.
        shifts: M (C, I, I), strictly upper, in the order of turns; None without a shift.
        orders: (C, I), the column of each turn; None for the order as stored. Only static groups leave a choice.
        source: Source of a group's range, see ``scales_and_zero_points``.
        importance: (C, I), weights of the errors in a searched range, as stored.
        retained: (C,), 1 - β of factors with a first-order term; None where no candidate has one.
        existing_scales: (C, O, G), scales to keep; groups are then static.
        existing_zero_points: (C, O, G), the zero points that belong to them.

    Returns:
        codes: (C, O, I), in the dtype of ``weight``.
        scales: (C, O, G), in the dtype of ``weight``.
        zero_points: (C, O, G), in the dtype of ``weight``.
    """
    candidates, width = factors.shape[0], factors.shape[-1]
    original = weight.expand(candidates, *weight.shape[-2:]).mT.contiguous()  # (C, I, O)
    group_size = grid.group_size_for(width) if existing_scales is None else width // existing_scales.shape[-1]
    if orders is None:
        orders = torch.arange(width, device=weight.device).expand(candidates, width)
    fixed = None
    if existing_scales is not None and existing_zero_points is not None:
        fixed = (existing_scales, existing_zero_points)
        original = take_rows(original, orders)
    elif static_groups:
        weights = None if importance is None else split_groups(importance.unsqueeze(-2), group_size)  # (C, 1, G, K)
        fixed = scales_and_zero_points(split_groups(original.mT, group_size), grid, storage, source, weights)
        original = take_rows(original, orders)
    # A column's scales beside each other in memory, as they are read.
    in_columns = None if fixed is None else [part.mT.contiguous() for part in fixed]  # (C, G, O)
    delta = torch.zeros_like(original)  # (C, I, O), W - Ŵ of the columns done
    codes = torch.empty_like(original)  # (C, I, O)
    values = torch.zeros_like(original if shifts is not None else original[:0])  # (C, I, O), w: before rounding
    scales, zero_points = [], []
    # An existing checkpoint whose groups were made in another order comes with a scale for each channel. That is not a
    # reason to update the rest after each of them.
    stretch = width if existing_scales is not None and group_size == 1 else group_size
    for first in range(0, width, stretch):
        last = first + stretch
        inside = factors[:, first:last, first:last]  # (C, K, K)
        carried = factors[:, :first, first:last].mT @ delta[:, :first]  # (C, K, O), Σ_{i<first} δ_i F_ij
        if shifts is not None:
            carried += shifts[:, :first, first:last].mT @ values[:, :first]
        if fixed is None:
            # The grid must fit what the group will be asked to represent, which is not W but W plus what the columns
            # before it have left to compensate.
            own = original[:, first:last]
            copy = (_working_copy(own, carried, inside, retained) if first else own).mT  # (C, O, K); at first it is W
            weights = None if importance is None else importance[:, None, first:last]  # (C, 1, K)
            scale, zero_point = scales_and_zero_points(copy, grid, storage, source, weights)
            scales.append(scale)  # (C, O)
            zero_points.append(zero_point)
            scale, zero_point = scale.unsqueeze(1), zero_point.unsqueeze(1)  # (C, 1, O)
        for start in range(0, stretch, block_size):
            stop = min(start + block_size, stretch)
            # Column by column only inside a block: the rest of the group gets a block's errors in one product, which is
            # what makes this fast. Only the order of the sums changes, and the code of a tie might with it.
            block = carried[:, start:stop]  # (C, B, O), a view that the columns below keep up to date
            if in_columns is not None:
                groups = orders[:, first + start : first + stop] // group_size  # (C, B)
                scale, zero_point = (take_rows(part, groups) for part in in_columns)  # (C, B, O)
            here = slice(first + start, first + stop)
            columns = Columns(
                original=original[:, here],
                carried=block,
                factor=inside[:, start:stop, start:stop],
                scales=scale.expand_as(block),
                zero_points=zero_point.expand_as(block),
                codes=codes[:, here],
                delta=delta[:, here],
                shift=None if shifts is None else shifts[:, here, here],
                values=None if shifts is None else values[:, here],
            )
            take_turns(columns, grid)
            if stop < stretch:
                rest = inside[:, start:stop, stop:].mT  # (C, rest of the group, B)
                carried[:, stop:].baddbmm_(rest, delta[:, here])
                if shifts is not None:
                    rest = shifts[:, here, first + stop : last].mT
                    carried[:, stop:].baddbmm_(rest, values[:, here])
    if fixed is None:
        return codes.mT, torch.stack(scales, dim=-1), torch.stack(zero_points, dim=-1)
    return put_rows(codes, orders).mT, *fixed


def _working_copy(original: Tensor, carried: Tensor, inside: Tensor, retained: Tensor | None) -> Tensor:
    """Return GPTQ's compensated copy of a group when its first column is reached: W_g + c T⁻¹.

    original, carried (C, K, O); inside (C, K, K) = T, the group's unit upper block of F.
    ``carried`` alone is what column j gains when it is its turn, after the columns between have been done; the copy
    that GPTQ holds at the group's start has not got their share yet, and T⁻¹ takes it out. This holds with a shift
    too: of (w - Ŵ) F⁻¹ = δ + w P only what comes from the earlier columns is then in the copy.

    With a first-order term (retained (C,) = a) the errors of earlier columns reach the copy through the group's block
    of (I + a² (F⁻¹ - I))⁻¹ = I + a (F_β - I) in place of T, and it holds what they leave after the pull.
    """
    if retained is not None:
        identity = torch.eye(inside.shape[-1], dtype=inside.dtype, device=inside.device)
        inside = identity + retained[:, None, None] * (inside - identity)
    # c T⁻¹ by a triangular solve on the transposed work, without an inverse.
    left_over: Tensor = torch.linalg.solve_triangular(inside.mT, carried, upper=False, unitriangular=True)
    return original + left_over
