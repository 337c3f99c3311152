"""Tokenizers of checkpoints: their files checked before anything is loaded, opened and applied; no torch.

Foreign files are read in a process with limits. In a folder with a tokenizer.json this file alone determines tokens.
transformers' AutoTokenizer builds some of its classes from the vocabulary and merges in it, with the library's own
steps in place of the rest.
"""

import json
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from sarqc.errors import Fix, Refused, refused_for
from sarqc.files.hashes import sha256_of
from sarqc.files.limited import GIB, Exhausted, answer_of
from sarqc.files.names import file_identity, is_regular, read_object
from sarqc.files.once import once
from sarqc.models.architecture import Strict, first_problem

FAST = "tokenizer.json"
AGAIN = "Download the checkpoint again."
_MOST_TOKENS, _MORE_TOKENS = 16, 1024  # of a text: for each character, and besides
_NAMING_TOKENS = ("tokenizer_config.json", "special_tokens_map.json", "chat_template.json")
_TEMPLATES = ("*.jinja", "additional_chat_templates/*.jinja")
_MOST_LETTERS = 4096  # of special tokens
_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

# Everything that tokenizers treat differently: case, digits, blanks, accents in both forms, scripts, signs and code.
_PROBE = """It's 10001 tokens; I'LL pay 3.14159 or 1,234,567.\n\n\tThe  QUICK   brown Fox: caf\u00e9, cafe\u0301!
“Naïve” – \ufb01ve 你好世界 Привет مرحبا こんにちは 👨\u200d👩\r\ndef f(x_1): return x**2 # 0x7F <tag> a@host... """
# Of tokenizers of every kind, of chats, and of the tokens that end a text: the files of a model beside its weights and
# config.json. None is code.
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


@dataclass(frozen=True)
class Beginning:
    """The special tokens that a sequence begins with.

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


@dataclass(frozen=True)
class TokenizerFacts:
    """Properties of a tokenizer that do not depend on a text.

    Attributes:
        own: The tokens that it puts before every text.
        bos: Its bos_token; empty if it names none.
        chats_begin: Whether a chat template of the checkpoint names the bos_token.
    """

    own: Beginning
    bos: Beginning
    chats_begin: bool


_ANSWER = TypeAdapter(tuple[TokenizerFacts, list[int]])  # and the number of tokens of each text


class _Opened(NamedTuple):
    ids: Callable[[str], list[int]]
    name_of: Callable[[int], str | None]
    number_of: Callable[[str], int | None]
    bos: str | None  # where no file names it


class _TokenizerConfig(Strict):
    """Fields of tokenizer_config.json that are used when a tokenizer is made."""

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
    """Fields of generation_config.json on which the end of a text depends."""

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
    return [_in_vocabulary(ids, where, vocabulary) for ids in _apply_within_limits(folder, where, texts)[1]]


def beginning_of(folder: Path, where: str, vocabulary: int, begin: str = "auto") -> Beginning:
    """Return the special tokens that sequences begin with.

    Args:
        folder: Folder of the checkpoint.
        where: Its name in errors.
        vocabulary: Size of the model's vocabulary.
        begin: “auto” for the tokens that the tokenizer puts before every text, “bos” for its bos_token.

    Raises:
        Refused: As by ``encode``, and if there is no bos_token.
    """
    facts = facts_of(folder, where)
    if begin == "bos" and not facts.bos:
        what = f"the tokenizer of {where} names no bos_token"
        raise refused_for("begin", what, "Set begin to auto or none.", Fix("Follow the tokenizer", {"begin": "auto"}))
    chosen = facts.bos if begin == "bos" else facts.own
    _in_vocabulary(np.array(chosen.ids, dtype=np.int64), where, vocabulary)
    return chosen


def facts_of(folder: Path, where: str) -> TokenizerFacts:
    """Return the facts of a folder's tokenizer; raise the refusals of ``encode``."""
    return _facts(folder, tokenizer_identity(folder), where)


@once(64)
def _facts(folder: Path, _identity: tuple[object, ...], where: str) -> TokenizerFacts:
    return _apply_within_limits(folder, where)[0]


def tokenizer_identity(folder: Path) -> tuple[object, ...]:
    """Return a value that changes with the tokenizer in a folder, without reading it."""
    return tuple(map(file_identity, text_files(folder)))


