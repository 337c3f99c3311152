"""Texts: those on offer, reading of a text by its name, and token sequences of a text.

Reading and counting need no torch, so that a plan can refuse a text that is too short before any work.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sys
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from sarqc.calibration.text_files import (
    READERS,
    UPLOAD_ENDINGS,
    UPLOADED,
    TextDocuments,
    read_plain,
    read_rows,
    text_path,
)
from sarqc.documents import CalibrationProtocol
from sarqc.errors import Fix, NotFound, Refused, TooLarge, Unreachable, disk_full, in_recipe, is_disk_full
from sarqc.files.names import file_identity, inside, is_regular, path_of, shortened
from sarqc.files.once import once
from sarqc.models.architecture import Frozen
from sarqc.models.catalogue import embedded_models
from sarqc.models.chats import chat_ids
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.hub import NotCached, ask, unreachable, within
from sarqc.models.tokenizing import NOTHING, Beginning, beginning_of, encode, tokenizer_identity
from sarqc.settings import Settings

JOINED_BY = "\n\n"  # between the texts of rows


class CorpusEntry(Frozen):
    """One text as a form offers it."""

    name: str
    title: str
    role: str  # "calibration", "held_out", "test" or "any"
    where: str  # "embedded", "local", "hub"
    source: str  # the same for all texts of a data set, or of an embedded model
    here: bool = True  # False: this host would have to fetch it


@dataclass(frozen=True)
class HubCorpus:
    """A text made of the documents of a data set of the Hub, one after the other."""

    title: str
    dataset: str
    config: str | None
    split: str
    role: str
    documents: int | None = None  # number of documents from the beginning, streamed; None: all of a small dataset
    joined_by: str = JOINED_BY

    @property
    def folder(self) -> Path:
        """Folder of its file in a mirror."""
        return Path(self.dataset, self.config or "")


_WIKITEXT = ("Salesforce/wikitext", "wikitext-2-raw-v1")
_HUB: dict[str, HubCorpus] = {
    "wikitext2": HubCorpus("WikiText-2, train", *_WIKITEXT, "train", "calibration"),
    "wikitext2-validation": HubCorpus("WikiText-2, validation", *_WIKITEXT, "validation", "held_out"),
    "wikitext2-test": HubCorpus("WikiText-2, test", *_WIKITEXT, "test", "test"),
    # 2,000 documents are about a million tokens: 128 × 2048 and as many again.
    "c4": HubCorpus("C4, English, train", "allenai/c4", "en", "train", "calibration", 2000),
    # The 1,100 documents and the blank between them are those of GPTQ's own evaluation.
    "c4-validation": HubCorpus("C4, English, validation", "allenai/c4", "en", "validation", "test", 1100, " "),
    # A public copy in Parquet: larger ones are .zst archives, which need another package.
    "pile": HubCorpus("The Pile, train", "NeelNanda/pile-10k", None, "train", "calibration", 2000),
}


def hub_corpus(name: str) -> HubCorpus | None:
    """Return the data set behind a named corpus of the Hub; None for every other text."""
    return _HUB.get(name)


def is_named(name: str, settings: Settings) -> bool:
    """Return True for the name of a text that this host offers to everybody."""
    return any(entry.name == name for entry in offered(settings))


def declared_files(settings: Settings) -> dict[str, Path]:
    """Return the text files in the operator's declared folders (SARQC_TEXT_DIRS), by their names in recipes."""
    files: dict[str, Path] = {}
    for root in filter(None, map(path_of, filter(None, settings.text_dirs.split(":")))):
        for path in sorted(root.glob("*.*")):
            if path.suffix in (".txt", *READERS) and (file := inside(root, path)):
                files.setdefault(path.name, file)
    return files


def offered(settings: Settings) -> list[CorpusEntry]:
    """Return the named corpora; a recipe may also give the path of a text file."""
    entries = [
        CorpusEntry(name=corpus.name, title=corpus.title, role=corpus.role, where="embedded", source=name)
        for name, (_, model) in embedded_models(settings).items()
        for corpus in model.corpora
    ]
    for name in declared_files(settings):
        entries.append(CorpusEntry(name=name, title=name, role="any", where="local", source=name))
    for name, hub in _HUB.items():
        path = _file_of(hub, settings)
        entries.append(
            CorpusEntry(
                name=name, title=hub.title, role=hub.role, where="hub", source=hub.dataset, here=path is not None
            )
        )
    return entries


