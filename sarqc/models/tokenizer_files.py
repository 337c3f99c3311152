"""Files of a checkpoint for reading and writing text, checked before anything is loaded; no torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from sarqc.errors import Fix, Refused, refused_for
from sarqc.files.hashes import sha256_of
from sarqc.files.limited import GIB, Exhausted, answer_of
from sarqc.files.names import file_identity, is_regular, read_object
from sarqc.files.once import once
from sarqc.models.architecture import Strict, first_problem
from sarqc.models.tokenizing import AGAIN, FAST, Beginning, TokenizerFacts, apply

# Of tokenizers of every kind, of chats, and of the tokens that end a text: what belongs to a model beside its weights
# and config.json. None is code.
TOKENIZERS = (FAST, "*.model", "tokenizer.model.*", "vocab.json", "vocab.txt", "*.tiktoken", "tekken.json")
TEXT_FILES = (
    *TOKENIZERS,
    "tokenizer*.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template*.json",
    "*.jinja",
    "additional_chat_templates/*.jinja",
    "generation_config.json",
)
MOST_BYTES = 64 << 20  # of one of them
_MOST_HERE = 4 << 20  # of all of them, where they are read in the app's own process
CPU_SECONDS, CPU_SECONDS_EACH_MIB = 30, 10  # for a text; usual tokenizers take one second for 5 MiB
_MEMORY, _MEMORY_OF_A_BYTE = 2 * GIB, 400  # bytes; a usual tokenizer takes 250 for each byte of a text
# SHA-256 of the tokenizer.json files that ship with the app, which are applied in its own process.
SHIPPED = frozenset({"ce620b2e352415bf05da0335925c18c218702c97de2f84cdbb7caa1973637254"})

Token = str | dict[str, Any] | None


class _TokenizerConfig(Strict):
    """tokenizer_config.json, as far as its values are used when a tokenizer is made."""

    tokenizer_class: str | None = None
    model_max_length: float | None = None
    added_tokens_decoder: dict[str, dict[str, Any]] | None = None
    additional_special_tokens: list[str | dict[str, Any]] | None = None
    bos_token: Token = None
    eos_token: Token = None
    unk_token: Token = None
    pad_token: Token = None
    add_bos_token: bool | None = None
    add_eos_token: bool | None = None
    padding_side: str | None = None
    clean_up_tokenization_spaces: bool | None = None


class _GenerationConfig(Strict):
    """generation_config.json, as far as a text's end depends on it."""

    bos_token_id: int | list[int] | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | list[int] | None = None
    temperature: Annotated[float, Field(ge=0)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    do_sample: bool | None = None
    max_length: Annotated[int, Field(ge=0)] | None = None


_SETTINGS: dict[str, type[BaseModel] | None] = {
    "tokenizer_config.json": _TokenizerConfig,
    "generation_config.json": _GenerationConfig,
    "special_tokens_map.json": None,
    "added_tokens.json": None,
}


def check_settings(folder: Path, where: str) -> None:
    """Refuse small files beside the weights that are damaged or ask for code to be run."""
    for name, model in _SETTINGS.items():
        if not (folder / name).exists():
            continue
        document = read_object(folder / name, where, remedy=AGAIN)
        if "auto_map" in document:
            raise Refused(
                f"{name} asks for code from the checkpoint to be run",
                where,
                "Such models are never loaded; convert it to an architecture that transformers has.",
            )
        try:
            if model is not None:
                model.model_validate(document)
        except ValidationError as error:
            raise Refused(f"{name}: {first_problem(error)}", where, "Repair it, or download it again.") from None


def text_files(folder: Path) -> list[Path]:
    """Return the files in a folder by which a model reads and writes text, in a fixed order."""
    return sorted({path for pattern in TEXT_FILES for path in folder.glob(pattern) if path.is_file()})


def check_tokenizer(folder: Path, where: str) -> None:
    """Check that the checkpoint has a tokenizer that can be opened.

    Raises:
        Refused: Otherwise.
    """
    if (folder / FAST).exists():
        _facts(folder, tokenizer_identity(folder), where)
    elif not any(is_regular(path) for pattern in TOKENIZERS for path in folder.glob(pattern)):
        raise Refused(f"no {FAST}", where, AGAIN)


def encode(text: str, folder: Path, where: str, vocabulary: int) -> np.ndarray:
    """Return the text in a model's tokens, special ones included: int64 (n_tokens,).

    Args:
        text: The text.
        folder: Folder of the checkpoint.
        where: Its name in errors.
        vocabulary: Size of the model's vocabulary.

    Raises:
        Refused: If the tokenizer is damaged, fails or takes too much for the text, or gives tokens outside the
            vocabulary.
    """
    return encode_each([text], folder, where, vocabulary)[0]


def encode_each(texts: Sequence[str], folder: Path, where: str, vocabulary: int) -> list[np.ndarray]:
    """Return ``encode`` of several texts, in one process."""
    if not texts:
        return []
    return [_known(ids, where, vocabulary) for ids in _ask(folder, where, texts)[1]]


def beginning_of(folder: Path, where: str, vocabulary: int, begin: str = "auto") -> Beginning:
    """Return the special tokens that sequences begin with.

    Args:
        folder: Folder of the checkpoint.
        where: Its name in errors.
        vocabulary: Size of the model's vocabulary.
        begin: “auto” for what the tokenizer puts before every text, “bos” for its bos_token.

    Raises:
        Refused: As by ``encode``, and if there is no bos_token.
    """
    facts = facts_of(folder, where)
    if begin == "bos" and not facts.bos:
        what = f"the tokenizer of {where} names no bos_token"
        raise refused_for("begin", what, "Set begin to auto or none.", Fix("Follow the tokenizer", {"begin": "auto"}))
    chosen = facts.bos if begin == "bos" else facts.own
    _known(np.array(chosen.ids, dtype=np.int64), where, vocabulary)
    return chosen


def facts_of(folder: Path, where: str) -> TokenizerFacts:
    """Return what is to be known of a folder's tokenizer. Raises the refusals of ``encode``."""
    return _facts(folder, tokenizer_identity(folder), where)


@once(64)
def _facts(folder: Path, _identity: tuple[object, ...], where: str) -> TokenizerFacts:
    return _ask(folder, where)[0]


def tokenizer_identity(folder: Path) -> tuple[object, ...]:
    """Return a value that changes with the tokenizer in a folder, without reading it."""
    return tuple(map(file_identity, text_files(folder)))


def other_tokenizer(folder: Path, original: Path, where: str) -> str:
    """Return the file by which a folder reads texts otherwise than the original; empty if there is none.

    A folder without a tokenizer has the original's. Further special tokens are in no text, and what a newer program has
    written otherwise may read the same: then a text with all that tokenizers differ in decides.
    """
    both = [
        {name for name in (FAST, "tokenizer.model", "vocab.json", "merges.txt") if (one / name).is_file()}
        for one in (folder, original)
    ]
    if FAST in both[0] & both[1]:
        paths = (folder / FAST, original / FAST)
        return "" if _read_alike(*paths, where, tuple(map(sha256_of, paths))) else FAST
    for name in sorted(both[0] & both[1]):
        if (folder / name).read_bytes().split() != (original / name).read_bytes().split():
            return name
    return ""


@once(64)
def _read_alike(path: Path, original: Path, where: str, hashes: tuple[str, ...]) -> bool:
    if hashes[0] == hashes[1]:
        return True
    for each in (path, original):
        _check_size(each, each.stat().st_size, where)
    request = json.dumps([str(path), str(original), where]).encode()
    try:
        return bool(answer_of("sarqc.models.tokenizing:alike", request, cpu_seconds=CPU_SECONDS, memory=_MEMORY))
    except Exhausted as error:
        what = f"its tokenizer takes more than {CPU_SECONDS} s or too much memory, or fails ({error.what[:200]})"
        raise Refused(what, where, "Use the tokenizer of the original.") from None


def _known(ids: np.ndarray, where: str, vocabulary: int) -> np.ndarray:
    """Tokens as int64, all of which the model has."""
    if ids.size and ids.max() >= vocabulary:
        raise Refused(
            f"its tokenizer gives the token {ids.max()}, and the model knows {vocabulary}",
            where,
            f"{AGAIN[:-1]}; its tokenizer and its weights must belong together.",
        )
    return ids.astype(np.int64)


def _check_size(path: Path, size: int, where: str) -> None:
    if size > MOST_BYTES:
        what = f"{path.name} has more than {MOST_BYTES >> 20} MiB"
        raise Refused(what, where, "Use a model with another tokenizer.")


def _ask(folder: Path, where: str, texts: Sequence[str] = ()) -> tuple[TokenizerFacts, list[np.ndarray]]:
    """``apply`` in a process with limits, or in this one with a tokenizer that ships with the app."""
    fast = folder / FAST
    if fast.exists() and not is_regular(fast):
        raise Refused(f"{FAST} is not a regular file", where, AGAIN)
    sizes = {path: path.stat().st_size for path in text_files(folder)}
    for path, size in sizes.items():
        _check_size(path, size, where)
    if sum(sizes.values()) < _MOST_HERE and fast in sizes and sha256_of(fast) in SHIPPED:
        facts, tokens = apply(folder, where, texts)
        return facts, [np.array(ids, dtype=np.int64) for ids in tokens]
    contents = [text.encode(errors="surrogatepass") for text in texts]
    total = sum(map(len, contents))
    request = b"\n".join([json.dumps([str(folder), where, [*map(len, contents)]]).encode(), b"".join(contents)])
    seconds = CPU_SECONDS + CPU_SECONDS_EACH_MIB * total // 2**20
    try:
        answer = answer_of(
            "sarqc.models.tokenizing:answer", request, cpu_seconds=seconds, memory=_MEMORY + _MEMORY_OF_A_BYTE * total
        )
    except Exhausted as error:
        of_text, reason = " for this text" if texts else "", error.what[:200]
        what = f"its tokenizer takes more than {seconds} s or too much memory{of_text}, or fails ({reason})"
        raise Refused(what, where, "Use a model with another tokenizer.") from None
    head, _, content = answer.partition(b"\n")
    own, own_text, bos, bos_text, chats_begin, counts = json.loads(head)
    facts = TokenizerFacts(Beginning(tuple(own), own_text), Beginning(tuple(bos), bos_text), chats_begin)
    return facts, np.split(np.frombuffer(content, dtype=np.uint32), np.cumsum(counts)[:-1]) if counts else []
