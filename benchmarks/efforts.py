"""What each effort costs and gains on the models of the app: ``python -m benchmarks.efforts``.

Writes ``docs/efforts.json`` after each run; runs that it holds are not repeated. Every run calibrates anew, and the
clock is that of the processor. ``docs/make_contract.py`` gives the page the means.
"""

import json
import math
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from sarqc.engine.execute import execute
from sarqc.events import Finished, Stage
from sarqc.recipe import EFFORTS, Effort, Recipe
from sarqc.settings import Settings

RUNS = Path(__file__).resolve().parent.parent / "docs" / "efforts.json"
BITS, MODELS, DRAWS = (2, 3), ("tiny-llama", "tiny-moe"), (0, 1, 2)
SETTING = {"samples": 8, "length": 256, "sampling": "random", "window": 256, "test_tokens": 32768, "baseline": False}
CALIBRATING = ("quantizing", "distilling scales")  # stages whose processor seconds count


class MeasuredEffort(TypedDict):
    """An effort beside plain GPTQ 1 % on one model, over the draws of both."""

    model: str
    bits: int
    effort: Effort
    draws: int
    change: float  # of perplexity, relative, by the geometric mean of the ratios of paired draws
    time: float  # ratio of the processor seconds of calibration


def document(model: str, bits: int, seed: int, name: str) -> dict[str, Any]:
    """A recipe by plain GPTQ 1 %, or by an effort of the default method."""
    texts = {"calibration": f"{model}-calibration", "test": f"{model}-test"}
    own = {"method": "gptq"} if name == "gptq" else {"effort": name}
    return {"model": model, "bits": bits, "seed": seed, **texts, **SETTING, **own}


def measured(recipe: Recipe, settings: Settings) -> dict[str, float]:
    """ln perplexity of a run, and the processor seconds of its calibration."""
    seconds, stage, since, perplexity = 0.0, "", time.process_time(), math.nan
    with tempfile.TemporaryDirectory() as studies:
        for event in execute(recipe, settings, study_dir=Path(studies), study_id="run"):
            if isinstance(event, Stage | Finished):
                now = time.process_time()
                seconds += (now - since) * (stage in CALIBRATING)
                since, stage = now, event.name if isinstance(event, Stage) else ""
            if isinstance(event, Finished):
                perplexity = event.summary["perplexity"] or math.nan
    return {"ln_perplexity": round(math.log(perplexity), 5), "seconds": round(seconds, 2)}


def means(rows: list[dict[str, Any]]) -> list[MeasuredEffort]:
    """Each effort beside GPTQ 1 %, by model and bits in the order of the runs."""
    efforts: list[MeasuredEffort] = []
    for model, bits in dict.fromkeys((row["model"], row["bits"]) for row in rows):
        by_name = {
            name: {row["draw"]: row for row in rows if (row["model"], row["bits"], row["by"]) == (model, bits, name)}
            for name in ("gptq", *EFFORTS)
        }
        for effort in EFFORTS:
            pairs = [(row, by_name["gptq"][draw]) for draw, row in by_name[effort].items()]
            ratio = np.mean([row["ln_perplexity"] - plain["ln_perplexity"] for row, plain in pairs])
            seconds = np.sum([[row["seconds"], plain["seconds"]] for row, plain in pairs], axis=0)
            efforts.append(
                {
                    "model": model,
                    "bits": bits,
                    "effort": effort,
                    "draws": len(pairs),
                    "change": round(float(np.expm1(ratio)), 4),
                    "time": round(float(seconds[0] / seconds[1]), 1),
                }
            )
    return efforts


def rows_of_runs() -> list[dict[str, Any]]:
    """The runs that were made."""
    return json.loads(RUNS.read_text(encoding="utf-8"))["rows"] if RUNS.is_file() else []


def main() -> None:
    """Measure what the table lacks."""
    rows = rows_of_runs()
    for bits, model in product(BITS, MODELS):
        with tempfile.TemporaryDirectory() as state:
            for seed, name in product(DRAWS, ("gptq", *EFFORTS)):
                at = {"model": model, "bits": bits, "draw": seed, "by": name}
                if any(at.items() <= row.items() for row in rows):
                    continue
                recipe = Recipe.parse(document(model, bits, seed, name))
                rows.append(at | measured(recipe, Settings(state_dir=Path(state))))
                lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
                RUNS.write_text(
                    f'{{\n "setting": {json.dumps(SETTING)},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8"
                )


if __name__ == "__main__":
    main()
