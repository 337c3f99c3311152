"""KL over the λ of distillation for several amounts of text: ``python -m tests.benchmarks.distilled``.

Writes ``sarqc/figures/distilled.json``, which the Lab draws, after each run; runs that it already holds are not
repeated. The codes of one draw and amount are the same at every λ: they are solved once, at the method's default λ.
"""

from __future__ import annotations

import json
import math
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import torch

from sarqc.engine.execute import execute
from sarqc.events import Finished, ScalesDistilled
from sarqc.figures.distilled import TABLE
from sarqc.recipe import Recipe
from sarqc.settings import Settings

DRAWS, SAMPLES, LAMS = (0, 1), (4, 8, 32, 128), (0.0, 1.0, 10.0, 30.0, 100.0)
STEPS = 96  # of Adam, at most, whatever the number of sequences; one epoch at least
SETTING = {
    "model": "tiny-llama", "bits": 2, "method": "sarqc-gbs", "calibration": "tiny-llama-calibration",
    "test": "tiny-llama-test", "length": 128, "sampling": "random", "held_out_samples": 4, "window": 256,
    "test_tokens": 8192, "baseline": False,
}  # fmt: skip


def document(samples: int, draw: int, lam: float) -> dict[str, Any]:
    """A recipe with as many steps at most for every number of sequences."""
    return SETTING | {"samples": samples, "seed": draw, "distill": max(1, STEPS // samples), "distill_lambda": lam}


def measured(recipe: Recipe, settings: Settings) -> dict[str, float]:
    """KL of a run on its test text and on its held-out text, the drift of its scales, and the epoch that was kept."""
    epochs: list[ScalesDistilled] = []
    found: dict[str, float] = {}
    for event in execute(recipe, settings):
        if isinstance(event, ScalesDistilled):
            epochs.append(event)
        if isinstance(event, Finished):
            assert event.summary["distillation"] is not None
            kept = epochs[event.summary["distillation"]["kept"]]
            values = {"kl": event.summary["kl"], "held_out_kl": kept.held_out_kl, "drift": kept.drift}
            found = {name: round(value or math.nan, 6) for name, value in values.items()} | {"kept": kept.epoch}
    return found


def main() -> None:
    """Measure what the table lacks."""
    torch.set_num_threads(1)
    rows = json.loads(TABLE.read_text(encoding="utf-8"))["rows"] if TABLE.is_file() else []
    with tempfile.TemporaryDirectory() as state:
        for draw, samples, lam in product(DRAWS, SAMPLES, LAMS):
            at = {"samples": samples, "draw": draw, "lambda": lam}
            if any(at.items() <= row.items() for row in rows):
                continue
            recipe = Recipe.parse(document(samples, draw, lam))
            rows.append(at | measured(recipe, Settings(state_dir=Path(state), device="cpu")))
            lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
            head = f' "setting": {json.dumps(SETTING)},\n "steps": {STEPS},\n'
            TABLE.write_text(f'{{\n{head} "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
