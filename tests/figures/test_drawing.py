"""Where a λ lies on the ordinal axis: figures and what the browser draws over them follow one rule, held together by a
file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sarqc.figures.drawing import position

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "rules.json"


def test_a_place_is_the_one_that_the_golden_file_has_for_the_browser_too() -> None:
    for case in json.loads(GOLDEN.read_text(encoding="utf-8"))["position"]:
        found = position(case["lam"], case["lams"])
        assert found == (case["expected"] if case["expected"] is None else pytest.approx(case["expected"])), case
