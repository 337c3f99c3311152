"""What the figures, the table and the words of a tuning run share: its candidates, the words for their standings, and
how a saving is written. The figures are in ``tuning_race`` and ``tuning_layers``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sarqc.documents import Standing, Tuning, TuningRow
from sarqc.figures.drawing import Figure, note
from sarqc.figures.numbers import NBSP, joined, lam_text, percent
from sarqc.figures.view import Column, DataTable
from sarqc.quantization.methods import METHODS

MANY = 9  # λ; more names than that don't fit beside each other on a narrow screen
HEADINGS: tuple[Column, ...] = (
    {"key": "method", "title": "Method", "kind": "text"},
    {"key": "lambda", "title": "λ", "kind": "plain"},
    {"key": "gamma", "title": "γ", "kind": "plain"},
    {"key": "standing", "title": "Standing", "kind": "text"},
    {"key": "draws", "title": "Draws", "kind": "plain"},
    {"key": "perplexity", "title": "Perplexity", "kind": "perplexity"},
    {"key": "log_ratio", "title": "ln(perplexity / float model’s)", "kind": "significant"},
    {"key": "worse", "title": "Above the best, paired", "kind": "significant"},
    {"key": "worse_low", "title": "95 % from", "kind": "significant"},
    {"key": "worse_high", "title": "95 % to", "kind": "significant"},
    {"key": "better", "title": "Below GPTQ 1 %, paired", "kind": "significant"},
    {"key": "better_low", "title": "95 % from", "kind": "significant"},
    {"key": "better_high", "title": "95 % to", "kind": "significant"},
    {"key": "kl", "title": "KL to the float model, nats a token", "kind": "significant"},
    {"key": "kl_error", "title": "± standard error", "kind": "significant"},
    {"key": "accuracy", "title": "Accuracy on tasks", "kind": "share"},
    {"key": "accuracy_error", "title": "± standard error", "kind": "share"},
    {"key": "more_accurate", "title": "Above GPTQ 1 %, paired", "kind": "share"},
    {"key": "more_accurate_low", "title": "95 % from", "kind": "share"},
    {"key": "more_accurate_high", "title": "95 % to", "kind": "share"},
    {"key": "layer_error", "title": "ln error of layers, unseen text", "kind": "significant"},
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
    return listed([
        lam_text(first) if first == last else f"{lam_text(first)} to {lam_text(last)}"
        for first, last in spans
    ])  # fmt: skip


def listed(numbers: Sequence[str]) -> str:
    """“0”, “0 and 0.1”, “0, 0.1 and 0.5”."""
    first, last = numbers[:-1], numbers[-1:]
    return joined([*filter(None, [", ".join(first)]), *last]) if numbers else ""


def saved(better: float) -> float:
    """The share of GPTQ's perplexity that is saved, of a difference of logarithms; negative: that it costs more."""
    return -math.expm1(-better)


def tuning_table(tuning: Tuning) -> DataTable:
    """Everything known of each λ and baseline; columns that hold nothing yet are left out."""
    rows: list[dict[str, Any]] = [
        {**row, "method": title_of(row), "standing": STANDINGS[row["standing"]]} for row in tuning["rows"]
    ]
    columns = [
        Column(key=column["key"], title=column["title"], kind=column["kind"])
        for column in HEADINGS
        if any(row.get(column["key"]) is not None for row in rows)
    ]
    return {"columns": columns, "rows": [{column["key"]: row.get(column["key"]) for column in columns} for row in rows]}


def title_of(row: TuningRow) -> str:
    """“GPTQ 1 %”, “Round to nearest”."""
    return METHODS[row["method"]].title


def lam_of(row: TuningRow) -> float:
    """The λ of a candidate."""
    assert row["lambda"] is not None  # what is tuned has a λ
    return row["lambda"]


def savings_text(row: TuningRow) -> str:
    """“4.3 % less perplexity than GPTQ 1 % (3.1 to 5.6 %)”; without the interval where none is known."""
    better, low, high = row["better"], row["better_low"], row["better_high"]
    assert better is not None
    return savings_words(better, low, high)


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
    line = {"color": "var(--ink-2)", "width": 1.5, "dash": "dot"}
    return {
        "type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": line,
        "layer": "below",
    }  # fmt: skip


def name_axis(figure: Figure, names: Sequence[str], best: int | None) -> None:
    """λ on the axis, the best one in bold; on a narrow screen every other one where there are many."""
    ticks = list(names)
    if best is not None:
        ticks[best] = f'<b><span style="color:var(--quality-ink)">{names[best]}</span></b>'
    figure["layout"]["xaxis"]["ticktext"] = ticks
    if len(names) > MANY:  # the best one keeps its name, and every other one from there
        start = 0 if best is None else best % 2
        figure["narrow"]["layout.xaxis.ticktext"] = [
            text if at % 2 == start else "" for at, text in enumerate(ticks)
        ]  # fmt: skip
    corner = {"xref": "paper", "yref": "paper", "x": 1, "y": 0, "xanchor": "left", "yanchor": "top"}
    figure["layout"]["annotations"].append(note("λ", **corner, xshift=6, yshift=-4))
