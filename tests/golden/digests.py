"""Digests of JSON documents in two halves: their numbers with the structure, and their words."""

import hashlib
import json
from typing import Any

DIGITS = 6  # of a number: the last ones differ between processors
LENGTH = 16  # hexadecimal digits of a digest


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
