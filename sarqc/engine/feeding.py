"""Checks of what a run feeds its model: tokens that other programs would not, and windows without their first token."""

import json
from collections.abc import Generator, Iterable
from importlib.metadata import version
from typing import Any

import numpy as np

from sarqc.calibration.corpora import Text, read_corpus
from sarqc.engine.keys import beginnings_key, readers_key
from sarqc.engine.measure import Workbench, load_or_make
from sarqc.engine.plan_warnings import untried_beginning
from sarqc.errors import Refused
from sarqc.evaluation.perplexity import measure_perplexity
from sarqc.events import Event, Stage, Warned
from sarqc.models.loading import LoadedModel
from sarqc.models.tokenizing import FAST, auto_tokenizer, refusing, tokenizer_of

WINDOWS = 4  # that are measured both ways
BETTER = 1.1  # times as small a perplexity is worth a word
_CHARACTERS = 1 << 20  # of the calibration text that are compared
_SAMPLE = ("", " 1984", "12345", "Hello WORLD", "two  spaces", "\n\n\ttab", "naïve λ €", "日本語", "🙂", "don't (go)")
_SHOWN = 12  # tokens of an example, and five times as many characters


def check_feeding(
    bench: Workbench, corpus: str, begin: str, text: Text, window: int
) -> Generator[Event, None, dict[str, str]]:
    """Compare the float model's input with what others would give it.

    Args:
        bench: The float model.
        corpus: Name of the calibration text.
        begin: Rule of the recipe for what sequences begin with.
        text: The text that perplexity is measured on; without one, the calibration text.
        window: Tokens of a window.

    Yields:
        A warning for each difference.

    Returns:
        The same in words by flag: ``read_otherwise`` and ``better_with_bos``.
    """
    loaded, notes = bench.loaded, dict[str, str]()
    if words := _load_difference(bench, read_corpus(corpus, bench.settings)[:_CHARACTERS]):
        notes["read_otherwise"] = words
    bos = untried_beginning(begin, text, loaded.checkpoint)
    own = min(window - 1, len(text.ids))
    if bos and own > 1:
        yield Stage("measuring the float model", "what its windows begin with")
        windows = text.ids[: len(text.ids) // own * own].reshape(-1, own)[:WINDOWS]
        key = beginnings_key(bench.model, windows, bos.ids)
        plain, begun = json.loads(
            load_or_make(bench.store, key, lambda: json.dumps(_perplexities(loaded, windows, bos.ids)).encode())
        )
        if plain > BETTER * begun:
            notes["better_with_bos"] = (
                f"the float model's perplexity on {len(windows)} windows is {begun:.4g} if each "
                f"begins with {bos.text}, which its chat template names, and {plain:.4g} as its tokenizer leaves them: "
                "set begin to bos"
            )
    for flag, words in notes.items():
        yield Warned(words, {"read_otherwise": "tokenizer", "better_with_bos": "begin"}[flag])
    return notes


def _perplexities(loaded: LoadedModel, windows: np.ndarray, bos: tuple[int, ...]) -> list[float]:
    """Return perplexity of the same tokens of windows (N, T), without and behind the special tokens."""
    begun = np.hstack([np.tile(np.array(bos, dtype=windows.dtype), (len(windows), 1)), windows])
    return [
        measure_perplexity(loaded, tokens.ravel(), "", tokens.shape[1], begin=skipped).value
        for tokens, skipped in ((windows, 1), (begun, len(bos) + 1))
    ]


def _load_difference(bench: Workbench, text: str) -> str:
    """Return how other programs read the tokenizer's files, with an example; empty if as tokenizer.json says."""
    loaded = bench.loaded
    if not (loaded.checkpoint.folder / FAST).exists():
        return ""
    key = readers_key(bench.model, text)
    words: str = json.loads(load_or_make(bench.store, key, lambda: json.dumps(_difference(loaded, text)).encode()))
    return words


def _difference(loaded: LoadedModel, text: str) -> str:
    folder, reader = loaded.checkpoint.folder, f"AutoTokenizer of transformers {version('transformers')}"
    try:
        with refusing("it fails", folder, loaded.checkpoint.name):
            readers = auto_tokenizer(folder), tokenizer_of(folder)
            piece = _first_different((*_SAMPLE, text), *readers)
            if piece is None:
                return ""
            piece = _first_different(piece.splitlines(keepends=True), *readers) or piece
            piece = _first_different((f" {word}" for word in piece.split()), *readers) or piece
            theirs, ours = (_format_tokens(_ids(reader, piece)) for reader in readers)
    except Refused as error:
        return f"{reader} can't read the tokenizer's files, from which this run took {FAST} alone: {error.what}"
    return (
        f"{reader} reads the tokenizer's files otherwise than {FAST}, by which this run goes: "
        f"{piece[: 5 * _SHOWN]!r} as {theirs}, here {ours}. Programs that use it give the model other tokens"
    )


def _first_different(texts: Iterable[str], other: Any, own: Any) -> str | None:
    return next((text for text in texts if _ids(other, text) != _ids(own, text)), None)


def _format_tokens(ids: list[int]) -> str:
    return str(ids) if len(ids) <= _SHOWN else f"{str(ids[:_SHOWN])[:-1]}, …]"


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, verbose=False)["input_ids"]
    return ids
