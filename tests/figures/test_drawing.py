"""The range of an axis: a study's figure and the preview that it replaces follow one rule, held together by a file."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from sarqc.figures.drawing import honest_range

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "rules.json"


def test_the_range_is_the_one_that_the_golden_file_has_for_the_preview_too() -> None:
    for case in json.loads(GOLDEN.read_text(encoding="utf-8"))["honest_range"]:
        curves = np.array([[math.nan if value is None else value for value in curve] for curve in case["curves"]])
        positive = np.array(case["lams"]) > 0
        assert honest_range(curves[:, positive], curves[:, ~positive]) == pytest.approx(case["range"], rel=1e-12)
