"""Perplexity with its protocol, and the distance of the same predictions from the float model's.

A number never comes without the corpus, the window, the tokens and the dtype.

Axes: N windows, B windows of a batch, T tokens of a window, D hidden size, V vocabulary.
"""

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from sarqc.documents import PerplexityProtocol
from sarqc.errors import NumericalError, Refused
from sarqc.evaluation import LOGIT_BYTES, loss_bytes
from sarqc.evaluation.divergence import Divergence, Summed, token_divergences
from sarqc.files.memory import release_freed
from sarqc.models.loading import LoadedModel
from sarqc.models.walk import last_states

Result = TypeVar("Result")


@dataclass(frozen=True)
class Perplexity:
    """exp of the mean negative log-likelihood, and its protocol."""

    value: float
    protocol: PerplexityProtocol


class States(Protocol):
    """Inputs of the head for every window, (N, T, D) on the CPU: a tensor, or parts that are read on demand."""

    def __getitem__(self, windows: slice, /) -> Tensor: ...


def measure_perplexity(loaded: LoadedModel, ids: np.ndarray, corpus: str, window: int, *, begin: int = 0) -> Perplexity:
    """Measure perplexity over non-overlapping windows, each token predicted from those before it.

    A remainder shorter than a window is left out, unless it is the whole text. Neither a window's first token is
    predicted nor special tokens that it begins with.

    Args:
        loaded: The model.
        ids: (n_tokens,), tokens of the text.
        corpus: Name of the text in the protocol.
        window: Tokens of a window.
        begin: Special tokens that each window begins with.

    Raises:
        Refused: For fewer than two tokens.
        NumericalError: If the model returns NaN.
    """
    return drain(perplexity_steps(loaded, ids, corpus, window, None, begin=begin))[0]


def states_of(loaded: LoadedModel, ids: np.ndarray, corpus: str, window: int) -> Tensor:
    """Return the head's input of every window: (N, T, D) on the CPU.

    It is many times smaller than the logits, which the head makes of it again.

    Raises:
        Refused: For fewer than two tokens.
    """
    windows = _windows(ids, corpus, window)
    with torch.no_grad():
        return torch.cat([states.cpu() for _, states in _states(loaded, windows)])


Steps = Generator[tuple[int, int], None, tuple[Perplexity, Divergence | None]]


def drain(steps: Generator[object, None, Result]) -> Result:
    """Return the return value of a generator."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: Result = end.value
            return value


@torch.no_grad()  # in its steps, not between them
def perplexity_steps(
    loaded: LoadedModel,
    ids: np.ndarray,
    corpus: str,
    window: int,
    float_states: States | None,
    keep: Callable[[Tensor], object] | None = None,
    *,
    begin: int = 0,
) -> Steps:
    """Measure in steps: as ``measure_perplexity``, and with ``float_states`` from the same passes the distance of the
    predictions from the float model's.

    ``float_states`` are that model's states of the same windows, from ``states_of`` or ``keep``; its head is
    ``LoadedModel.float_head``. ``keep`` gets the head's input, (B, T, D) on the CPU, batch by batch.

    Yields:
        After each batch the number of windows done, and of all windows.

    Returns:
        The perplexity, and the divergence with ``float_states``.
    """
    windows = _windows(ids, corpus, window)
    total, predicted, first = 0.0, 0, 0
    summed = None if float_states is None else Summed(len(windows))
    for tokens, states in _states(loaded, windows):
        if keep is not None:
            keep(states.cpu())
        original = None if float_states is None else float_states[first : first + len(tokens)].to(states)
        losses = []
        for part in _predictions(loaded, tokens, states, original, max(1, begin)):
            losses.append(cross_entropy(part.logits.float(), part.following, reduction="none"))
            if summed is not None and part.original is not None:
                summed.add(first + part.window, token_divergences(part.original, part.logits, part.following))
            del part  # and with it the logits, before the next are made
        total += float(torch.cat(losses).double().sum())
        predicted += sum(map(len, losses))
        first += len(tokens)
        release_freed()
        yield first, len(windows)
    mean = total / predicted
    if not math.isfinite(mean):
        raise NumericalError("the model's predictions are not finite", f"test text {corpus}", "Load a sound model.")
    protocol: PerplexityProtocol = {
        "corpus": corpus,
        "window": windows.shape[1],
        "windows": len(windows),
        "predicted_tokens": predicted,
        "dtype": str(loaded.compute_dtype).removeprefix("torch."),
        "device": str(loaded.device),
    }
    return Perplexity(math.exp(min(mean, 700.0)), protocol), None if summed is None else summed.divergence()


def _windows(ids: np.ndarray, corpus: str, window: int) -> Tensor:
    """Return the text cut into windows (N, T)."""
    if len(ids) < 2:
        raise Refused(f"the text has {len(ids)} tokens", f"test text {corpus}", "Give at least two tokens.")
    window = min(window, len(ids))
    return torch.from_numpy(ids[: len(ids) // window * window].copy()).reshape(-1, window)


def _positions_in(size: int, loaded: LoadedModel) -> int:
    """Return the number of positions whose float32 logits have this many bytes."""
    return max(1, size // (4 * loaded.vocabulary))


def _states(loaded: LoadedModel, windows: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield tokens (B, T) and the head's input (B, T, D) of them, batch by batch."""
    if loaded.streaming is not None:
        yield from zip(
            (window.to(loaded.device) for window in torch.split(windows, 1)), last_states(loaded, windows), strict=True
        )
        return
    batch = max(1, _positions_in(LOGIT_BYTES, loaded) // windows.shape[1])
    for part in torch.split(windows, batch):
        tokens = part.to(loaded.device)
        yield tokens, loaded.head_input(tokens)


class _Prediction(NamedTuple):
    """Predictions of a stretch of one window."""

    window: int  # in its batch
    logits: Tensor  # (n, V)
    following: Tensor  # (n,), the tokens that came
    original: Tensor | None  # (n, V), logits of the float model


def _predictions(
    loaded: LoadedModel, tokens: Tensor, states: Tensor, original: Tensor | None, given: int
) -> Iterator[_Prediction]:
    """Yield predictions of all tokens but the ``given`` first ones of each window, window by window.

    At most ``LOGIT_BYTES`` of logits are made at once: of the whole batch, or of stretches of a single window.
    """
    float_head = loaded.float_head()
    stretch_length = _positions_in(LOGIT_BYTES, loaded)
    few = _positions_in(loss_bytes(on_processor=loaded.device.type == "cpu"), loaded)
    for begin in range(given - 1, tokens.shape[1] - 1, stretch_length):
        stretch = slice(begin, begin + stretch_length)
        logits = loaded.logits(states[:, stretch])  # (B, stretch, V)
        float_stretch = None if original is None else float_head(original[:, stretch])
        following = tokens[:, begin + 1 : begin + stretch_length + 1]
        for window, targets in enumerate(following):
            for at in range(0, len(targets), few):
                part = slice(at, min(at + few, len(targets)))
                float_logits = None if float_stretch is None else float_stretch[window, part]
                yield _Prediction(window, logits[window, part], targets[part], float_logits)
        del logits, float_stretch, float_logits
