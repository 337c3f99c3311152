"""The run that a line of a study asks for: its settings as a recipe, and in words what no recipe can say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from sarqc.errors import Refused
from sarqc.quantization.methods import METHODS
from sarqc.recipe import OF_THE_OTHER_KIND, Recipe, public_name
from sarqc.study.document import Line, Study
from sarqc.study.facts import has_lam

# What a recipe that left a study says of that study alone; λ and γ are those of the point that is chosen.
_ITS_OWN = {"kind", "sweep", "layer", "inputs_from", "lambda", "gamma", *map(public_name, OF_THE_OTHER_KIND["run"])}


class AsRecipe(TypedDict):
    """A line as a recipe.

    ``recipe`` lacks λ and γ, which stand in ``lams`` and ``gammas`` by position; those are empty where the method has
    none or “auto” chooses. ``left`` has a sentence for each thing that is not taken along. Without ``recipe`` the line
    can't be run, and ``left`` says why.
    """

    recipe: dict[str, Any] | None
    lams: list[float]
    gammas: list[float | None]
    left: list[str]


def as_recipe(study: Study, line: Line) -> AsRecipe:
    """The settings of a line of a study, with only what differs from the defaults of a recipe."""
    tunes = METHODS[line.method].tunes if line.method in METHODS else ()
    document = _texts_of(study) | {
        "bits": line.bits,
        "grid": line.grid,
        "group_size": line.group_size or "per_channel",
        "method": line.method,
        "seed": line.draws[0],
        **line.fitting,
    }
    if line.selected:
        chosen = {"lam": line.candidate_lams, "gamma": line.candidate_gammas}
        document |= {public_name(name): _asked(values) for name, values in chosen.items() if name in tunes}
        if "lam" not in tunes:
            document["shift_strength"] = "auto"
    try:
        recipe = Recipe.parse(document).differences()
    except Refused as error:
        return AsRecipe(recipe=None, lams=[], gammas=[], left=[f"No run can be made of this line: {error.what}."])
    free = not line.selected
    return AsRecipe(
        recipe=recipe,
        lams=list(line.lams) if free and has_lam(line) and "lam" in tunes else [],
        gammas=list(line.gammas) if free and "gamma" in tunes else [],
        left=_left(study, line),
    )


def of_run(folder: Path) -> tuple[Study, Line, dict[str, Any]]:
    """What a run left in a folder, its study or one with a study in it: the study, the line, and its recipe, of tuning
    that of the λ it found.

    Raises ``NotFound`` where there is no study, and ``Refused`` for one that is not of a single run.
    """
    study = Study.open(folder / "study" if (folder / "study" / "study.json").is_file() else folder)
    line = only_line(study)
    if line is None or study.recipe is None:
        raise Refused(
            "the study is not of one run that ended with one λ", f"study {study.id}",
            "Choose a point of it in the Lab: “Use these settings” has its recipe.",
        )  # fmt: skip
    if study.recipe.get("kind") != "tune":
        return study, line, study.recipe
    said = as_recipe(study, line)
    gamma, lam = line.chosen or (0, 0)
    document = said["recipe"] or {}
    if said["lams"]:
        document["lambda"] = said["lams"][lam]
    if said["gammas"]:
        document["gamma"] = said["gammas"][gamma]
    return study, line, document


def only_line(study: Study) -> Line | None:
    """The line of a study's run, of tuning that of the λ it found; None where there are several."""
    lines = [line for line in study.lines if line.chosen is not None] or study.lines
    return lines[0] if len(lines) == 1 else None


def _asked(candidates: Sequence[float | None]) -> float | str | None:
    """What a recipe says of a parameter that “auto” chose among so many."""
    return "auto" if len(candidates) > 1 else next(iter(candidates), None)


def _texts_of(study: Study) -> dict[str, Any]:
    """Model and texts: of the recipe that left the study, or, of a survey, from its protocol."""
    if study.recipe is not None:
        drawn = {"sampling": "random"} if study.recipe.get("kind") == "tune" else {}
        return {name: value for name, value in study.recipe.items() if name not in _ITS_OWN} | drawn
    calibration, held_out, test = (study.protocol.get(name) or {} for name in ("calibration", "held_out", "test"))
    found = {
        "model": study.model.name,
        "calibration": calibration.get("text", calibration.get("corpus")),
        "samples": calibration.get("samples"),
        "length": calibration.get("length"),
        "sampling": calibration.get("sampling"),
        "held_out_samples": held_out.get("samples"),
        "test": test.get("text", test.get("corpus")),
        "test_tokens": test.get("only_the_first_tokens"),
        "window": test.get("window"),
        "tasks": study.protocol.get("tasks"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _left(study: Study, line: Line) -> list[str]:
    own, left = study.recipe or {}, []
    if len(line.draws) > 1:
        left.append(f"The study has {len(line.draws)} calibration draws; a run makes one, the study's first.")
    if study.prefix == "float":
        left.append(
            "In the study each block got its inputs from the float model, in a run from the quantized blocks before "
            "it: the numbers will differ slightly."
        )
    if own.get("layer"):
        left.append(f"The study is of one layer, {own['layer']}; the run quantizes the whole model.")
    if own.get("sweep") and own.get("kind") != "tune":
        left.append("The curve over λ is left out: the run is at the chosen λ alone.")
    unseen, calibration = ((study.protocol.get(name) or {}).get("corpus") for name in ("held_out", "calibration"))
    if unseen and unseen != calibration:
        left.append(f"Unseen text was {unseen}; a run takes further sequences of its calibration text.")
    return left
