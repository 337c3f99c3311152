"""Texts: what is offered, how a name becomes text, and how text becomes token sequences.

Reading and counting need no torch, so that a plan can refuse a text that is too short before any work.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from sarqc.documents import CalibrationProtocol
from sarqc.errors import NotFound, Refused, Unreachable
from sarqc.models.catalogue import embedded_models
from sarqc.settings import Settings


class CorpusEntry(BaseModel):
    """One text as a form offers it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    role: str  # "calibration", "held_out", "test" or "any"
    where: str  # "embedded", "hub"


@dataclass(frozen=True)
class _HubCorpus:
    title: str
    dataset: str
    config: str | None
    split: str
    role: str
    documents: int | None = None  # only so many from the beginning, streamed; None: all of a small dataset
    joined_by: str = "\n\n"


_WIKITEXT = ("Salesforce/wikitext", "wikitext-2-raw-v1")
_HUB: dict[str, _HubCorpus] = {
    "wikitext2": _HubCorpus("WikiText-2, train", *_WIKITEXT, "train", "calibration"),
    "wikitext2-validation": _HubCorpus("WikiText-2, validation", *_WIKITEXT, "validation", "held_out"),
    "wikitext2-test": _HubCorpus("WikiText-2, test", *_WIKITEXT, "test", "test"),
    # 2,000 documents are about a million tokens: 128 × 2048 and as many again.
    "c4": _HubCorpus("C4, English, train", "allenai/c4", "en", "train", "calibration", 2000),
    # The 1,100 documents and the blank between them are those of GPTQ's own evaluation.
    "c4-validation": _HubCorpus("C4, English, validation", "allenai/c4", "en", "validation", "test", 1100, " "),
    # Of the public copies one in Parquet: larger ones are .zst archives, which take another package to read.
    "pile": _HubCorpus("The Pile, train", "NeelNanda/pile-10k", None, "train", "calibration", 2000),
}


def offered(settings: Settings) -> list[CorpusEntry]:
    """The named corpora; a recipe may also give the path of a text file."""
    entries = [
        CorpusEntry(name=corpus.name, title=corpus.title, role=corpus.role, where="embedded")
        for _, model in embedded_models(settings).values()
        for corpus in model.corpora
    ]
    for name, hub in _HUB.items():
        title = f"{hub.title} (partial)" if _is_partial(hub, settings) else hub.title
        entries.append(CorpusEntry(name=name, title=title, role=hub.role, where="hub"))
    return entries


def read_corpus(name: str, settings: Settings) -> str:
    """The text of a named corpus or of a UTF-8 file.

    Raises ``NotFound`` for a name that is neither, ``Refused`` for an empty or binary file, ``Unreachable`` for a
    corpus of the Hub on a host without one.
    """
    for folder, model in embedded_models(settings).values():
        for corpus in model.corpora:
            if corpus.name == name:
                return _read_text(folder / corpus.file)
    if name in _HUB:
        return _HUB[name].joined_by.join(_documents(name, settings))
    path = Path(name).expanduser()
    if not path.is_file():
        names = ", ".join(entry.name for entry in offered(settings))
        raise NotFound(f"there is no text “{name}”", "text", f"Give the path of a text file or one of {names}.")
    return _read_text(path)


def _read_text(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"the text can't be read: {error}", str(path), "Give a UTF-8 text file.") from None
    if not text.strip():
        raise Refused("the text is empty", str(path), "Give a file with text in it.")
    return text


def described(name: str, settings: Settings) -> str:
    """The name as a protocol states it: for a corpus of the Hub with the documents read and how they were joined.

    “partial” is among the words when a mirror holds only the beginning of a split. Raises what ``read_corpus`` does.
    """
    if name not in _HUB:
        return name
    corpus, words = _HUB[name], [name]
    if _is_partial(corpus, settings):
        words.append("partial")
    if corpus.documents is not None:
        words.append(f"the first {len(_documents(name, settings)):,} documents")
    return ", ".join([*words, f"joined by {json.dumps(corpus.joined_by)}"])


def _documents(name: str, settings: Settings) -> tuple[str, ...]:
    """The documents of a corpus of the Hub, from the mirror where there is one."""
    corpus = _HUB[name]
    if settings.data_dir is None:
        return _hub_documents(name)
    path = _mirror_file(corpus, settings)
    if path is None:
        raise NotFound(
            f"the mirror has no {corpus.split}.jsonl or {corpus.split}.txt",
            f"{name} in {settings.data_dir / corpus.dataset / (corpus.config or '')}",
            "Add it to the mirror, or give the path of a text file.",
        )
    try:
        documents = tuple(islice(_rows(path), corpus.documents))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Refused(
            f"the text can't be read: {type(error).__name__} {error}",
            str(path),
            'Give one JSON object with a "text" on each line of a .jsonl file, or a UTF-8 .txt file.',
        ) from None
    if not any(document.strip() for document in documents):
        raise Refused("the text is empty", str(path), "Give a file with text in it.")
    return documents