def other_tokenizer(folder: Path, original: Path, where: str) -> str:
    """Return the file by which a folder reads texts otherwise than the original; empty if there is none.

    A folder without a tokenizer has the original's. Further special tokens are in no text, and another spelling by a
    newer program may read the same: then a text with everything that tokenizers differ in decides.
    """
    both = [
        {name for name in (FAST, "tokenizer.model", "vocab.json", "merges.txt") if (root / name).is_file()}
        for root in (folder, original)
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
        return bool(answer_of(f"{__name__}:alike", request, cpu_seconds=CPU_SECONDS, memory=_MEMORY))
    except Exhausted as error:
        what = f"its tokenizer takes more than {CPU_SECONDS} s or too much memory, or fails ({error.what[:200]})"
        raise Refused(what, where, "Use the tokenizer of the original.") from None


def _in_vocabulary(ids: np.ndarray, where: str, vocabulary: int) -> np.ndarray:
    """Return tokens as int64; refuse tokens that the model lacks."""
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


def _apply_within_limits(
    folder: Path, where: str, texts: Sequence[str] = ()
) -> tuple[TokenizerFacts, list[np.ndarray]]:
    """Apply a tokenizer in a process with limits, or in this one if it ships with the app."""
    fast = folder / FAST
    if fast.exists() and not is_regular(fast):
        raise Refused(f"{FAST} is not a regular file", where, AGAIN)
    sizes = {path: path.stat().st_size for path in text_files(folder)}
    for path, size in sizes.items():
        _check_size(path, size, where)
    if sum(sizes.values()) < _MOST_HERE and fast in sizes and sha256_of(fast) in SHIPPED:
        facts, tokens = apply(folder, where, texts)
        return facts, [np.array(ids, dtype=np.int64) for ids in tokens]
    request = json.dumps([str(folder), where, *texts]).encode()
    seconds = CPU_SECONDS + CPU_SECONDS_EACH_MIB * len(request) // 2**20
    memory = _MEMORY + _MEMORY_OF_A_BYTE * len(request)
    try:
        answer = answer_of(f"{__name__}:answer", request, cpu_seconds=seconds, memory=memory)
    except Exhausted as error:
        of_text, reason = " for this text" if texts else "", error.what[:200]
        what = f"its tokenizer takes more than {seconds} s or too much memory{of_text}, or fails ({reason})"
        raise Refused(what, where, "Use a model with another tokenizer.") from None
    head, _, content = answer.partition(b"\n")
    facts, counts = _ANSWER.validate_json(head)
    return facts, np.split(np.frombuffer(content, dtype=np.uint32), np.cumsum(counts)[:-1]) if counts else []


def open_whole(path: str) -> Tokenizer:
    """Return a tokenizer without truncation and padding, whatever the settings in its file."""
    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def ids_of(text: str, tokenizer: Tokenizer) -> list[int]:
    """Return tokens without their places in the text.

    This takes a sixth of the time and memory, and other threads go on meanwhile.
    """
    ids: list[int] = tokenizer.encode_batch_fast([text])[0].ids
    return ids


@contextmanager
def refusing(what: str, folder: Path, where: str, remedy: str = AGAIN) -> Iterator[None]:
    """Make any error of the libraries about the files of a folder ``Refused`` within this context."""
    try:
        yield
    except Refused:
        raise
    except BaseException as error:  # libraries raise errors of any kind, and a panic in Rust is no ``Exception``
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = next(iter(str(error).splitlines()), type(error).__name__).replace(str(folder), where)
        raise Refused(f"{what}: {reason[:300]}", where, remedy) from None


def tokenizer_of(folder: Path, *, begins_with_bos: bool = False) -> Any:
    """Return transformers' tokenizer of a folder, whose tokens are those of tokenizer.json where there is one.

    Args:
        folder: Folder of the checkpoint.
        begins_with_bos: Put the bos_token before every text, and nothing else.
    """
    tokenizer = _fast_tokenizer(folder) if (folder / FAST).exists() else auto_tokenizer(folder)
    if begins_with_bos:
        bos = tokenizer.bos_token, tokenizer.bos_token_id
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=f"{bos[0]} $A", special_tokens=[bos])
    return tokenizer


def _fast_tokenizer(folder: Path) -> Any:
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    # Made of the same file, it may have further tokens and a beginning from tokenizer_config.json.
    tokenizer._tokenizer = open_whole(str(folder / FAST))
    for name in _NAMES:
        if (token := getattr(tokenizer, name)) and tokenizer._tokenizer.token_to_id(str(token)) is None:
            setattr(tokenizer, name, None)
    return tokenizer


