"""Recipes of former documents: former names of fields, and the effect of runs before a field existed."""

from typing import Any

from sarqc.errors import refused_for
from sarqc.recipe.fields import BEFORE, FORMER_NAMES


def renamed(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a recipe or a batch under today's names.

    Raises:
        Refused: If a field is given under both its names.
    """
    for former, name in FORMER_NAMES.items():
        if former in document and name in document:
            raise refused_for(
                name,
                f"{name} is given twice, also under its former name {former}",
                f"Leave {former} out.",
            )
    return {FORMER_NAMES.get(name, name): value for name, value in document.items()}


def recorded(document: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded recipe of a run under today's names; newer fields have their former effect."""
    today = renamed(document)
    return today | {name: value for name, value in BEFORE.items() if name not in today}


def deprecations(document: dict[str, Any]) -> list[str]:
    """Return a sentence for each former name in a document."""
    return [
        f"“{former}” is now “{name}”; the former name is accepted until version 1.1"
        for former, name in FORMER_NAMES.items()
        if former in document
    ]
