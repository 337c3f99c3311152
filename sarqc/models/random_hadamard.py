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
            columns = part.mT.clone(memory_format=torch.contiguous_format)
            target.copy_(self._of_columns(columns, small).mT)
        return made

    def _of_columns(self, columns: Tensor, small: Tensor | None) -> Tensor:
        """Return the product of columns (D, R), which are written over: neighbours in memory take the same steps."""
        shape, count = self.shape, columns.shape[-1]
        values = columns.view(shape.blocks, shape.small, shape.power * count)
        if small is not None:
            terms = torch.zeros_like(values)
            for i in range(shape.small):
                terms.addcmul_(values[:, i : i + 1], small[i, :, None])  # by ±1: exact
            values = terms
        half, other = 1, torch.empty_like(values)
        while half < shape.power:  # Sylvester's: H_2n = [[H_n, H_n], [H_n, -H_n]]
            (first, second), (total, rest) = (part.view(-1, 2, half * count).unbind(1) for part in (values, other))
            torch.add(first, second, out=total)
            torch.sub(first, second, out=rest)
            values, other = other, values
            half *= 2
        return values.view(columns.shape).div_(sqrt(shape.order))
