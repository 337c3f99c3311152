"""The errors of layers over all λ of a tuning run, by which λ are ruled out before any model is measured.

A dot is a layer, above that layer's own best λ; the line is their mean. Whole models are in ``tuning_race``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sarqc.documents import Tuning, TuningRow
from sarqc.figures.drawing import PAPER, Figure, add_note, base_layout
from sarqc.figures.numbers import lam_text, percent
from sarqc.figures.panels import band_shape
from sarqc.figures.ranges import lam_axis, value_axis
from sarqc.figures.styles import HELD_OUT
from sarqc.figures.traces import HOVER, scatter
from sarqc.figures.tuning import candidates, lam_of, name_axis

_FEWEST_SHOWN = 0.15  # relative error up to which the axis reaches at least


def layers_figure(tuning: Tuning) -> Figure:
    """Errors on unseen text, relative to each layer's best λ."""
    rows = candidates(tuning)
    names = [lam_text(lam_of(row)) for row in rows]
    known, layers = tuning["screened"]
    layout = base_layout(left=50, right=20, top=26, bottom=30)
    layout |= {"xaxis": {**lam_axis(names), "anchor": "y"}}
    of_how_many = (f", {known} of {layers} layers" if known < layers else f", all {layers} layers") if layers else ""
    figure: Figure = {
        "data": [],
        "layout": layout,
        "bindings": [],
        "narrow": {"layout.margin.r": 14},
        "narrow_bindings": [],
        "title": _finding(tuning, rows),
        "subtitle": of_how_many,
        "aria": _aria(tuning, rows),
    }
    _add_title(figure)
    for first, last in tuning["suggested"]:
        start, end = (next(at for at, row in enumerate(rows) if lam_of(row) == lam) for lam in (first, last))
        figure["layout"]["shapes"].append(band_shape(start - 0.45, end + 0.45))
    _add_layers(figure, rows, names)
    name_axis(figure, names, tuning["best"])
    return figure


def mean_excess(rows: Sequence[TuningRow]) -> list[float]:
    """For each λ the relative error of layers above the best one's, 0 and more; NaN where no layer is known."""
    least = min((row["layer_error"] for row in rows if row["layer_error"] is not None), default=0.0)
    means = []
    for row in rows:
        excess = row.get("layer_excess", [])
        if excess:
            means.append(math.expm1(sum(excess) / len(excess)))
        else:
            means.append(math.nan if row["layer_error"] is None else math.expm1(row["layer_error"] - least))
    return means


def _finding(tuning: Tuning, rows: Sequence[TuningRow]) -> str:
    means = mean_excess(rows)
    known = [at for at, value in enumerate(means) if math.isfinite(value)]
    if not known:
        return "Errors of layers are not known yet"
    best = min(known, key=lambda at: means[at])
    is_early = not tuning["suggested"] and tuning["screened"][0] < tuning["screened"][1]
    lead = "So far the" if is_early else "The"
    return f"{lead} errors of layers are smallest at λ = {lam_text(lam_of(rows[best]))}"


def _add_title(figure: Figure) -> None:
    text, place = "<b>Error of layers on unseen text, above each layer’s best λ</b>", {**PAPER, "y": 1, "yshift": 5}
    short = {"text": "<b>Error of layers, above each one’s best λ</b>"}
    add_note(figure, text, "var(--ink)", narrow=short, **place, x=0)
    add_note(figure, "one dot a layer, line: mean", narrow={"visible": False}, **place, x=1, xanchor="right")


def _add_layers(figure: Figure, rows: Sequence[TuningRow], names: Sequence[str]) -> None:
    dots = [
        (name, math.expm1(value))
        for name, row in zip(names, rows, strict=True)
        for value in row.get("layer_excess", [])
    ]
    means = mean_excess(rows)
    finite = np.array([value for value in means if math.isfinite(value)])
    # The band in which λ are left, and where the means are; layers beyond are cut.
    middle = float(np.sort(finite)[len(finite) // 2]) if len(finite) else 0.0
    high = max(_FEWEST_SHOWN, min(2 * middle, float(finite.max()))) if len(finite) else 0.5
    span = (-0.06 * high, 1.1 * high)
    figure["layout"]["yaxis"] = {**value_axis((0.0, 1.0), span), "tickformat": ".1~%"}
    shown = [(name, float(f"{value:.4g}")) for name, value in dots if value <= span[1]]
    faint = {"symbol": "circle", "size": 4, "color": "var(--held-out-faint)"}
    x, y = [name for name, _ in shown], [value for _, value in shown]
    figure["data"].append(scatter("layers", "markers", x=x, y=y, yaxis="y", hoverinfo="skip", marker=faint))
    texts = [
        f"λ = {name}: error of layers {percent(value, 1)} above each one’s best" if math.isfinite(value) else ""
        for name, value in zip(names, means, strict=True)
    ]
    figure["data"].append(
        scatter(
            "mean of layers",
            "lines+markers",
            x=list(names),
            y=[float(f"{value:.5g}") if math.isfinite(value) else None for value in means],
            yaxis="y",
            text=texts,
            hovertemplate=HOVER,
            line={"color": HELD_OUT["color"], "width": 2},
            marker={"symbol": "circle", "size": 6, "color": HELD_OUT["color"]},
        )
    )


def _aria(tuning: Tuning, rows: Sequence[TuningRow]) -> str:
    """The drawing in words: the mean of each λ."""
    each = [
        f"λ = {lam_text(lam_of(row))}: {percent(value, 1)}"
        for row, value in zip(rows, mean_excess(rows), strict=True)
        if math.isfinite(value)
    ]
    known, layers = tuning["screened"]
    words = f"Error of layers on unseen text above each layer’s best λ, mean over {known} of {layers} layers."
    return f"{words} {'; '.join(each) if each else 'none is known yet'}."
