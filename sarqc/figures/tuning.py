"""What the figures, the table and the words of a tuning run share: its candidates, the words for their standings, and
how a saving is written. The figures are in ``tuning_race`` and ``tuning_layers``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sarqc.documents import Standing, Tuning, TuningRow
from sarqc.figures.drawing import LAM_CORNER, Figure, add_note
from sarqc.figures.numbers import NBSP, lam_text, listed, percent
from sarqc.figures.traces import line_shape
from sarqc.figures.view import DataTable, Headings, data_table, with_ends
from sarqc.quantization.methods import METHODS

MANY = 9  # λ; more names than that don't fit beside each other on a narrow screen
HEADINGS: Headings = (
    ("method", "Method", "text"),
    ("lambda", "λ", "plain"),
    ("gamma", "γ", "plain"),
    ("standing", "Standing", "text"),
    ("draws", "Draws", "plain"),
    ("perplexity", "Perplexity", "perplexity"),
    ("log_ratio", "ln(perplexity / float model’s)", "significant"),
    *with_ends("worse", "Above the best, paired", "significant", high="95 % to"),
    *with_ends("better", "Below GPTQ 1 %, paired", "significant", high="95 % to"),
    ("kl", "KL to the float model, nats a token", "significant"),
    ("kl_error", "± standard error", "significant"),
    ("accuracy", "Accuracy on tasks", "share"),
    ("accuracy_error", "± standard error", "share"),
    *with_ends("more_accurate", "Above GPTQ 1 %, paired", "share", high="95 % to"),
    ("layer_error", "ln error of layers, unseen text", "significant"),
)
# The word for each standing: title, chart, sentence, table, log and lists have no others.
STANDINGS: dict[Standing, str] = {
    "best": "best",
    "as_good": "as good as the best",
    "worse": "worse",
    "ruled_out": "ruled out by errors of layers",
    "not_reached": "not reached",
    "baseline": "baseline",
}


def candidates(tuning: Tuning) -> list[TuningRow]:
    """The rows that are tuned, by λ."""
    return [row for row in tuning["rows"] if row["standing"] != "baseline"]


def of_standing(tuning: Tuning, standing: Standing) -> list[TuningRow]:
    """Return the rows of a standing, in their order."""
    return [row for row in tuning["rows"] if row["standing"] == standing]


def standing_counts(tuning: Tuning) -> str:
    """“1 best, 2 as good as the best, 6 not reached”: of the standings that there are, in their order."""
    counts = {standing: len(of_standing(tuning, standing)) for standing in STANDINGS if standing != "baseline"}
    return ", ".join(f"{count} {STANDINGS[standing]}" for standing, count in counts.items() if count)


def spans_text(spans: Sequence[Sequence[float]]) -> str:
    """“0.1”, “0.02 to 0.1”, “0 and 0.02 to 0.1”."""
    return listed(
        [lam_text(first) if first == last else f"{lam_text(first)} to {lam_text(last)}" for first, last in spans]
    )


def saved(better: float) -> float:
    """The share of GPTQ's perplexity that is saved, of a difference of logarithms; negative: that it costs more."""
    return -math.expm1(-better)


def tuning_table(tuning: Tuning) -> DataTable:
    """Everything known of each λ and baseline; columns that hold nothing yet are left out."""
    return data_table(
        HEADINGS,
        [{**row, "method": title_of(row), "standing": STANDINGS[row["standing"]]} for row in tuning["rows"]],
    )


def title_of(row: TuningRow) -> str:
    """“GPTQ 1 %”, “Round to nearest”."""
    return METHODS[row["method"]].title


def lam_of(row: TuningRow) -> float:
    """The λ of a candidate."""
    assert row["lambda"] is not None  # what is tuned has a λ
    return row["lambda"]


def savings_text(row: TuningRow) -> str:
    """“4.3 % less perplexity than GPTQ 1 % (3.1 to 5.6 %)”; without the interval where none is known."""
    assert row["better"] is not None
    return savings_words(row["better"], row["better_low"], row["better_high"])


def savings_words(better: float, low: float | None, high: float | None) -> str:
    """The same of numbers."""
    sign = 1 if better >= 0 else -1
    size = sign * saved(better)
    words = f"{'less' if sign > 0 else 'more'} perplexity than GPTQ 1 %"
    if low is None or high is None:
        return f"{percent(size, 1)} {words}"
    ends = sorted((sign * saved(low), sign * saved(high)))
    decimals = 1 if ends[1] - ends[0] < 0.2 else 0
    first, last = (percent(end, decimals) for end in ends)
    return f"{percent(size, decimals)} {words} ({first.removesuffix(f'{NBSP}%')} to {last})"


def level_of(value: float) -> dict[str, Any]:
    """A dotted line over all λ."""
    shape = line_shape((0, 1), [value], "var(--ink-2)", "dot", xref="paper", yref="y") | {"layer": "below"}
    shape["line"]["width"] = 1.5
    return shape


def name_axis(figure: Figure, names: Sequence[str], best: int | None) -> None:
    """λ on the axis, the best one in bold; on a narrow screen every other one where there are many."""
    ticks = list(names)
    if best is not None:
        ticks[best] = f'<b><span style="color:var(--quality-ink)">{names[best]}</span></b>'
    figure["layout"]["xaxis"]["ticktext"] = ticks
    if len(names) > MANY:  # the best one keeps its name, and every other one from there
        start = 0 if best is None else best % 2
        figure["narrow"]["layout.xaxis.ticktext"] = [text if at % 2 == start else "" for at, text in enumerate(ticks)]
    add_note(figure, "λ", **LAM_CORNER)
