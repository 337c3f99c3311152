"""Tuning as it stands: how much perplexity each λ saves against GPTQ 1 %, and what the errors of layers say of it.

It is drawn again after each step, so nothing moves that does not change: both panels and all λ are there from the
beginning. Every λ has a mark of its standing, whatever that is.

The upper panel has a dot for each draw and the 95 % interval, which holds for all compared λ at once. The lower one has
a dot for each layer, above that layer's own best λ, and their mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sarqc.documents import Standing, Tuning, TuningRow
from sarqc.figures.drawing import HELD_OUT, QUALITY, Figure, base_layout, honest_range, lam_axis, note, value_axis
from sarqc.figures.numbers import NBSP, draws_text, lam_text, percent
from sarqc.figures.panels import axis_name, band_shape, upright
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
_GREEN, _GREY = QUALITY["color"], "var(--ink-2)"
# Mark, size and colour of each.
_MARKS: dict[Standing, tuple[str, int, str]] = {
    "best": ("diamond", 14, _GREEN),
    "as_good": ("diamond-open", 11, _GREEN),
    "worse": ("diamond-open", 10, _GREY),
    "not_reached": ("circle-open", 9, _GREY),
    "ruled_out": ("x-thin-open", 8, _GREY),
}
_SIGNS: dict[Standing, str] = {"best": "◆", "as_good": "◇", "worse": "◇", "not_reached": "○", "ruled_out": "×"}
_UPPER, _LOWER = (0.4, 1.0), (0.0, 0.27)
_AT_EDGE = 0.06  # of the upper panel's height, where marks stand that have no value
_ABOVE_MARKS = 18  # pixels of the lower edge, over those marks
_LINE, _LINE_ROOM = 15, 0.11  # of words on a narrow screen: pixels, and the share of the upper panel's range


def candidates(tuning: Tuning) -> list[TuningRow]:
    """The rows that are tuned, by λ."""
    return [row for row in tuning["rows"] if row["standing"] != "baseline"]


def of_standing(tuning: Tuning, standing: Standing) -> list[TuningRow]:
    """Return the rows of a standing, in their order."""
    return [row for row in tuning["rows"] if row["standing"] == standing]


def standing_counts(tuning: Tuning) -> str:
    """“1 best, 2 as good as the best, 6 not reached”: of the standings that there are, in their order."""
    counts = [(len(of_standing(tuning, standing)), words) for standing, words in STANDINGS.items()]
    return ", ".join(f"{count} {words}" for count, words in counts[:-1] if count)


def spans_text(spans: Sequence[Sequence[float]]) -> str:
    """“0.1”, “0.02 to 0.1”, “0 and 0.02 to 0.1”."""
    parts = [
        lam_text(first) if first == last else f"{lam_text(first)} to {lam_text(last)}" for first, last in spans
    ]  # fmt: skip
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""


def saved(better: float) -> float:
    """The share of GPTQ's perplexity that is saved, of a difference of logarithms; negative: that it costs more."""
    return -math.expm1(-better)


def tuning_figure(tuning: Tuning) -> Figure:
    """What each λ saves, and the errors of layers, over all λ. Made at any moment of a tuning run."""
    rows = candidates(tuning)
    names = [lam_text(_lam(row)) for row in rows]
    layout = base_layout(left=50, right=116, top=22, bottom=30)
    layout |= {"xaxis": {**lam_axis(names), "anchor": "y2"}, "hovermode": "closest", "annotations": [], "shapes": []}
    figure: Figure = {
        "data": [], "layout": layout, "bindings": [], "narrow": {"layout.margin.r": 32}, "narrow_bindings": [],
        "title": "The search for λ", "subtitle": f": {standing_counts(tuning)}{_draws(tuning)}", "aria": _aria(tuning),
    }  # fmt: skip
    _add_savings(figure, tuning, rows, names)
    _add_layers(figure, rows, names)
    _add_band(figure, tuning, rows)
    _add_names(figure, tuning, names)
    return figure


def tuning_table(tuning: Tuning) -> DataTable:
    """Everything known of each λ and baseline; columns that hold nothing yet are left out."""
    rows: list[dict[str, Any]] = [
        {**row, "method": _title(row), "standing": STANDINGS[row["standing"]]} for row in tuning["rows"]
    ]
    columns = [column for column in HEADINGS if any(row.get(column["key"]) is not None for row in rows)]
    return {"columns": columns, "rows": [{column["key"]: row.get(column["key"]) for column in columns} for row in rows]}


