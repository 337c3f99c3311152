"""A seeded orthogonal matrix Q = diag(s) H, multiplied without being written out.

H is the normalised Hadamard matrix of the width, s random signs. Products are sums in float64 in a fixed order: they
have the same bits on every processor, with any number of threads.

Axes: R rows, D channels.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor

from sarqc.models.hadamard import paley, shape_for

_NUMBERS = 1 << 17  # worked on at once, so that they stay in a processor's cache


class RandomHadamard:
    """Q (D, D) of a width and a seed.

    Args:
        width: D.
        seed: Seed of the signs.
    """

    def __init__(self, width: int, seed: int) -> None:
        self.shape = shape_for(width)
        generator = torch.Generator().manual_seed(seed)
        self.signs = 1.0 - 2.0 * torch.randint(2, (width,), generator=generator).double()
        self._small = torch.from_numpy(paley(self.shape.small)).double() if self.shape.small > 1 else None

    def turned(self, rows: Tensor) -> Tensor:
        """Return rows Q (R, D) of float64 rows."""
        return self._product(rows * self.signs, self._small)

    def back(self, rows: Tensor) -> Tensor:
        """Return rows Qᵀ (R, D) of float64 rows."""
        return self._product(rows, None if self._small is None else self._small.mT) * self.signs

    def _product(self, rows: Tensor, small: Tensor | None) -> Tensor:
        made = torch.empty_like(rows)
        at_once = max(1, _NUMBERS // rows.shape[-1])
        for part, target in zip(rows.split(at_once), made.split(at_once), strict=True):
            target.copy_(self._of_few(part, small))
        return made

    def _of_few(self, rows: Tensor, small: Tensor | None) -> Tensor:
        shape = self.shape
        values = rows.reshape(len(rows), shape.blocks, shape.small, shape.power)
        if small is not None:
            terms = (values[:, :, i : i + 1] * small[i, :, None] for i in range(shape.small))  # ±1: exact
            values = sum(terms, torch.zeros_like(values))
        half = 1
        while half < shape.power:  # Sylvester's: H_2n = [[H_n, H_n], [H_n, -H_n]]
            first, second = values.unflatten(-1, (-1, 2, half)).unbind(-2)
            values = torch.stack((first + second, first - second), dim=-2).flatten(-3)
            half *= 2
        return values.reshape(rows.shape) / sqrt(shape.order)
