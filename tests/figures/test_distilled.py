"""The λ of distillation as a drawing: its numbers by hand, its heading, and where it is shown."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sarqc.figures.distilled import (
    TABLE,
    DistillationCurves,
    distilled,
    distilled_figure,
    distilled_rows,
    measured_distilled,
    read_distilled,
)
from sarqc.figures.drawing import Figure
from sarqc.study.facts import line_facts
from tests.figures.test_ruler import shipped

LAMS = (0.0, 1.0, 10.0)
LITTLE = [[1.0, 0.9, 0.8], [1.0, 0.98, 0.85]]  # D M
MUCH = [[1.0, 0.95, 1.1], [1.0, 0.96, 1.2]]


def numbers(*amounts: list[list[float]]) -> DistillationCurves:
    return DistillationCurves("toy", 2, 64, tuple(4**s for s in range(1, len(amounts) + 1)), LAMS, np.array(amounts))


def heading(figure: Figure) -> str:
    return str(figure["finding"]["values"])


def bound(figure: Figure, path: str) -> list[list[float]]:
    [found] = [binding["values"] for binding in figure["bindings"] if binding["path"] == path]  # type: ignore[typeddict-item]
    return found  # type: ignore[no-any-return]


def test_curves_are_geometric_means_over_draws_and_the_best_is_marked() -> None:
    figure = distilled_figure(numbers(LITTLE, MUCH), gammas=3)
    curves = [at for at, trace in enumerate(figure["data"]) if "sequences" in trace["name"]]
    assert [figure["data"][at]["name"] for at in curves] == ["4 sequences", "16 sequences"]
    for at, amount in zip(curves, (LITTLE, MUCH), strict=True):
        expected = [math.sqrt(amount[0][m] * amount[1][m]) - 1 for m in range(3)]
        assert bound(figure, f"data.{at}.y") == [pytest.approx(expected, rel=1e-5)] * 3  # the same at each γ
    best = {trace["x"][0]: trace["y"][0] for trace in figure["data"] if trace["name"] == "best λ"}
    assert best == {"10": pytest.approx(math.sqrt(0.8 * 0.85) - 1), "1": pytest.approx(math.sqrt(0.95 * 0.96) - 1)}
    assert "two draws" in figure["subtitle"]


def test_the_heading_says_where_the_best_goes_and_how_sure_that_is() -> None:
    falls, rises = (distilled_figure(numbers(*amounts)) for amounts in ((LITTLE, MUCH), (MUCH, LITTLE)))
    assert heading(falls) == "The best λ of distillation falls from 10 to 1, not clearly"
    assert heading(rises) == "The best λ of distillation rises from 1 to 10, not clearly"
    one = [[row] for row in (LITTLE[0], MUCH[0])]
    assert heading(distilled_figure(numbers(*one))) == "On one draw the best λ of distillation falls from 10 to 1"
    less, gain = [[1.0, 0.97, 0.9], [1.0, 0.98, 0.9]], 100 * (1 - math.sqrt(0.8 * 0.85))
    unclear = distilled_figure(numbers(LITTLE, less))
    words = f"λ = 10 is best; its gain falls, {gain:.0f} % to 10 %, not clearly"
    assert heading(unclear).replace("\u00a0", " ") == words
    close = [[1.0, 0.97, 0.82], [1.0, 0.98, 0.8201]]
    same, gain = distilled_figure(numbers(close, less)), 100 * (1 - math.sqrt(0.82 * 0.8201))
    assert heading(same).replace("\u00a0", " ") == f"λ = 10 is best; its gain falls with text, {gain:.0f} % to 10 %"
    once = distilled_figure(numbers([[1.0, 0.97, 0.96]], [[1.0, 0.97, 0.95]]))
    assert heading(once).replace("\u00a0", " ") == "λ = 10 is best; its gain rises, 4.0 % to 5.0 %, on one draw"
    little = [[1.0, 0.9 + apart, 0.8 - apart] for apart in (0.0, 1e-4, 2e-4)]
    clear = distilled_figure(numbers(little, [[first, last, middle] for first, middle, last in little]))
    assert heading(clear) == "The best λ of distillation falls from 10 to 1 with text"
    assert "finding" not in distilled_figure(numbers(LITTLE))


def rows_of(samples: int, draw: int, values: list[float]) -> list[dict[str, float]]:
    return [{"samples": samples, "draw": draw, "lambda": lam, "kl": kl} for lam, kl in zip(LAMS, values, strict=True)]


def test_a_table_is_read_where_all_values_of_lambda_are_there() -> None:
    setting = {"model": "toy", "bits": 2, "length": 64}
    rows = [*rows_of(8, 0, [0.2, 0.1, 0.3]), *rows_of(4, 0, [0.5, 0.4, 0.2]), *rows_of(4, 1, [0.4, 0.2, 0.1])]
    rows += rows_of(16, 0, [0.1, 0.1, 0.1])[:2]  # still being measured
    found = read_distilled({"setting": setting, "rows": rows})
    assert found is not None
    assert (found.samples, found.lams) == ((4, 8), LAMS)
    np.testing.assert_allclose(found.ratios[0], [[1, 0.8, 0.4], [1, 0.5, 0.25]])
    np.testing.assert_allclose(found.ratios[1], [[1, 0.5, 1.5], 3 * [math.nan]])
    np.testing.assert_allclose(found.changes[1], [0, -0.5, 0.5])
    assert read_distilled({"setting": setting, "rows": rows[:3]}) is None


def test_it_is_shown_with_its_model_at_its_bits_alone() -> None:
    rows = json.loads(TABLE.read_text(encoding="utf-8"))["rows"]
    assert len({(row["samples"], row["draw"], row["lambda"]) for row in rows}) == len(rows)
    found = measured_distilled()
    assert found is not None
    for line in shipped("tiny-llama").lines:
        facts = line_facts(shipped("tiny-llama"), method=line.name, bits=line.bits, layer=None)
        assert (distilled(facts) is None) == (line.bits != 2)
        assert len([*distilled_rows(facts)]) == (0 if line.bits != 2 else len(found.samples) * len(found.lams))
    other = shipped("tiny-moe")
    line = next(line for line in other.lines if line.bits == 2)
    assert distilled(line_facts(other, method=line.name, bits=line.bits, layer=None)) is None
