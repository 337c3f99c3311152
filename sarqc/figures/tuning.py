"""Tuning as it stands: what each λ costs the whole model, and how far the errors of layers told that already.

It is drawn again after each measurement, so nothing moves that does not change: both panels and all λ are there from
the beginning. A λ that is given up stays where it was, hollow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from sarqc.documents import Tuning, TuningRow
from sarqc.figures.drawing import HELD_OUT, QUALITY, Figure, Role, apart, honest_range, note
from sarqc.figures.numbers import draws_text, lam_text, number, significant
from sarqc.figures.panels import LABEL_GAP, Curve, Panel, axis_name, band_shape, stack, upright
from sarqc.figures.view import Column, DataTable
from sarqc.quantization.methods import METHODS

MANY = 9  # λ; more names than that don't fit beside each other on a narrow screen
HEADINGS: tuple[Column, ...] = (
    {"key": "method", "title": "Method", "kind": "text"},
    {"key": "lambda", "title": "λ", "kind": "plain"},
    {"key": "gamma", "title": "γ", "kind": "plain"},
    {"key": "standing", "title": "Standing", "kind": "text"},
    {"key": "draws", "title": "Draws", "kind": "plain"},
    {"key": "log_ratio", "title": "ln(perplexity / float)", "kind": "significant"},
    {"key": "worse", "title": "Above the best, paired", "kind": "significant"},
    {"key": "worse_error", "title": "± standard error", "kind": "significant"},
    {"key": "better", "title": "Below GPTQ 1 %, paired", "kind": "significant"},
    {"key": "better_error", "title": "± standard error", "kind": "significant"},
    {"key": "kl", "title": "KL to the float model, nats a token", "kind": "significant"},
    {"key": "kl_error", "title": "± standard error", "kind": "significant"},
    {"key": "accuracy", "title": "Accuracy on tasks", "kind": "share"},
    {"key": "accuracy_error", "title": "± standard error", "kind": "share"},
    {"key": "more_accurate", "title": "Above GPTQ 1 %, paired", "kind": "share"},
    {"key": "more_accurate_error", "title": "± standard error", "kind": "share"},
    {"key": "layer_error", "title": "ln error of layers, unseen text", "kind": "significant"},
)
STANDINGS = {"left": "in question", "retired": "clearly worse", "dull": "given up by layers", "baseline": "baseline"}


def candidates(tuning: Tuning) -> list[TuningRow]:
    """The rows that are tuned, by λ."""
    return [row for row in tuning["rows"] if row["standing"] != "baseline"]


def of_standing(tuning: Tuning, standing: Literal["dull", "retired", "left", "baseline"]) -> list[TuningRow]:
    return [row for row in tuning["rows"] if row["standing"] == standing]


def _title(row: TuningRow) -> str:
    """“GPTQ 1 %”, “Round to nearest”."""
    return METHODS[row["method"]].title


def tuning_figure(tuning: Tuning) -> Figure:
    """Perplexity above the float model's and errors of layers, over all λ. Made at any moment of a tuning run."""
    rows = candidates(tuning)
    lams = [_lam(row) for row in rows]
    names = [lam_text(lam) for lam in lams]
    figure = stack(lams, names, [_quality_panel(tuning, rows), _layer_panel(rows)], ring=False)
    figure["title"], figure["subtitle"] = "The search for λ", _subtitle(tuning)
    figure["aria"] = _aria(tuning)
    _hollow(figure)
    _name_titles(figure, tuning)
    _add_baselines(figure, tuning, names)
    _add_band(figure, tuning, lams)
    _add_best(figure, tuning, rows, names)
    if all(row["log_ratio"] is None for row in tuning["rows"]):
        _say_empty(figure)
    return figure


def tuning_table(tuning: Tuning) -> DataTable:
    """Everything known of each λ and baseline; columns that hold nothing yet are left out."""
    rows: list[dict[str, Any]] = [
        {**row, "method": _title(row), "standing": STANDINGS[row["standing"]]}
        for row in tuning["rows"]
    ]  # fmt: skip
    # Runs made before tasks were asked have no such numbers.
    columns = [column for column in HEADINGS if any(row.get(column["key"]) is not None for row in rows)]
    return {"columns": columns, "rows": [{column["key"]: row[column["key"]] for column in columns} for row in rows]}


def _lam(row: TuningRow) -> float:
    assert row["lambda"] is not None  # what is tuned has a λ
    return row["lambda"]


def _values(rows: Sequence[TuningRow], name: Literal["log_ratio", "better_error"], *standings: str) -> np.ndarray:
    """(1, λ): a figure's one γ; NaN for other standings and what was not measured."""
    return np.array([[_number(row[name]) if row["standing"] in standings else math.nan for row in rows]])


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def ratio_text(value: float) -> str:
    """ln of a ratio of perplexities."""
    return number(value, 3)


_FAINT = "-faint)"
_SOLID, _GONE, _BEHIND = "in question", "clearly worse", "all"
_FIRST, _DULL = "layers, in question", "layers, given up"


