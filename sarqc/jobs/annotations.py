"""Annotations of a run by people: its name, a note and tags. Checked here, kept by the store."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sarqc.errors import Refused

NAME_LENGTH, NOTE_LENGTH, TAG_LENGTH = 120, 4000, 40  # characters
MOST_TAGS = 16
FIELDS = ("name", "note", "tags")


@dataclass(frozen=True)
class Annotations:
    """Annotations to write; None leaves what is there."""

    name: str | None = None
    note: str | None = None
    tags: tuple[str, ...] | None = None

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Annotations:
        """Return the body of a request. Raises ``Refused`` for anything but a name, a note and tags within their
        bounds."""
        unknown = [f"“{name[:40]}” can't be written on a run" for name in document if name not in FIELDS]
        if unknown or not document:
            raise Refused([*unknown, "there is nothing to write"][0], "run", "Give name, note or tags.")
        given: dict[str, Any] = dict(document)
        if "name" in given:
            given["name"] = _line(given["name"], "name", NAME_LENGTH)
        if "note" in given:
            given["note"] = _text(given["note"], "note", NOTE_LENGTH)
        if "tags" in given:
            given["tags"] = checked_tags(given["tags"])
        return cls(**given)


def checked_tags(value: Any, where: str = "run, tags") -> tuple[str, ...]:
    """Tags without the spaces around them, each once whatever its case. Raises ``Refused``."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise Refused("tags are a list of words", where, 'Give them as in ["baseline", "paper"].')
    tags: dict[str, str] = {}
    for text in value:
        tag = _line(text, "tag", TAG_LENGTH).lstrip("#").strip()
        if not tag or "," in tag:
            raise Refused("a tag is empty or has a comma in it", where, "Give each tag by itself.")
        tags.setdefault(tag.casefold(), tag)
    if len(tags) > MOST_TAGS:
        raise Refused(f"{len(tags)} tags are more than the {MOST_TAGS} of a run", where, "Remove some.")
    return tuple(tags.values())


def _line(value: Any, name: str, length: int) -> str:
    text = " ".join(_text(value, name, length).split())
    return "".join(character for character in text if unicodedata.category(character) != "Cc")


def _text(value: Any, name: str, length: int) -> str:
    """Text that can be stored and shown."""
    where = f"run, {name}"
    if not isinstance(value, str):
        raise Refused(f"the {name} is not a text", where, f"Give text of at most {length} characters.")
    text = value.replace("\r\n", "\n").strip()
    if len(text) > length:
        raise Refused(f"the {name} has {len(text)} characters", where, f"Use at most {length}.")
    if "\0" in text or any(unicodedata.category(character) == "Cs" for character in text):
        raise Refused(f"the {name} holds an invalid character", where, "Remove it.")
    return text
