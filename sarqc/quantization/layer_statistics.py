"""Statistics of a linear's calibration inputs: sums and maxima over tokens, which batches and devices merge.

Axes: N tokens, I in_features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from sarqc.errors import NumericalError, Refused

# Channels from which half a Gram and its mirror image take less time than all of it, on a processor and on a GPU.
_HALVED_FROM, _HALVED_FROM_ON_GPU = 512, 2048
_SUMMED_AT_ONCE = 1024  # tokens


@dataclass(frozen=True)
class LayerStatistics:
    """Sums over the tokens that reached a linear, and the largest norm of a token.

    Immutable: adding two statistics makes a new object.

    Attributes:
        gram: (I, I), Σ x xᵀ, a sum and not a mean.
        abs_sum: (I,), Σ |x|.
        n_tokens: Number of tokens.
        cross: (I, I), Σ (x_float - x) xᵀ, where x_float are the inputs of the same tokens under the float prefix; None
            without these.
        max_norm: (), the largest ‖x‖₂ of a token, M_X of Theorem 1; None if it was not measured. No solver reads it.

    Raises:
        Refused: If the shapes do not belong to one width I.
        NumericalError: If a sum is not finite.
    """

    gram: Tensor
    abs_sum: Tensor
    n_tokens: int
    cross: Tensor | None = None
    max_norm: Tensor | None = None

    def __post_init__(self) -> None:
        width = self.abs_sum.shape[-1] if self.abs_sum.ndim == 1 else -1
        if self.gram.shape != (width, width):
            raise Refused(
                f"gram is {tuple(self.gram.shape)} and abs_sum {tuple(self.abs_sum.shape)}",
                "layer statistics",
                "They must be (I, I) and (I,) for one I.",
            )
        if self.cross is not None and self.cross.shape != self.gram.shape:
            raise Refused(
                f"cross is {tuple(self.cross.shape)} and gram {tuple(self.gram.shape)}",
                "layer statistics",
                "They must both be (I, I).",
            )
        for name, tensor in (("gram", self.gram), ("abs_sum", self.abs_sum), ("cross", self.cross)):
            if tensor is not None and not is_finite(tensor):
                channel = int((~torch.isfinite(tensor)).nonzero()[0, -1])
                raise NumericalError(
                    f"{name} is not finite at channel {channel}",
                    "layer statistics",
                    "Look for NaN or overflow in the model's activations; load it in a wider dtype.",
                )

    @classmethod
    def from_inputs(cls, inputs: Tensor, float_inputs: Tensor | None = None) -> LayerStatistics:
        """Return the statistics of a batch of inputs.

        Sums run in float32, in float64 for float64 inputs.

        Args:
            inputs: (..., I), every leading axis counts as tokens.
            float_inputs: (..., I), the inputs of the same tokens under the float prefix; the cross term needs them.

        Raises:
            Refused: If the two shapes differ.
            NumericalError: If a sum is not finite.
        """
        sums = RunningSums()
        sums.add(inputs, float_inputs)
        return sums.total()

    def __add__(self, other: LayerStatistics) -> LayerStatistics:
        if self.gram.shape != other.gram.shape:
            raise Refused(
                f"statistics of {len(self.abs_sum)} and of {len(other.abs_sum)} channels do not add",
                "layer statistics",
                "Add statistics of the same layer's inputs.",
            )
        _check_crosses(self.cross, other.cross)
        joined: dict[str, Tensor | None] = {}
        for name, join in (("cross", torch.add), ("max_norm", torch.maximum)):
            ours, theirs = getattr(self, name), getattr(other, name)
            joined[name] = None if ours is None or theirs is None else join(ours, theirs)
        return LayerStatistics(
            self.gram + other.gram, self.abs_sum + other.abs_sum, self.n_tokens + other.n_tokens, **joined
        )

    @property
    def abs_mean(self) -> Tensor:
        """Mean of |x| over tokens for each channel (I,); zeros without any token."""
        return self.abs_sum / max(self.n_tokens, 1)

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> LayerStatistics:
        """Return the same sums on another device or in another dtype."""
        moved: dict[str, Any] = {
            name: part.to(device, dtype) for name, part in vars(self).items() if isinstance(part, Tensor)
        }
        return replace(self, **moved)


def is_finite(values: Tensor) -> bool:
    """Return True if all values are finite.

    Only the smallest and the largest value are tested, which needs no mask of the tensor's size.
    """
    return values.numel() == 0 or bool(torch.isfinite(torch.stack(values.aminmax())).all())


class RunningSums:
    """Statistics of a layer accumulated over batches of its inputs.

    No value is requested from the device before ``total``.
    """

    def __init__(self) -> None:
        self._gram: Tensor | None = None
        self._abs_sum: Tensor | None = None
        self._largest: Tensor | None = None
        self._cross: Tensor | None = None
        self._n_tokens = 0

    def add(self, inputs: Tensor, float_inputs: Tensor | None = None) -> None:
        """Add a batch of inputs, as ``LayerStatistics.from_inputs`` takes them.

        Args:
            inputs: (..., I).
            float_inputs: (..., I), given for every batch or for none.

        Raises:
            Refused: If the two shapes differ, or only some batches have ``float_inputs``.
        """
        if float_inputs is not None and float_inputs.shape != inputs.shape:
            raise Refused(
                f"inputs are {tuple(inputs.shape)} and float_inputs {tuple(float_inputs.shape)}",
                "layer statistics",
                "Give both inputs of the same tokens.",
            )
        if self._n_tokens:
            _check_crosses(self._cross, float_inputs)
        tokens = inputs.reshape(-1, inputs.shape[-1])  # (N, I)
        work = torch.promote_types(tokens.dtype, torch.float32)
        norms = torch.linalg.vector_norm(tokens, dim=-1, dtype=work)  # (N,)
        largest = norms.max() if len(tokens) else tokens.new_zeros((), dtype=work)
        self._gram = _with_gram(self._gram, tokens, work)
        self._abs_sum = _added(self._abs_sum, tokens.abs().sum(dim=0, dtype=work))
        if float_inputs is not None:
            difference = float_inputs.reshape(tokens.shape).to(work) - tokens.to(work)  # (N, I)
            self._cross = _with_cross(self._cross, difference, tokens)
        self._largest = largest if self._largest is None else torch.maximum(self._largest, largest)
        self._n_tokens += len(tokens)

    def total(self) -> LayerStatistics:
        """Return the statistics of all batches, at least one; no batch may follow.

        Raises:
            NumericalError: If a sum is not finite.
        """
        assert self._gram is not None
        assert self._abs_sum is not None
        return LayerStatistics(self._gram, self._abs_sum, self._n_tokens, self._cross, self._largest)


def _check_crosses(first: Tensor | None, second: Tensor | None) -> None:
    if (first is None) != (second is None):
        raise Refused(
            "statistics with a cross term and statistics without one do not add",
            "layer statistics",
            "Give float_inputs for every batch or for none.",
        )


def _with_gram(total: Tensor | None, tokens: Tensor, work: torch.dtype) -> Tensor:
    """Return Σ x xᵀ of tokens (N, I), added to the total: (I, I) in the working precision.

    A product of two numbers of 16 bits is exact in float32, and a GPU's units for such products take a fifth of the
    time. But they cut sums off instead of rounding them: on an H100 the largest error, in units of √(G_ii G_jj), was
    5e-6 with 1024 terms at once and 5e-5 with 8192; that of products in float32 was 6e-6.
    """
    if not tokens.is_cuda or tokens.dtype not in (torch.float16, torch.bfloat16):
        wide = tokens.to(work)
        return _added(total, _own_product(wide))
    if total is None:
        total = tokens.new_zeros(tokens.shape[-1], tokens.shape[-1], dtype=work)
    for part in tokens.split(_SUMMED_AT_ONCE):
        torch.addmm(total, part.mT, part, out_dtype=work, out=total)
    return total


def _with_cross(total: Tensor | None, difference: Tensor, tokens: Tensor) -> Tensor:
    """Return Σ d xᵀ of differences (N, I) in the working precision and tokens (N, I), added to the total: (I, I).

    On a GPU a difference goes through the units for 16 bits in two parts, see ``split_in_two``.
    """
    if not tokens.is_cuda or tokens.dtype not in (torch.float16, torch.bfloat16):
        return _added(total, difference.mT @ tokens.to(difference.dtype))
    if total is None:
        total = difference.new_zeros(tokens.shape[-1], tokens.shape[-1])
    if not len(tokens):  # of an expert
        return total
    unit, parts = split_in_two(difference, tokens.dtype)
    product = torch.zeros_like(total)
    for part in parts:
        for some, others in zip(part.split(_SUMMED_AT_ONCE), tokens.split(_SUMMED_AT_ONCE), strict=True):
            torch.addmm(product, some.mT, others, out_dtype=product.dtype, out=product)
    return total.addcmul_(product, unit)


def split_in_two(values: Tensor, dtype: torch.dtype) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Split values into a power of two and two tensors of 16 bits.

    The sum of both tensors times the power is ``values`` up to 2^-17 of a number in bfloat16, 2^-22 in float16, and
    2^-24 of the largest. The largest numbers become about 1, where float16 has room above and is fine below.

    Args:
        values: Any shape.
        dtype: A floating dtype of 16 bits.

    Returns:
        The power of two, and the coarse and the fine part.
    """
    unit = values.abs().amax().clamp(min=torch.finfo(values.dtype).tiny).log2().floor().exp2()
    scaled = values / unit
    coarse = scaled.to(dtype)
    return unit, (coarse, (scaled - coarse).to(dtype))


def _own_product(wide: Tensor) -> Tensor:
    """Return xᵀx of (N, I), where it is large only the half above the diagonal, in a few products: (I, I)."""
    width = wide.shape[-1]
    if width < (_HALVED_FROM if wide.device.type == "cpu" else _HALVED_FROM_ON_GPU):
        return wide.mT @ wide
    product = wide.new_empty(width, width)
    step = -(-width // 4)
    for first in range(0, width, step):
        last = min(first + step, width)
        torch.mm(wide[:, first:last].mT, wide[:, first:], out=product[first:last, first:])
        product[first:, first:last] = product[first:last, first:].mT
    return product


def _added(total: Tensor | None, part: Tensor) -> Tensor:
    return part if total is None else total.add_(part)
