"""Perplexity with its protocol: never a number without the corpus, the window, the tokens and the dtype.

Axes: B windows of a batch, T tokens of a window, D hidden size, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from sarqc.documents import PerplexityProtocol
from sarqc.errors import NumericalError, Refused
from sarqc.evaluation import LOGIT_BYTES, LOSS_BYTES
from sarqc.models.loading import LoadedModel
from sarqc.models.walk import last_states


@dataclass(frozen=True)
class Perplexity:
    """exp of the mean negative log-likelihood, and how it was measured."""

    value: float
    protocol: PerplexityProtocol


def measure_perplexity(loaded: LoadedModel, ids: np.ndarray, corpus: str, window: int) -> Perplexity:
    """Perplexity over non-overlapping windows of ``ids`` (n_tokens,), each token predicted from those before it.

    A remainder shorter than a window is left out, unless it is all there is. Each window's first token is not
    predicted. Raises ``Refused`` for fewer than two tokens, ``NumericalError`` when the model returns NaN.
    """
    if len(ids) < 2:
        raise Refused(f"the text has {len(ids)} tokens", f"test text {corpus}", "Give at least two tokens.")
    window = min(window, len(ids))
    windows = torch.from_numpy(ids[: len(ids) // window * window].copy()).reshape(-1, window)
    batch = max(1, _positions_in(LOGIT_BYTES, loaded) // window)
    total, predicted = 0.0, 0
    with torch.no_grad():
        for tokens, states in _states(loaded, windows, batch):
            losses = _losses(loaded, tokens, states)
            total += float(losses.double().sum())
            predicted += losses.numel()
    mean = total / predicted
    if not math.isfinite(mean):
        raise NumericalError("the model's predictions are not finite", f"test text {corpus}", "Load a sound model.")
    protocol: PerplexityProtocol = {
        "corpus": corpus,
        "window": window,
        "windows": len(windows),
        "predicted_tokens": predicted,
        "dtype": str(loaded.compute_dtype).removeprefix("torch."),
        "device": str(loaded.device),
    }
    return Perplexity(math.exp(min(mean, 700.0)), protocol)


def _positions_in(size: int, loaded: LoadedModel) -> int:
    """Positions whose float32 logits have so many bytes."""
    return max(1, size // (4 * loaded.vocabulary))


def _states(loaded: LoadedModel, windows: Tensor, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Tokens (B, T) and what the head reads of them (B, T, D), batch by batch."""
    if loaded.streaming is not None:
        yield from zip(
            (window.to(loaded.device) for window in torch.split(windows, 1)), last_states(loaded, windows), strict=True
        )
        return
    for part in torch.split(windows, batch):
        tokens = part.to(loaded.device)
        yield tokens, loaded.model.base_model(tokens, use_cache=False).last_hidden_state


def _losses(loaded: LoadedModel, tokens: Tensor, states: Tensor) -> Tensor:
    """Minus the log-probabilities of all tokens but each window's first, window by window.

    Logits are many times as wide as states, so that no more than ``LOGIT_BYTES`` of them are made at once: those of the
    whole batch, or where a single window has more, of one stretch of it after the other.
    """
    head, losses = loaded.model.get_output_embeddings(), []
    at_once, few = _positions_in(LOGIT_BYTES, loaded), _positions_in(LOSS_BYTES, loaded)
    for begin in range(0, tokens.shape[1] - 1, at_once):
        logits = head(states[:, begin : begin + at_once])  # (B, stretch, V)
        following = tokens[:, begin + 1 : begin + at_once + 1]
        for of_window, targets in zip(logits, following, strict=True):
            parts = zip(of_window[: len(targets)].split(few), targets.split(few), strict=True)
            losses += [cross_entropy(part.float(), next_ones, reduction="none") for part, next_ones in parts]
    return torch.cat(losses)
