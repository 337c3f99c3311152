"""Batches: documents of recipes with lists instead of single values."""

import itertools
import json
from pathlib import Path
from typing import Any, get_origin

from sarqc.errors import Refused, in_recipe
from sarqc.recipe.fields import SET_BY_EFFORT, public_name
from sarqc.recipe.former import renamed
from sarqc.recipe.recipe import Recipe


def axes(document: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the fields of a batch that hold a list instead of a single value.

    Raises:
        Refused: For an empty list or a repeated entry, see ``expanded``.
    """
    lists = {public_name(name) for name, info in Recipe.model_fields.items() if get_origin(info.annotation) is tuple}
    varied = {name: values for name, values in document.items() if isinstance(values, list) and name not in lists}
    for name, values in varied.items():
        if not values or len({json.dumps(value) for value in values}) < len(values):
            what = f"the list of {name} has an entry twice" if values else f"the list of {name} is empty"
            raise Refused(what, in_recipe(name), "Give each value once.")
    return varied


def expanded(document: dict[str, Any]) -> dict[str, Recipe]:
    """Return all recipes of a batch by names that set them apart: {"lambda=0.1": …}; {"": …} for a single recipe.

    A list instead of a single value means one run for each entry, and several lists mean all their combinations, the
    first list outermost.

    Raises:
        Refused: For the first invalid recipe, for an empty list and for equal runs.
    """
    document = renamed(document)
    varied = axes(document)
    recipes = {}
    for point in itertools.product(*varied.values()):
        chosen = dict(zip(varied, point, strict=True))
        name = ",".join(f"{key}={Path(str(value)).name}" for key, value in chosen.items())
        if name in recipes:
            raise Refused(f"two runs would be called “{name}”", "recipe", "Give files with different names.")
        recipes[name] = Recipe.parse(document | chosen)
    return recipes


def without_defaults(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a recipe or a batch without fields at their defaults.

    ``expanded`` of it gives equal recipes in the same order. Lists of a batch come last.

    Raises:
        Refused: As for ``expanded``.
    """
    document = renamed(document)
    recipes = list(expanded(document).values())
    varied = [public_name(name) if name in Recipe.model_fields else name for name in axes(document)]
    fields: dict[str, Any] = {}
    for recipe in recipes:
        fields |= recipe.differences()
    documents = [recipe.to_json() for recipe in recipes]
    if varied and "effort" in document:  # its fields may differ from run to run
        own = {name: documents[0].get(name, 0) for name in SET_BY_EFFORT if name in document}
        fields = {name: value for name, value in fields.items() if name not in SET_BY_EFFORT} | own
        fields["effort"] = document["effort"]
    plain = {public_name(name): info.default for name, info in Recipe.model_fields.items()}
    lists = {name: list(dict.fromkeys(entry.get(name, plain.get(name)) for entry in documents)) for name in varied}
    if "effort" in lists:
        lists["effort"] = document["effort"]
    return {name: value for name, value in fields.items() if name not in lists} | lists
