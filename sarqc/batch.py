"""A batch: one document with lists where a recipe has one value, which means many runs."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any, get_origin

from sarqc.errors import Refused
from sarqc.recipe import Recipe, public_name


def axes(document: dict[str, Any]) -> dict[str, list[Any]]:
    """The fields of a batch that are lists where a recipe has one value. Raises ``Refused``, see ``expanded``."""
    lists = {public_name(name) for name, info in Recipe.model_fields.items() if get_origin(info.annotation) is tuple}
    found = {name: values for name, values in document.items() if isinstance(values, list) and name not in lists}
    for name, values in found.items():
        if not values or len({json.dumps(value) for value in values}) < len(values):
            what = "has an entry twice" if values else "is empty"
            raise Refused(f"the list of {name} {what}", f"recipe, {name}", "Give each value once.")
    return found


def expanded(document: dict[str, Any]) -> dict[str, Recipe]:
    """All recipes of a batch, by a name that says what sets each apart: {"lambda=0.1": …}; {"": …} for a single one.

    A list where a recipe has one value means one run for each entry, and several lists all their combinations, the
    first one outermost. Raises ``Refused`` for the first recipe that is none, for an empty list and for equal runs.
    """
    varied = axes(document)
    recipes = {}
    for point in itertools.product(*varied.values()):
        chosen = dict(zip(varied, point, strict=True))
        name = ",".join(f"{key}={Path(str(value)).name}" for key, value in chosen.items())
        if name in recipes:
            raise Refused(f"two runs would be called “{name}”", "recipe", "Give files with different names.")
        recipes[name] = Recipe.parse(document | chosen)
    return recipes
