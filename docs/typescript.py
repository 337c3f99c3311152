"""Python's type hints as TypeScript and its data as JavaScript, so that what both halves share is written once.

Dataclasses, pydantic models and TypedDicts become interfaces, enumerations and literals unions; a document of which
Python itself says no more than ``dict[str, Any]`` is ``Record<string, unknown>``.
"""

import dataclasses
import json
import types
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, PlainSerializer
from typing_extensions import is_typeddict

PLAIN: dict[Any, str] = {
    str: "string",
    Path: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
    Any: "unknown",
    object: "unknown",
}


class Declarations:
    """The declarations of a ``.d.ts`` file, in the order in which they were asked for; a type brings its parts."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def union(self, name: str, values: Sequence[str], comment: str) -> None:
        """Declare a type of so many words."""
        self.alias(name, [json.dumps(value, ensure_ascii=False) for value in values], comment)

    def alias(self, name: str, either: Sequence[str], comment: str) -> None:
        """Declare a name for one of several types, written in TypeScript."""
        self.texts[name] = f"/** {comment} */\nexport type {name} = {' | '.join(either)};\n"

    def interface(self, shape: type, name: str | None = None, first: str = "") -> str:
        """Declare the interface of a dataclass, a model or a TypedDict once, and return its name; ``first`` is a field
        before the others."""
        name = name or shape.__name__.lstrip("_")
        if name not in self.texts:
            self.texts[name] = ""  # keeps its place, and ends a type that contains itself
            fields = [first] if first else []
            fields += [f"{key}{mark}: {self.of(hint)}" for key, mark, hint in fields_of(shape)]
            body = "".join(f"  {field};\n" for field in fields)
            comment = " ".join((shape.__doc__ or "").strip().split("\n\n")[0].replace("``", "`").split())
            self.texts[name] = f"/** {comment} */\nexport interface {name} {{\n{body}}}\n"
        return name

    def of(self, hint: Any) -> str:
        """Return TypeScript of a hint. Raises ``TypeError`` for what has no JSON form."""
        if hint in PLAIN:
            return PLAIN[hint]
        origin, parts = get_origin(hint), get_args(hint)
        if origin in (Annotated, NotRequired):
            written = [part.return_type for part in parts if isinstance(part, PlainSerializer)]  # in documents
            return self.of([parts[0], *written][-1])
        if origin is Literal:
            return " | ".join(json.dumps(part, ensure_ascii=False) for part in parts)
        if origin in (Union, types.UnionType):
            return " | ".join(dict.fromkeys(self.of(part) for part in parts))
        if origin is tuple and parts and parts[-1] is not Ellipsis:
            return f"[{', '.join(self.of(part) for part in parts)}]"
        if origin in (list, tuple, Sequence, frozenset):
            inner = self.of(parts[0])
            return f"({inner})[]" if " | " in inner else f"{inner}[]"
        if origin in (dict, Mapping):
            key = self.of(parts[0])
            record = f"Record<{key}, {self.of(parts[1])}>"
            return record if key == "string" else f"Partial<{record}>"
        if isinstance(hint, type) and issubclass(hint, Enum):
            return " | ".join(json.dumps(member.value) for member in hint)
        if is_typeddict(hint) or dataclasses.is_dataclass(hint) or issubclass(hint, BaseModel):
            return self.interface(hint)
        raise TypeError(f"{hint!r} has no form in TypeScript")

    def text(self) -> str:
        return "\n".join(self.texts.values())


def fields_of(shape: Any) -> list[tuple[str, str, Any]]:
    """Return the name in documents, "?" where it may be left out, and hint of each field."""
    hints = get_type_hints(shape, include_extras=True)
    if issubclass(shape, BaseModel):
        return [(info.alias or name, "", hints[name]) for name, info in shape.model_fields.items()]
    if is_typeddict(shape):
        optional = shape.__optional_keys__  # without those that only a string says to be so
        left_out = {name for name, hint in hints.items() if get_origin(hint) is NotRequired or name in optional}
        return [(name, "?" if name in left_out else "", hint) for name, hint in hints.items()]
    return [(field.name, "", hints[field.name]) for field in dataclasses.fields(shape)]


def literal(value: Any) -> str:
    """Return plain data as a script has it; a mapping has an entry a line."""
    if not isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    lines = [f"  {json.dumps(key)}: {json.dumps(part, ensure_ascii=False)},\n" for key, part in value.items()]
    return f"{{\n{''.join(lines)}}}"
