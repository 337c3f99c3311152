"""Files of a checkpoint for reading and writing text, checked before anything is loaded; no torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, ValidationError
from tokenizers import Tokenizer

from sarqc.errors import Refused
from sarqc.files.names import file_identity, is_regular, read_object
from sarqc.models.architecture import Strict, first_problem
from sarqc.models.tokenizing import ids_of, whole

FAST = "tokenizer.json"
_SLOW = ("tokenizer.model", "vocab.json")
_AGAIN = "Download the checkpoint again."
CPU_SECONDS, CPU_SECONDS_EACH_MIB = 30, 10  # of a tokenizer with expressions of its own; usual ones take one for 5 MiB

# What tokenizers treat differently: case, digits, blanks, accents in both forms, scripts, signs and code.
_PROBE = """It's 10001 tokens; I'LL pay 3.14159 or 1,234,567.\n\n\tThe  QUICK   brown Fox: caf\u00e9, cafe\u0301!
“Naïve” – \ufb01ve 你好世界 Привет مرحبا こんにちは 👨\u200d👩\r\ndef f(x_1): return x**2 # 0x7F <tag> a@host... """

Token = str | dict[str, Any] | None


@dataclass(frozen=True)
class Beginning:
    """The special tokens that a tokenizer puts before every text.

    Attributes:
        ids: The tokens; empty without any.
        text: Their names, such as “<bos>”.
    """

    ids: tuple[int, ...] = ()
    text: str = ""

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.ids)


NOTHING = Beginning()


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
        document = read_object(folder / name, where, remedy=_AGAIN)
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


def check_tokenizer(folder: Path, where: str) -> None:
    """Check that the checkpoint has a tokenizer that can be opened.

    Raises:
        Refused: Otherwise.
    """
    if (folder / FAST).exists():
        _fast(folder, where)
    elif not any(is_regular(folder / name) for name in _SLOW):
        raise Refused(f"no {FAST}", where, _AGAIN)


def encode(text: str, folder: Path, where: str, vocabulary: int) -> np.ndarray:
    """Return the text in a model's tokens, special ones included: int64 (n_tokens,).

    Args:
        text: The text.
        folder: Folder of the checkpoint.
        where: Its name in errors.
        vocabulary: Size of the model's vocabulary.

    Raises:
        Refused: If the tokenizer is damaged, or gives tokens outside the vocabulary.
    """
    has_fast = (folder / FAST).exists()
    ids = _fast_ids(text, folder, where) if has_fast else _slow(folder, where, lambda own: own(text)["input_ids"])
    array = np.asarray(ids, dtype=np.int64)
    if array.size and array.max() >= vocabulary:
        raise Refused(
            f"its tokenizer gives the token {array.max()}, and the model knows {vocabulary}",
            where,
            "Download the checkpoint again; its tokenizer and its weights must belong together.",
        )
    return array


def beginning_of(folder: Path, where: str, vocabulary: int) -> Beginning:
    """Return what a model's tokenizer puts before every text: what an empty text and another one begin with.

    Arguments and refusals are those of ``encode``.
    """
    return _beginning(folder, tokenizer_identity(folder), where, vocabulary)


@lru_cache(maxsize=64)
def _beginning(folder: Path, _identity: tuple[object, ...], where: str, vocabulary: int) -> Beginning:
    """The same, kept: every plan asks, and a tokenizer with expressions of its own takes a process for each text."""
    of_two = zip(*(encode(text, folder, where, vocabulary).tolist() for text in ("", "a")), strict=False)
    ids = [token for token, _ in takewhile(lambda pair: pair[0] == pair[1], of_two)]
    if not ids:
        return NOTHING
    if (folder / FAST).exists():
        names = map(_fast(folder, where).id_to_token, ids)
    else:
        names = _slow(folder, where, lambda own: own.convert_ids_to_tokens(ids))
    return Beginning(tuple(ids), "".join(map(str, names)))


