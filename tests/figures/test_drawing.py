"""Where a λ lies on the ordinal axis: figures and what the browser draws over them follow one rule, held together by a
file."""

import json
from pathlib import Path

import pytest

from sarqc.figures.drawing import even_ticks, position

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "rules.json"


def test_a_place_is_the_one_that_the_golden_file_has_for_the_browser_too():
    for case in json.loads(GOLDEN.read_text(encoding="utf-8"))["position"]:
        found = position(case["lam"], case["lams"])
        assert found == (case["expected"] if case["expected"] is None else pytest.approx(case["expected"])), case


def test_ticks_of_one_axis_have_the_same_decimals():
    """plotly alone writes 0.079 beside 0.0788 and 0.0786."""
    made = even_ticks((0.07852, 0.07911), 4)
    assert made["dtick"] == pytest.approx(0.0002)
    assert made["tickformat"] == ".4f"
    assert even_ticks((60.0, 84.0), 4)["tickformat"] == ".0f"
