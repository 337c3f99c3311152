"""Codes of the points of a study, computed by runs and stored beside it: with them pages run its model."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sarqc.engine.execute import execute
from sarqc.errors import Refused
from sarqc.quantization.methods import entry_of
from sarqc.recipe import Recipe, field_extra, public_name
from sarqc.settings import Settings
from sarqc.study.as_recipe import as_recipe
from sarqc.study.document import Line, Study
from sarqc.study.facts import has_lam
from sarqc.study.kept_codes import FOLDER, KeptCodes, KeptPoint, kept_codes, write_codes

# What measures a model, beside the settings that make its codes.
_MEASURING = {public_name(name) for name, info in Recipe.model_fields.items() if field_extra(info).section == "measure"}
# Relative, of the mean error of all layers: the last bits of sums decide a few codes, and those of another processor
# are others.
_TOLERANCE = 1e-3


def keep_points(
    study: Study, settings: Settings, *, method: str | None = None, bits: int | None = None, gamma: float | None = None
) -> Iterator[str]:
    """Compute and keep the codes of a study's points on its first draw that are not kept yet, and yield a line of
    progress for each.

    Of all lines, or of those with a name, a width or a value of γ. Those on another grid than the asymmetric one and
    those whose λ is chosen are left out, and those with learned rounding, which takes half an hour, unless they are
    named. Raises ``Refused`` where no line is left, a run of a line has no codes for pages, or its errors are not the
    study's.
    """
    lines = [
        line
        for line in study.lines
        if _has_codes(line, method) and method in (None, line.name) and bits in (None, line.bits)
    ]
    if not lines:
        raise Refused(
            "no such line has codes with which pages run the model",
            f"study {study.id}",
            "Name a line on the asymmetric grid.",
        )
    for line in lines:
        for g, second in enumerate(line.gammas):
            for m in range(len(line.lams)):
                if gamma in (None, second) and not _is_stored(study, line, (g, m)):
                    yield _keep(study, line, (g, m), settings)


def _has_codes(line: Line, named: str | None) -> bool:
    entry = entry_of(line.method)
    if entry is None or line.grid != "asymmetric" or line.selected is not None:
        return False
    return entry.make.unit != "block" or line.name == named


def _gamma_and_lam(line: Line, at: tuple[int, int]) -> tuple[float | None, float | None]:
    """Return γ and λ of a point, each None for a method without it."""
    return line.gammas[at[0]], line.lams[at[1]] if has_lam(line) else None


def _is_stored(study: Study, line: Line, at: tuple[int, int]) -> bool:
    stored = kept_codes(study)
    identity = (line.name, line.bits, *_gamma_and_lam(line, at))
    return stored is not None and any(
        (point["method"], point["bits"], point["gamma"], point["lam"]) == identity for point in stored["points"]
    )


def _keep(study: Study, line: Line, at: tuple[int, int], settings: Settings) -> str:
    recipe = _recipe_of(study, line, at)
    second, lam = _gamma_and_lam(line, at)
    where = f"study {study.id}, {line.label}, {line.bits} bits" + ("" if lam is None else f", λ {lam:g}")
    with TemporaryDirectory() as name:
        for _ in execute(recipe, settings, study_dir=Path(name), study_id="point"):
            pass
        run = Study.open(Path(name) / "point")
        made = kept_codes(run)
        if made is None:
            raise Refused("codes alone do not make its model", where, "Name another line.")
        if study.recipe is None:  # a run's own study has its curve on the inputs of its own λ
            _compare(study, line, at, run, where)
        file = made["points"][0]["file"]
        (study.folder / FOLDER).mkdir(exist_ok=True)
        shutil.copyfile(run.folder / FOLDER / file["name"], study.folder / FOLDER / file["name"])
    point: KeptPoint = {"method": line.name, "bits": line.bits, "gamma": second, "lam": lam, "file": file}
    before: KeptCodes = kept_codes(study) or {**made, "points": []}
    write_codes(study.folder, {**before, "points": [*before["points"], point]})
    return f"{where}: {file['bytes']} bytes"


def _recipe_of(study: Study, line: Line, at: tuple[int, int]) -> Recipe:
    result = as_recipe(study, line)
    if result["recipe"] is None:
        raise Refused("; ".join(result["left"]), f"study {study.id}", "Name another line.")
    document = {name: value for name, value in result["recipe"].items() if name not in _MEASURING}
    document |= {"inputs_from": study.prefix, "baseline": False}
    if has_lam(line):
        document["lambda"] = line.lams[at[1]]
    if result["gammas"]:
        document[result["second"]] = result["gammas"][at[0]]
    return Recipe.parse(document)


def _compare(study: Study, line: Line, at: tuple[int, int], run: Study, where: str) -> None:
    ours, theirs = run.read(run.lines[0], "recon"), study.read(line, "recon")  # (D, L, G, M)
    if ours is None or theirs is None:
        return
    made, stored = float(np.mean(ours[0, :, 0, 0])), float(np.mean(theirs[0, :, at[0], at[1]]))
    if not np.isclose(made, stored, rtol=_TOLERANCE):
        raise Refused(
            f"the mean error of its layers is {made:.6g}, and the study has {stored:.6g}",
            where,
            "Use the versions of libraries that the study names.",
        )