def tokenizer_identity(folder: Path) -> tuple[object, ...]:
    """Return a value that changes with the tokenizer in a folder, without reading it."""
    files = [folder / name for name in (FAST, *_SLOW, "tokenizer_config.json")]
    return tuple(file_identity(path) for path in files if path.exists())


def other_tokenizer(folder: Path, original: Path, where: str) -> str:
    """Return the file by which a folder reads texts otherwise than the original; empty if there is none.

    A folder without a tokenizer has the original's. Further special tokens are in no text, and what a newer program has
    written otherwise may read the same: then a text with all that tokenizers differ in decides.
    """
    both = [{name for name in (FAST, *_SLOW, "merges.txt") if (one / name).is_file()} for one in (folder, original)]
    if FAST in both[0] & both[1]:
        identities = (file_identity(folder / FAST), file_identity(original / FAST))
        return "" if _read_alike(folder, original, where, identities) else FAST
    for name in sorted(both[0] & both[1]):
        if (folder / name).read_bytes().split() != (original / name).read_bytes().split():
            return name
    return ""


@lru_cache(maxsize=64)
def _read_alike(folder: Path, original: Path, where: str, _identities: tuple[object, ...]) -> bool:
    one, other = (json.loads(_fast(each, where).to_str()) for each in (folder, original))
    tokens, others = ({token["content"]: token for token in each["added_tokens"]} for each in (one, other))
    if any(tokens.get(name, {}).get("id") != token["id"] for name, token in others.items()):
        return False
    if any(not token["special"] for name, token in tokens.items() if name not in others):
        return False
    parts = ("normalizer", "pre_tokenizer", "post_processor", "model")
    if all(one[part] == other[part] for part in parts):
        return True
    same = all(one["model"].get(part) == other["model"].get(part) for part in ("type", "vocab", "merges"))
    return same and list(_fast_ids(_PROBE, folder, where)) == list(_fast_ids(_PROBE, original, where))


def _fast(folder: Path, where: str) -> Tokenizer:
    path = folder / FAST
    if not is_regular(path):
        raise Refused(f"{FAST} is not a regular file", where, _AGAIN)
    try:
        return _opened(path, file_identity(path))
    except Exception as error:  # the library raises nothing more special
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise Refused(f"{FAST} is damaged: {reason}", where, _AGAIN) from None


@lru_cache(maxsize=4)
def _opened(path: Path, _identity: tuple[object, ...]) -> Tokenizer:
    return whole(str(path))


def _fast_ids(text: str, folder: Path, where: str) -> list[int] | np.ndarray:
    tokenizer = _fast(folder, where)
    if not _has_expressions(tokenizer):
        return ids_of(text, tokenizer)
    content = text.encode(errors="surrogatepass")
    seconds = CPU_SECONDS + CPU_SECONDS_EACH_MIB * len(content) // 2**20
    module_path = os.pathsep.join(path for path in sys.path if path)
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "sarqc.models.tokenizing", str(folder / FAST), str(seconds)],
            input=content, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=10 * seconds,
            env=kept | {"PYTHONPATH": module_path, "TOKENIZERS_PARALLELISM": "false"},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode:
        what = f"the expressions of its tokenizer take more than {seconds} s for this text, or fail on it"
        raise Refused(what, f"{where}, {FAST}", "Use a model with another tokenizer.")
    return np.frombuffer(done.stdout, dtype=np.int32)


def _has_expressions(tokenizer: Tokenizer) -> bool:
    """True if a text goes through regular expressions of the tokenizer's own file."""
    parts = [part.__getstate__() for part in (tokenizer.normalizer, tokenizer.pre_tokenizer) if part is not None]
    return any(b'"Regex"' in state for state in parts)


def _slow(folder: Path, where: str, ask: Callable[[Any], Any]) -> Any:
    """The answer of a tokenizer without tokenizer.json."""
    from transformers import AutoTokenizer

    try:
        return ask(AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False))
    except Exception as error:  # its vocabulary is the library's to judge
        raise Refused(f"its tokenizer can't be read: {type(error).__name__}", where, _AGAIN) from None
