"""The turns of a block of columns, one after the other: what takes the time of a column solver, and of its refinement.

Thousands of tiny operations for one linear: a GPU spends its time with starting them. There kernels of our own take all
turns of a block in one operation, with the same roundings in the same order, and so the same bits. Whether that is so
is seen on each device before its first use; where it is not, the loops below are taken.

Axes: C candidates, B columns of the block, O out_features.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import Tensor

from sarqc.quantization.grid import Grid, Kind, dequantize, nearest_codes

# Blocks (C, B, O) on which kernels are judged: every way through them. Few, for each costs a compilation.
_JUDGED_ON: tuple[tuple[Kind, tuple[int, int, int], torch.dtype, bool], ...] = (
    ("asymmetric", (2, 64, 75), torch.float32, False),
    ("affine", (1, 16, 33), torch.float32, True),
    ("full_range", (1, 8, 9), torch.float64, False),
)


@dataclass(frozen=True)
class Columns:
    """A block of columns with what their codes are found from, and where these go.

    Scales and zero points are those of each column; a view of one group's serves as well.
    """

    original: Tensor  # (C, B, O), W
    carried: Tensor  # (C, B, O), what earlier columns leave to these; used up
    factor: Tensor  # (C, B, B), unit upper, F
    scales: Tensor  # (C, B, O)
    zero_points: Tensor  # (C, B, O)
    codes: Tensor  # (C, B, O), written
    delta: Tensor  # (C, B, O), W - Ŵ, written
    shift: Tensor | None = None  # (C, B, B), strictly upper, M of GPTAQ
    values: Tensor | None = None  # (C, B, O), before rounding, written where there is a shift


@dataclass(frozen=True)
class Descent:
    """A block of columns in one pass of coordinate descent."""

    codes: Tensor  # (C, B, O), moved
    pull: Tensor  # (C, B, O), (ΔW G)ᵀ; used up
    rate: Tensor  # (C, B, O), codes that a unit of pull moves a weight by, below 0
    scales: Tensor  # (C, B, O)
    gram: Tensor  # (C, B, B)
    steps: Tensor  # (C, B, O), what the weights move by, written


Block = TypeVar("Block", Columns, Descent)


def take_turns(columns: Columns, grid: Grid) -> None:
    """Codes of the columns in order, each compensating for those before it."""
    kernels = _kernels_for(columns.original.device)
    if kernels is None:
        turns_in_a_loop(columns, grid)
    else:
        kernels.take_turns(columns, grid)


def descend(block: Descent, grid: Grid) -> None:
    """The columns in order, each moved to its best level while all others stay."""
    kernels = _kernels_for(block.codes.device)
    if kernels is None:
        descent_in_a_loop(block, grid)
    else:
        kernels.descend(block, grid)


def turns_in_a_loop(columns: Columns, grid: Grid) -> None:
    """``take_turns`` column by column."""
    shift, values = columns.shift, columns.values
    for column in range(columns.original.shape[1]):
        scale, zero_point = columns.scales[:, column], columns.zero_points[:, column]  # (C, O)
        value = columns.original[:, column] + columns.carried[:, column]  # (C, O)
        code = nearest_codes(value, scale, zero_point, grid)
        columns.codes[:, column] = code
        # Against W itself, not against the compensated value: F takes plain errors (see column_solver).
        error = columns.original[:, column] - dequantize(code, scale, zero_point, grid.is_affine)  # (C, O)
        columns.delta[:, column] = error
        rest = columns.carried[:, column + 1 :]
        rest.addcmul_(columns.factor[:, column, column + 1 :].unsqueeze(-1), error.unsqueeze(-2))
        if shift is not None and values is not None:
            values[:, column] = value
            rest.addcmul_(shift[:, column, column + 1 :].unsqueeze(-1), value.unsqueeze(-2))


def descent_in_a_loop(block: Descent, grid: Grid) -> None:
    """``descend`` column by column."""
    columns = zip(*(part.unbind(1) for part in (block.codes, block.pull, block.rate, block.scales)), strict=True)
    for column, (code, pulled, rate, scale) in enumerate(columns):  # (C, O) each
        best = torch.addcmul(code, pulled, rate).round_().clamp_(grid.lowest, grid.highest)
        step = torch.mul(best - code, scale)
        code.copy_(best)
        block.steps[:, column] = step
        rest = block.gram[:, column, column + 1 :]
        block.pull[:, column + 1 :].addcmul_(rest.unsqueeze(-1), step.unsqueeze(-2))


def why_no_kernels(device: torch.device) -> str:
    """Why a GPU's columns are taken in a loop, in words; empty where kernels serve it, and on a CPU."""
    return "" if device.type != "cuda" else _judged(device)


