"""Codes of a line of a survey's study, solved again and kept as files with which pages run the model.

    python -m sarqc.engine.survey_codes assets/studies/tiny-llama.yaml assets/studies/tiny-llama sarqc-gbs 2 --gamma 0.1

A file for each λ has what the format ``pack-quantized`` of compressed-tensors has of the quantized linears, as
safetensors with a header that names the point. Each point must give the perplexity of the study, and
its divergence where the study has that.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from pathlib import Path

import safetensors.torch

from sarqc.checkpoints.codes import coded
from sarqc.checkpoints.compressed_tensors import packed_tensors
from sarqc.engine.survey import SolvedPoint, Survey, SurveyLine, solved_points
from sarqc.errors import NotFound, Refused
from sarqc.files.hashes import sha256_of
from sarqc.models.loading import LoadedModel
from sarqc.quantization.grid import Grid
from sarqc.settings import Settings
from sarqc.study.document import Study
from sarqc.study.kept_codes import FILE, FOLDER, MODEL_FILES, KeptCodes, KeptPoint, ModelFile

TOLERANCE = 1e-4  # relative: of millions of codes the last bits of sums, another processor's here, decide a few


def write_codes(
    survey: Survey, study: Study, line: SurveyLine, gamma: float | None, settings: Settings
) -> Iterator[str]:
    """Write the codes of a line at one γ and every λ into the folder of its study, and yield a line of progress each.

    Args:
        survey: The survey that made the study.
        study: The study.
        line: A line of the survey.
        gamma: γ; None for the method's own.
        settings: Settings of the host.

    Raises:
        Refused: If a point does not have the numbers that the study has, or the model does not ship with the app.
    """
    shipped = settings.assets_dir / "models" / survey.model
    if missing := [name for name in MODEL_FILES if not (shipped / name).is_file()]:
        raise Refused(
            f"{missing[0]} is missing", f"model {survey.model}", "Keep codes of a model that ships with the app."
        )
    folder, seed, points = study.folder / FOLDER, survey.draws[0], list[KeptPoint]()
    folder.mkdir(exist_ok=True)
    for loaded, point in solved_points(survey, line, seed, gamma, settings):
        _check(study, line, gamma, point)
        stem = f"{line.method}-{line.bits}" + ("" if gamma is None else f"-gamma-{gamma:g}") + f"-lambda-{point.lam:g}"
        path = folder / f"{stem}.safetensors"
        path.write_bytes(_packed(survey, line, gamma, loaded, point))
        points.append({
            "method": line.method, "bits": line.bits, "gamma": gamma, "lam": point.lam, "file": _file(path),
        })  # fmt: skip
        yield f"{path.name}: {path.stat().st_size} bytes, perplexity {point.measured.perplexity:.4f}"
    files = [_file(shipped / name) for name in MODEL_FILES]
    document: KeptCodes = {"model": survey.model, "draw": seed, "files": files, "points": points}
    (folder / FILE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _check(study: Study, line: SurveyLine, gamma: float | None, point: SolvedPoint) -> None:
    of_study = study.line(line.method, line.bits)
    at = (0, of_study.gammas.index(gamma), of_study.lams.index(point.lam))
    for name, value in (("perplexity", point.measured.perplexity), ("kl", point.measured.kl)):
        stored = study.read(of_study, name)
        if stored is not None and not math.isclose(value, stored[at], rel_tol=TOLERANCE):
            raise Refused(
                f"{name} is {value}, and the study has {stored[at]}", f"study {study.id}, λ {point.lam}",
                "Use the versions of libraries that the study names.",
            )  # fmt: skip


def _packed(survey: Survey, line: SurveyLine, gamma: float | None, loaded: LoadedModel, point: SolvedPoint) -> bytes:
    grid = Grid(line.bits, survey.group_size, survey.grid)
    tensors = {
        name: tensor
        for linear, layer in point.layers.items()
        for name, tensor in packed_tensors(
            coded(loaded.family.in_file(linear), layer, grid, loaded.stored_as(f"{linear}.weight"))
        )
    }
    about = {
        "format": "pack-quantized", "bits": line.bits, "group_size": survey.group_size, "grid": survey.grid,
        "method": line.method, "gamma": gamma, "lambda": point.lam,
    }  # fmt: skip
    return safetensors.torch.save(tensors, {"point": json.dumps(about)})


def _file(path: Path) -> ModelFile:
    return {"name": path.name, "bytes": path.stat().st_size, "version": sha256_of(path)[:16]}


def main() -> None:
    """Write the codes that the arguments name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("survey", type=Path)
    parser.add_argument("study", type=Path)
    parser.add_argument("method")
    parser.add_argument("bits", type=int)
    parser.add_argument("--gamma", type=float)
    given = parser.parse_args()
    survey = Survey.from_file(given.survey)
    lines = [one for one in survey.lines if (one.method, one.bits) == (given.method, given.bits) and not one.fitting()]
    if not lines:
        raise NotFound("the survey has no such line", str(given.survey), "Give a method and bits of its lines.")
    for words in write_codes(survey, Study.open(given.study), lines[0], given.gamma, Settings()):
        print(words)


if __name__ == "__main__":
    main()
