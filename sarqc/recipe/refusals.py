"""Pydantic's complaints about a recipe, in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from sarqc.errors import Fix, Refused, in_recipe


def refusal(fields: Mapping[str, FieldInfo], error: ValidationError) -> Refused:
    """Return pydantic's first complaint as a refusal with the field and its remedy.

    Args:
        fields: Fields of a recipe by their public names.
        error: The complaints.
    """
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else "recipe"
    info, every = fields.get(name), f"Fields are {', '.join(fields)}."
    if first["type"] == "extra_forbidden":
        return Refused(f"“{_quoted(name)}” is not a field of a recipe", "recipe", every)
    if first["type"] == "missing":
        help_text = info.description if info and info.description else ""
        return Refused(
            f"“{name}” is missing", "recipe",
            f"Give {name}: {help_text}",
        ).about(name)  # fmt: skip
    help_text = info.description if info and info.description else every
    given = _quoted(repr(first["input"]))
    if info is None:
        what = f"{name} is {given}: {_wish(first)}"
        return Refused(what, in_recipe(name), help_text)
    wish = _wish(first, or_auto=Literal["auto"] in get_args(info.annotation))
    extra = info.json_schema_extra
    if isinstance(extra, dict) and extra.get("usual"):
        help_text = f"{extra['usual']!s} is usual. {help_text}"
    what = f"{_called(name, info)} is {given}: {wish}"
    return Refused(what, in_recipe(name), help_text).about(name, *_bound(name, first))


def _called(name: str, info: FieldInfo) -> str:
    """Title of a field, with its public name if that differs."""
    title = str(info.title)
    shown = title
    is_the_name = shown == title and title.lower() == name.replace("_", " ")
    return title.lower() if is_the_name else f"{shown} ({name})"


def _bound(name: str, complaint: ErrorDetails) -> Iterator[Fix]:
    """The number nearest to a value that is out of bounds."""
    if len(complaint["loc"]) == 2 and isinstance(complaint["loc"][1], int):
        return  # one of several
    context = complaint.get("ctx", {})
    for kind in ("ge", "le"):
        if kind in context:
            yield Fix(f"Use {context[kind]:g}", {name: context[kind]})


_A_WHOLE_NUMBER = "it must be a whole number"
_A_NUMBER = "it must be a number"
_TRUE_OR_FALSE = "it must be true or false"

# Condition on a value, by the type of pydantic's complaint.
_WISHES = {
    "greater_than_equal": "it must be {ge} or more",
    "greater_than": "it must be more than {gt}",
    "less_than_equal": "it must be {le} or less",
    "less_than": "it must be less than {lt}",
    "literal_error": "it must be {expected}",
    "int_parsing": _A_WHOLE_NUMBER,
    "int_type": _A_WHOLE_NUMBER,
    "int_from_float": _A_WHOLE_NUMBER,
    "float_parsing": _A_NUMBER,
    "float_type": _A_NUMBER,
    "finite_number": _A_NUMBER,
    "bool_parsing": _TRUE_OR_FALSE,
    "bool_type": _TRUE_OR_FALSE,
    "string_type": "it must be text",
    "string_too_short": "it must be a name",
}


def _wish(complaint: ErrorDetails, *, or_auto: bool = False) -> str:
    """Condition on a value; ``or_auto`` if the field accepts “auto” as well."""
    form = _WISHES.get(complaint["type"])
    if form is None:
        said = complaint["msg"].removeprefix("Value error, ")
        return said[0].lower() + said[1:]
    context = complaint.get("ctx", {})
    bounds = [name for name in ("ge", "gt", "le", "lt") if name in context]
    values: dict[str, str] = {name: f"{context[name]:g}" for name in bounds}
    if "expected" in context:
        first, _, last = str(context["expected"]).rpartition(" or ")
        values["expected"] = f"{first} or {last}" if first else last
    wish = form.format(**values)
    return f"{wish}, or “auto”" if or_auto else wish


def _quoted(text: str) -> str:
    """The value as given, cut to the room of a sentence."""
    return text if len(text) <= 100 else f"{text[:99]}…"
