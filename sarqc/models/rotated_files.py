"""Weights of a rotated checkpoint: computed from the original's files on demand, and rounded once.

They are multiplied by a seeded orthogonal matrix Q = diag(s) H, which is not written out. H is the normalised Hadamard
matrix of the width, s random signs. Products are sums in float64 in a fixed order: they have the same bits on every
processor, with any number of threads.

Axes: O out_features, I in_features, R rows, D channels.
"""

from collections.abc import Callable
from math import sqrt

import torch
from torch import Tensor

from sarqc.errors import NumericalError
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.hadamard import paley, shape_for
from sarqc.models.rotation import RotatedCheckpoint
from sarqc.models.weight_files import WeightFiles

_AT_ONCE = 256  # rows or columns
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

    def rotate(self, rows: Tensor) -> Tensor:
        """Return rows Q (R, D) of float64 rows."""
        return self._product(rows * self.signs, self._small)

    def rotate_back(self, rows: Tensor) -> Tensor:
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
        """Return the product of columns (D, R), which are overwritten: neighbours in memory take the same steps."""
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


class RotatedFiles(WeightFiles):
    """Tensors of a rotated checkpoint by their names.

    Args:
        checkpoint: The checkpoint.
        is_rounded: False for tensors before they are rounded to their dtype: in float32, or float64 where that is the
            original's.
    """

    def __init__(self, checkpoint: RotatedCheckpoint, *, is_rounded: bool = True) -> None:
        super().__init__(checkpoint)
        self.original = WeightFiles(checkpoint.original)
        self._rotation, self._is_rounded = checkpoint.rotation, is_rounded
        self._q = RandomHadamard(checkpoint.rotation.width, checkpoint.rotation.seed)
        self._r = RandomHadamard(checkpoint.rotation.head_width, checkpoint.rotation.seed)
        # Whole heads at once.
        self._at_once = max(1, _AT_ONCE // checkpoint.rotation.head_width) * checkpoint.rotation.head_width

    def read(self, name: str) -> Tensor:
        """Return a tensor on the CPU, in its stored dtype.

        Raises:
            NumericalError: If that dtype is too narrow for the rotated numbers.
        """
        rotation = self._rotation
        stored = self.original.read(rotation.copied_from if name == rotation.head else name)
        dtype = stored.dtype if self._is_rounded else torch.promote_types(stored.dtype, torch.float32)
        if name in rotation.norms:
            return torch.ones_like(stored, dtype=dtype)
        if not any(name in names for names in (rotation.columns, rotation.rows, rotation.values)):
            return stored
        made = torch.empty(stored.shape, dtype=dtype)
        if name in rotation.rows:
            parts = zip(stored.split(self._at_once, dim=1), made.split(self._at_once, dim=1), strict=True)
            for part, target in parts:
                columns = part.double()
                if name in rotation.outputs:
                    columns = self._turn_heads(columns, self._r.rotate)
                target.copy_(self._q.rotate(columns.mT).mT)
        elif name in rotation.columns:
            factor = self._norm_of(name)
            rows, targets = stored.reshape(-1, rotation.width), made.view(-1, rotation.width)
            for part, target in zip(rows.split(self._at_once), targets.split(self._at_once), strict=True):
                turned = self._q.rotate(part.double() * factor)
                target.copy_(self._turn_heads(turned.mT, self._r.rotate).mT if name in rotation.values else turned)
        else:  # a bias of values
            made.copy_(self._turn_heads(stored.double(), self._r.rotate))
        if not torch.isfinite(made).all() and torch.isfinite(stored).all():
            raise NumericalError(
                f"rotated, with the norm folded, it does not fit into {dtype}",
                name,
                "Set rotate to none, or use a checkpoint of a wider dtype.",
            )
        return made

    def to_original_basis(self, name: str, weight: Tensor) -> Tensor:
        """Return a weight (O, I) of the rotated model as one of the original, in float64.

        Ŵ Qᵀ diag(1/w) for a reader, Q Ŵ for a writer; rows of values and columns of outputs by R, head by head.

        A column whose norm weight is 0 is that of the original: its input is 0 in both models.
        """
        weight = weight.double()
        if name in self._rotation.outputs:
            weight = self._turn_heads(weight, self._r.rotate_back)
        if name in self._rotation.values:
            weight = self._turn_heads(weight.mT, self._r.rotate_back).mT
        if name in self._rotation.rows:
            return self._q.rotate_back(weight.mT.contiguous()).mT
        if name not in self._rotation.columns:
            return weight
        factor, plain = self._norm_of(name), self._q.rotate_back(weight)
        return torch.where(factor == 0, self.original.read(name).double(), plain / factor)

    def close(self) -> None:
        """Close the files; the next ``read`` opens its file again."""
        self.original.close()

    def _turn_heads(self, rows: Tensor, turn: Callable[[Tensor], Tensor]) -> Tensor:
        """Return rows (…, heads · width), each head's part turned by itself."""
        return turn(rows.reshape(-1, self._rotation.head_width)).view(rows.shape)

    def _norm_of(self, name: str) -> Tensor:
        """Return the weight of the norm (D,) folded into a reader; 1 () for other tensors."""
        norm = self._rotation.columns[name]
        return torch.ones((), dtype=torch.float64) if norm is None else self.original.read(norm).double()


def open_files(checkpoint: Checkpoint) -> WeightFiles:
    """Return the weights of a checkpoint, rotated or as they are on the disk."""
    return RotatedFiles(checkpoint) if isinstance(checkpoint, RotatedCheckpoint) else WeightFiles(checkpoint)
