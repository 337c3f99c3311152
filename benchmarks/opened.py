"""Checkpoints that other engines made of tiny-llama, measured as they are and repaired.

    python -m benchmarks.opened FOLDER… --write docs/repaired.json

Each folder is a checkpoint; beside its repairs stands an ordinary run on the same grid and texts.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from sarqc.engine.execute import execute
from sarqc.events import Finished
from sarqc.recipe import Recipe
from sarqc.settings import Settings

TEXTS: dict[str, Any] = {
    "model": "tiny-llama", "calibration": "tiny-llama-calibration", "samples": 32, "length": 256,
    "held_out_samples": 8, "test": "tiny-llama-test", "window": 256, "baseline": False,
}  # fmt: skip
REPAIRS: tuple[dict[str, Any], ...] = (
    {"method": "gptq"},
    {"method": "sarqc-gbs", "lambda": 0.1},
    {"method": "sarqc-gbs", "lambda": "auto"},
)
_DIVERGENCE = ("perplexity", "perplexity_float", "kl", "kl_standard_error", "log_ratio", "log_ratio_standard_error")


def measured(settings: Settings, more: dict[str, Any]) -> dict[str, Any]:
    """The summary of a run."""
    *_, last = execute(Recipe.parse(TEXTS | more), settings)
    assert isinstance(last, Finished)
    return dict(last.summary)


def told(summary: dict[str, Any]) -> dict[str, Any]:
    """What is kept of a summary."""
    recipe = summary["recipe"]
    asked = {name: recipe[name] for name in ("method", "lambda", "gamma")}
    return asked | {name: summary[name] for name in _DIVERGENCE} | {"repair": summary["repair"]}


def of_folder(folder: Path, settings: Settings) -> dict[str, Any]:
    """The checkpoint as it was found, its repairs, and one of our own on its grid."""
    found = measured(settings, {"quantized_checkpoint": str(folder), "method": "as-found"})
    recipe, opened = found["recipe"], dict(found["opened"])
    grid = {name: recipe[name] for name in ("bits", "grid", "group_size")}
    repairs = [told(measured(settings, {"quantized_checkpoint": str(folder)} | repair)) for repair in REPAIRS]
    own = None
    if grid["group_size"] != 1:
        own = told(measured(settings, grid | {"method": "sarqc-gbs", "lambda": 0.1}))
    del opened["fingerprint"]
    test = found["protocol"]["test"]
    return {
        "opened": opened, **grid, "found": told(found), "repairs": repairs, "own": own,
        "windows": test["windows"], "predicted_tokens": test["predicted_tokens"],
        "versions": found["protocol"]["versions"],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--write", type=Path, required=True)
    given = parser.parse_args()
    settings = Settings()
    checkpoints = []
    for folder in given.folders:  # written after each, as all of them take long
        checkpoints.append(of_folder(folder, settings))
        document = {"texts": TEXTS, "checkpoints": checkpoints}
        given.write.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