def _rows(path: Path) -> Iterator[str]:
    """The texts of a mirror's file, one for each line; a line of a .txt file keeps its end, as the Hub's rows do."""
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield str(json.loads(line)["text"]) if path.suffix == ".jsonl" else line


def _mirror_file(corpus: _HubCorpus, settings: Settings) -> Path | None:
    """The mirror's file of a corpus; one that holds only a part is taken when there is no other."""
    if settings.data_dir is None:
        return None
    folder = settings.data_dir / corpus.dataset / (corpus.config or "")
    names = [f"{corpus.split}{suffix}" for suffix in (".jsonl", ".txt", ".partial.jsonl", ".partial.txt")]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _is_partial(corpus: _HubCorpus, settings: Settings) -> bool:
    path = _mirror_file(corpus, settings)
    return path is not None and path.name.startswith(f"{corpus.split}.partial.")


@lru_cache(maxsize=4)
def _hub_documents(name: str) -> tuple[str, ...]:
    """Asked for several times in a run, fetched once. A large dataset is streamed, a small one kept by ``datasets``."""
    corpus = _HUB[name]
    try:
        from datasets import DownloadConfig, load_dataset

        rows = load_dataset(
            corpus.dataset,
            corpus.config,
            split=corpus.split,
            streaming=corpus.documents is not None,
            download_config=DownloadConfig(max_retries=0),
        )
        return tuple(row["text"] for row in islice(rows, corpus.documents))
    except Exception as error:  # whatever a transport may raise means the same to who asked
        raise Unreachable(
            f"the Hugging Face Hub can't be reached ({type(error).__name__})",
            name,
            "Check the connection, set SARQC_DATA_DIR to a mirror, or give the path of a text file.",
        ) from None


def token_ids(text: str, model_folder: Path) -> np.ndarray:
    """The text as the model's tokenizer sees it, tokenised once, with its special tokens: int64 (n_tokens,)."""
    return _cached_token_ids(text, model_folder)


@lru_cache(maxsize=8)
def _cached_token_ids(text: str, model_folder: Path) -> np.ndarray:
    fast = model_folder / "tokenizer.json"
    if fast.is_file():
        from tokenizers import Tokenizer

        ids = Tokenizer.from_file(str(fast)).encode(text).ids
    else:
        from transformers import AutoTokenizer

        ids = AutoTokenizer.from_pretrained(model_folder, local_files_only=True, trust_remote_code=False)(text)[
            "input_ids"
        ]
    array = np.asarray(ids, dtype=np.int64)
    array.flags.writeable = False  # shared by the cache
    return array


@dataclass(frozen=True)
class Sequences:
    """Calibration and held-out token sequences, with how they came about."""

    calibration: np.ndarray  # (samples, length) int64
    held_out: np.ndarray  # (held_out_samples, length) int64
    protocol: CalibrationProtocol


def draw_sequences(
    ids: np.ndarray, corpus: str, *, samples: int, length: int, held_out_samples: int, sampling: str, seed: int
) -> Sequences:
    """Disjoint windows of ``length`` tokens: from the beginning, or drawn by the seed without replacement.

    Held-out windows never overlap calibration windows. Raises ``Refused`` when the text has too few tokens.
    """
    needed, available = samples + held_out_samples, len(ids) // length
    if needed > available:
        raise Refused(
            f"the text has {len(ids):,} tokens, {needed} sequences of {length} need {needed * length:,}",
            f"calibration text {corpus}",
            f"Take at most {available} sequences of {length} tokens, or a longer text.",
        )
    windows = ids[: available * length].reshape(available, length)
    order = np.arange(available) if sampling == "sequential" else np.random.default_rng(seed).permutation(available)
    chosen = windows[order[:needed]]
    protocol: CalibrationProtocol = {
        "corpus": corpus,
        "sha256": hashlib.sha256(np.ascontiguousarray(chosen).tobytes()).hexdigest()[:16],
        "samples": samples,
        "length": length,
        "tokens": samples * length,
        "held_out_samples": held_out_samples,
        "sampling": sampling,
        "seed": seed if sampling == "random" else None,
    }
    return Sequences(chosen[:samples], chosen[samples:], protocol)
