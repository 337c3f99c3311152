"""Perplexity with its protocol: never a number without the corpus, the window, the tokens and the dtype."""

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
from sarqc.models.loading import LoadedModel
from sarqc.models.walk import logits_of

_LOGIT_BYTES = 1 << 28  # float32 logits held at once


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
    batch = max(1, _LOGIT_BYTES // (window * loaded.vocabulary * 4))
    total, predicted = 0.0, 0
    with torch.no_grad():
        for tokens, logits in _predictions(loaded, windows, batch):
            losses = cross_entropy(logits[:, :-1].float().flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
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


def _predictions(loaded: LoadedModel, windows: Tensor, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Tokens (B, T) and their logits (B, T, V), batch by batch."""
    if loaded.streaming is not None:
        yield from zip(
            (window.to(loaded.device) for window in torch.split(windows, 1)), logits_of(loaded, windows), strict=True
        )
        return
    for part in torch.split(windows, batch):
        tokens = part.to(loaded.device)
        yield tokens, loaded.model(tokens, use_cache=False).logits