def _faded(style: Role) -> Role:
    return {**style, "color": style["color"].replace(")", _FAINT)}


def _quality_panel(tuning: Tuning, rows: Sequence[TuningRow]) -> Panel:
    every = _values(rows, "log_ratio", "left", "retired")
    curves = (
        Curve(_BEHIND, {**_faded(QUALITY), "dash": "solid"}, every, faint=True),
        Curve(_GONE, QUALITY, _values(rows, "log_ratio", "retired")),
        Curve(_SOLID, QUALITY, _values(rows, "log_ratio", "left"), _values(rows, "better_error", "left")),
    )
    gptq = [row["log_ratio"] for row in of_standing(tuning, "baseline") if row["method"] == "gptq"]
    pinned = tuple(value for value in gptq if value is not None)
    return Panel(_QUALITY_TITLE, ratio_text, curves, 1.5, reference=0.0 if np.isfinite(every).any() else None,
                 pinned=pinned)  # fmt: skip


def _layer_panel(rows: Sequence[TuningRow]) -> Panel:
    errors = np.exp([[_number(row["layer_error"]) for row in rows]])
    dull = np.array([[row["standing"] == "dull" for row in rows]])
    curves = (
        Curve(_BEHIND, {**_faded(HELD_OUT), "dash": "solid"}, errors, faint=True),
        Curve(_DULL, HELD_OUT, np.where(dull, errors, math.nan)),
        Curve(_FIRST, HELD_OUT, np.where(dull, math.nan, errors)),
    )
    return Panel(_LAYER_TITLE, significant, curves, 1.0)


_QUALITY_TITLE = "ln(perplexity / float model’s), lower is better"
_LAYER_TITLE = "Mean error of layers on unseen text"


def _hollow(figure: Figure) -> None:
    """λ that were given up are single hollow marks; between the others a line goes from neighbour to neighbour."""
    for trace in figure["data"]:
        if trace["name"] in (_GONE, _DULL):
            trace["mode"] = "markers"
            trace["marker"] = {
                **trace["marker"], "symbol": f"{trace['marker']['symbol']}-open", "size": 8, "line": {"width": 1.5},
                "opacity": 0.6,
            }  # fmt: skip
        elif trace["name"] in (_SOLID, _FIRST):
            trace["connectgaps"] = False
        elif trace["name"] == _BEHIND:
            trace["hoverinfo"] = "skip"
            trace.pop("hovertemplate")


def _name_titles(figure: Figure, tuning: Tuning) -> None:
    """What the hollow marks mean stands beside the titles, as soon as there are any."""
    keys = {
        _QUALITY_TITLE: (of_standing(tuning, "retired"), "◇ clearly worse", "ln(perplexity / float)"),
        _LAYER_TITLE: (of_standing(tuning, "dull"), "○ given up by it", "Error of layers, unseen text"),
    }
    for at, one in enumerate(figure["layout"]["annotations"]):
        if one["text"] not in keys:
            continue
        hollow, words, short = keys[one["text"]]
        key = f'   <span style="color:var(--ink-2)">{words}</span>' if hollow else ""
        one["text"] += key
        figure["narrow"][f"layout.annotations.{at}.text"] = short + key


def _add_baselines(figure: Figure, tuning: Tuning, names: Sequence[str]) -> None:
    """A level line for each that was measured, with its name at the line's end; a word at the edge beyond the scale."""
    low, high = figure["layout"]["yaxis"]["range"]
    measured = [(row, row["log_ratio"]) for row in of_standing(tuning, "baseline") if row["log_ratio"] is not None]
    inside = [(row, value) for row, value in measured if low <= value <= high]
    room = high - low
    heights = apart([value for _, value in inside], 0.5 * LABEL_GAP * room, low + 0.03 * room, high - 0.03 * room)
    for (row, value), height in zip(inside, heights, strict=True):
        figure["data"].append(_level(_title(row), names, value))
        _add_note(figure, _title(row), xref="paper", x=1, xshift=6, y=height, yref="y", yanchor="middle")
        at = f"layout.annotations.{len(figure['layout']['annotations']) - 1}"
        side = "top" if value > (low + high) / 2 else "bottom"  # the upper corner is of those beyond the scale
        figure["narrow"] |= {
            f"{at}.xanchor": "right", f"{at}.xshift": 0, f"{at}.y": value, f"{at}.yanchor": side,
        }  # fmt: skip
    for number_, (row, value) in enumerate(one for one in measured if one not in inside):
        arrow, edge = ("↑", 1) if value > high else ("↓", 0)
        _add_note(
            figure, f"{arrow} {_title(row)} {ratio_text(value)}", xref="paper", x=1, xanchor="right",
            yref="y domain", y=edge, yanchor="top" if edge else "bottom", yshift=-16 * number_,
        )  # fmt: skip