def _title(row: TuningRow) -> str:
    """“GPTQ 1 %”, “Round to nearest”."""
    return METHODS[row["method"]].title


def _lam(row: TuningRow) -> float:
    assert row["lambda"] is not None  # what is tuned has a λ
    return row["lambda"]


def _draws(tuning: Tuning) -> str:
    return f"; {draws_text(tuning['draws'])}" if tuning["draws"] else ""


def _of_draws(row: TuningRow) -> list[float]:
    """What each draw says that the λ saves; of former versions the mean alone is known."""
    return [saved(value) for value in row.get("better_by_draw", [])]


def _add_savings(figure: Figure, tuning: Tuning, rows: Sequence[TuningRow], names: Sequence[str]) -> None:
    """The upper panel."""
    measured = [(name, row, saved(row["better"])) for name, row in zip(names, rows, strict=True)
                if row["better"] is not None]  # fmt: skip
    dots = [(name, value) for name, row in zip(names, rows, strict=True) for value in _of_draws(row)]
    values = np.array([value for _, _, value in measured] + [value for _, value in dots])
    low, high = honest_range(values, np.zeros(0), always=(0.0,)) if len(values) else (-0.02, 0.1)
    low -= 2 * _AT_EDGE * (high - low)
    figure["layout"]["yaxis"] = {**value_axis(_UPPER, (low, high), ticks=5), "tickformat": ".1~%"}
    _add_title(figure, _UPPER[1], _SAVED + _key(tuning), _SAVED_NARROW)
    at = len(figure["layout"]["annotations"])
    _add_level(figure, 0.0, "GPTQ 1 %")
    figure["narrow"][f"layout.annotations.{at}.visible"] = False  # the title says what 0 is, and points are under it
    _add_outside(figure, tuning, low, high)
    if not measured:
        text = "here: each λ that is left, quantized and measured as a whole model"
        _add_note(figure, text, x=0.5, xref="paper", xanchor="center", y=0.55, yref="y domain", yanchor="middle")
        at = len(figure["layout"]["annotations"]) - 1
        figure["narrow"][f"layout.annotations.{at}.text"] = text.replace(", ", ",<br>", 1)
    figure["data"].append({
        "type": "scatter", "mode": "markers", "name": "draws", "x": [name for name, _ in dots],
        "y": [value for _, value in dots], "yaxis": "y", "hoverinfo": "skip",
        "marker": {"symbol": "circle", "size": 5, "color": "var(--quality-faint)"},
    })  # fmt: skip
    edge = low + _AT_EDGE * (high - low)
    for standing, (symbol, size, color) in _MARKS.items():
        own = [(name, row) for name, row in zip(names, rows, strict=True) if row["standing"] == standing]
        known = [one for one in measured if one[1]["standing"] == standing]
        missing = [(name, row) for name, row in own if row["better"] is None]
        marker = {"symbol": symbol, "size": size, "color": color, "line": {"width": 2, "color": color}}
        trace: dict[str, Any] = {
            "type": "scatter", "mode": "markers", "name": STANDINGS[standing], "yaxis": "y", "cliponaxis": False,
            "x": [*(name for name, _, _ in known), *(name for name, _ in missing)],
            "y": [*(min(max(value, low), high) for _, _, value in known), *(edge for _ in missing)],
            "text": [*(_hover(row) for _, row, _ in known), *(_hover(row) for _, row in missing)],
            "hovertemplate": "%{text}<extra></extra>", "marker": marker,
        }  # fmt: skip
        if standing not in ("ruled_out", "not_reached"):
            trace["error_y"] = _bars([row for _, row, _ in known], color)
        figure["data"].append(trace)


def _bars(rows: Sequence[TuningRow], color: str) -> dict[str, Any]:
    """Simultaneous 95 % intervals; of length 0 where none is known."""
    up, down = [], []
    for row in rows:
        better, low, high = row["better"], row["better_low"], row["better_high"]
        if better is None or low is None or high is None:
            low = better = high = 0.0
        up.append(saved(high) - saved(better))
        down.append(saved(better) - saved(low))
    return {
        "type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 2, "width": 0, "color": color
    }  # fmt: skip


