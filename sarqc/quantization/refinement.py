"""Coordinate descent on a layer's codes, its scales fixed: each weight in turn takes the best level, all others stay.

For tr(ΔW G ΔWᵀ), ΔW = Ŵ - W, the best value of column j is ŵ_j - (ΔW G)_j / G_jj, and the best level the one nearest
to it. So no step raises the objective, whatever the codes that it begins with.

Axes: C candidates, O out_features, I in_features, G groups of a row, B columns of a block. Work is held transposed,
(C, I, O), so that one column of the weight is contiguous.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sarqc.quantization.grid import Grid, dequantize, nearest_codes

_BLOCK = 64  # columns between two updates of the rest: speed only


def refined_codes(
    target: Tensor,
    codes: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    gram: Tensor,
    grid: Grid,
    *,
    passes: int,
    orders: Tensor | None = None,
) -> Tensor:
    """Codes with no larger tr((Ŵ - target) G (Ŵ - target)ᵀ) in any row, after as many passes or until none changes.

    target, codes (C, O, I), scales and zero_points (C, O, G), gram (C, I, I) -> codes (C, O, I); no argument is
    changed. orders (C, I): which column has which turn; None: as they are stored.
    """
    width = gram.shape[-1]
    if orders is None:
        orders = torch.arange(width, device=gram.device).expand(gram.shape[:2])
    groups = orders // (width // scales.shape[-1])  # (C, I), of the column of each turn
    turns = orders.unsqueeze(-1)  # (C, I, 1)
    target, codes = (part.mT.take_along_dim(turns, dim=1) for part in (target, codes))
    gram = gram.take_along_dim(turns, dim=1).take_along_dim(turns.mT, dim=2)
    scales, zero_points = scales.mT, zero_points.mT  # (C, G, O)
    by_column = groups.unsqueeze(-1)  # (C, I, 1)
    scale, zero_point = (part.take_along_dim(by_column, dim=1) for part in (scales, zero_points))
    delta = dequantize(codes, scale, zero_point) - target  # (C, I, O)
    pull = gram @ delta  # (C, I, O), (ΔW G)ᵀ
    objective = (delta * pull).sum(dim=1)  # (C, O)
    for _ in range(passes):
        moved, after = _one_pass(delta, codes, pull.clone(), gram, groups, scales, zero_points, grid)
        pull_after = gram @ after
        objective_after = (after * pull_after).sum(dim=1)
        # In exact arithmetic every row is kept. A row that rounding errors would make worse stays as it was.
        kept = (objective_after <= objective).unsqueeze(-2)  # (C, 1, O)
        moved = torch.where(kept, moved, codes)
        if torch.equal(moved, codes):
            break
        codes, delta = moved, torch.where(kept, after, delta)
        pull = torch.where(kept, pull_after, pull)
        objective = torch.where(kept.squeeze(-2), objective_after, objective)
    return torch.empty_like(codes).scatter_(1, turns.expand_as(codes), codes).mT


def refined_layer(
    target: Tensor, codes: Tensor, scales: Tensor, zero_points: Tensor, gram: Tensor, grid: Grid, *, passes: int
) -> Tensor:
    """The same for one linear: target, codes (O, I), scales and zero_points (O, G), gram (I, I) -> codes (O, I)."""
    return refined_codes(
        target.unsqueeze(0), codes.unsqueeze(0), scales.unsqueeze(0), zero_points.unsqueeze(0), gram.unsqueeze(0), grid,
        passes=passes,
    )[0]  # fmt: skip


def _one_pass(
    delta: Tensor,
    codes: Tensor,
    pull: Tensor,
    gram: Tensor,
    groups: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    grid: Grid,
) -> tuple[Tensor, Tensor]:
    """Codes (C, I, O) and ΔWᵀ (C, I, O) after each column has had its turn.

    ``pull`` is used up: it is kept right for the columns to come only. groups (C, I): of each column.
    """
    delta, codes, width = delta.clone(), codes.clone(), gram.shape[-1]
    for start in range(0, width, _BLOCK):
        stop = min(start + _BLOCK, width)
        inside = gram[:, start:stop, start:stop]  # (C, B, B)
        near = pull[:, start:stop]  # (C, B, O), a view that the columns below keep right
        by_column = groups[:, start:stop].unsqueeze(-1)
        scale, zero_point = (part.take_along_dim(by_column, dim=1) for part in (scales, zero_points))  # (C, B, O)
        diagonal = inside.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)  # (C, B, 1)
        # A channel that carries no weight in the objective has no pull either, and keeps its codes.
        diagonal = torch.where(diagonal > 0, diagonal, torch.ones_like(diagonal))
        levels = dequantize(codes[:, start:stop], scale, zero_point)
        steps = torch.empty_like(levels)
        for offset in range(stop - start):
            best = levels[:, offset] - near[:, offset] / diagonal[:, offset]  # (C, O)
            code = nearest_codes(best, scale[:, offset], zero_point[:, offset], grid)
            codes[:, start + offset] = code
            steps[:, offset] = step = dequantize(code, scale[:, offset], zero_point[:, offset]) - levels[:, offset]
            near[:, offset + 1 :].addcmul_(inside[:, offset, offset + 1 :].unsqueeze(-1), step.unsqueeze(-2))
        delta[:, start:stop] += steps
        pull[:, stop:].baddbmm_(gram[:, stop:, start:stop], steps)
    return codes, delta