def auto_tokenizer(folder: Path) -> Any:
    """Return the tokenizer of a folder by transformers' AutoTokenizer, as in other programs."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def apply(folder: Path, where: str, texts: Sequence[str]) -> tuple[TokenizerFacts, list[list[int]]]:
    """Return the properties of a folder's tokenizer and the tokens of texts, special ones included.

    Raises:
        Refused: If its files are damaged, if it fails on a text, or makes far more tokens of it than characters.
    """
    is_fast = (folder / FAST).exists()
    with refusing(f"{FAST} is damaged" if is_fast else "its tokenizer can't be read", folder, where):
        opened = _fast(folder, file_identity(folder / FAST)) if is_fast else _slow(folder)
    with refusing("its tokenizer fails", folder, where, "Use a model with another tokenizer."):
        tokens = [_bounded(opened.ids(text), text, where) for text in ("", "a", *texts)]
        ids = [token for token, other in takewhile(lambda pair: pair[0] == pair[1], zip(*tokens[:2], strict=False))]
        names = [str(opened.name_of(token)) for token in ids]
        paths = (path for name in _NAMING_TOKENS if (path := folder / name).exists())
        documents = [read_object(path, where, remedy=AGAIN) for path in paths]
        bos = next(filter(None, (_token(document.get("bos_token")) for document in documents)), opened.bos)
        number = opened.number_of(bos) if bos else None
        if sum(map(len, [*names, bos or ""])) > _MOST_LETTERS:
            what = f"the names of the tokens before a text have more than {_MOST_LETTERS:,} characters"
            raise Refused(what, where, "Use a model with another tokenizer.")
        own = Beginning(tuple(ids), "".join(names))
        if bos is None or number is None:
            return TokenizerFacts(own, NOTHING, False), tokens[2:]
        templates = _templates(folder, documents)
        chats_begin = any("bos_token" in text or bos in text for text in templates)
        return TokenizerFacts(own, Beginning((number,), bos), chats_begin), tokens[2:]


def answer(request: bytes) -> bytes:
    """Answer a request of ``_apply_within_limits``, in a process with limits."""
    folder, where, *texts = json.loads(request)
    facts, tokens = apply(Path(folder), where, texts)
    properties = _ANSWER.dump_json((facts, [*map(len, tokens)]))
    return b"\n".join([properties, b"".join(array("I", ids).tobytes() for ids in tokens)])


def alike(request: bytes) -> bytes:
    """Return a nonempty answer if two tokenizer.json files read all texts alike."""
    path, original, where = json.loads(request)
    with refusing(f"{FAST} is damaged", Path(path).parent, where):
        both = open_whole(path), open_whole(original)
    first, second = (json.loads(tokenizer.to_str()) for tokenizer in both)
    tokens, others = ({token["content"]: token for token in each["added_tokens"]} for each in (first, second))
    if any(tokens.get(name, {}).get("id") != token["id"] for name, token in others.items()):
        return b""
    if any(not token["special"] for name, token in tokens.items() if name not in others):
        return b""
    same = all(first["model"].get(part) == second["model"].get(part) for part in ("type", "vocab", "merges"))
    return b"alike" if same and ids_of(_PROBE, both[0]) == ids_of(_PROBE, both[1]) else b""


def _bounded(ids: list[int], text: str, where: str) -> list[int]:
    most = _MOST_TOKENS * len(text) + _MORE_TOKENS
    if len(ids) > most:
        what = f"its tokenizer makes {len(ids):,} tokens of a text of {len(text):,} characters"
        raise Refused(what, where, "Use a model with another tokenizer.")
    return ids


@once(4)
def _fast(folder: Path, _identity: tuple[object, ...]) -> _Opened:
    tokenizer = open_whole(str(folder / FAST))
    return _Opened(partial(ids_of, tokenizer=tokenizer), tokenizer.id_to_token, tokenizer.token_to_id, None)


def _slow(folder: Path) -> _Opened:
    tokenizer = auto_tokenizer(folder)
    return _Opened(
        lambda text: tokenizer(text)["input_ids"],
        tokenizer.convert_ids_to_tokens,
        tokenizer.convert_tokens_to_ids,
        tokenizer.bos_token,
    )


def _token(value: Any) -> str | None:
    token = value.get("content") if isinstance(value, dict) else value
    return token if isinstance(token, str) and token else None


def _templates(folder: Path, documents: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the chat templates of a folder."""
    for document in documents:
        named = document.get("chat_template")
        for template in named if isinstance(named, list) else [named]:
            text = template.get("template") if isinstance(template, dict) else template
            if isinstance(text, str):
                yield text
    for pattern in _TEMPLATES:
        for path in filter(is_regular, folder.glob(pattern)):
            yield path.read_text(encoding="utf-8", errors="replace")