def _hover(row: TuningRow) -> str:
    """“λ = 0.2, best: 4.3 % less perplexity than GPTQ 1 % (3.1 to 5.6 %), 6 draws”."""
    text = f"λ = {lam_text(_lam(row))}, {STANDINGS[row['standing']]}"
    if row["better"] is not None:
        text += f": {savings_text(row)}, {draws_text(row['draws'])}"
    return text


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


_SAVED = "Perplexity saved against GPTQ 1 %, same calibration text"
_SAVED_NARROW = "Perplexity saved against GPTQ 1 %"
_LAYERS = "Error of layers on unseen text, above each layer’s best λ"
_LAYERS_NARROW = "Error of layers, above each one’s best λ"


def _key(tuning: Tuning) -> str:
    """The marks that there are, beside the title."""
    parts = [
        f'<span style="color:{_MARKS[standing][2]}">{sign}</span> {STANDINGS[standing]}'
        for standing, sign in _SIGNS.items()
        if of_standing(tuning, standing)
    ]
    if not parts:
        return ""
    return f'   <span style="color:var(--ink-2)">{"  ".join(parts)}</span>'


def _add_title(figure: Figure, top: float, text: str, narrow: str) -> None:
    place = {"xref": "paper", "yref": "paper", "x": 0, "y": top, "xanchor": "left", "yanchor": "bottom", "yshift": 2}
    at = len(figure["layout"]["annotations"])
    figure["layout"]["annotations"].append(note(text, **place))
    figure["narrow"][f"layout.annotations.{at}.text"] = narrow


def _add_level(figure: Figure, value: float, title: str) -> None:
    """A line over all λ, with its name at the end."""
    line = {"color": "var(--ink-2)", "width": 1.5, "dash": "dot"}
    figure["layout"]["shapes"].append(
        {"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": line,
         "layer": "below"}
    )  # fmt: skip
    _add_note(figure, title, xref="paper", x=1, xshift=6, xanchor="left", y=value, yref="y", yanchor="middle")


def _add_outside(figure: Figure, tuning: Tuning, low: float, high: float) -> None:
    """The other baselines and the float model: a line each, or a word at the edge beyond the scale. On a narrow screen
    all words stand beyond the scale, where no points are under them.
    """
    gptq = next((row for row in of_standing(tuning, "baseline") if row["method"] == "gptq"), None)
    levels = [
        (_title(row), saved(row["better"])) for row in of_standing(tuning, "baseline")
        if row["better"] is not None and row["method"] != "gptq"
    ]  # fmt: skip
    if gptq is not None and gptq["log_ratio"] is not None:
        levels.append(("float model", saved(gptq["log_ratio"])))
    beyond, lines = 0, {0: 0, 1: 0}  # words at the edges, of the narrow screen at the lower and the upper one
    for title, value in levels:
        at, narrow_edge = len(figure["layout"]["annotations"]), int(value > (low + high) / 2)
        shift = _LINE * lines[narrow_edge]
        lines[narrow_edge] += 1
        place = {
            "xanchor": "right", "xshift": 0, "yref": "y domain", "y": narrow_edge,
            "yanchor": "top" if narrow_edge else "bottom", "yshift": -shift if narrow_edge else shift,
        }  # fmt: skip
        figure["narrow"] |= {f"layout.annotations.{at}.{key}": item for key, item in place.items()}
        if low <= value <= high and abs(value) > 0.08 * (high - low):
            _add_level(figure, value, title)
            figure["narrow"][f"layout.annotations.{at}.text"] = f"dotted: {title} {percent(value, 1)}"
            continue
        arrow, edge = ("↑", 1) if value > high else ("↓", 0)
        is_inside = low <= value <= high
        _add_note(
            figure, f"{title} {percent(value, 1)}" if is_inside else f"{arrow} {title} {percent(value, 0)}",
            xref="paper", x=1, xanchor="right", yref="y domain", y=edge,
            yanchor="top" if edge else "bottom", yshift=-16 * beyond if edge else 16 * beyond + _ABOVE_MARKS,
        )  # fmt: skip
        beyond += 1
    below, above = (_LINE_ROOM * count * (high - low) for count in lines.values())
    figure["narrow"]["layout.yaxis.range"] = [low - below, high + above]


