"""Costs and gains of each effort on the models of the app, as measured: ``efforts.json`` beside this file.

``python -m benchmarks.efforts`` writes the file: runs of the default method by each effort, and of plain GPTQ
1 %, on the same calibration draws.
"""

import json
from pathlib import Path
from typing import TypedDict, cast

from sarqc.recipe.effort import Effort

TABLE = Path(__file__).with_name("efforts.json")


class MeasuredEffort(TypedDict):
    """An effort beside plain GPTQ 1 % on one model, over the draws of both."""

    model: str
    bits: int
    effort: Effort
    draws: int
    change: float  # of perplexity, relative, by the geometric mean of the ratios of paired draws
    time: float  # ratio of the processor seconds of calibration


def measured_efforts() -> list[MeasuredEffort]:
    """Return a row for each model, number of bits and effort."""
    return cast(list[MeasuredEffort], json.loads(TABLE.read_text(encoding="utf-8")))
