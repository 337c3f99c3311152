"""Pydantic's complaints about a recipe, in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from sarqc.errors import Fix, Refused, in_recipe
from sarqc.language import message, tr, written


def refusal(fields: Mapping[str, FieldInfo], error: ValidationError) -> Refused:
    """Return pydantic's first complaint as a refusal with the field and its remedy.

    Args:
        fields: Fields of a recipe by their public names.
        error: The complaints.
    """
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else "recipe"
    info, every = fields.get(name), tr("Fields are {names}.", names=", ".join(fields))
    if first["type"] == "extra_forbidden":
        return Refused(tr("“{field}” is not a field of a recipe", field=_quoted(name)), tr("recipe"), every)
    if first["type"] == "missing":
        help_text = tr(info.description) if info and info.description else ""
        return Refused(
            tr("“{field}” is missing", field=name), tr("recipe"),
            tr("Give {field}: {help}", field=name, help=help_text),
        ).about(name)  # fmt: skip
    help_text = tr(info.description) if info and info.description else every
    given = _quoted(repr(first["input"]))
    if info is None:
        what = tr("{field} is {value}: {wish}", field=name, value=given, wish=_wish(first))
        return Refused(what, in_recipe(name), help_text)
    wish = _wish(first, or_auto=Literal["auto"] in get_args(info.annotation))
    extra = info.json_schema_extra
    if isinstance(extra, dict) and extra.get("usual"):
        help_text = f"{tr('{values} is usual.', values=tr(str(extra['usual'])))} {help_text}"
    what = tr("{field} is {value}: {wish}", field=_called(name, info), value=given, wish=wish)
    return Refused(what, in_recipe(name), help_text).about(name, *_bound(name, first))


def _called(name: str, info: FieldInfo) -> str:
    """Title of a field, with its public name if that differs."""
    title = str(info.title)
    shown = tr(title)
    is_the_name = shown == title and title.lower() == name.replace("_", " ")
    return title.lower() if is_the_name else f"{shown} ({name})"


def _bound(name: str, complaint: ErrorDetails) -> Iterator[Fix]:
    """The number nearest to a value that is out of bounds."""
    if len(complaint["loc"]) == 2 and isinstance(complaint["loc"][1], int):
        return  # one of several
    context = complaint.get("ctx", {})
    for kind in ("ge", "le"):
        if kind in context:
            yield Fix(tr("Use {value}", value=written(f"{context[kind]:g}")), {name: context[kind]})


_A_WHOLE_NUMBER = message("it must be a whole number")
_A_NUMBER = message("it must be a number")
_TRUE_OR_FALSE = message("it must be true or false")

# Condition on a value, by the type of pydantic's complaint.
_WISHES = {
    "greater_than_equal": message("it must be {ge} or more"),
    "greater_than": message("it must be more than {gt}"),
    "less_than_equal": message("it must be {le} or less"),
    "less_than": message("it must be less than {lt}"),
    "literal_error": message("it must be {expected}"),
    "int_parsing": _A_WHOLE_NUMBER,
    "int_type": _A_WHOLE_NUMBER,
    "int_from_float": _A_WHOLE_NUMBER,
    "float_parsing": _A_NUMBER,
    "float_type": _A_NUMBER,
    "finite_number": _A_NUMBER,
    "bool_parsing": _TRUE_OR_FALSE,
    "bool_type": _TRUE_OR_FALSE,
    "string_type": message("it must be text"),
    "string_too_short": message("it must be a name"),
}


def _wish(complaint: ErrorDetails, *, or_auto: bool = False) -> str:
    """Condition on a value; ``or_auto`` if the field accepts “auto” as well."""
    form = _WISHES.get(complaint["type"])
    if form is None:
        said = complaint["msg"].removeprefix("Value error, ")
        return said[0].lower() + said[1:]
    context = complaint.get("ctx", {})
    bounds = [name for name in ("ge", "gt", "le", "lt") if name in context]
    values: dict[str, str] = {name: written(f"{context[name]:g}") for name in bounds}
    if "expected" in context:
        first, _, last = str(context["expected"]).rpartition(" or ")
        values["expected"] = tr("{first} or {last}", first=first, last=last) if first else last
    wish = tr(form, **values)
    return tr("{wish}, or “auto”", wish=wish) if or_auto else wish


def _quoted(text: str) -> str:
    """The value as given, cut to the room of a sentence."""
    return text if len(text) <= 100 else f"{text[:99]}…"
