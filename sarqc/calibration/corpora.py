"""Texts: what is offered, how a name becomes text, and how text becomes token sequences.

Reading and counting need no torch, so that a plan can refuse a text that is too short before any work.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

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
    config: str
    split: str
    role: str


# Rows are joined with "\n\n", the customary WikiText-2 protocol.
_HUB: dict[str, _HubCorpus] = {
    "wikitext2": _HubCorpus("WikiText-2, train", "Salesforce/wikitext", "wikitext-2-raw-v1", "train", "calibration"),
    "wikitext2-validation": _HubCorpus(
        "WikiText-2, validation", "Salesforce/wikitext", "wikitext-2-raw-v1", "validation", "held_out"
    ),
    "wikitext2-test": _HubCorpus("WikiText-2, test", "Salesforce/wikitext", "wikitext-2-raw-v1", "test", "test"),
}


def offered(settings: Settings) -> list[CorpusEntry]:
    """The named corpora; a recipe may also give the path of a text file."""
    entries = [
        CorpusEntry(name=corpus.name, title=corpus.title, role=corpus.role, where="embedded")
        for _, model in embedded_models(settings).values()
        for corpus in model.corpora
    ]
    entries += [CorpusEntry(name=name, title=hub.title, role=hub.role, where="hub") for name, hub in _HUB.items()]
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
        return _read_hub(name, _HUB[name], settings)
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


def _read_hub(name: str, corpus: _HubCorpus, settings: Settings) -> str:
    if settings.data_dir is not None:
        stem = settings.data_dir / corpus.dataset / corpus.config / corpus.split
        if stem.with_suffix(".jsonl").is_file():
            with stem.with_suffix(".jsonl").open(encoding="utf-8") as lines:
                return "\n\n".join(json.loads(line)["text"] for line in lines)
        if stem.with_suffix(".txt").is_file():
            return "\n\n".join(_read_text(stem.with_suffix(".txt")).splitlines(keepends=True))
        raise NotFound(
            f"the mirror has no {corpus.split}.jsonl or {corpus.split}.txt",
            f"{name} in {stem.parent}",
            "Add it to the mirror, or give the path of a text file.",
        )
    remedy = "Check the connection, set SARQC_DATA_DIR to a mirror, or give the path of a text file."
    try:
        from datasets import DownloadConfig, load_dataset

        rows = load_dataset(
            corpus.dataset, corpus.config, split=corpus.split, download_config=DownloadConfig(max_retries=0)
        )
    except Exception as error:  # whatever a transport may raise means the same to who asked
        raise Unreachable(f"the Hugging Face Hub can't be reached ({type(error).__name__})", name, remedy) from None
    return "\n\n".join(rows["text"])


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
    protocol: dict[str, object]


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
    protocol = {
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