def _level(title: str, names: Sequence[str], value: float) -> dict[str, Any]:
    return {
        "type": "scatter", "mode": "lines", "name": title, "x": list(names), "y": [float(f"{value:.6g}")] * len(names),
        "yaxis": "y", "text": ratio_text(value), "hovertemplate": "%{text}",
        "line": {"color": "var(--ink-2)", "width": 1.5, "dash": "dash"},
    }  # fmt: skip


def _add_note(figure: Figure, text: str, **place: Any) -> None:
    font = {"size": 12, "color": "var(--ink-2)"}
    figure["layout"]["annotations"].append(note(text, **{"font": font, **place}))


def _add_band(figure: Figure, tuning: Tuning, lams: Sequence[float]) -> None:
    if tuning["band"] is None:
        return
    first, last = (lams.index(edge) for edge in tuning["band"])
    figure["layout"]["shapes"].append(band_shape(first - 0.4, last + 0.4))
    _add_note(
        figure, "as good as the best", x=first - 0.4, xref="x", yref="paper", y=1, yanchor="top", yshift=-2, xshift=5,
        font={"size": 12, "color": "var(--quality-ink)"},
    )  # fmt: skip
    at = len(figure["layout"]["annotations"]) - 1
    if last - first > 0.2 * len(lams):  # the band holds the words: a ground of their own, over λ's line
        figure["layout"]["annotations"][at]["bgcolor"] = "var(--band-solid)"
    figure["narrow"][f"layout.annotations.{at}.opacity"] = 0


def _add_best(figure: Figure, tuning: Tuning, rows: Sequence[TuningRow], names: Sequence[str]) -> None:
    """A ring around the best λ so far, and its name on the axis in bold."""
    ticks = list(names)
    best = tuning["best"]
    if best is not None:
        ink, name = "var(--quality-ink)", names[best]
        ticks[best] = f'<b><span style="color:{ink}">{name}</span></b>'
        marker = {"symbol": "circle-open", "size": 19, "color": ink, "line": {"width": 2.5, "color": ink}}
        value = rows[best]["log_ratio"]
        figure["data"].append({
            "type": "scatter", "mode": "markers", "name": "the best", "x": [name], "y": [value], "yaxis": "y",
            "hoverinfo": "skip", "cliponaxis": False, "marker": marker,
        })  # fmt: skip
        line = {"color": ink, "width": 1, "dash": "dot"}
        figure["layout"]["shapes"] += [upright(axis_name(panel), best, line, "below") for panel in (0, 1)]
    figure["layout"]["xaxis"]["ticktext"] = ticks
    if len(names) > MANY:  # the best one keeps its name, and every other one from there
        start = 0 if best is None else best % 2
        figure["narrow"]["layout.xaxis.ticktext"] = [
            text if at % 2 == start else "" for at, text in enumerate(ticks)
        ]  # fmt: skip


def _say_empty(figure: Figure) -> None:
    """Before the first model: an empty panel that says what will be in it."""
    low, high = honest_range(np.zeros(0), np.zeros(0))
    figure["layout"]["yaxis"] |= {"showticklabels": False, "showgrid": False, "range": [low, high]}
    text = "here: each λ still in question, quantized and measured as a whole model"
    _add_note(figure, text, x=0.5, xref="paper", xanchor="center", y=0.5, yref="y domain", yanchor="middle")
    at = len(figure["layout"]["annotations"]) - 1
    figure["narrow"][f"layout.annotations.{at}.text"] = text.replace(", ", ",<br>", 1)


def _subtitle(tuning: Tuning) -> str:
    """“: 7 λ in question, 5 given up by the errors of layers, 1 clearly worse; two draws”."""
    parts = [f": {len(of_standing(tuning, 'left'))} λ in question"]
    dull, retired = of_standing(tuning, "dull"), of_standing(tuning, "retired")
    parts += [f"{len(dull)} given up by the errors of layers"] * bool(dull)
    parts += [f"{len(retired)} clearly worse"] * bool(retired)
    draws = f"; {draws_text(tuning['draws'])}" if tuning["draws"] else ""
    return ", ".join(parts) + draws


def _aria(tuning: Tuning) -> str:
    """The drawing in words: what is left, where each value lies, and the baselines."""
    left = [lam_text(_lam(row)) for row in of_standing(tuning, "left")]
    text = f"The search for λ of {METHODS[tuning['method']].title}{_subtitle(tuning)}."
    text += f" In question: {', '.join(left)}."
    measured = [row for row in tuning["rows"] if row["log_ratio"] is not None]
    if measured:
        each = [
            f"{ratio_text(_number(row['log_ratio']))} at "
            + (_title(row) if row["standing"] == "baseline" else f"λ = {lam_text(_lam(row))}")
            for row in measured
        ]
        text += f" ln of perplexity over the float model’s: {'; '.join(each)}."
    if tuning["best"] is not None:
        text += f" The smallest is ringed, λ = {lam_text(_lam(tuning['rows'][tuning['best']]))}."
    if tuning["band"] is not None:
        first, last = map(lam_text, tuning["band"])
        text += f" As good as the best: λ from {first} to {last}."
    return text
