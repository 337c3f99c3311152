"""Codes of a line of a survey's study, solved again and kept as files with which pages run the model.

    python -m sarqc.engine.survey_codes assets/studies/tiny-llama.yaml assets/studies/tiny-llama sarqc-gbs 2 --gamma 0.1

Points of other lines that are kept already stay. A file for each λ has what the format ``pack-quantized`` of
compressed-tensors has of the quantized linears, as safetensors with a header that names the point. Each point must give
the perplexity of the study, and its divergence where the study has that.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

from sarqc.engine.page_codes import file_of, model_files_of, packed_point
from sarqc.engine.survey import SolvedPoint, Survey, SurveyLine, solved_points
from sarqc.errors import NotFound, Refused
from sarqc.quantization.grid import Grid
from sarqc.settings import Settings
from sarqc.study.document import Study
from sarqc.study.kept_codes import FOLDER, KeptPoint, kept_codes, write_kept

# Relative: of millions of codes the last bits of sums decide a few, and another processor's are others. The intervals
# of studies, over draws, are twenty times wider.
TOLERANCE = 5e-4


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
    files = model_files_of(survey.model, settings)
    if files is None:
        raise Refused(
            "not all its files are there", f"model {survey.model}", "Keep codes of a model that ships with the app."
        )
    before = kept_codes(study)
    others = [] if before is None else [point for point in before["points"] if not _is_of(point, line, gamma)]
    folder, seed, points = study.folder / FOLDER, survey.draws[0], list[KeptPoint]()
    folder.mkdir(exist_ok=True)
    for loaded, point in solved_points(survey, line, seed, gamma, settings):
        _check(study, line, gamma, point)
        stem = f"{line.method}-{line.bits}" + ("" if gamma is None else f"-gamma-{gamma:g}") + f"-lambda-{point.lam:g}"
        path = folder / f"{stem}.safetensors"
        about = {
            "bits": line.bits, "group_size": survey.group_size, "grid": survey.grid, "method": line.method,
            "gamma": gamma, "lambda": point.lam,
        }  # fmt: skip
        grids = dict.fromkeys(point.layers, Grid(line.bits, survey.group_size, survey.grid))
        path.write_bytes(packed_point(loaded, point.layers, grids, about))
        points.append({
            "method": line.method, "bits": line.bits, "gamma": gamma, "lam": point.lam, "file": file_of(path),
        })  # fmt: skip
        yield f"{path.name}: {path.stat().st_size} bytes, perplexity {point.measured.perplexity:.4f}"
    write_kept(study.folder, {"model": survey.model, "draw": seed, "files": files, "points": [*others, *points]})


def _is_of(point: KeptPoint, line: SurveyLine, gamma: float | None) -> bool:
    return (point["method"], point["bits"], point["gamma"]) == (line.method, line.bits, gamma)


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
