"""Orthogonal matrices of ±1 by construction, and which of them a width allows; no torch.

Orders are powers of two (Sylvester), orders of Paley's two constructions over a prime field, and products of both. A
width that allows none is divided into blocks of the largest power of two.

R. E. A. C. Paley, On orthogonal matrices, J. Math. Phys. 12 (1933).
"""

from dataclasses import dataclass
from math import isqrt

import numpy as np

_MOST = 256  # largest order of Paley's that is used: its product takes as many additions for each number


@dataclass(frozen=True)
class HadamardShape:
    """Parts of an orthogonal matrix: ``blocks`` along the diagonal, each H_small ⊗ H_power.

    Attributes:
        blocks: Number of equal blocks; 1 for a matrix that mixes all channels.
        small: Order of Paley's matrix; 1 for none.
        power: Order of Sylvester's matrix, a power of two.
    """

    blocks: int
    small: int
    power: int

    @property
    def width(self) -> int:
        """Number of rows of the whole matrix."""
        return self.blocks * self.order

    @property
    def order(self) -> int:
        """Number of rows of a block."""
        return self.small * self.power

    @property
    def words(self) -> str:
        """“Hadamard 256”, “Hadamard 28 ⊗ 32” or “3 blocks of Hadamard 16”."""
        factors = [str(part) for part in (self.small, self.power) if part > 1] or ["1"]
        block = f"Hadamard {' ⊗ '.join(factors)}"
        return block if self.blocks == 1 else f"{self.blocks} blocks of {block}"


def shape_for(width: int) -> HadamardShape:
    """Return the matrix of a width: one block if a construction is known, otherwise blocks of a power of two."""
    power = width & -width
    odd = width // power
    if odd == 1:
        return HadamardShape(1, 1, width)
    order = 4 * odd
    while width % order == 0 and order <= _MOST:
        if _construction(order):
            return HadamardShape(1, order, width // order)
        order *= 2
    return HadamardShape(odd, 1, power)


def paley(order: int) -> np.ndarray:
    """Return a matrix H (order, order) of ±1 as int8 with H Hᵀ = order · I.

    Args:
        order: q + 1 with a prime q ≡ 3 mod 4, or 2 (q + 1) with a prime q ≡ 1 mod 4.

    Raises:
        ValueError: For another order.
    """
    construction = _construction(order)
    if not construction:
        raise ValueError(f"no construction of order {order}")
    size = order if construction == 1 else order // 2
    sign = -1 if construction == 1 else 1
    conference = np.zeros((size, size), dtype=np.int8)
    conference[0, 1:], conference[1:, 0] = 1, sign
    conference[1:, 1:] = _residues(size - 1)
    unit = np.eye(size, dtype=np.int8)
    if construction == 1:
        matrix: np.ndarray = conference + unit
        return matrix
    pair, turned = np.array([[1, 1], [1, -1]], dtype=np.int8), np.array([[1, -1], [-1, -1]], dtype=np.int8)
    doubled: np.ndarray = np.kron(conference, pair) + np.kron(unit, turned)
    return doubled


def _residues(prime: int) -> np.ndarray:
    """Return χ(i - j) (prime, prime): 1 for a square, -1 for another number, 0 on the diagonal."""
    character = np.full(prime, -1, dtype=np.int8)
    character[np.arange(1, prime) ** 2 % prime] = 1
    character[0] = 0
    at = np.arange(prime)
    residues: np.ndarray = character[(at[:, None] - at) % prime]
    return residues


def _construction(order: int) -> int:
    """Return the first or the second construction of an order; 0 for neither."""
    if _is_prime(order - 1) and (order - 1) % 4 == 3:
        return 1
    half = order // 2 - 1
    return 2 if order % 4 == 0 and _is_prime(half) and half % 4 == 1 else 0


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, isqrt(number) + 1))
