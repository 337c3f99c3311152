"""What a layer must remember of its calibration inputs: sums over tokens, so that batches and devices just add up.

Axes: N tokens, I in_features.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sarqc.errors import NumericalError, Refused


@dataclass(frozen=True)
class LayerStatistics:
    """Sums over the tokens that reached a linear. Never mutated: adding makes a new object.

    gram: (I, I), Σ x xᵀ, a sum and not a mean; abs_sum: (I,), Σ |x|; n_tokens: how many.
    """

    gram: Tensor
    abs_sum: Tensor
    n_tokens: int

    def __post_init__(self) -> None:
        width = self.abs_sum.shape[-1] if self.abs_sum.ndim == 1 else -1
        if self.gram.shape != (width, width):
            raise Refused(
                f"gram is {tuple(self.gram.shape)} and abs_sum {tuple(self.abs_sum.shape)}",
                "layer statistics",
                "They must be (I, I) and (I,) for one I.",
            )
        for name, tensor in (("gram", self.gram), ("abs_sum", self.abs_sum)):
            if not torch.isfinite(tensor).all():
                channel = int((~torch.isfinite(tensor)).nonzero()[0, -1])
                raise NumericalError(
                    f"{name} is not finite at channel {channel}",
                    "layer statistics",
                    "Look for NaN or overflow in the model's activations; load it in a wider dtype.",
                )

    @classmethod
    def from_inputs(cls, inputs: Tensor) -> LayerStatistics:
        """Statistics of inputs (..., I), every leading axis counting as tokens.

        Sums run in float32, in float64 for float64 inputs.
        """
        tokens = inputs.reshape(-1, inputs.shape[-1])  # (N, I)
        tokens = tokens.to(torch.promote_types(tokens.dtype, torch.float32))
        return cls(tokens.mT @ tokens, tokens.abs().sum(dim=0), tokens.shape[0])

    def __add__(self, other: LayerStatistics) -> LayerStatistics:
        if self.gram.shape != other.gram.shape:
            raise Refused(
                f"statistics of {len(self.abs_sum)} and of {len(other.abs_sum)} channels do not add",
                "layer statistics",
                "Add statistics of the same layer's inputs.",
            )
        return LayerStatistics(self.gram + other.gram, self.abs_sum + other.abs_sum, self.n_tokens + other.n_tokens)

    @property
    def abs_mean(self) -> Tensor:
        """Mean over tokens of |x| for each channel (I,); zeros where no token came."""
        return self.abs_sum / max(self.n_tokens, 1)

    def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> LayerStatistics:
        """The same sums elsewhere or in another dtype."""
        return LayerStatistics(self.gram.to(device, dtype), self.abs_sum.to(device, dtype), self.n_tokens)
