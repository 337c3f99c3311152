"""One evaluator for all engines: perplexity and KL to the float model on the same windows, in float32.

Axes: N windows, T tokens of a window, V vocabulary, O out_features, I in_features.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sarqc.models.loading import LoadedModel

_WINDOWS_AT_ONCE = 8


@dataclass(frozen=True)
class Quality:
    """Perplexity, the mean KL(float ‖ quantized) of a predicted token in nats, and the share of equal top tokens."""

    perplexity: float
    kl: float
    same_top: float


class Evaluator:
    """Holds the float model's log-probabilities on all windows of ``ids``; a remainder is left out.

    Everything is computed on the device of the model, in its dtype.
    """

    def __init__(self, loaded: LoadedModel, ids: np.ndarray, window: int) -> None:
        self._loaded = loaded
        whole = torch.from_numpy(ids[: len(ids) // window * window].copy())
        self._windows = whole.reshape(-1, window).to(loaded.device)  # N T
        self._weights = loaded.weights()
        self._float = [self._log_probabilities(part) for part in self._windows.split(_WINDOWS_AT_ONCE)]

    @property
    def predicted_tokens(self) -> int:
        return self._windows[:, 1:].numel()

    def float_perplexity(self) -> float:
        return self._perplexity(self._float)

    def measure(self, weight_of: Callable[[str], np.ndarray]) -> Quality:
        """The quality of the float model with the weights (O, I) of its linears by name, rounded as they are stored."""
        try:
            for layer in self._loaded.checkpoint.layers:
                values = torch.from_numpy(weight_of(layer.name))
                stored = values.to(self._loaded.stored_as(f"{layer.name}.weight"))
                self._loaded.weight(layer.name).copy_(stored)
            quantized = [self._log_probabilities(part) for part in self._windows.split(_WINDOWS_AT_ONCE)]
        finally:
            self._loaded.restore(self._weights)
        divergence, same = 0.0, 0
        for of_float, of_quantized in zip(self._float, quantized, strict=True):
            divergence += float((of_float.exp() * (of_float - of_quantized)).sum(dtype=torch.float64))
            same += int((of_float.argmax(-1) == of_quantized.argmax(-1)).sum())
        tokens = self.predicted_tokens
        return Quality(self._perplexity(quantized), divergence / tokens, same / tokens)

    @torch.no_grad()
    def _log_probabilities(self, windows: Tensor) -> Tensor:
        """Of every token but each window's first, from those before it: (N, T) -> (N, T - 1, V)."""
        logits = self._loaded.model(windows, use_cache=False).logits[:, :-1]
        return torch.log_softmax(logits.float(), dim=-1)

    def _perplexity(self, parts: list[Tensor]) -> float:
        total = 0.0
        for windows, log_probabilities in zip(self._windows.split(_WINDOWS_AT_ONCE), parts, strict=True):
            total -= float(log_probabilities.gather(-1, windows[:, 1:, None]).sum(dtype=torch.float64))
        return math.exp(min(total / self.predicted_tokens, 700.0))
