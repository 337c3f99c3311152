"""Distance of a quantized model's predictions from the float model's on the same text, with standard errors.

Axes: n tokens, N windows of equally many, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor


class Estimate(NamedTuple):
    """A mean over windows and its standard error, NaN for a single window."""

    mean: float
    error: float


@dataclass(frozen=True)
class Divergence:
    """Differences of two models over the same tokens.

    Windows are the sample, as tokens of one window are not independent.
    """

    log_ratio: Estimate  # ln(perplexity of the quantized / of the float model)
    kl: Estimate  # KL(float ‖ quantized) in nats a token, at temperature 1
    kl_99: float  # its 99th percentile over tokens
    same_top: Estimate  # share of tokens at which both models hold the same one most probable
    log_ratios: tuple[float, ...]  # of each window, of which ``log_ratio`` is the mean
    kls: tuple[float, ...] = ()  # the same of ``kl``; empty in documents of former versions

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Divergence:
        """Return the divergence of a document that ``asdict`` made.

        After JSON it has neither tuples nor their names.
        """
        estimates = {name: Estimate(*document[name]) for name in ("log_ratio", "kl", "same_top")}
        return cls(
            kl_99=document["kl_99"],
            log_ratios=tuple(document["log_ratios"]),
            kls=tuple(document.get("kls", ())),
            **estimates,
        )


class TokenDivergences(NamedTuple):
    """Differences of two models at n tokens, each (n,)."""

    log_ratio: Tensor
    kl: Tensor
    same_top: Tensor


def token_divergences(original: Tensor, quantized: Tensor, following: Tensor) -> TokenDivergences:
    """Return the differences at each token, in float32 with sums over V as wide as that.

    Args:
        original: (n, V), logits of the float model.
        quantized: (n, V), logits of the quantized model.
        following: (n,), the tokens that followed.
    """
    p, q = original.float().log_softmax(dim=-1), quantized.float().log_softmax(dim=-1)
    came = following.unsqueeze(-1)
    return TokenDivergences(
        (p.gather(-1, came) - q.gather(-1, came)).squeeze(-1),
        (p.exp() * (p - q)).sum(dim=-1).clamp(min=0),
        p.argmax(dim=-1) == q.argmax(dim=-1),
    )


class Summed:
    """Sums over tokens, window by window.

    Args:
        windows: Number of windows.
    """

    def __init__(self, windows: int) -> None:
        self._sums = np.zeros((len(TokenDivergences._fields), windows))
        self._tokens = np.zeros(windows)
        self._kl: list[np.ndarray] = []

    def add(self, window: int, tokens: TokenDivergences) -> None:
        """Add tokens of a window."""
        values = [part.double().cpu().numpy() for part in tokens]
        self._sums[:, window] += [part.sum() for part in values]
        self._tokens[window] += len(values[0])
        self._kl.append(values[1])

    def divergence(self) -> Divergence:
        """Return the means over all windows with their standard errors."""
        log_ratio, kl, same_top = self._sums / self._tokens
        kl_99 = float(np.percentile(np.concatenate(self._kl), 99))
        return Divergence(
            _estimate(log_ratio),
            _estimate(kl),
            kl_99,
            _estimate(same_top),
            tuple(log_ratio.tolist()),
            tuple(kl.tolist()),
        )


def _estimate(means: np.ndarray) -> Estimate:
    """Return the mean of windows with equally many tokens, which is that of all tokens, and its error."""
    count = len(means)
    error = float(means.std(ddof=1) / np.sqrt(count)) if count > 1 else float("nan")
    return Estimate(float(means.mean()), error)