def _kernels_for(device: torch.device) -> ModuleType | None:
    if device.type != "cuda" or _judged(device):
        return None
    from sarqc.quantization import turn_kernels

    return turn_kernels


@lru_cache(maxsize=64)
def _judged(device: torch.device) -> str:
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    try:
        from sarqc.quantization import turn_kernels

        different = first_difference(turn_kernels, device)
    except Exception as error:  # a compiler, a driver: whatever they raise, the loops do the same work
        return f"Triton's kernels can't be used here: {type(error).__name__}: {str(error)[:200]}"
    return f"Triton's kernel gives other bits than PyTorch here ({different})" if different else ""


def first_difference(kernels: ModuleType, device: torch.device) -> str:
    """Which of some random blocks the kernels solve to other bits than the loops; empty for none."""
    random = torch.Generator().manual_seed(0)
    for kind, shape, dtype, shifted in _JUDGED_ON:
        grid = Grid(3, None, kind)
        columns = random_columns(shape, grid, random, dtype, device, shifted=shifted)
        expected = copied(columns)
        kernels.take_turns(columns, grid)
        turns_in_a_loop(expected, grid)
        if not _are_equal(columns, expected, ("codes", "delta", "values")):
            return f"columns, {kind}, {dtype}"
        block = random_descent(shape, grid, random, dtype, device)
        wanted = copied(block)
        kernels.descend(block, grid)
        descent_in_a_loop(wanted, grid)
        if not _are_equal(block, wanted, ("codes", "steps")):
            return f"refinement, {kind}, {dtype}"
    return ""


def random_columns(
    shape: tuple[int, int, int],
    grid: Grid,
    random: torch.Generator,
    dtype: torch.dtype,
    device: torch.device,
    *,
    shifted: bool,
) -> Columns:
    """A block (C, B, O) of the kind that a solver meets, to compare ways of taking its turns."""
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
) -> Descent:
    """A block (C, B, O) in the middle of a pass."""
    columns = random_columns(shape, grid, random, dtype, device, shifted=False)
    gram = columns.factor.mT @ columns.factor
    scales = columns.scales.contiguous()
    codes = nearest_codes(columns.original, scales, torch.zeros_like(scales), grid)
    rate = -1 / (gram.diagonal(dim1=-2, dim2=-1).unsqueeze(-1) * scales)
    pull = 3 * columns.carried
    # As near to a tie as can be, where one rounding more or less decides on the code.
    pull[:, 0] = (pull[:, 0].round() + 0.5) / rate[:, 0]
    return Descent(codes, pull, rate, scales, gram, torch.zeros_like(codes))


def copied(block: Block) -> Block:
    """The same with tensors of its own."""
    parts: dict[str, Any] = {name: None if part is None else part.clone() for name, part in vars(block).items()}
    return type(block)(**parts)


def _are_equal(one: Columns | Descent, other: Columns | Descent, names: tuple[str, ...]) -> bool:
    pairs = [(getattr(one, name), getattr(other, name)) for name in names]
    return all(first is None or torch.equal(first, second) for first, second in pairs)