@dataclass(frozen=True, eq=False)
class Text:
    """A text in the tokens of a model's tokenizer.

    Attributes:
        corpus: Its name in protocols.
        ids: (n_tokens,) int64; without ``begin``.
        part: Part of the corpus; empty for all of it.
        written_by: The other model that it was sampled from, if it was.
        begin: The tokens that every sequence of it begins with.
        first: Number of tokens that were taken, from the beginning of the corpus; None for all.
        rows: Number of rows of its file; None for a plain text.
        starts: Places of ``ids`` at which its documents begin, where each was tokenised by itself.
    """

    corpus: str
    ids: np.ndarray
    part: str = ""
    written_by: str = ""
    begin: Beginning = NOTHING
    first: int | None = None
    rows: int | None = None
    starts: tuple[int, ...] = (0,)

    def with_beginning(self, own: Beginning, begin: Beginning) -> Text:
        """Return the text for sequences with a beginning, without the beginnings of its documents.

        Args:
            own: The tokens that the tokenizer put before a text.
            begin: The tokens that each sequence is to begin with, and that a chat template may have written as well.
        """
        keeps = np.ones(len(self.ids), dtype=bool)
        for start in self.starts:
            for ids in {own.ids, begin.ids}:
                if tuple(self.ids[start : start + len(ids)]) == ids:
                    keeps[start : start + len(ids)] = False
        return replace(self, ids=self.ids[keeps], begin=begin, starts=(0,))

    def limited(self, limit: int | None, *, is_asked: bool = False) -> Text:
        """Return the first tokens of the text.

        Args:
            limit: Their number at most; None for all.
            is_asked: Whether a protocol names the limit of a shorter text as well.
        """
        is_named = limit is not None and (is_asked or len(self.ids) >= limit)
        return replace(self, ids=self.ids[:limit], first=limit if is_named else None)

    def in_windows(self, window: int) -> Text:
        """Return the text with ``begin`` as the first tokens of each window.

        An incomplete last window is dropped, unless it is the whole text.

        Args:
            window: Tokens of a window, ``begin`` included.

        Raises:
            Refused: If a window has no room for another token.
        """
        if not self.begin:
            return self
        own = max(1, min(_own_tokens(window, self.begin, "window"), len(self.ids)))
        windows = self.ids[: len(self.ids) // own * own].reshape(-1, own)
        return replace(self, ids=_with_beginning(windows, self.begin).ravel())


def _own_tokens(length: int, begin: Beginning, field: str) -> int:
    """Return the number of tokens of a sequence behind its beginning."""
    own = length - len(begin)
    if own < 1:
        raise Refused(
            f"sequences of {length} tokens have no room behind {begin.text}",
            in_recipe(field),
            f"Use {len(begin) + 1} or more.",
        ).about(field, Fix("Leave out what they begin with", {"begin": "none"}))
    return own


def _with_beginning(windows: np.ndarray, begin: Beginning) -> np.ndarray:
    """Return windows (N, T) with their beginning in front."""
    first = np.tile(np.array(begin.ids, dtype=windows.dtype), (len(windows), 1))
    return np.concatenate([first, windows], axis=1)


def separate_texts(calibration: Text, other: Text) -> tuple[Text, Text]:
    """Return a calibration text and a text to measure on; if both are the same, its first and its second half.

    The halves do not depend on the sequences: runs that draw others are measured on the same tokens.
    """
    if not np.array_equal(calibration.ids, other.ids):
        return calibration, other
    half = len(calibration.ids) // 2
    return replace(calibration, ids=calibration.ids[:half], part="first half"), replace(
        other, ids=other.ids[half:], part="second half, calibration has the first"
    )


NOTABLE_OVERLAP = 0.01  # smallest share of a text in another that a plan mentions


def overlap_shares(sequences: np.ndarray, text: Text) -> tuple[float, float]:
    """Return the share of sequences (N, length) that is in a text, and the share of the text that is in them.

    Runs of tokens are compared, without those that sequences begin with. Other texts have hardly any in common.
    """
    own, other = _runs(sequences[:, len(text.begin) :]).ravel(), _runs(text.ids)
    if not own.size or not other.size:
        return 0.0, 0.0
    return float(np.isin(own, other).mean()), float(np.isin(other, own).mean())


def _runs(ids: np.ndarray) -> np.ndarray:
    """Return the hashes of all runs of 16 tokens (..., T - 15)."""
    hashes, base = ids.astype(np.uint64), 0x9E3779B97F4A7C15
    for width in (1, 2, 4, 8):
        hashes = hashes[..., :-width] * np.uint64(pow(base, width, 1 << 64)) + hashes[..., width:]
    return hashes


@dataclass(frozen=True)
class _Source:
    """A text on this host that is not read yet; equal as long as its file is."""

    name: str  # as given by a user
    path: Path
    identity: tuple[object, ...]
    corpus: HubCorpus | None = None
    column: str = ""
    most: int = sys.maxsize  # bytes of a text that its rows may have


def text_of(
    name: str, checkpoint: Checkpoint, settings: Settings, *, begin: str = "none", download: bool = False
) -> Text:
    """Return a named corpus or a UTF-8 file in a model's tokens, read and tokenised once while neither changes.

    Args:
        name: Name of a corpus, or path of a file.
        checkpoint: The model.
        settings: Settings of the host.
        begin: “auto” to begin each sequence with the tokens that the tokenizer puts before a text, “bos” with its
            bos_token, or “none”.
        download: Wait for a corpus of the Hub that takes longer than ``settings.hub_timeout`` seconds.

    Raises:
        NotFound: If the name is neither a corpus nor a file.
        Refused: If the file is empty, binary, too large or not a regular file.
        Unreachable: For a corpus of the Hub on a host without the Hub.
        NotCached: If a corpus is still on its way after the timeout, without ``download``.
    """
    source = _source(name, settings, download=download)
    place = checkpoint.folder, checkpoint.name, checkpoint.architecture.vocab_size
    text = _tokenise(source, *place, tokenizer_identity(checkpoint.folder))
    writers = {folder: name for name, (folder, _) in embedded_models(settings).items() if folder != checkpoint.folder}
    text = replace(text, written_by=writers.get(source.path.parent, ""))
    if begin == "none":
        return text
    own, first = (beginning_of(*place, which) for which in ("auto", begin))
    return text.with_beginning(own, first)


@once(4)
def _tokenise(source: _Source, folder: Path, model: str, vocabulary: int, _tokenizer: tuple[object, ...]) -> Text:
    text = _in_tokens(source, folder, model, vocabulary)
    text.ids.flags.writeable = False  # shared by the cache
    return text


def _in_tokens(source: _Source, folder: Path, model: str, vocabulary: int) -> Text:
    documents, corpus = _read_source(source)
    if documents.are_chats:
        ids, starts = chat_ids(documents.text, folder, model, vocabulary)
        return Text(corpus, ids, rows=documents.rows, starts=starts)
    return Text(corpus, encode(documents.text, folder, model, vocabulary), rows=documents.rows)


def tokenize_with(folder: Path, name: str, checkpoint: Checkpoint, settings: Settings) -> Text:
    """Return the text of a name in the tokens of another folder's tokenizer; raises the errors of ``text_of``."""
    source = _source(name, settings, download=True)
    return _in_tokens(source, folder, checkpoint.name, checkpoint.architecture.vocab_size)


def check_corpus(name: str, settings: Settings) -> None:
    """Check that there is a text of that name, without reading it; raises the errors of ``text_of``."""
    _source(name, settings)


def read_corpus(name: str, settings: Settings) -> str:
    """Return the text of a named corpus or of a file; raises the errors of ``text_of``."""
    return _read_source(_source(name, settings, download=True))[0].text


def _source(name: str, settings: Settings, *, download: bool = False) -> _Source:
    for folder, model in embedded_models(settings).values():
        for corpus in model.corpora:
            if corpus.name == name:
                return _Source(name, folder / corpus.file, file_identity(folder / corpus.file))
    if name in _HUB:
        path = _hub_file(name, settings, download=download)
        return _Source(name, path, file_identity(path), _HUB[name])
    if UPLOADED.fullmatch(name):
        # To a host of a cluster without the app's folders it came with the run, as a declared file.
        paths = (declared_files(settings).get(f"{name}{ending}") for ending in UPLOAD_ENDINGS)
        path_here, column = path_of(str(text_path(name, settings))) or next(filter(None, paths), None), ""
    else:
        file, column = split_column(name, settings)
        path_here = declared_files(settings).get(file) or path_of(file)
    if path_here is None:
        names = ", ".join(entry.name for entry in offered(settings))
        raise NotFound(f"no text “{shortened(name)}”", "text", f"Give the path of a text file or one of {names}.")
    if not is_regular(path_here):
        raise Refused("it is not a regular file", _place(name), "Give a UTF-8 text file.")
    most = int(settings.text_mib * 2**20)
    if path_here.stat().st_size > most:
        raise TooLarge(
            f"the text has {path_here.stat().st_size / 2**20:,.1f} MiB, and {settings.text_mib:g} are the most",
            _place(name),
            "Give a part of it, or raise SARQC_TEXT_MIB.",
        )
    return _Source(name, path_here, file_identity(path_here), None, column, most)


def split_column(name: str, settings: Settings) -> tuple[str, str]:
    """Return the name of a file of rows and the column that is named behind it, after a #; empty without one."""
    declared = declared_files(settings)
    file, mark, column = name.rpartition("#")
    names_column = mark and name not in declared and path_of(name) is None and Path(file).suffix.lower() in READERS
    return (file, column) if names_column and (file in declared or path_of(file) is not None) else (name, "")


def _place(name: str) -> str:
    return f"text {shortened(name)}"


def _read_source(source: _Source) -> tuple[TextDocuments, str]:
    """Return the documents, and the name as a protocol states it.

    For a file of rows and a corpus of the Hub it includes their number and the separator.
    """
    corpus, where, joined_by = source.corpus, _place(source.name), JOINED_BY
    if corpus is not None:
        where, joined_by = f"{where}, {source.path.name}", corpus.joined_by
        documents = read_rows(source.path, where, column="text", most=corpus.documents, joined_by=joined_by)
    elif source.path.suffix.lower() in READERS:
        documents = read_rows(source.path, where, column=source.column, limit=source.most, joined_by=joined_by)
    else:
        documents = TextDocuments(read_plain(source.path, where, source.path.suffix.lower()))
    if not documents.text.strip():
        raise Refused("the text is empty", where, "Give a file with text in it.")
    if documents.rows is None:
        return documents, source.name
    words = [source.name]
    if corpus is None:
        words.append(f"{documents.rows:,} {'chats' if documents.are_chats else 'rows'}")
    elif corpus.documents is not None:
        words.append(f"the first {documents.rows:,} documents")
    joint = "written by the chat template" if documents.are_chats else f"joined by {json.dumps(joined_by)}"
    return documents, ", ".join([*words, joint])


def _hub_file(name: str, settings: Settings, *, download: bool) -> Path:
    """Return the file of a corpus of the Hub: the mirror's where there is one, else this host's own copy."""
    corpus = _HUB[name]
    if (path := _file_of(corpus, settings)) is not None:
        return path
    if settings.data_dir is not None:
        what, remedy = (
            f"the mirror has no {corpus.split}.jsonl",
            "Add it to the mirror, or give the path of a text file.",
        )
        raise NotFound(what, f"{name} in {corpus.folder}", remedy)
    path = settings.texts_dir() / corpus.folder / f"{corpus.split}.jsonl"
    _fetch(name, path, settings, download=download)
    return path


def _file_of(corpus: HubCorpus, settings: Settings) -> Path | None:
    """Return the file of a Hub corpus on this host, if it is here."""
    path = (settings.data_dir or settings.texts_dir()) / corpus.folder / f"{corpus.split}.jsonl"
    return path if path.is_file() else None


_REMEDY = "Check the connection, set SARQC_DATA_DIR to a mirror, or give the path of a text file."


def _fetch(name: str, path: Path, settings: Settings, *, download: bool) -> None:
    """Download a corpus of the Hub. A large dataset is streamed up to the documents that are read here."""
    from huggingface_hub import HfApi
    from huggingface_hub.constants import is_offline_mode

    corpus = _HUB[name]
    if not is_offline_mode():  # datasets may have it, and reports it itself otherwise
        ask(
            ("dataset", corpus.dataset),
            lambda: HfApi().dataset_info(corpus.dataset, timeout=settings.hub_timeout),
            name,
            settings,
            remedy=_REMEDY,
        )
    if download:
        _save(name, path)
        return
    try:
        within(settings.hub_timeout, ("corpus", path), lambda: _save(name, path))
    except TimeoutError:
        raise NotCached(name) from None


def _save(name: str, path: Path) -> None:
    """Write the documents of a corpus of the Hub as a mirror has them; whole or not at all."""
    corpus = _HUB[name]
    partial = path.with_name(f".partial-{secrets.token_hex(8)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        from datasets import DownloadConfig, load_dataset

        rows = load_dataset(
            corpus.dataset,
            corpus.config,
            split=corpus.split,
            streaming=corpus.documents is not None,
            download_config=DownloadConfig(max_retries=0),
        )
        with partial.open("x", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": row["text"]}) + "\n" for row in islice(rows, corpus.documents))
        os.replace(partial, path)
    except Exception as error:  # all errors of a transport mean the same to the caller
        if isinstance(error, OSError) and is_disk_full(error):
            raise disk_full() from None
        raise Unreachable(unreachable(error), name, _REMEDY) from None
    finally:
        partial.unlink(missing_ok=True)


@dataclass(frozen=True)
class Sequences:
    """Calibration and held-out token sequences, with their protocol."""

    calibration: np.ndarray  # (samples, length) int64
    held_out: np.ndarray  # (held_out_samples, length) int64
    protocol: CalibrationProtocol
    begin: int = 0  # special tokens that each begins with


def draw_sequences(
    text: Text, *, samples: int, length: int, held_out_samples: int, sampling: str, seed: int
) -> Sequences:
    """Return disjoint windows of a text: from the beginning, or drawn by the seed without replacement.

    Held-out windows never overlap calibration windows.

    Args:
        text: The text.
        samples: Number of calibration sequences.
        length: Tokens of a sequence, with those that it begins with.
        held_out_samples: Number of held-out sequences.
        sampling: ``sequential`` or ``random``.
        seed: Seed of the draw.

    Raises:
        Refused: If the text has too few tokens, or if a sequence has no room behind its beginning.
    """
    own = _own_tokens(length, text.begin, "length")
    needed, available = samples + held_out_samples, len(text.ids) // own
    if needed > available:
        left = available - held_out_samples
        fixes = [Fix(f"Use {left} samples", {"samples": left})] if left > 0 else []
        whole = "the first half of the text" if text.part else "the text"
        what = f"{whole} has {len(text.ids):,} tokens, {needed} sequences of {own} need {needed * own:,}"
        others = "measure on another text, which leaves all of this one" if text.part else "a longer text"
        remedy, shorter = f"Use at most {available} sequences of {length} tokens, or {others}.", len(text.ids) // needed
        if not available:
            remedy = f"Use sequences of at most {shorter + len(text.begin)} tokens, or {others}."
            fixes = [Fix(f"Use {shorter + len(text.begin)} tokens", {"length": shorter + len(text.begin)})]
        if not available and shorter < 2:
            remedy, fixes = f"Use {others}: each sequence takes {own} tokens.", []
        where = f"calibration text {text.corpus}"
        raise Refused(what, where, remedy).about("samples", *fixes)
    windows = text.ids[: available * own].reshape(available, own)
    order = np.arange(available) if sampling == "sequential" else np.random.default_rng(seed).permutation(available)
    chosen = _with_beginning(windows[order[:needed]], text.begin)
    protocol: CalibrationProtocol = {
        "corpus": text.corpus,
        "sha256": hashlib.sha256(np.ascontiguousarray(chosen).tobytes()).hexdigest()[:16],
        "samples": samples,
        "length": length,
        "tokens": samples * length,
        "held_out_samples": held_out_samples,
        "sampling": sampling,
        "seed": seed if sampling == "random" else None,
    }
    if text.begin:
        protocol["begin"] = text.begin.text
    return Sequences(chosen[:samples], chosen[samples:], protocol, len(text.begin))
