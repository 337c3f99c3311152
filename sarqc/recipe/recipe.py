"""Recipe: the meaning of the form, the flags, the REST call and the batch run, as one flat document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError, model_validator

from sarqc.errors import Refused
from sarqc.files.yaml_document import read_yaml
from sarqc.recipe.effort import fill_in_effort
from sarqc.recipe.fields import RecipeFields
from sarqc.recipe.former import renamed
from sarqc.recipe.refusals import refusal
from sarqc.recipe.rules import LADDER_METHOD, check, without_effect


class Recipe(RecipeFields):
    """One quantization of one model: model, grid, method, calibration, evaluation.

    A recipe does not depend on the host: requests that the host cannot meet are refused by ``engine.plan``.
    """

    @model_validator(mode="before")
    @classmethod
    def _take_former_names(cls, document: Any) -> Any:
        if not isinstance(document, dict):
            return document
        document = renamed(document)
        if document.get("kind") == "ladder":  # whatever method a run would take by default, a ladder has its own
            document = {"method": LADDER_METHOD} | document
        return fill_in_effort(document, {name: cls.model_fields[name].default for name in ("method", "samples")})

    @model_validator(mode="after")
    def _fields_agree(self) -> Recipe:
        check(self)
        return self

    def ignored(self) -> list[str]:
        """Return a sentence for each value that has no effect on the chosen method."""
        return without_effect(self)

    @classmethod
    def parse(cls, document: dict[str, Any]) -> Recipe:
        """Return a recipe from plain data.

        Raises:
            Refused: For the first wrong field, with the values that it accepts.
        """
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise refusal(error) from None

    @classmethod
    def from_file(cls, path: Path) -> Recipe:
        """Return a recipe from a YAML or JSON file (JSON is YAML).

        Raises:
            Refused: If the file can't be read, or its content is not a recipe.
        """
        return cls.parse(read_document(path))


def read_document(path: Path) -> dict[str, Any]:
    """Return the names and values of a YAML or JSON file.

    Raises:
        Refused: If the file can't be read, or does not hold names and values.
    """
    document = read_yaml(path, "recipe")
    if not isinstance(document, dict):
        raise Refused("the recipe is not a list of names and values", str(path), "Write lines like “bits: 3”.")
    return document
