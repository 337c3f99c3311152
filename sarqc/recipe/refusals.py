"""Pydantic's complaints about a recipe, in plain words."""

from collections.abc import Iterator
from typing import Literal, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from sarqc.errors import Fix, Refused, in_recipe, refused_for
from sarqc.recipe.fields import RecipeFields


def refusal(error: ValidationError) -> Refused:
    """Return pydantic's first complaint as a refusal with the field and its remedy."""
    fields = {info.alias or name: info for name, info in RecipeFields.model_fields.items()}
    first = error.errors()[0]
    name = str(first["loc"][0]) if first["loc"] else "recipe"
    info, every = fields.get(name), f"Fields are {', '.join(fields)}."
    if first["type"] == "extra_forbidden":
        return Refused(f"“{_quoted(name)}” is not a field of a recipe", "recipe", every)
    if first["type"] == "missing":
        help_text = info.description if info and info.description else ""
        return Refused(
            f"“{name}” is missing",
            "recipe",
            f"Give {name}: {help_text}",
        ).about(name)
    help_text = info.description if info and info.description else every
    quoted = _quoted(repr(first["input"]))
    if isinstance(first["input"], (int, float)):
        quoted = quoted.replace("-", "\u2212")
    if info is None:
        what = f"{name} is {quoted}: {_wish(first)}"
        return Refused(what, in_recipe(name), help_text)
    wish = _wish(first, or_auto=Literal["auto"] in get_args(info.annotation))
    what = f"{_field_words(name, info)} is {quoted}: {wish}"
    return refused_for(name, what, help_text, *_bound(name, first))


def _field_words(name: str, info: FieldInfo) -> str:
    title = str(info.title)
    return title.lower() if title.lower() == name.replace("_", " ") else f"{title} ({name})"


def _bound(name: str, complaint: ErrorDetails) -> Iterator[Fix]:
    if len(complaint["loc"]) == 2 and isinstance(complaint["loc"][1], int):
        return  # one of several
    context = complaint.get("ctx", {})
    for kind in ("ge", "le"):
        if kind in context:
            yield Fix(f"Use {context[kind]:,.16g}", {name: context[kind]})


_BOUNDS = {"ge": ("", " or more"), "gt": ("more than ", ""), "le": ("", " or less"), "lt": ("less than ", "")}
# Conditions on a value, by the beginning of pydantic's type of complaint.
_WISHES = {
    "int_": "a whole number",
    "float_": "a number",
    "finite_number": "a number",
    "bool_": "true or false",
    "string_type": "text",
    "string_too_short": "a name",
}


def _wish(complaint: ErrorDetails, *, or_auto: bool = False) -> str:
    """Return the condition on a value; ``or_auto`` if the field accepts “auto” as well."""
    context = complaint.get("ctx", {})
    wish = next((words for kind, words in _WISHES.items() if complaint["type"].startswith(kind)), None)
    if bound := next((name for name in _BOUNDS if name in context), None):
        wish = f"{context[bound]:,.16g}".join(_BOUNDS[bound])
    elif "expected" in context:
        wish = str(context["expected"])
    if wish is None:
        message = complaint["msg"].removeprefix("Value error, ")
        return message[0].lower() + message[1:]
    return f"it must be {wish}, or “auto”" if or_auto else f"it must be {wish}"


def _quoted(text: str) -> str:
    """Return the value as given, cut to fit a sentence."""
    return text if len(text) <= 100 else f"{text[:99]}…"
