"""Files of texts, read without a tokenizer: plain ones, and rows and chats as JSON lines and Parquet.

They come from anybody and may take any amount of memory, so a process within limits reads them.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from sarqc.errors import Refused
from sarqc.files.limited import GIB, Exhausted, answer_of
from sarqc.files.names import shortened
from sarqc.settings import Settings

_CPU_SECONDS, _MEMORY = 60, 4 * GIB
UPLOAD_ENDINGS = (".txt", ".jsonl")  # of plain texts, and of rows or chats of any kind of file
_OTHERS = (".csv", ".tsv", ".json", ".ndjson")  # files of rows, which must not be read as plain text
UPLOADED = re.compile(r"text-[0-9a-f]{24}")

Row = dict[str, Any]


@dataclass(frozen=True)
class TextDocuments:
    """The documents of a text.

    Attributes:
        text: All of them, joined; of chats a JSON object on each line, with ``messages`` and maybe ``tools``.
        rows: Their number; None for a plain text.
        are_chats: Whether a chat template has to write them.
    """

    text: str
    rows: int | None = None
    are_chats: bool = False


def text_name(digest: str) -> str:
    """Return the name of a text from its SHA-256 hash."""
    return f"text-{digest[:24]}"


def text_path(name: str, settings: Settings) -> Path:
    """Return the file of an uploaded text, whether it exists or not."""
    plain, rows = (settings.text_uploads_dir() / f"{name}{ending}" for ending in UPLOAD_ENDINGS)
    return rows if rows.exists() else plain


def read_plain(path: Path, where: str, ending: str) -> str:
    """Return a UTF-8 text without its byte order mark; refuse JSON, NUL characters and, by the ending, rows."""
    if ending in _OTHERS:
        remedy = "Save its rows as .jsonl or .parquet, as by to_json(…, orient='records', lines=True) of pandas."
        raise Refused(f"{ending} files are not read", where, remedy)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        remedy = f"Give a UTF-8 text file, or one that ends in {', '.join(READERS)}."
        raise Refused(f"the text can't be read: {reason}", where, remedy) from None
    if "\0" in text:
        what = f"character {text.index(chr(0)) + 1:,} of the text is NUL, which is in no plain text"
        raise Refused(what, where, "Save it as UTF-8 text.")
    if _is_json(text):
        remedy = "Give each row as an object on a line, in a file that ends in .jsonl: only its text or chat is read."
        raise Refused("the text is JSON under the name of a plain text", where, remedy)
    return text


def _is_json(text: str) -> bool:
    """Return True if the first line or all of a text is a JSON object, or an array of some."""
    text = text.strip()
    if not text.startswith(("{", "[")):
        return False
    for part in (text.partition("\n")[0], text):
        try:
            document = from_json(part)
        except ValueError:
            continue
        if isinstance(document[0] if isinstance(document, list) and document else document, dict):
            return True
    return False


def read_rows(
    path: Path,
    where: str,
    *,
    ending: str = "",
    column: str = "",
    most: int | None = None,
    limit: int = sys.maxsize,
    joined_by: str | None,
) -> TextDocuments:
    """Return the documents of a file of rows.

    Args:
        path: The file.
        where: Its name in errors.
        ending: One of ``READERS``; empty for the path's own.
        column: Column of texts or chats. Empty: ``messages``, ``text`` or the only column of text.
        most: Number of rows from the beginning; None for all.
        limit: Bytes of the text at most.
        joined_by: Characters between the texts of two rows; None for JSON lines with ``text`` or ``messages`` alone.

    Raises:
        Refused: If the file is damaged, without one column of text, or above the limit.
    """
    request: dict[str, Any] = {
        "path": str(path),
        "ending": (ending or path.suffix).lower(),
        "where": where,
        "column": column,
        "most": most,
        "limit": limit,
        "joined_by": joined_by,
    }
    try:
        answer = answer_of(f"{__name__}:answer", json.dumps(request).encode(), cpu_seconds=_CPU_SECONDS, memory=_MEMORY)
    except Exhausted as error:
        what = f"the text can't be read within {_CPU_SECONDS} s and {_MEMORY / GIB:g} GiB: {error.what}"
        raise Refused(what, where, "Give a part of it, or plain text.") from None
    head, _, text = answer.partition(b"\n")
    return TextDocuments(text.decode(), **json.loads(head))


def answer(request: bytes) -> bytes:
    """Answer a request of ``read_rows``: a line about the documents, then their text."""
    options = json.loads(request)
    path, where, ending = Path(options["path"]), options["where"], options["ending"]
    try:
        rows = list(islice(READERS[ending](path), options["most"]))
    # Readers of JSON, and Arrow with its subclasses of these, raise nothing else for a damaged file.
    except (OSError, ValueError, LookupError, RecursionError, NotImplementedError) as error:
        reason = shortened(str(getattr(error, "strerror", None) or error).partition("\n")[0])
        shape = "one JSON object or string on each line" if ending == ".jsonl" else "a whole Parquet file"
        remedy = f"Give {shape}, or a UTF-8 .txt file."
        raise Refused(f"the text can't be read: {reason}", where, remedy) from None
    documents = _documents(rows, options["column"], where)
    are_chats = bool(documents) and isinstance(documents[0], dict)
    if are_chats:
        text = "\n".join(to_json(chat).decode() for chat in documents)
    elif options["joined_by"] is None:
        text = "\n".join(to_json({"text": document}).decode() for document in documents)
    else:
        text = options["joined_by"].join(documents)
    content = text.encode()
    if len(content) > options["limit"]:
        raise Refused(
            f"its rows have {len(content) / 2**20:,.1f} MiB of text, and {options['limit'] / 2**20:g} are the most",
            where,
            "Give fewer rows, or raise SARQC_TEXT_MIB.",
        )
    return json.dumps({"rows": len(documents), "are_chats": are_chats}).encode() + b"\n" + content


def _documents(rows: list[Row], column: str, where: str) -> list[Any]:
    """Return texts, or chats as objects."""
    column = column or _column(rows, where)
    is_chat, documents = False, []
    for number, row in enumerate(rows, 1):
        value = row.get(column)
        is_chat = isinstance(value, list) if number == 1 else is_chat
        if not isinstance(value, list if is_chat else str):
            what = f"row {number:,} has no {'chat' if is_chat else 'text'} in “{shortened(column)}”"
            remedy = "Leave such rows out, or name another column behind the file, as in file.jsonl#content."
            raise Refused(what, where, remedy)
        if isinstance(value, str) and "\0" in value:
            raise Refused(f"the text of row {number:,} has a NUL character", where, "Leave it out.")
        if isinstance(value, list):
            value = _chat(value, row.get("tools"), f"{where}, row {number:,}")
        documents.append(value)
    return documents


def _column(rows: list[Row], where: str) -> str:
    """Return the column of chats, “text”, or the only other one with text in it."""
    texts = list(dict.fromkeys(name for row in rows for name, value in row.items() if isinstance(value, str)))
    has_chats = any(isinstance(row.get("messages"), list) for row in rows)
    columns = [*(["messages"] if has_chats else []), *({"text"} & {*texts})] or texts
    if len(columns) == 1 or not rows:
        return columns[0] if columns else "text"
    if not columns:
        names = ", ".join(f"“{shortened(name)}”" for name in islice(rows[0], 8)) or "none"
        what = f"no column has text; those of the first row: {names}"
        raise Refused(what, where, "Give texts in “text”, or chats in “messages”.")
    names = ", ".join(f"“{shortened(name)}”" for name in columns[:8])
    what = f"{len(columns)} columns have text: {names}"
    raise Refused(what, where, f"Name one behind the file, as in file.jsonl#{shortened(columns[0])}.")


def _chat(messages: list[Any], tools: Any, where: str) -> Row:
    """Return a chat in the form of chat templates."""
    if not messages or not all(isinstance(message, dict) for message in messages):
        raise Refused(
            "the chat is not a list of messages", where, "Give each message as an object of role and content."
        )
    chat: Row = {"messages": [_message(message, where) for message in messages]}
    if tools:
        if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
            raise Refused("“tools” is not a list of objects", where, "Give each tool as its JSON schema.")
        chat["tools"] = tools
    return chat


def _message(given: Row, where: str) -> Row:
    message = {name: value for name, value in given.items() if value is not None}
    content = message.get("content")
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        content = message["content"] = "".join(str(part.get("text", "")) for part in content)
    if not isinstance(message.get("role"), str) or not (isinstance(content, str) or "tool_calls" in message):
        remedy = "Give each message a role and a content of text alone."
        raise Refused("a message has no role, or its content is not text", where, remedy)
    return message


def _json_lines(path: Path) -> Iterator[Row]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if line.strip():
                try:
                    yield _row(from_json(line, allow_inf_nan=False))
                except ValueError as error:
                    raise ValueError(f"line {number:,}: {error}") from None


def _row(value: Any) -> Row:
    if isinstance(value, str):
        return {"text": value}
    if not isinstance(value, dict):
        raise ValueError("a row is neither an object nor a text")
    return value


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow
    from pyarrow import parquet

    pyarrow.set_cpu_count(1)
    with parquet.ParquetFile(path, pre_buffer=False) as file:
        types = pyarrow.types
        columns = [
            field.name
            for field in file.schema_arrow
            if types.is_string(field.type) or types.is_large_string(field.type) or types.is_nested(field.type)
        ]
        for batch in file.iter_batches(64, columns=columns, use_threads=False):
            yield from batch.to_pylist()


READERS: dict[str, Callable[[Path], Iterator[Row]]] = {".jsonl": _json_lines, ".parquet": _parquet}
