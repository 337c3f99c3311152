"""Continues one prompt at each λ of a line of a study, and writes the texts into its ``study.json``.

    python assets/studies/make_continuations.py assets/studies/tiny-llama sarqc-gbs 2 0.1 "Once upon a time"

A run on the study's first draw solves each point, with the float model beside it, and another the line's baseline:
their errors must be the study's, see ``sarqc/extras/page_model/study_codes.py``. Each takes the likeliest token.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from sarqc.engine.execute import execute
from sarqc.extras.page_model.study_codes import compare_errors, recipe_at
from sarqc.recipe import Recipe
from sarqc.settings import read_settings
from sarqc.study.document import Line, Study
from sarqc.study.facts import BASELINE_POINTS, lam_index

TOKENS = 24
WINDOW = 128  # tokens on which a run tries what its windows begin with


def continuation(study: Study, line: Line, at: tuple[int, int], prompt: str) -> tuple[str, str]:
    """Continue a prompt with the float model and with a point of a line, in this order."""
    further = {"prompts": [prompt], "new_tokens": TOKENS, "window": WINDOW}
    recipe = Recipe.parse(recipe_at(study, line, at).differences() | further)
    with TemporaryDirectory() as name:
        for _ in execute(recipe, read_settings(), study_dir=Path(name), study_id="point"):
            pass
        run = Study.open(Path(name) / "point")
        compare_errors(study, line, at, run, f"{line.name} at λ = {line.lams[at[1]]:g}")
        made = run.lines[0].texts[0]["greedy"]
    original, quantized = ("".join(made[which]["pieces"]) for which in ("float", "quantized"))
    return original, quantized


def main(folder: Path, method: str, bits: int, gamma: float, prompt: str) -> None:
    """Continue the prompt at every λ of a line with one γ, and write the study's document."""
    study = Study.open(folder)
    line = study.line(method, bits)
    lam, (holder,) = BASELINE_POINTS[line.baseline]
    identity = study.line(holder, bits)
    original, baseline = continuation(study, identity, (0, lam_index(identity, lam) or 0), prompt)
    print(f"float model:{original}\nbaseline:{baseline}", flush=True)
    points = [["" for _ in line.lams] for _ in line.gammas]
    row = points[line.gammas.index(gamma)]
    for at, value in enumerate(line.lams):
        _, row[at] = continuation(study, line, (line.gammas.index(gamma), at), prompt)
        print(f"λ = {value:g}:{row[at]}", flush=True)
    path = folder / "study.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    stored = next(each for each in document["lines"] if (each["method"], each["bits"]) == (method, bits))
    stored["continued"] = {
        "prompt": prompt,
        "draw": line.draws[0],
        "float_model": original,
        "baseline": baseline,
        "points": points,
    }
    path.write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5])
