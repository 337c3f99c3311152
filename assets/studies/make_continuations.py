"""Continues one prompt at each λ of a line of a survey, and writes the texts into the study's ``study.json``.

    SARQC_DATA_DIR=… python assets/studies/make_continuations.py smollm2 sarqc-gbs 3 0.1 "The best way to …"

Layers are solved as the survey solves them, on its first draw: their mean error must be the study's. The line's
baseline and the float model continue the prompt too, each with the likeliest token.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sarqc.evaluation.side_by_side import continuation, pieces
from sarqc.extras.survey.conduct import SurveyDraw, solve_line
from sarqc.extras.survey.schema import Survey, SurveyLine
from sarqc.extras.survey.shared import prepare
from sarqc.files.yaml_document import read_yaml
from sarqc.models.loading import LoadedModel
from sarqc.models.tokenizing import encode_each
from sarqc.quantization.grid import Grid
from sarqc.settings import read_settings
from sarqc.study.document import Study
from sarqc.study.facts import BASELINE_POINTS

HERE = Path(__file__).parent
TOKENS = 24
TOLERANCE = 1e-3  # relative, of the mean error: the last bits of sums decide a few codes, and depend on the processor
# A short text in the place of the survey's: nothing is measured here.
SHORT = {"test": "tiny-llama-test", "test_tokens": 256, "window": 128, "draws": [0]}


def continued(loaded: LoadedModel, prompt: str) -> str:
    """Continue a prompt with the model as it is, always with the likeliest token."""
    checkpoint = loaded.checkpoint
    (ids,) = encode_each([prompt], checkpoint.folder, checkpoint.name, checkpoint.architecture.vocab_size)
    return "".join(pieces(loaded.tokenizer, ids, continuation(loaded, ids, TOKENS, "greedy", 0)))


def along(draw: SurveyDraw, line: SurveyLine, study: Study, prompt: str) -> Iterator[str]:
    """Solve a line with one γ, and continue a prompt at each of its λ."""
    loaded, recipe = draw.shared.bench.loaded, line.recipe
    loaded.restore(draw.shared.float_weights)
    weights = {layer.name: loaded.weight(layer.name).detach().clone() for layer in loaded.checkpoint.layers}
    grid = Grid(recipe.bits, recipe.group_size, recipe.grid)
    stored, curves = solve_line(draw, line, grid, [line.to_method(line.gammas[0])], weights)
    theirs = study.line(recipe.method, recipe.bits)
    errors = study.read(theirs, "recon")  # (D, L, G, M)
    assert errors is not None
    known = errors[0, :, theirs.gammas.index(line.gammas[0])].mean(axis=0)  # (M,)
    ours = np.mean([curve[0].recon for curve in curves], axis=0)
    for m, lam in enumerate(line.points()):
        expected = known[theirs.lams.index(lam)]
        if not np.isclose(ours[m], expected, rtol=TOLERANCE):
            sys.exit(f"λ = {lam:g}: the mean error is {ours[m]:.6g}, and the study has {expected:.6g}")
        for name, by_gamma in zip(weights, stored, strict=True):
            loaded.weight(name).data.copy_(by_gamma[0][m]())
        text = continued(loaded, prompt)
        print(f"{recipe.method}, λ = {lam:g}:{text}", flush=True)
        yield text


def main(name: str, method: str, bits: int, gamma: float, prompt: str) -> None:
    """Continue the prompt, and write the study's document."""
    study = Study.open(HERE / name)
    line = study.line(method, bits)
    lam, (holder,) = BASELINE_POINTS[line.baseline]
    document = read_yaml(HERE / f"{name}.yaml", "survey")
    lines = [
        {"method": method, "bits": bits, "lambda": list(line.lams), "gamma": [gamma]},
        {"method": holder, "bits": bits, "lambda": [lam]},
    ]
    survey = Survey.model_validate(document | SHORT | {"lines": lines})
    shared = prepare(survey, read_settings())
    shared.bench.loaded.restore(shared.float_weights)
    original = continued(shared.bench.loaded, prompt)
    print(f"float model:{original}", flush=True)
    draw = SurveyDraw(shared, 0, survey.lines)
    own, (baseline,) = (list(along(draw, each, study, prompt)) for each in survey.lines)
    empty = [""] * len(line.lams)
    texts = {
        "prompt": prompt,
        "draw": survey.draws[0],
        "float_model": original,
        "baseline": baseline,
        "points": [own if value == gamma else empty for value in line.gammas],
    }
    path = HERE / name / "study.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    next(each for each in stored["lines"] if (each["method"], each["bits"]) == (method, bits))["continued"] = texts
    path.write_text(json.dumps(stored, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5])
