"""Digests of shipped studies: their arrays, and the facts and the words of each part of every view."""

import hashlib
import json
from pathlib import Path
from typing import Any

from sarqc.figures import lab_view
from sarqc.study.document import Study
from sarqc.study.tensors import FILE

DIGITS = 6  # of a number: the last ones differ between processors
LENGTH = 16  # hexadecimal digits of a digest

Digests = dict[str, dict[str, str]]


def study_digests(folder: Path) -> Digests:
    """Return the digests of a study, by part: of the arrays, and of the views of every line and of its first layer.

    Parts are the keys of a view and the figures in it, so that a difference names what changed.
    """
    study = Study.open(folder)
    facts: dict[str, list[Any]] = {}
    words: dict[str, list[Any]] = {}
    for line in study.lines:
        for layer in ("all", "0"):
            view: dict[str, Any] = dict(lab_view(study, method=line.name, bits=line.bits, layer=layer))
            for name, part in _parts(view):
                facts.setdefault(name, []).append(facts_of(part))
                words.setdefault(name, []).append(words_of(part))
    arrays = hashlib.sha256((folder / FILE).read_bytes()).hexdigest()[:LENGTH]
    return {
        "arrays": {FILE: arrays},
        "facts": {name: digest(parts) for name, parts in facts.items()},
        "words": {name: digest(parts) for name, parts in words.items() if any(parts)},
    }


def _parts(view: dict[str, Any]) -> list[tuple[str, Any]]:
    parts = []
    for key, value in view.items():
        if key == "figures":
            parts += [(f"figures.{name}", figure) for name, figure in value.items() if figure is not None]
        else:
            parts.append((key, value))
    return parts


def facts_of(value: Any) -> Any:
    """Return a document with numbers to ``DIGITS`` digits and without its words."""
    if isinstance(value, dict):
        return {key: facts_of(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [facts_of(item) for item in value]
    if isinstance(value, str):
        return ""
    return float(f"{value:.{DIGITS - 1}e}") if isinstance(value, float) else value


def words_of(value: Any) -> list[str]:
    """Return all texts of a document in their order."""
    if isinstance(value, dict):
        return [text for item in value.values() for text in words_of(item)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in words_of(item)]
    return [value] if isinstance(value, str) else []


def digest(value: Any) -> str:
    """Return the digest of a JSON document."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:LENGTH]
