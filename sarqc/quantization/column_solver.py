"""The one column solver: GPTQ, RQC-GBS and SARQC-GBS differ only in the Gram that they hand to it, GPTAQ in a shift.

For G = R Rᵀ with R upper triangular, F = R · diag(R)⁻¹ is unit upper, and GPTQ's compensated column is

    Ŵ_j = Q(W_j + Σ_{i<j} δ_i F_ij),   δ = W - Ŵ,

which needs no inverse (n³/3 operations instead of 4n³/3) and gives GPTQ's codes in exact arithmetic: GPTQ's
factor of G⁻¹ is R⁻¹, and tr(δ G δᵀ) = Σ_j R_jj² (δ F)_j² is minimised column by column by the line above.

GPTAQ adds w_j P_j to the later columns, P = α triu(cross Uᵀ, 1) U with U = R⁻¹ and w_j column j's value before it is
rounded. So w = W - (w - Ŵ)(F⁻¹ - I) + w P, and multiplied by F, with U F = diag(R)⁻¹:

    w_j = W_j + Σ_{i<j} (δ_i F_ij + w_i M_ij),   M = P F = α triu(cross R⁻ᵀ, 1) diag(R)⁻¹.

Axes: C candidates, O out_features, I in_features, K channels of a group. Work is held transposed, (C, I, O), so that
one column of the weight is contiguous.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sarqc.errors import NumericalError
from sarqc.quantization.grid import Grid, dequantize, nearest_codes, scales_and_zero_points, split_groups

_FIRST_FLOOR = 1e-6  # of the largest diagonal entry
_LAST_FLOOR = 1e2


@dataclass(frozen=True)
class Factor:
    """R and F of one regularised Gram, and the diagonal that had to be added for them to exist (0: none)."""

    upper: Tensor  # (I, I) float64, R
    unit_upper: Tensor  # (I, I), F
    diagonal_floor: float


def factorise(gram: Tensor) -> Factor:
    """F for one G (I, I), computed in float64 and returned in G's dtype.

    A channel whose diagonal is 0 carries no weight in the loss: it gets 1 and so is rounded to nearest. Where G is
    not positive definite, the smallest of 1e-6, 1e-5, … times the Gram's own largest diagonal entry that works is added
    and reported. Raises ``NumericalError`` when none works.
    """
    matrix = gram.to(torch.float64).flip(0, 1)  # a lower factor of the flipped G is an upper factor of G
    diagonal = matrix.diagonal()
    largest = float(diagonal.max())
    diagonal.copy_(torch.where(diagonal == 0, torch.ones_like(diagonal), diagonal))
    lower, failed = torch.linalg.cholesky_ex(matrix)
    relative = _FIRST_FLOOR
    floor = 0.0
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
    upper = lower.flip(0, 1)  # (I, I), G = upper @ upper.mT
    return Factor(upper, (upper / upper.diagonal()).to(gram.dtype), floor)


def column_shift(upper: Tensor, cross: Tensor, strength: float) -> Tensor:
    """M of GPTAQ's sequential form (see above): upper (I, I) = R, cross (I, I) -> strictly upper (I, I)."""
    carried = torch.linalg.solve_triangular(upper.mT, cross.to(upper.dtype), upper=False, left=False)  # cross R⁻ᵀ
    return (strength * carried / upper.diagonal()).triu(1).to(cross.dtype)


