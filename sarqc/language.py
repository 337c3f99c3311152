"""The language of pages and sentences: messages by their English text, plurals and numbers by the rules of CLDR.

A message is a whole clause or sentence with named values, and never glued to others. English stands in the code; the
catalogue of another language is ``sarqc/languages/<language>.po``, which translators' tools read. Scripts of pages take
theirs from the same file (``assets/js/base/messages.js``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from babel import Locale
from babel.messages.pofile import read_po
from babel.numbers import get_decimal_symbol, get_group_symbol

ENGLISH = "en"
LANGUAGES = {ENGLISH: "English", "de": "Deutsch"}  # by code, in their own words
FOLDER = Path(__file__).parent / "languages"
_SCRIPTS = "assets/js/"
_spoken: ContextVar[str] = ContextVar("language", default=ENGLISH)
_CATEGORIES = ("zero", "one", "two", "few", "many", "other")  # of plurals, in the order of catalogues


@dataclass(frozen=True)
class _Catalogue:
    """A language: symbols of numbers by the English ones, translations by message, forms of a plural by the message for
    one thing, and the scripts that have a message.
    """

    locale: Locale
    symbols: Mapping[int, str]
    messages: Mapping[str, str]
    plurals: Mapping[str, tuple[str, ...]]
    scripts: Mapping[str, frozenset[str]]

    def categories(self) -> tuple[str, ...]:
        """Return the categories of a plural in the order of its forms."""
        known = {*self.locale.plural_form.tags, "other"}
        return tuple(category for category in _CATEGORIES if category in known)


def language() -> str:
    """Return the code of the language spoken."""
    return _spoken.get()


@contextmanager
def speaking(code: str) -> Iterator[None]:
    """Speak a language of ``LANGUAGES`` within the block."""
    token = _spoken.set(code)
    try:
        yield
    finally:
        _spoken.reset(token)


def message(text: str) -> str:
    """Mark a message that is translated where it is shown; return it as it is."""
    return text


def tr(text: str, /, **values: object) -> str:
    """Return a message in the language spoken.

    Args:
        text: The message in English; ``{name}`` stands for a value.
        values: The values by name.
    """
    translated = text if language() == ENGLISH else _catalogue(language()).messages.get(text) or text
    return translated.format_map(values) if values else translated


def tr_count(one: str, other: str, count: float, /, **values: object) -> str:
    """Return the message for a number of things, in the language spoken.

    Args:
        one: The message for one thing, in English; ``{count}`` stands for the number.
        other: The message for any other number.
        count: The number.
        values: Further values by name; a ``count`` among them stands in place of digits.
    """
    translated = one if count == 1 else other
    if language() != ENGLISH:
        catalogue = _catalogue(language())
        if forms := catalogue.plurals.get(one):
            translated = forms[catalogue.categories().index(catalogue.locale.plural_form(count))]
    return translated.format_map({"count": count, **values})


def tr_parts(text: str, /, **values: object) -> list[object]:
    """Return a message in the language spoken, in parts: its text between values, and the values as they are.

    Args:
        text: The message in English; ``{name}`` stands for a value.
        values: The values by name, e.g. text with a role.
    """
    parts: list[object] = []
    for literal, name, _, _ in Formatter().parse(tr(text)):
        parts += [literal] if literal else []
        parts += [values[name]] if name else []
    return parts


def written(number: str) -> str:
    """Return a number in English notation, such as “1,234.5”, in that of the language spoken."""
    if language() == ENGLISH:
        return number
    return number.translate(_catalogue(language()).symbols)


def messages_of_scripts(scripts: Collection[str]) -> dict[str, Any]:
    """Return what scripts need to speak the language: see ``assets/js/base/messages.js``.

    Args:
        scripts: Their names below ``assets``, such as ``js/base/link.js``.
    """
    catalogue = _catalogue(language())
    files = {f"assets/{name}" for name in scripts}
    wanted = {text for text, names in catalogue.scripts.items() if names & files}
    return {
        "messages": {text: catalogue.messages[text] for text in sorted(wanted & catalogue.messages.keys())},
        "plurals": {text: catalogue.plurals[text] for text in sorted(wanted & catalogue.plurals.keys())},
        "categories": catalogue.categories(),
    }


@cache
def _catalogue(code: str) -> _Catalogue:
    with (FOLDER / f"{code}.po").open("rb") as file:
        catalogue = read_po(file, locale=code)
    messages: dict[str, str] = {}
    plurals: dict[str, tuple[str, ...]] = {}
    scripts: dict[str, frozenset[str]] = {}
    for entry in catalogue:
        if not entry.id or not entry.string:
            continue
        if isinstance(entry.id, str) and isinstance(entry.string, str):
            key = entry.id
            messages[key] = entry.string
        else:
            key = entry.id[0]
            plurals[key] = tuple(entry.string)
        scripts[key] = frozenset(name for name, _ in entry.locations if name.startswith(_SCRIPTS))
    locale = Locale(code)
    symbols = {ord(","): get_group_symbol(locale), ord("."): get_decimal_symbol(locale)}
    return _Catalogue(locale, symbols, messages, plurals, scripts)