def _add_layers(figure: Figure, rows: Sequence[TuningRow], names: Sequence[str]) -> None:
    """The lower panel."""
    dots = [
        (name, math.expm1(value)) for name, row in zip(names, rows, strict=True)
        for value in row.get("layer_excess", [])
    ]  # fmt: skip
    least = min((row["layer_error"] for row in rows if row["layer_error"] is not None), default=0.0)
    means = []
    for row in rows:
        excess = row.get("layer_excess", [])
        if excess:
            means.append(math.expm1(sum(excess) / len(excess)))
        else:
            means.append(math.nan if row["layer_error"] is None else math.expm1(row["layer_error"] - least))
    finite = np.array([value for value in means if math.isfinite(value)])
    # The band in which λ are left, and where the means are; layers beyond are cut.
    high = max(0.15, min(float(np.sort(finite)[len(finite) // 2]) * 2, float(finite.max()))) if len(finite) else 0.5
    span = (-0.06 * high, 1.1 * high)
    figure["layout"]["yaxis2"] = {**value_axis(_LOWER, span, ticks=3), "tickformat": ".1~%"}
    _add_title(figure, _LOWER[1], _LAYERS, _LAYERS_NARROW)
    figure["data"].append({
        "type": "scatter", "mode": "markers", "name": "layers", "x": [name for name, value in dots if value <= span[1]],
        "y": [float(f"{value:.4g}") for _, value in dots if value <= span[1]], "yaxis": "y2", "hoverinfo": "skip",
        "marker": {"symbol": "circle", "size": 4, "color": "var(--held-out-faint)"},
    })  # fmt: skip
    style = HELD_OUT
    text = [
        f"λ = {name}: error of layers {percent(value, 1)} above each one’s best" if math.isfinite(value) else ""
        for name, value in zip(names, means, strict=True)
    ]
    figure["data"].append({
        "type": "scatter", "mode": "lines+markers", "name": "mean of layers", "x": list(names),
        "y": [float(f"{value:.5g}") if math.isfinite(value) else None for value in means], "yaxis": "y2",
        "text": text, "hovertemplate": "%{text}<extra></extra>",
        "line": {"color": style["color"], "width": 2},
        "marker": {"symbol": "circle", "size": 6, "color": style["color"]},
    })  # fmt: skip


def _add_note(figure: Figure, text: str, **place: Any) -> None:
    font = {"size": 12, "color": "var(--ink-2)"}
    figure["layout"]["annotations"].append(note(text, **{"font": font, **place}))


def _add_band(figure: Figure, tuning: Tuning, rows: Sequence[TuningRow]) -> None:
    """Behind each span of λ that are the best or as good."""
    lams = [_lam(row) for row in rows]
    for first, last in tuning["band"]:
        figure["layout"]["shapes"].append(band_shape(lams.index(first) - 0.4, lams.index(last) + 0.4))


def _add_names(figure: Figure, tuning: Tuning, names: Sequence[str]) -> None:
    """λ on the axis, the best one in bold with a line through both panels."""
    ticks, best = list(names), tuning["best"]
    if best is not None:
        ink = "var(--quality-ink)"
        ticks[best] = f'<b><span style="color:{ink}">{names[best]}</span></b>'
        line = {"color": ink, "width": 1, "dash": "dot"}
        figure["layout"]["shapes"] += [upright(axis_name(panel), best, line, "below") for panel in (0, 1)]
    figure["layout"]["xaxis"]["ticktext"] = ticks
    if len(names) > MANY:  # the best one keeps its name, and every other one from there
        start = 0 if best is None else best % 2
        figure["narrow"]["layout.xaxis.ticktext"] = [
            text if at % 2 == start else "" for at, text in enumerate(ticks)
        ]  # fmt: skip
    corner = {"xref": "paper", "yref": "paper", "x": 1, "y": 0, "xanchor": "left", "yanchor": "top"}
    figure["layout"]["annotations"].append(note("λ", **corner, xshift=8, yshift=-4))


def _aria(tuning: Tuning) -> str:
    """The drawing in words: each λ by its standing, and what it saves."""
    text = f"The search for λ of {METHODS[tuning['method']].title}: {standing_counts(tuning)}{_draws(tuning)}."
    for standing, words in STANDINGS.items():
        rows = of_standing(tuning, standing)
        if standing == "baseline" or not rows:
            continue
        each = [lam_text(_lam(row)) + (f" ({savings_text(row)})" if row["better"] is not None else "") for row in rows]
        text += f" {words[0].upper()}{words[1:]}: λ = {', '.join(each)}."
    return text
