"""Pydantic's complaints about a recipe, in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from sarqc.errors import Fix, Refused


def refusal(fields: Mapping[str, FieldInfo], error: ValidationError) -> Refused:
    """Return pydantic's first complaint as a refusal with the field and its remedy.

    Args:
        fields: Fields of a recipe by their public names.
        error: The complaints.
    """
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else "recipe"
    info = fields.get(name)
    if first["type"] == "extra_forbidden":
        return Refused(f"“{_quoted(name)}” is not a field of a recipe", "recipe", f"Fields are {', '.join(fields)}.")
    if first["type"] == "missing":
        missing = Refused(f"“{name}” is missing", "recipe", f"Give {name}: {info.description if info else ''}")
        return missing.about(name)
    help_text = info.description if info and info.description else f"Fields are {', '.join(fields)}."
    given = _quoted(repr(first["input"]))
    if info is None:
        return Refused(f"{name} is {given}: {_wish(first)}", f"recipe, {name}", help_text)
    auto = "or “auto”" if Literal["auto"] in get_args(info.annotation) else ""
    extra = info.json_schema_extra
    usual = f"{extra['usual']} is usual. " if isinstance(extra, dict) and extra.get("usual") else ""
    return Refused(
        f"{_called(name, info)} is {given}: {_wish(first, auto)}", f"recipe, {name}", f"{usual}{help_text}"
    ).about(name, *_bound(name, first))


def _called(name: str, info: FieldInfo) -> str:
    """Title of a field, with its public name if that differs."""
    title = str(info.title)
    return title.lower() if title.lower() == name.replace("_", " ") else f"{title} ({name})"


def _bound(name: str, complaint: ErrorDetails) -> Iterator[Fix]:
    """The number nearest to a value that is out of bounds."""
    if len(complaint["loc"]) == 2 and isinstance(complaint["loc"][1], int):
        return  # one of several
    context = complaint.get("ctx", {})
    for kind in ("ge", "le"):
        if kind in context:
            yield Fix(f"Use {context[kind]:g}", {name: context[kind]})


# Condition on a value, by the type of pydantic's complaint.
_WISHES = {
    "greater_than_equal": "{ge:g} or more",
    "greater_than": "more than {gt:g}",
    "less_than_equal": "{le:g} or less",
    "less_than": "less than {lt:g}",
    "literal_error": "{expected}",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "finite_number": "a number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "string_too_short": "a name",
}


def _wish(complaint: ErrorDetails, further: str = "") -> str:
    """Condition on a value; ``further`` is an alternative that the field accepts."""
    form = _WISHES.get(complaint["type"])
    if form is None:
        message = complaint["msg"].removeprefix("Value error, ")
        return message[0].lower() + message[1:]
    wanted = form.format(**complaint.get("ctx", {}))
    return ", ".join(filter(None, [f"it must be {wanted}", further]))


def _quoted(text: str) -> str:
    """The value as given, cut to the room of a sentence."""
    return text if len(text) <= 100 else f"{text[:99]}…"
