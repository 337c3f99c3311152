"""Costs and gains of each effort on the models of the app, as measured: ``efforts.json`` beside this file.

``python -m benchmarks.efforts`` writes the file: runs of the default method by each effort, and of plain GPTQ
1 %, on the same calibration draws.
"""

import json
from pathlib import Path
from typing import TypedDict

import numpy as np

from sarqc.recipe.effort import EFFORT_NAMES, Effort

TABLE = Path(__file__).with_name("efforts.json")
PLAIN = "gptq"


class MeasuredEffort(TypedDict):
    """An effort beside plain GPTQ 1 % on one model, over the draws of both."""

    model: str
    bits: int
    effort: Effort
    draws: int
    change: float  # of perplexity, relative, by the geometric mean of the ratios of paired draws
    time: float  # ratio of the processor seconds of calibration


def measured_efforts() -> list[MeasuredEffort]:
    """Return a row for each model, number of bits and effort, in the order of the file."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))["rows"]
    efforts: list[MeasuredEffort] = []
    for model, bits in dict.fromkeys((row["model"], row["bits"]) for row in rows):
        by_name = {
            name: {row["draw"]: row for row in rows if (row["model"], row["bits"], row["by"]) == (model, bits, name)}
            for name in (PLAIN, *EFFORT_NAMES)
        }
        for effort in EFFORT_NAMES:
            pairs = [(row, by_name[PLAIN][draw]) for draw, row in by_name[effort].items()]
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
