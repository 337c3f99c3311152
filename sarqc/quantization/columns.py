"""Blocks of consecutive columns, the input of a solver's turns and of a pass of refinement.

Axes: C candidates, B columns of the block, O out_features.
"""

from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from sarqc.quantization.grid import Grid, nearest_codes


@dataclass(frozen=True)
class Columns:
    """A block of columns with the inputs and outputs of a solver's turns.

    Scales and zero points are those of each column; a view of one group's serves as well.
    """

    original: Tensor  # (C, B, O), W
    carried: Tensor  # (C, B, O), compensation from earlier columns; overwritten
    factor: Tensor  # (C, B, B), unit upper, F
    scales: Tensor  # (C, B, O)
    zero_points: Tensor  # (C, B, O)
    codes: Tensor  # (C, B, O), written
    delta: Tensor  # (C, B, O), W - Ŵ, written
    shift: Tensor | None = None  # (C, B, B), strictly upper, M of GPTAQ
    values: Tensor | None = None  # (C, B, O), before rounding, written where there is a shift


@dataclass(frozen=True)
class ColumnDescent:
    """A block of columns in one pass of coordinate descent."""

    codes: Tensor  # (C, B, O), moved
    pull: Tensor  # (C, B, O), (ΔW G)ᵀ; overwritten
    rate: Tensor  # (C, B, O), codes that a unit of pull moves a weight by, below 0
    scales: Tensor  # (C, B, O)
    gram: Tensor  # (C, B, B)
    steps: Tensor  # (C, B, O), steps of the weights, written


Block = TypeVar("Block", Columns, ColumnDescent)


def random_columns(
    shape: tuple[int, int, int],
    grid: Grid,
    random: torch.Generator,
    dtype: torch.dtype,
    device: torch.device,
    *,
    shifted: bool,
) -> Columns:
    """Return a random block (C, B, O) like those that a solver meets, to compare implementations of its turns."""
    candidates, width, _ = shape

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=random, dtype=torch.float64).to(device, dtype)

    square = (candidates, width, width)
    original, carried = normal(*shape), 0.1 * normal(*shape)
    scales = (original.amax(1) - original.amin(1) + 0.1).unsqueeze(1) / grid.steps  # (C, 1, O), one group
    zero_points = torch.zeros_like(scales)
    if grid.kind == "affine":
        zero_points = original.amin(1, keepdim=True)
    elif grid.kind == "asymmetric":
        zero_points = (-original.amin(1, keepdim=True) / scales).round().clamp(grid.lowest, grid.highest)
    # The first column as near to ties as can be, where one rounding more or less decides on the code.
    value = (original[:, 0] / scales[:, 0]).floor() * scales[:, 0] + 0.5 * scales[:, 0]
    original[:, 0] = value - carried[:, 0]
    return Columns(
        original=original,
        carried=carried,
        factor=(0.2 * normal(*square)).triu(1) + torch.eye(width, dtype=dtype, device=device),
        scales=scales.expand(shape),
        zero_points=zero_points.expand(shape),
        codes=torch.zeros_like(original),
        delta=torch.zeros_like(original),
        shift=(0.05 * normal(*square)).triu(1) if shifted else None,
        values=torch.zeros_like(original) if shifted else None,
    )


def random_descent(
    shape: tuple[int, int, int], grid: Grid, random: torch.Generator, dtype: torch.dtype, device: torch.device
) -> ColumnDescent:
    """Return a random block (C, B, O) in the middle of a pass of refinement."""
    columns = random_columns(shape, grid, random, dtype, device, shifted=False)
    gram = columns.factor.mT @ columns.factor
    scales = columns.scales.contiguous()
    codes = nearest_codes(columns.original, scales, torch.zeros_like(scales), grid)
    rate = -1 / (gram.diagonal(dim1=-2, dim2=-1).unsqueeze(-1) * scales)
    pull = 3 * columns.carried
    # As near to a tie as can be, where one rounding more or less decides on the code.
    pull[:, 0] = (pull[:, 0].round() + 0.5) / rate[:, 0]
    return ColumnDescent(codes, pull, rate, scales, gram, torch.zeros_like(codes))


def copied(block: Block) -> Block:
    """Return a copy of the block with its own tensors."""
    parts: dict[str, Any] = {name: None if part is None else part.clone() for name, part in vars(block).items()}
    return type(block)(**parts)
