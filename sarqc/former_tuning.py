"""Documents of tuning that former versions wrote, in the shape of today."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from sarqc.documents import Standing, Tuning


def current_tuning(document: Mapping[str, Any]) -> Tuning:
    """The document as ``Tuning`` describes it; one of today is returned as it is.

    Former versions gave λ up for want of time under the same word as by the errors of layers, and called a λ the best
    that had been compared with none: it is not, here. Their gains had standard errors, of which intervals are made.
    """
    if "screened" in document:
        return cast(Tuning, document)
    rows = [dict(row) for row in document["rows"]]
    compared = [at for at, row in enumerate(rows) if row["standing"] in ("left", "retired") and row["draws"] >= 2]
    best = document["best"] if document["draws"] >= 2 and len(compared) >= 2 and document["best"] in compared else None
    for at, row in enumerate(rows):
        row["standing"] = _standing(row["standing"], at, best, compared)
        row |= {"layer_excess": [], "perplexity": None, "better_by_draw": []}
        for name in ("worse", "better", "more_accurate"):
            row[f"{name}_low"], row[f"{name}_high"] = _interval(row, name)
    tuned = [row for row in rows if row["standing"] != "baseline"]
    band = [row["standing"] in ("best", "as_good") for row in tuned]
    left = [row["standing"] != "ruled_out" for row in tuned]
    step = "" if not document["end"] else "go_on" if best is None else "run" if _is_gain(rows[best]) else "keep"
    new = {
        "rows": rows, "best": best, "band": _spans(band, tuned), "suggested": _spans(left, tuned), "one_draw": [],
        "screened": [0, 0], "next": step, "more_minutes": None, "tasks": document.get("tasks"),
        "recipe": document["recipe"] if step == "run" else None,
    }  # fmt: skip
    return cast(Tuning, {**document, **new})


def _standing(former: str, at: int, best: int | None, compared: list[int]) -> Standing:
    if former == "baseline":
        return "baseline"
    if former == "dull":
        return "ruled_out"
    if best is None or at not in compared:
        return "not_reached"
    return "best" if at == best else "worse" if former == "retired" else "as_good"


def _interval(row: Mapping[str, Any], name: str) -> tuple[float | None, float | None]:
    value, error = row.get(name), row.get(f"{name}_error")
    if value is None or error is None or row["draws"] < 2:
        return None, None
    from scipy.special import stdtrit  # a third of a second, which only old runs cost

    doubt = error * float(stdtrit(row["draws"] - 1, 0.975))
    return (value - doubt, value + doubt) if math.isfinite(doubt) else (None, None)


def _is_gain(row: Mapping[str, Any]) -> bool:
    return row["better_low"] is not None and row["better_low"] > 0


def _spans(mask: Sequence[bool], rows: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """The first and the last λ of each run of True."""
    groups = groupby(zip(mask, rows, strict=True), key=lambda pair: pair[0])
    lams = [[row["lambda"] for _, row in group] for is_inside, group in groups if is_inside]
    return [[of_span[0], of_span[-1]] for of_span in lams]
