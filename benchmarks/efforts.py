"""What each effort costs and gains on the models of the app: ``python -m benchmarks.efforts``.

Writes ``sarqc/recipe/efforts.json``, which the page and the documents read, after each run; runs that it already holds
are not repeated. Every run calibrates anew, and the clock is that of the processor.
"""

import json
import math
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

from sarqc.engine.execute import execute
from sarqc.events import Finished, Stage
from sarqc.recipe import EFFORTS, Recipe
from sarqc.recipe.measured_efforts import TABLE
from sarqc.settings import Settings

BITS, MODELS, DRAWS = (2, 3), ("tiny-llama", "tiny-moe"), (0, 1, 2)
SETTING = {"samples": 8, "length": 256, "sampling": "random", "window": 256, "test_tokens": 32768, "baseline": False}
CALIBRATING = ("quantizing", "distilling scales")  # stages whose processor seconds count


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


def main() -> None:
    """Measure what the table lacks."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))["rows"] if TABLE.is_file() else []
    for bits, model in product(BITS, MODELS):
        with tempfile.TemporaryDirectory() as state:
            for seed, name in product(DRAWS, ("gptq", *EFFORTS)):
                at = {"model": model, "bits": bits, "draw": seed, "by": name}
                if any(at.items() <= row.items() for row in rows):
                    continue
                recipe = Recipe.parse(document(model, bits, seed, name))
                rows.append(at | measured(recipe, Settings(state_dir=Path(state))))
                lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
                TABLE.write_text(
                    f'{{\n "setting": {json.dumps(SETTING)},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8"
                )


if __name__ == "__main__":
    main()
