"""Tokenizers of checkpoints, opened and applied: in a process with limits where their files come from others.

In a folder with a tokenizer.json this file alone decides about tokens. transformers' AutoTokenizer makes some of its
classes from the vocabulary and merges in it and puts the library's own steps in place of the rest.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from sarqc.errors import Refused
from sarqc.files.names import file_identity, is_regular, read_object
from sarqc.files.once import once

FAST = "tokenizer.json"
AGAIN = "Download the checkpoint again."
_MOST_TOKENS, _MORE_TOKENS = 16, 1024  # of a text: for each character, and besides
_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json", "chat_template.json")
_TEMPLATES = ("*.jinja", "additional_chat_templates/*.jinja")
_MOST_LETTERS = 4096  # of special tokens
_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")

# What tokenizers treat differently: case, digits, blanks, accents in both forms, scripts, signs and code.
_PROBE = """It's 10001 tokens; I'LL pay 3.14159 or 1,234,567.\n\n\tThe  QUICK   brown Fox: caf\u00e9, cafe\u0301!
“Naïve” – \ufb01ve 你好世界 Привет مرحبا こんにちは 👨\u200d👩\r\ndef f(x_1): return x**2 # 0x7F <tag> a@host... """


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


class _Opened(NamedTuple):
    ids: Callable[[str], list[int]]
    name_of: Callable[[int], str | None]
    number_of: Callable[[str], int | None]
    bos: str | None  # where no file names it


def whole(path: str) -> Tokenizer:
    """Return a tokenizer that cuts no text and pads none, whatever its file was saved with."""
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
    """A context in which an error of the libraries about the tokenizer in a folder becomes ``Refused``."""
    try:
        yield
    except Refused:
        raise
    except BaseException as error:  # the libraries raise what they like, and a panic in Rust is no ``Exception``
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
    tokenizer = _as_its_file_says(folder) if (folder / FAST).exists() else as_others_read(folder)
    if begins_with_bos:
        bos = tokenizer.bos_token, tokenizer.bos_token_id
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=f"{bos[0]} $A", special_tokens=[bos])
    return tokenizer


def _as_its_file_says(folder: Path) -> Any:
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    # Made of the same file, it may have got tokens and a beginning that tokenizer_config.json names besides.
    tokenizer._tokenizer = whole(str(folder / FAST))
    for name in _NAMES:
        if (token := getattr(tokenizer, name)) and tokenizer._tokenizer.token_to_id(str(token)) is None:
            setattr(tokenizer, name, None)
    return tokenizer


def as_others_read(folder: Path) -> Any:
    """Return the tokenizer of a folder as other programs read it, by transformers' AutoTokenizer."""
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
        documents = [read_object(path, where, remedy=AGAIN) for name in _SETTINGS if (path := folder / name).exists()]
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
    """Answer a request for ``apply``, in a process with limits; both are bytes of ``tokenizer_files``."""
    head, _, content = request.partition(b"\n")
    folder, where, sizes = json.loads(head)
    ends = [*accumulate(sizes)]
    texts = [content[end - size : end].decode(errors="surrogatepass") for end, size in zip(ends, sizes, strict=True)]
    facts, tokens = apply(Path(folder), where, texts)
    properties = json.dumps(
        [facts.own.ids, facts.own.text, facts.bos.ids, facts.bos.text, facts.chats_begin, [*map(len, tokens)]]
    )
    return b"\n".join([properties.encode(), b"".join(array("I", ids).tobytes() for ids in tokens)])


def alike(request: bytes) -> bytes:
    """Answer whether two tokenizer.json files read all texts alike; no is an empty answer."""
    path, original, where = json.loads(request)
    with refusing(f"{FAST} is damaged", Path(path).parent, where):
        both = whole(path), whole(original)
    one, other = (json.loads(tokenizer.to_str()) for tokenizer in both)
    tokens, others = ({token["content"]: token for token in each["added_tokens"]} for each in (one, other))
    if any(tokens.get(name, {}).get("id") != token["id"] for name, token in others.items()):
        return b""
    if any(not token["special"] for name, token in tokens.items() if name not in others):
        return b""
    if all(one[part] == other[part] for part in ("normalizer", "pre_tokenizer", "post_processor", "model")):
        return b"alike"
    same = all(one["model"].get(part) == other["model"].get(part) for part in ("type", "vocab", "merges"))
    return b"alike" if same and ids_of(_PROBE, both[0]) == ids_of(_PROBE, both[1]) else b""


def _bounded(ids: list[int], text: str, where: str) -> list[int]:
    most = _MOST_TOKENS * len(text) + _MORE_TOKENS
    if len(ids) > most:
        what = f"its tokenizer makes {len(ids):,} tokens of a text of {len(text):,} characters"
        raise Refused(what, where, "Use a model with another tokenizer.")
    return ids


@once(4)
def _fast(folder: Path, _identity: tuple[object, ...]) -> _Opened:
    tokenizer = whole(str(folder / FAST))
    return _Opened(partial(ids_of, tokenizer=tokenizer), tokenizer.id_to_token, tokenizer.token_to_id, None)


def _slow(folder: Path) -> _Opened:
    tokenizer = as_others_read(folder)
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
