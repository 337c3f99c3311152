"""Kinds of grids, and the bits that codes and the numbers beside them take in storage; no torch."""

from collections.abc import Iterable
from typing import Literal, get_args

Kind = Literal["symmetric", "full_range", "asymmetric", "affine"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NUMBER_BITS = 16  # of a scale, and of a bias


def bits_beside_codes(grid: str, bits: int) -> int:
    """Return the bits that a group stores beside its codes: a scale, and a zero point of ``bits`` or a bias.

    Args:
        grid: Kind of the grid.
        bits: Bit width of the codes.
    """
    return NUMBER_BITS + {"asymmetric": bits, "affine": NUMBER_BITS}.get(grid, 0)


def bits_per_weight(shapes: Iterable[tuple[int, int]], grid: str, bits: int, group_size: int | None) -> float:
    """Return the bits of a quantized weight in full: code, scale, and zero point or bias.

    Args:
        shapes: (out_features, in_features) of each linear, at least one.
        grid: Kind of the grid.
        bits: Bit width of the codes.
        group_size: Input channels of a group; None for whole rows, as in linears whose width it does not divide.
    """
    weights = groups = 0
    for rows, width in shapes:
        weights += rows * width
        groups += rows * (1 if group_size is None or width % group_size else width // group_size)
    return bits + bits_beside_codes(grid, bits) * groups / weights
