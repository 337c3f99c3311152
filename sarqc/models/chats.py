"""Chats in the tokens of a model, as its chat template writes them.

Templates are programs of the model's author: they run in the sandbox of transformers, in a process within limits.
"""

import datetime
import json
from array import array
from pathlib import Path
from typing import Any

import numpy as np

from sarqc.errors import Refused
from sarqc.files.limited import GIB, Exhausted, answer_of
from sarqc.files.names import shortened
from sarqc.models.tokenizing import refusing, tokenizer_of

_CPU_SECONDS, _CPU_SECONDS_EACH_MIB, _MEMORY = 60, 20, 4 * GIB
DAY = datetime.datetime(2024, 7, 26)  # the date for every template; another one would give other tokens


def chat_ids(chats: str, folder: Path, where: str, vocabulary: int) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return the tokens of chats, one after the other, and the place at which each begins.

    They are those of ``apply_chat_template``: all special tokens are the template's.

    Args:
        chats: A JSON object on each line, with ``messages`` and maybe ``tools``.
        folder: Folder of the checkpoint.
        where: Its name in errors.
        vocabulary: Size of the model's vocabulary.

    Raises:
        Refused: If the model has no chat template, if that can't write one of the chats, or if the model lacks a token.
    """
    request = json.dumps({"folder": str(folder.resolve()), "where": where, "chats": chats}).encode()
    seconds = _CPU_SECONDS + _CPU_SECONDS_EACH_MIB * len(request) // 2**20
    try:
        answer = answer_of(f"{__name__}:answer", request, cpu_seconds=seconds, memory=_MEMORY)
    except Exhausted as error:
        what = f"the chat template takes more than {seconds} s or {_MEMORY / GIB:g} GiB, or fails: {error.what}"
        raise Refused(what, where, "Give fewer chats, or plain text.") from None
    ids = np.frombuffer(answer, dtype=np.int32).astype(np.int64)
    if ids.max(initial=0) >= vocabulary:
        what = f"its chat template or tokenizer gives the token {ids.max()}, and the model knows {vocabulary}"
        raise Refused(what, where, "Download the checkpoint again; its files must belong together.")
    marks = np.flatnonzero(ids < 0)
    return np.delete(ids, marks), tuple((marks - np.arange(len(marks))).tolist())


def answer(request: bytes) -> bytes:
    """Answer a request of ``chat_ids``: int32 tokens, with −1 before those of each chat."""
    from transformers.utils import chat_template_utils

    class Datetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return DAY.replace(tzinfo=tz)

    vars(chat_template_utils)["datetime"] = Datetime
    options = json.loads(request)
    folder, where = Path(options["folder"]), options["where"]
    with refusing("its tokenizer can't be read", folder, where):
        tokenizer = tokenizer_of(folder)
    try:
        tokenizer.get_chat_template()
    except ValueError:
        remedy = "Use the model's instruction-tuned version, or a text of plain rows."
        raise Refused("the text has chats, and the model has no chat template", where, remedy) from None
    texts = []
    for number, line in enumerate(options["chats"].split("\n"), 1):
        chat = json.loads(line)
        try:
            texts.append(tokenizer.apply_chat_template(chat["messages"], tools=chat.get("tools"), tokenize=False))
        except MemoryError:
            raise
        except Exception as error:  # of any kind
            reason = shortened(str(error).partition("\n")[0]) or type(error).__name__
            what = f"the chat template can't write chat {number:,}: {reason}"
            raise Refused(what, where, "Change that chat, or leave it out.") from None
    every = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return b"".join(array("i", [-1, *ids]).tobytes() for ids in every)
