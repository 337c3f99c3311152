"""Turns of a block of columns, in order: the slow part of a column solver and of its refinement.

These are thousands of tiny operations for one linear, and a GPU spends its time on starting them. Own kernels there
take all turns of a block in one operation, with the same roundings in the same order, and so the same bits. The bits
are compared on each device before its first use; if they differ, the loops below are used.

Axes: C candidates, B columns of the block, O out_features.
"""

import importlib.util
from functools import lru_cache
from types import ModuleType

import torch

from sarqc.quantization.columns import ColumnDescent, Columns, copied, random_columns, random_descent
from sarqc.quantization.grid import Grid, dequantize, nearest_codes
from sarqc.quantization.storage import Kind

# Blocks (C, B, O) on which kernels are judged: every way through them. Few, for each costs a compilation.
_JUDGED_ON: tuple[tuple[Kind, tuple[int, int, int], torch.dtype, bool], ...] = (
    ("asymmetric", (2, 64, 75), torch.float32, False),
    ("affine", (1, 16, 33), torch.float32, True),
    ("full_range", (1, 8, 9), torch.float64, False),
)


def take_turns(columns: Columns, grid: Grid) -> None:
    """Compute the codes of the columns in order, each compensating for those before it."""
    kernels = _kernels_for(columns.original.device)
    if kernels is None:
        take_turns_in_loop(columns, grid)
    else:
        kernels.take_turns(columns, grid)


def descend(block: ColumnDescent, grid: Grid) -> None:
    """Move each column, in order, to its best level while all others stay."""
    kernels = _kernels_for(block.codes.device)
    if kernels is None:
        descend_in_loop(block, grid)
    else:
        kernels.descend(block, grid)


def take_turns_in_loop(columns: Columns, grid: Grid) -> None:
    """Do the work of ``take_turns`` column by column."""
    shift, values = columns.shift, columns.values
    factor, carried = columns.factor.unsqueeze(-1), columns.carried  # (C, B, B, 1), (C, B, O)
    parts = (columns.original, carried, columns.scales, columns.zero_points, columns.codes, columns.delta)
    turns = zip(*(part.unbind(1) for part in parts), strict=True)
    value = torch.empty_like(columns.original[:, 0])  # (C, O)
    for column, (original, gained, scale, zero_point, code, error) in enumerate(turns):  # (C, O) each
        torch.add(original, gained, out=value)
        nearest_codes(value, scale, zero_point, grid, out=code)
        # Against W itself, not against the compensated value: F takes plain errors (see column_solver).
        torch.sub(original, dequantize(code, scale, zero_point, grid.is_affine, out=error), out=error)
        rest = carried[:, column + 1 :]
        rest.addcmul_(factor[:, column, column + 1 :], error.unsqueeze(-2))
        if shift is not None and values is not None:
            values[:, column] = value
            rest.addcmul_(shift[:, column, column + 1 :].unsqueeze(-1), value.unsqueeze(-2))


def descend_in_loop(block: ColumnDescent, grid: Grid) -> None:
    """Do the work of ``descend`` column by column."""
    codes, moved, factors = block.codes, torch.empty_like(block.codes), block.gram.unsqueeze(-1)  # (C, B, B, 1)
    parts = (codes, moved, block.pull, block.rate, block.scales, block.steps)
    turns = zip(*(part.unbind(1) for part in parts), strict=True)
    for column, (code, best, pulled, rate, scale, step) in enumerate(turns):  # (C, O) each
        torch.addcmul(code, pulled, rate, out=best).round_().clamp_(grid.lowest, grid.highest)
        torch.sub(best, code, out=step).mul_(scale)
        block.pull[:, column + 1 :].addcmul_(factors[:, column, column + 1 :], step.unsqueeze(-2))
    codes.copy_(moved)


def kernel_obstacle(device: torch.device) -> str:
    """Return the reason why a GPU's columns are taken in a loop; empty if kernels serve it, and on a CPU."""
    return "" if device.type != "cuda" else _judged(device)


def _kernels_for(device: torch.device) -> ModuleType | None:
    if device.type != "cuda" or _judged(device):
        return None
    from sarqc.quantization import column_kernels

    return column_kernels


@lru_cache(maxsize=64)
def _judged(device: torch.device) -> str:
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    try:
        from sarqc.quantization import column_kernels

        different = first_difference(column_kernels, device)
    except Exception as error:  # a compiler, a driver: whatever they raise, the loops do the same work
        return f"Triton's kernels can't be used here: {type(error).__name__}: {str(error)[:200]}"
    return f"Triton's kernel gives other bits than PyTorch here ({different})" if different else ""


def first_difference(kernels: ModuleType, device: torch.device) -> str:
    """Return a description of the first random block for which kernels and loops differ in bits; empty for none."""
    random = torch.Generator().manual_seed(0)
    for kind, shape, dtype, shifted in _JUDGED_ON:
        grid = Grid(3, None, kind)
        columns = random_columns(shape, grid, random, dtype, device, shifted=shifted)
        expected = copied(columns)
        kernels.take_turns(columns, grid)
        take_turns_in_loop(expected, grid)
        if not _are_equal(columns, expected, ("codes", "delta", "values")):
            return f"columns, {kind}, {dtype}"
        block = random_descent(shape, grid, random, dtype, device)
        expected_block = copied(block)
        kernels.descend(block, grid)
        descend_in_loop(expected_block, grid)
        if not _are_equal(block, expected_block, ("codes", "steps")):
            return f"refinement, {kind}, {dtype}"
    return ""


def _are_equal(actual: Columns | ColumnDescent, expected: Columns | ColumnDescent, names: tuple[str, ...]) -> bool:
    pairs = [(getattr(actual, name), getattr(expected, name)) for name in names]
    return all(first is None or torch.equal(first, second) for first, second in pairs)
