"""Everything a page shows of a tuning run: the race of λ, its legend and log.

The race is the perplexity that each λ saves against GPTQ's default, in one panel over all λ.

A small dot is a draw, the thick bar the 95 % interval, which holds for all compared λ at once. A λ whose perplexity was
not measured is a ghost: a dotted circle in a row below the scale. The row has no heights, since errors of layers have
another unit than the axis, and a height below zero would be read as perplexity lost.

Each mark has an id, so that a page can move it where a new draw puts it. All λ are on the axis from the beginning, a
draw keeps its place beside its λ, and the range grows in whole ticks.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from sarqc.documents import Tuning, TuningRow, TuningTurn
from sarqc.figures.drawing import (
    HOVER,
    PAPER,
    Figure,
    Part,
    Span,
    add_note,
    error_bars,
    even_ticks,
    honest_range,
    lam_axis,
    new_figure,
    scatter,
    step_decimals,
    value_axis,
)
from sarqc.figures.numbers import DataTable, draws_text, lam_text, percent
from sarqc.figures.panels import band_shape
from sarqc.figures.sentence import Piece
from sarqc.figures.tuning import (
    ENDS,
    MARKS,
    Mark,
    candidates,
    lam_of,
    level_of,
    mark_counts,
    mark_of,
    name_axis,
    progress_text,
    rows_of_standing,
    saved_share,
    spans_text,
    title_of,
    tuning_sentence,
    tuning_small_print,
    tuning_table,
)
from sarqc.quantization.methods import METHODS
from sarqc.study.evidence import Evidence, Verdict
from sarqc.study.paired import spans

_PLACEHOLDER = "here: each λ that is left, quantized and measured as a whole model"
_GREEN, _GREY, _FAINT = "var(--quality)", "var(--ink-2)", "var(--ink-3)"
_HOLLOW = "var(--surface)"
# Diameter in pixels, fill, edge and its width, dash of the edge.
_MARKS: dict[Mark, tuple[int, str, str, float, str]] = {
    "ruled_out": (11, _HOLLOW, _FAINT, 1.5, "2px 2px"),
    "not_reached": (11, _HOLLOW, _GREY, 1.5, "2px 2px"),
    "measured": (14, _HOLLOW, _GREY, 2, "solid"),
    "worse": (17, _HOLLOW, _FAINT, 3, "solid"),
    "as_good": (17, _HOLLOW, _GREEN, 3, "solid"),
    "best": (22, _GREEN, _GREEN, 2, "solid"),
}
_GHOSTS: tuple[Mark, ...] = ("not_reached", "ruled_out")
_OFFSETS = (0.14, 0.20, 0.26, 0.32)  # places of the draws beside their λ, to the left and right in turns
_GHOST_ROOM, _GHOST_DEPTH = 0.11, 0.055  # of the span of values, below it: for the row of ghosts, and to its middle
_REACH = 4  # times the span of points and zero that intervals may go beyond it


def race_figure(tuning: Tuning) -> Figure:
    """Draw the saving of each λ, at any moment of a tuning run."""
    rows = candidates(tuning)
    names = [lam_text(lam_of(row)) for row in rows]
    # λ at the places 0, 1, 2, …, so that a draw can stand beside its λ.
    axis = {key: value for key, value in lam_axis(names).items() if not key.startswith("category")}
    axis |= {"type": "linear", "tickvals": [*range(len(names))], "showgrid": False, "anchor": "y"}
    title, subtitle = finding(tuning)
    words = {"title": title, "subtitle": subtitle, "aria": _aria(tuning, rows)}
    figure = new_figure(axis, _axis(tuning, rows), left=50, right=20, top=26, bottom=30, narrow={}, **words)
    _add_titles(figure, tuning, rows)
    _add_band(figure, tuning, rows)
    _add_levels(figure, tuning)
    _add_draws(figure, rows)
    _add_marks(figure, tuning, rows)
    _add_placeholder(figure, rows)
    name_axis(figure, names, tuning["best"])
    return figure


def mark_words(row: TuningRow) -> str:
    """Return the standing of a λ and its evidence."""
    if row["standing"] == "worse":
        return f"clearly worse after draw {row['draws']}"
    return MARKS[mark_of(row)]


_UNDECIDED: dict[Verdict, str] = {
    "worse": "Every λ compared costs perplexity",
    "equal": "The best λ equals GPTQ’s default within 1 %",
    "unknown": "Not known yet whether a λ saves perplexity",
}


def finding(tuning: Tuning) -> tuple[str, str]:
    """Return the title of the figure, from its numbers, and its evidence."""
    if tuning["end"] == "yardstick":
        return "This text can’t rank λ", ""
    if tuning["best"] is None:
        return _first_finding(tuning), ""
    best = tuning["rows"][tuning["best"]]
    draws = f", compared in {draws_text(tuning['draws'])}"
    verdict = "unknown" if best["better"] is None else Evidence.of_row(tuning, best).verdict
    if verdict != "better":
        return _UNDECIDED[verdict], draws
    is_alone = len(tuning["band"]) == 1 and tuning["band"][0][0] == tuning["band"][0][1]
    return f"λ = {spans_text(tuning['band'])} {'saves' if is_alone else 'save'} the most perplexity", draws


def _first_finding(tuning: Tuning) -> str:
    """Return the finding before a λ was compared in two draws."""
    known, layers = tuning["screened"]
    if tuning["one_draw"]:
        lam, first = lam_of(tuning["rows"][tuning["one_draw"][0]["row"]]), tuning["one_draw"][0]
        measured = sum(row["better"] is not None for row in candidates(tuning))
        if measured > 1 and first["better"] <= 0:
            return f"λ = {lam_text(lam)} is the least bad of {measured}, none below GPTQ’s default"
        place = "is ahead" if measured > 1 else "is measured"
        return f"λ = {lam_text(lam)} {place} in {draws_text(len(tuning['one_draw']))}, too few to be sure"
    if tuning["suggested"]:
        left, every = len(rows_of_standing(tuning, "not_reached")), len(candidates(tuning))
        return f"The errors of layers leave {left} of {every} λ"
    if not known:
        return "No λ is measured yet"
    return f"Errors of {known} of {layers} layers are known"


def _axis(tuning: Tuning, rows: Sequence[TuningRow]) -> Part:
    """Return the perplexity saved, in whole ticks, with a room below for ghosts and one above for words."""
    measured = [row for row in rows if row["better"] is not None]
    points = [saved_share(row["better"] or 0.0) for row in measured]
    points += [value for row in measured for value in draw_savings(row)]
    ends = [end for row in measured for end in interval_of(row) or ()]
    reach = _REACH * (max([0.0, *points]) - min([0.0, *points]))
    seen = np.array([*points, *(min(max(end, min(points) - reach), max(points) + reach) for end in ends)])
    low, high = honest_range(seen, np.zeros(0), always=(0.0,), pad=0.0) if len(seen) else (0.0, 0.1)
    step = even_ticks((low, high), 5)["dtick"]
    low, high = step * math.floor(low / step + 0.02), step * math.ceil(high / step - 0.02)
    decimals = step_decimals(100 * step)
    ticks = [step * at for at in range(round(low / step), round(high / step) + 1)]
    span = high - low
    return {
        **value_axis((0.0, 1.0), (low - _GHOST_ROOM * span, high + 0.04 * span)),
        "tickvals": ticks,
        "ticktext": [percent(tick, decimals) if tick == 0 or measured else "" for tick in ticks],
    }


def _add_titles(figure: Figure, tuning: Tuning, rows: Sequence[TuningRow]) -> None:
    """Explain the axis, dots and bars above the panel."""
    place, text = {**PAPER, "y": 1, "yshift": 5}, "<b>Perplexity saved against GPTQ’s default</b>"
    add_note(figure, f"{text}, same calibration text", "var(--ink)", narrow={"text": text}, **place, x=0)
    if any(draw_savings(row) for row in rows):
        bars = "intervals need two draws" if tuning["best"] is None else "bars 95 %"
        right = {**place, "x": 1, "xanchor": "right"}
        add_note(figure, f"one dot a draw, {bars}", _GREY, narrow={"visible": False}, **right)


def _add_band(figure: Figure, tuning: Tuning, rows: Sequence[TuningRow]) -> None:
    """Mark each span of λ that are the best or as good."""
    lams = [lam_of(row) for row in rows]
    bands = [band_shape(lams.index(first) - 0.45, lams.index(last) + 0.45) for first, last in tuning["band"]]
    figure["layout"]["shapes"] += bands


def _add_levels(figure: Figure, tuning: Tuning) -> None:
    """Add a dotted line for GPTQ's default, at zero, and for each other baseline and the float model within the
    scale."""
    low, high = _scale(figure)
    gptq = next((row for row in rows_of_standing(tuning, "baseline") if row["method"] == "gptq"), None)
    levels = [
        (title_of(row), saved_share(row["better"]))
        for row in rows_of_standing(tuning, "baseline")
        if row["better"] is not None and row["method"] != "gptq"
    ]
    if gptq is not None and gptq["log_ratio"] is not None:
        levels.append(("float model", saved_share(gptq["log_ratio"])))
    texts = [(f"{title} {percent(value, 0 if abs(value) >= 0.1 else 1)}", value) for title, value in levels]
    for text, value in [("GPTQ’s default, 1 %", 0.0), *texts]:
        if low <= value <= high:
            figure["layout"]["shapes"].append(level_of(value))
            place = {"xref": "paper", "x": 1, "xanchor": "right", "xshift": -4, "y": value, "yref": "y", "yshift": 2}
            add_note(figure, text, _GREY, **place)


def interval_of(row: TuningRow) -> Span | None:
    """Return the simultaneous 95 % interval of what a λ saves; None where it is not known."""
    low, high = row["better_low"], row["better_high"]
    return None if low is None or high is None else (saved_share(low), saved_share(high))


def draw_savings(row: TuningRow) -> list[float]:
    """Return the saving of the λ in each draw; former versions hold the mean alone."""
    return [saved_share(value) for value in row.get("better_by_draw", [])]


def _add_draws(figure: Figure, rows: Sequence[TuningRow]) -> None:
    """Add a small dot for each draw; those beyond the scale stand at its edge."""
    low, high = _scale(figure)
    dots = [(at, row, draw, value) for at, row in enumerate(rows) for draw, value in enumerate(draw_savings(row))]
    texts = [
        f"λ = {lam_text(lam_of(row))}, draw {draw + 1}: {percent(abs(value), 1)} {'less' if value >= 0 else 'more'}"
        for _, row, draw, value in dots
    ]
    good = [row["standing"] in ("best", "as_good") for _, row, _, _ in dots]
    colors = ["var(--quality-faint)" if is_good else _FAINT for is_good in good]
    figure["data"].append(
        scatter(
            "draws",
            "markers",
            yaxis="y",
            cliponaxis=False,
            ids=[f"{lam_text(lam_of(row))} draw {draw + 1}" for _, row, draw, _ in dots],
            x=[at + _draw_offset(draw) for at, _, draw, _ in dots],
            y=[min(max(value, low), high) for *_, value in dots],
            text=texts,
            hovertemplate=HOVER,
            marker={"symbol": "circle", "size": 6, "color": colors},
        )
    )


def _draw_offset(draw: int) -> float:
    """Return a draw's offset from its λ, whatever further draws there are."""
    offset = _OFFSETS[draw // 2 % len(_OFFSETS)]
    return offset if draw % 2 else -offset


def _scale(figure: Figure) -> Span:
    """Return the ends of the axis without its rooms."""
    ticks = figure["layout"]["yaxis"]["tickvals"]
    return ticks[0], ticks[-1]


def _ghost_depth(figure: Figure) -> float:
    """Return the distance of the row of ghosts below the scale."""
    low, high = _scale(figure)
    return _GHOST_DEPTH * (high - low)


def _add_marks(figure: Figure, tuning: Tuning, rows: Sequence[TuningRow]) -> None:
    """Add one trace for each kind of mark, ghosts first."""
    low, high = _scale(figure)
    ghosts = low - _ghost_depth(figure)
    for kind, (size, fill, edge, width, dash) in _MARKS.items():
        members = [(at, row) for at, row in enumerate(rows) if mark_of(row) == kind]
        heights = [
            ghosts if kind in _GHOSTS or row["better"] is None else min(max(saved_share(row["better"]), low), high)
            for _, row in members
        ]
        line = {"width": width, "color": edge, "dash": dash}
        trace = scatter(
            MARKS[kind],
            "markers",
            yaxis="y",
            cliponaxis=False,
            ids=[lam_text(lam_of(row)) for _, row in members],
            x=[at for at, _ in members],
            y=heights,
            text=[_hover(tuning, row) for _, row in members],
            hovertemplate=HOVER,
            marker={"symbol": "circle", "size": size, "color": fill, "line": line},
        )
        if kind not in (*_GHOSTS, "measured"):
            trace["error_y"] = _intervals([row for _, row in members], heights, (low, high), edge)
        figure["data"].append(trace)


def _intervals(rows: Sequence[TuningRow], heights: Sequence[float], scale: Span, color: str) -> Part:
    """Return simultaneous 95 % intervals of marks at these heights, as far as the scale goes; of length 0 where none
    is known."""
    up, down = [], []
    for row, height in zip(rows, heights, strict=True):
        first, last = interval_of(row) or (height, height)
        up.append(max(0.0, min(last, scale[1]) - height))
        down.append(max(0.0, height - max(first, scale[0])))
    return error_bars(up, down, color, thickness=4, width=0)


def _hover(tuning: Tuning, row: TuningRow) -> str:
    """“λ = 0.2, best: 4.3 % lower perplexity than GPTQ 1 % (95 %: 3.1 to 5.6 %, six draws, best of 5)”."""
    lead = f"λ = {lam_text(lam_of(row))}, {mark_words(row)}"
    return lead if row["better"] is None else f"{lead}: {Evidence.of_row(tuning, row).words}"


def _add_placeholder(figure: Figure, rows: Sequence[TuningRow]) -> None:
    """Announce coming marks."""
    if any(row["better"] is not None for row in rows):
        return
    place = {**PAPER, "x": 0.5, "xanchor": "center", "y": 0.6, "yanchor": "middle"}
    add_note(figure, _PLACEHOLDER, _GREY, narrow={"text": _PLACEHOLDER.replace(", ", ",<br>", 1)}, **place)


def _aria(tuning: Tuning, rows: Sequence[TuningRow]) -> str:
    """Return the drawing in words: each λ by its standing, and what it saves."""
    draws = f"; {draws_text(tuning['draws'])}" if tuning["draws"] else ""
    text = f"The search for λ of {METHODS[tuning['method']].title}: {mark_counts(tuning)}{draws}."
    groups: dict[str, list[str]] = {}
    for row in sorted(rows, key=lambda row: [*_MARKS][::-1].index(mark_of(row))):
        lam = lam_text(lam_of(row)) + (f" ({Evidence.of_row(tuning, row).words})" if row["better"] is not None else "")
        groups.setdefault(mark_words(row), []).append(lam)
    return text + "".join(f" {words[0].upper()}{words[1:]}: λ = {', '.join(lams)}." for words, lams in groups.items())


class LogLine(TypedDict):
    """A turning point in words."""

    seconds: float  # on the run's own clock
    text: str


class LegendEntry(TypedDict):
    """A mark of the figure and its meaning."""

    mark: Mark
    text: str


class TuningView(TypedDict):
    """The state of a tuning run, drawn and in words."""

    tuning: Tuning
    figure: Figure
    table: DataTable
    legend: list[LegendEntry]
    log: list[LogLine]
    standing: str  # how far it is
    sentence: list[Piece]
    small_print: list[str]


def tuning_view(tuning: Tuning, recipe: Mapping[str, Any]) -> TuningView:
    """``recipe``: of the tuning run, under its public names."""
    return {
        "tuning": tuning,
        "figure": race_figure(tuning),
        "table": tuning_table(tuning),
        "legend": tuning_legend(tuning),
        "log": tuning_log(tuning),
        "standing": progress_text(tuning),
        "sentence": tuning_sentence(tuning),
        "small_print": tuning_small_print(tuning, recipe),
    }


def tuning_log(tuning: Tuning) -> list[LogLine]:
    """Return turning points in words and in their order; none of former versions, whose documents have no turning
    points."""
    lams = [lam_of(row) for row in candidates(tuning)]
    turns = tuning.get("turns", [])
    lines = [LogLine(seconds=turn["seconds"], text=_turn_words(turn, tuning, lams)) for turn in turns]
    return [line for line in lines if line["text"]]


def tuning_legend(tuning: Tuning) -> list[LegendEntry]:
    """Return the marks that there are, the best first; of excluded ones also why."""
    rows = candidates(tuning)
    entries: list[tuple[Mark, str]] = [
        ("best", MARKS["best"]),
        ("as_good", MARKS["as_good"]),
        (
            "worse",
            "; ".join(
                f"{lam_text(lam_of(row))} clearly worse after draw {row['draws']}"
                for row in rows
                if row["standing"] == "worse"
            ),
        ),
        ("measured", MARKS["measured"]),
        ("not_reached", MARKS["not_reached"] if tuning["end"] else "not reached yet"),
        ("ruled_out", "ruled out by errors of layers, perplexity not measured"),
    ]
    present = {mark_of(row) for row in rows}
    return [LegendEntry(mark=mark, text=text) for mark, text in entries if mark in present]


def _turn_words(turn: TuningTurn, tuning: Tuning, lams: Sequence[float]) -> str:
    """Return one turning point; ``lams``: all λ, of which neighbours are named as spans."""

    out, left = (  # “0 to 0.02 and 2”: neighbours on the axis as a span
        spans_text([(lams[first], lams[last]) for first, last in spans(np.isin(lams, rows))])
        for rows in (turn["out"], turn["left"])
    )
    leading = "" if turn["leading"] is None else lam_text(turn["leading"])
    match turn["what"]:
        case "screening":
            return f"Screening: errors of layers at {len(lams)} λ"
        case "screened":
            return f"{out or 'No λ'} ruled out by errors of layers"
        case "draw" if turn["draws"] < 2:
            return f"Draw 1: {leading} lowest, nothing sure yet" if leading else "Draw 1 measured"
        case "draw":
            lead = "leads alone" if len(turn["left"]) < 2 else f"leads, {left} can’t be separated"
            return f"Draw {turn['draws']}: {leading} {lead}{f'; {out} clearly worse' if out else ''}"
        case _:
            return f"Stopped: {ENDS[tuning['end']]}" if tuning["end"] else "Stopped"
