"""Means over the inputs of a linear in the float model, and the scale of its drift that they give."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sarqc.quantization.objective import saliency


@dataclass(frozen=True)
class InputMeans:
    """Means over the inputs of a linear in the float model; 0 without any token."""

    absolute: Tensor  # (I,), mean |x|
    square: Tensor  # (I,), mean x²

    def drift_scale(self, weight: Tensor, gamma: float | None) -> Tensor:
        """Return S (I,) of a column solver, S² = h̄ · s²/mean(s²), but for the number of tokens.

        Without γ the saliency s of the float weight (O, I) is 1.
        """
        s = torch.ones_like(self.absolute) if gamma is None else saliency(self.absolute, weight, gamma)
        return s * (self.square.mean() / s.square().mean()).sqrt()


class RunningMeans:
    """Means accumulated over batches of inputs."""

    def __init__(self) -> None:
        self._absolute: Tensor | float = 0.0
        self._square: Tensor | float = 0.0
        self._tokens = 0

    def add(self, inputs: Tensor, float_inputs: Tensor | None = None) -> None:
        """Add a batch of inputs (..., I); ``float_inputs`` are ignored."""
        x = inputs.reshape(-1, inputs.shape[-1]).float()  # (N, I)
        self._absolute += x.abs().sum(dim=0)
        self._square += x.square().sum(dim=0)
        self._tokens += len(x)

    def total(self) -> InputMeans:
        """Return the means of all batches so far, at least one."""
        assert isinstance(self._absolute, Tensor)
        assert isinstance(self._square, Tensor)
        tokens = max(1, self._tokens)
        return InputMeans(self._absolute / tokens, self._square / tokens)
