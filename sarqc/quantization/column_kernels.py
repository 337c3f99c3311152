"""Turns of a block of columns as Triton kernels: one program for some rows of a candidate, all columns in order.

Rows don't depend on each other, so a program holds the compensation of its rows for every column of the block, and does
not wait for another program. Roundings are those of the loops in ``column_updates``: products and sums are contracted
only where PyTorch's ``addcmul`` is, quotients are rounded correctly.

Axes: C candidates, B columns of the block, O out_features.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from sarqc.quantization.columns import ColumnDescent, Columns
from sarqc.quantization.grid import Grid

_HELD = 2048  # 32-bit numbers of the compensation that a program holds: 64 registers in each of a warp's threads


def take_turns(columns: Columns, grid: Grid) -> None:
    """Do the work of ``column_updates.take_turns_in_loop`` in one operation.

    The last axis of all tensors must be contiguous.
    """
    shift = columns.factor if columns.shift is None else columns.shift
    values = columns.codes if columns.values is None else columns.values
    parts = (
        columns.original,
        columns.carried,
        columns.factor,
        shift,
        columns.scales,
        columns.zero_points,
        columns.codes,
        columns.delta,
        values,
    )
    _launch(
        _turns,
        columns.original,
        parts,
        grid,
        AFFINE=grid.is_affine,
        SHIFTED=columns.shift is not None,
    )


def descend(block: ColumnDescent, grid: Grid) -> None:
    """Do the work of ``column_updates.descend_in_loop`` in one operation.

    The last axis of all tensors must be contiguous.
    """
    parts = (block.codes, block.pull, block.rate, block.scales, block.gram, block.steps)
    _launch(_descent, block.codes, parts, grid)


def _launch(kernel: Any, like: Tensor, parts: tuple[Tensor, ...], grid: Grid, **constants: Any) -> None:
    """Run a kernel over all rows and candidates of ``like`` (C, B, O)."""
    candidates, width, rows = like.shape
    for part in parts:
        assert part.stride(-1) == 1, "kernels read rows as they lie in memory"
    held = triton.next_power_of_2(width)
    at_once = max(1, _HELD // (held * (like.element_size() // 4)))
    arguments = [argument for part in parts for argument in (part, part.stride(0), part.stride(1))]
    kernel[(triton.cdiv(rows, at_once), candidates)](
        *arguments,
        rows,
        width,
        float(grid.lowest),
        float(grid.highest),
        **constants,
        COLUMNS=held,
        ROWS=at_once,
        DOUBLE=like.dtype == torch.float64,
        num_warps=1,
        enable_fp_fusion=False,
    )


@triton.jit
def _rounded(value, DOUBLE: tl.constexpr):
    """Round to the nearest integer, ties to even; what is far outside of every grid stays far outside.

    A number to which 1.5 · 2^52 is added, in float32 1.5 · 2^23, has no room for what is smaller than 1.
    """
    near = tl.minimum(tl.maximum(value, -1048576.0), 1048576.0)
    no_room: tl.constexpr = 6755399441055744.0 if DOUBLE else 12582912.0
    return (near + no_room) - no_room


@triton.jit
def _quotient(value, divisor, DOUBLE: tl.constexpr):
    """Return the quotient rounded correctly, which “/” is in float64 only."""
    return value / divisor if DOUBLE else tl.math.div_rn(value, divisor)


@triton.jit
def _added(block, weights, row, is_later):
    """Return ``addcmul_`` of the columns to come: block (B, O), weights (B,), row (O,)."""
    weights, row = tl.broadcast(weights[:, None], row[None, :])
    return tl.where(is_later[:, None], tl.fma(weights, row, block), block)


@triton.jit
def _turns(
    original,
    original_c,
    original_b,
    carried,
    carried_c,
    carried_b,
    factor,
    factor_c,
    factor_b,
    shift,
    shift_c,
    shift_b,
    scales,
    scales_c,
    scales_b,
    zero_points,
    zero_points_c,
    zero_points_b,
    codes,
    codes_c,
    codes_b,
    delta,
    delta_c,
    delta_b,
    values,
    values_c,
    values_b,
    n_rows,
    n_columns,
    lowest,
    highest,
    AFFINE: tl.constexpr,
    SHIFTED: tl.constexpr,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    DOUBLE: tl.constexpr,
):
    """See ``take_turns_in_loop``; after each tensor its strides over candidates and columns."""
    candidate = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    here, there = rows < n_rows, columns < n_columns
    places = carried + candidate * carried_c + columns[:, None] * carried_b + rows[None, :]
    block = tl.load(places, mask=there[:, None] & here[None, :], other=0.0)  # (B, O)
    for column in range(n_columns):
        weight = tl.load(original + candidate * original_c + column * original_b + rows, mask=here, other=0.0)
        scale = tl.load(scales + candidate * scales_c + column * scales_b + rows, mask=here, other=1.0)
        zero_point = tl.load(
            zero_points + candidate * zero_points_c + column * zero_points_b + rows, mask=here, other=0.0
        )
        value = weight + tl.sum(tl.where(columns[:, None] == column, block, 0.0), axis=0)
        if AFFINE:
            code = _rounded(_quotient(value - zero_point, scale, DOUBLE), DOUBLE)
        else:
            code = _rounded(_quotient(value, scale, DOUBLE), DOUBLE) + zero_point
        code = tl.minimum(tl.maximum(code, lowest), highest)
        level = code * scale + zero_point if AFFINE else (code - zero_point) * scale
        error = weight - level
        tl.store(codes + candidate * codes_c + column * codes_b + rows, code, mask=here)
        tl.store(delta + candidate * delta_c + column * delta_b + rows, error, mask=here)
        is_later = there & (columns > column)
        weights = tl.load(factor + candidate * factor_c + column * factor_b + columns, mask=is_later, other=0.0)
        block = _added(block, weights, error, is_later)
        if SHIFTED:
            tl.store(values + candidate * values_c + column * values_b + rows, value, mask=here)
            weights = tl.load(shift + candidate * shift_c + column * shift_b + columns, mask=is_later, other=0.0)
            block = _added(block, weights, value, is_later)


@triton.jit
def _descent(
    codes,
    codes_c,
    codes_b,
    pull,
    pull_c,
    pull_b,
    rate,
    rate_c,
    rate_b,
    scales,
    scales_c,
    scales_b,
    gram,
    gram_c,
    gram_b,
    steps,
    steps_c,
    steps_b,
    n_rows,
    n_columns,
    lowest,
    highest,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    DOUBLE: tl.constexpr,
):
    """See ``descend_in_loop``; after each tensor its strides over candidates and columns."""
    candidate = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    here, there = rows < n_rows, columns < n_columns
    places = pull + candidate * pull_c + columns[:, None] * pull_b + rows[None, :]
    block = tl.load(places, mask=there[:, None] & here[None, :], other=0.0)  # (B, O)
    for column in range(n_columns):
        place = codes + candidate * codes_c + column * codes_b + rows
        code = tl.load(place, mask=here, other=0.0)
        rated = tl.load(rate + candidate * rate_c + column * rate_b + rows, mask=here, other=0.0)
        scale = tl.load(scales + candidate * scales_c + column * scales_b + rows, mask=here, other=1.0)
        pulled = tl.sum(tl.where(columns[:, None] == column, block, 0.0), axis=0)
        best = tl.minimum(tl.maximum(_rounded(tl.fma(pulled, rated, code), DOUBLE), lowest), highest)
        step = (best - code) * scale
        tl.store(place, best, mask=here)
        tl.store(steps + candidate * steps_c + column * steps_b + rows, step, mask=here)
        is_later = there & (columns > column)
        weights = tl.load(gram + candidate * gram_c + column * gram_b + columns, mask=is_later, other=0.0)
        block = _added(block, weights, step, is_later)