def shifted_weight(weight: Tensor, upper: Tensor, cross: Tensor, strength: float) -> Tensor:
    """W* = W + strength · W cross G⁻¹: weight (O, I), upper (I, I) = R, cross (I, I) -> (O, I).

    At strength 1, tr((Ŵ - W*) G (Ŵ - W*)ᵀ) is ‖Ŵ X - W X_float‖² plus the drift penalty, but for a constant.
    """
    wide = weight.to(upper.dtype)
    half = torch.linalg.solve_triangular(upper.mT, wide @ cross.to(upper.dtype), upper=False, left=False)  # (O, I)
    shift = torch.linalg.solve_triangular(upper, half, upper=True, left=False)  # (O, I)
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
) -> tuple[Tensor, Tensor, Tensor]:
    """Codes for every candidate at once: the columns are taken in order, each compensating for those before it.

    weight (O, I) or (C, O, I), factors (C, I, I) unit upper, shifts (C, I, I) strictly upper or None -> codes
    (C, O, I), scales (C, O, G), zero_points (C, O, G), all in the dtype of ``weight``. Group scales are dynamic: they
    come from the working copy of the group when its first column is reached; ``static_groups`` takes them from
    ``weight``.
    ``block_size`` says how many columns pass between two updates of the rest of their group: speed, not result.
    """
    candidates, width = factors.shape[0], factors.shape[-1]
    original = weight.expand(candidates, *weight.shape[-2:]).mT.contiguous()  # (C, I, O)
    delta = torch.zeros_like(original)  # (C, I, O), W - Ŵ of the columns done
    codes = torch.empty_like(original)  # (C, I, O)
    values = None if shifts is None else torch.zeros_like(original)  # (C, I, O), w: the columns done, before rounding
    group_size = grid.group_size_for(width)
    scales, zero_points = [], []
    fixed = scales_and_zero_points(split_groups(original.mT, group_size), grid, storage) if static_groups else None
    for first in range(0, width, group_size):
        last = first + group_size
        inside = factors[:, first:last, first:last]  # (C, K, K)
        carried = factors[:, :first, first:last].mT @ delta[:, :first]  # (C, K, O), Σ_{i<first} δ_i F_ij
        if shifts is not None:
            carried += shifts[:, :first, first:last].mT @ values[:, :first]
        if fixed is None:
            scale, zero_point = scales_and_zero_points(
                _working_copy(original[:, first:last], carried, inside).mT, grid, storage
            )  # (C, O)
        else:
            scale, zero_point = (part[..., first // group_size] for part in fixed)  # (C, O)
        scales.append(scale)
        zero_points.append(zero_point)
        for start in range(0, group_size, block_size):
            stop = min(start + block_size, group_size)
            block = carried[:, start:stop]  # (C, B, O), a view that the columns below keep up to date
            for offset in range(stop - start):
                column = first + start + offset
                value = original[:, column] + block[:, offset]  # (C, O)
                code = nearest_codes(value, scale, zero_point, grid)
                codes[:, column] = code
                error = original[:, column] - dequantize(code, scale, zero_point)  # (C, O)
                delta[:, column] = error
                row = inside[:, start + offset, start + offset + 1 : stop]  # (C, rest of the block)
                block[:, offset + 1 :].addcmul_(row.unsqueeze(-1), error.unsqueeze(-2))
                if shifts is not None:
                    values[:, column] = value
                    row = shifts[:, column, column + 1 : first + stop]  # (C, rest of the block)
                    block[:, offset + 1 :].addcmul_(row.unsqueeze(-1), value.unsqueeze(-2))
            if stop < group_size:
                rest = inside[:, start:stop, stop:].mT  # (C, rest of the group, B)
                carried[:, stop:].baddbmm_(rest, delta[:, first + start : first + stop])
                if shifts is not None:
                    rest = shifts[:, first + start : first + stop, first + stop : last].mT
                    carried[:, stop:].baddbmm_(rest, values[:, first + start : first + stop])
    return codes.mT, torch.stack(scales, dim=-1), torch.stack(zero_points, dim=-1)


def _working_copy(original: Tensor, carried: Tensor, inside: Tensor) -> Tensor:
    """GPTQ's compensated copy of a group when its first column is reached: W_g + c T⁻¹.

    original, carried (C, K, O); inside (C, K, K) = T, the group's unit upper block of F.
    ``carried`` alone is what column j gains when it is its turn, after the columns between have been done; the copy
    that GPTQ holds at the group's start has not got their share yet, and T⁻¹ takes it out. This holds with a shift
    too: of (w - Ŵ) F⁻¹ = δ + w P only what comes from the earlier columns is then in the copy.
    """
    return original + torch.linalg.solve_triangular(inside.mT, carried, upper=False, unitriangular=True)
