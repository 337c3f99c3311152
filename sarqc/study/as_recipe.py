"""The recipe of a study's line: its settings, and in words all that a recipe cannot hold."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

from sarqc.errors import Refused
from sarqc.quantization.methods import METHODS
from sarqc.recipe import OF_THE_OTHER_KIND, Effort, Recipe, public_name
from sarqc.study.document import Line, Second, Study
from sarqc.study.facts import has_lam

# Fields of a study's recipe that concern that study alone; λ and γ are those of the chosen point.
_STUDY_FIELDS = {
    "kind",
    "sweep",
    "layer",
    "inputs_from",
    "lambda",
    "gamma",
    *map(public_name, OF_THE_OTHER_KIND["run"]),
}


class AsRecipe(TypedDict):
    """A line as a recipe.

    Attributes:
        recipe: The recipe without λ and γ; None if the line can't be run.
        lams: Values of λ by position; empty if the method has no λ or “auto” chooses it.
        gammas: Values of ``second`` by position; empty if the method has no γ or “auto” chooses it.
        second: The field that they are values of.
        effort: The effort that its fields amount to; None for a fitting of its own, or without a choice of effort.
        left: A sentence for each setting that is not taken along; without a recipe, the reason.
    """

    recipe: dict[str, Any] | None
    lams: list[float]
    gammas: list[float | None]
    second: Second
    effort: Effort | None
    left: list[str]


def as_recipe(study: Study, line: Line) -> AsRecipe:
    """Return the settings of a line as a recipe that holds only the differences from the defaults."""
    tunes = METHODS[line.method].tunes if line.method in METHODS else ()
    document = _text_fields(study) | {
        "bits": line.bits,
        "grid": line.grid,
        "group_size": line.group_size or "per_channel",
        "method": line.method,
        "seed": line.draws[0],
        **line.fitting,
    }
    if line.selected:
        chosen = {"lam": line.candidate_lams, "gamma": line.candidate_gammas}
        document |= {public_name(name): _recipe_value(values) for name, values in chosen.items() if name in tunes}
        if "lam" not in tunes:
            document["shift_strength"] = "auto"
    try:
        recipe = Recipe.parse(document)
    except Refused as error:
        why = f"No run can be made of this line: {error.what}."
        return AsRecipe(recipe=None, lams=[], gammas=[], second=line.second, effort=None, left=[why])
    free = not line.selected
    return AsRecipe(
        recipe=recipe.differences(),
        lams=list(line.lams) if free and has_lam(line) and "lam" in tunes else [],
        gammas=list(line.gammas) if free and (line.second != "gamma" or "gamma" in tunes) else [],
        second=line.second,
        effort=recipe.amounts_to(),
        left=_left(study, line),
    )


def of_run(folder: Path) -> tuple[Study, Line, dict[str, Any]]:
    """Return the study of a run, its line, and the recipe of that line; after tuning, the recipe at the chosen λ.

    Args:
        folder: Folder of the study, or of a run that contains one.

    Raises:
        NotFound: If there is no study.
        Refused: If the study is not of a single run.
    """
    study = Study.open(folder / "study" if (folder / "study" / "study.json").is_file() else folder)
    line = only_line(study)
    if line is None or study.recipe is None:
        raise Refused(
            "the study is not of one run that ended with one λ",
            f"study {study.id}",
            "Choose a point of it in the Lab: “Use these settings” has its recipe.",
        )
    if study.recipe.get("kind") != "tune":
        return study, line, study.recipe
    settings = as_recipe(study, line)
    gamma, lam = line.chosen or (0, 0)
    document = settings["recipe"] or {}
    if settings["lams"]:
        document["lambda"] = settings["lams"][lam]
    if settings["gammas"]:
        document[settings["second"]] = settings["gammas"][gamma]
    return study, line, document


def only_line(study: Study) -> Line | None:
    """Return the only line of a study, after tuning that of the chosen λ; None if there are several."""
    lines = [line for line in study.lines if line.chosen is not None] or study.lines
    return lines[0] if len(lines) == 1 else None


def _recipe_value(candidates: Sequence[float | None]) -> float | str | None:
    """Return the recipe value of a parameter that “auto” chose among some candidates."""
    return "auto" if len(candidates) > 1 else next(iter(candidates), None)


def _text_fields(study: Study) -> dict[str, Any]:
    """Return model and texts: from the study's recipe, or, for a survey, from its protocol."""
    if study.recipe is not None:
        sampling = {"sampling": "random"} if study.recipe.get("kind") == "tune" else {}
        return {name: value for name, value in study.recipe.items() if name not in _STUDY_FIELDS} | sampling
    calibration, held_out, test = (study.protocol.get(name) or {} for name in ("calibration", "held_out", "test"))
    fields = {
        "model": study.model.name,
        "calibration": calibration.get("text", calibration.get("corpus")),
        "samples": calibration.get("samples"),
        "length": calibration.get("length"),
        "sampling": calibration.get("sampling"),
        "begin": calibration.get("begin_rule", "none" if calibration.get("begin") == "none" else None),
        "held_out_samples": held_out.get("samples"),
        "test": test.get("text", test.get("corpus")),
        "test_tokens": test.get("only_the_first_tokens"),
        "window": test.get("window"),
        "tasks": study.protocol.get("tasks"),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _left(study: Study, line: Line) -> list[str]:
    recipe, left = study.recipe or {}, []
    if len(line.draws) > 1:
        left.append(f"The study has {len(line.draws)} calibration draws; a run makes one, the study's first.")
    if study.prefix == "float":
        left.append(
            "In the study each block got its inputs from the float model, in a run from the quantized blocks "
            "before it: the numbers will differ slightly."
        )
    if recipe.get("layer"):
        left.append(f"The study is of one layer, {recipe['layer']}; the run quantizes the whole model.")
    if recipe.get("sweep") and recipe.get("kind") != "tune":
        left.append("The curve over λ is left out: the run is at the chosen λ alone.")
    unseen, calibration = ((study.protocol.get(name) or {}).get("corpus") for name in ("held_out", "calibration"))
    if unseen and unseen != calibration:
        left.append(f"Unseen text was {unseen}; a run takes further sequences of its calibration text.")
    return left
