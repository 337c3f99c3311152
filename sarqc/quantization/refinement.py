"""Coordinate descent on a layer's codes with fixed scales: each weight in turn takes its best level, all others stay.

For tr(ΔW G ΔWᵀ), ΔW = Ŵ - W, the best value of column j is ŵ_j - (ΔW G)_j / G_jj, and the best level the one nearest to
it. So no step raises the objective, whatever codes it begins with.

Axes: C candidates, O out_features, I in_features, G groups of a row, B columns of a block. Work is held transposed, (C,
I, O), so that one column of the weight is contiguous.
"""

import torch
from torch import Tensor

from sarqc.quantization.column_updates import descend
from sarqc.quantization.columns import ColumnDescent
from sarqc.quantization.grid import Grid, dequantize

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
    """Return codes whose tr((Ŵ - target) G (Ŵ - target)ᵀ) is not larger in any row.

    The descent ends after the given passes, or as soon as no code changes. No argument is changed.

    Args:
        target: (C, O, I), the weight to approximate.
        codes: (C, O, I), the initial codes.
        scales: (C, O, G).
        zero_points: (C, O, G), biases on the affine grid.
        gram: G (C, I, I).
        grid: Grid of the codes.
        passes: Largest number of passes.
        orders: (C, I), the column of each turn; None for the order as stored.

    Returns:
        The codes (C, O, I).
    """
    width = gram.shape[-1]
    if orders is None:
        orders = torch.arange(width, device=gram.device).expand(gram.shape[:2])
    groups = orders // (width // scales.shape[-1])  # (C, I), of the column of each turn
    target, codes = (take_rows(part.mT, orders) for part in (target, codes))
    gram = take_rows(take_rows(gram, orders).mT, orders)
    scales, zero_points = (take_rows(part.mT, groups) for part in (scales, zero_points))  # (C, I, O)
    delta = dequantize(codes, scales, zero_points, grid.is_affine) - target  # (C, I, O)
    pull = gram @ delta  # (C, I, O), (ΔW G)ᵀ
    objective = (delta * pull).sum(dim=1)  # (C, O)
    for _ in range(passes):
        moved, after = _pass_over(delta, codes, pull.clone(), gram, scales, grid)
        # Computed anew rather than carried along, so that rounding errors of a pass do not enter the comparison.
        pull_after = gram @ after
        objective_after = (after * pull_after).sum(dim=1)
        # In exact arithmetic every row is accepted. A row that rounding errors would make worse stays as it was.
        accepted = (objective_after <= objective).unsqueeze(-2)  # (C, 1, O)
        moved = torch.where(accepted, moved, codes)
        if torch.equal(moved, codes):
            break
        codes, delta = moved, torch.where(accepted, after, delta)
        pull = torch.where(accepted, pull_after, pull)
        objective = torch.where(accepted.squeeze(-2), objective_after, objective)
    # A code that was rounded to −0 is 0, or its level would have another sign bit than what is read from integers.
    return put_rows(codes + 0.0, orders).mT


def _pass_over(
    delta: Tensor,
    codes: Tensor,
    pull: Tensor,
    gram: Tensor,
    scales: Tensor,
    grid: Grid,
) -> tuple[Tensor, Tensor]:
    """Return codes (C, I, O) and ΔWᵀ (C, I, O) after each column has had its turn; scales (C, I, O) are the columns'.

    ``pull`` is overwritten: it stays right for the columns to come only.
    """
    delta, codes, width = delta.clone(), codes.clone(), gram.shape[-1]
    for start in range(0, width, _BLOCK):
        stop = min(start + _BLOCK, width)
        here = slice(start, stop)
        inside = gram[:, here, here]  # (C, B, B)
        diagonal = inside.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)  # (C, B, 1)
        # In codes the best value is code - pull / (G_jj scale). A channel that carries no weight in the objective has
        # no pull either, and keeps its codes.
        rate = -1 / (torch.where(diagonal > 0, diagonal, torch.ones_like(diagonal)) * scales[:, here])  # (C, B, O)
        steps = torch.empty_like(rate)  # (C, B, O)
        descend(ColumnDescent(codes[:, here], pull[:, here], rate, scales[:, here], inside, steps), grid)
        delta[:, here] += steps
        pull[:, stop:].baddbmm_(gram[:, stop:, here], steps)
    return codes, delta


def take_rows(part: Tensor, positions: Tensor) -> Tensor:
    """Return the rows of each candidate at its own positions.

    Args:
        part: (C, N, M), N rows of each candidate.
        positions: (C, K).

    Returns:
        The rows (C, K, M).
    """
    # Whole rows at a time: half of the time of a gather, which looks up the position of each number.
    return part[_candidates(positions), positions]


def put_rows(part: Tensor, orders: Tensor) -> Tensor:
    """Return rows of each candidate in the order as stored: the inverse of ``take_rows`` at each column's turn.

    Args:
        part: (C, I, M), rows in the order of turns.
        orders: (C, I), the column of each turn.

    Returns:
        The rows (C, I, M).
    """
    stored = torch.empty_like(part)
    stored[_candidates(orders), orders] = part
    return stored


def _candidates(positions: Tensor) -> Tensor:
    """Return the numbers of the candidates (C, 1) of positions (C, K)."""
    return torch.arange(len(positions), device=positions.device).unsqueeze(-1)
