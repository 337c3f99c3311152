"""Everything a page shows of a tuning run: its figures and table, its words, its log, and the legend of its figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np

from sarqc.documents import Tuning, TuningTurn
from sarqc.figures.drawing import Figure
from sarqc.figures.numbers import lam_text
from sarqc.figures.sentence import Piece
from sarqc.figures.tuning import STANDINGS, candidates, lam_of, spans_text, tuning_table
from sarqc.figures.tuning_layers import layers_figure
from sarqc.figures.tuning_race import MEASURED, Mark, mark_of, race_figure
from sarqc.figures.tuning_words import ENDS, tuning_sentence, tuning_small_print
from sarqc.figures.view import DataTable
from sarqc.study.paired import spans


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
    figure: Figure  # the race of λ
    layers: Figure  # errors of layers
    table: DataTable
    legend: list[LegendEntry]
    log: list[LogLine]
    sentence: list[Piece]
    small_print: list[str]


def tuning_view(tuning: Tuning, recipe: Mapping[str, Any]) -> TuningView:
    """``recipe``: of the tuning run, under its public names."""
    return {
        "tuning": tuning,
        "figure": race_figure(tuning),
        "layers": layers_figure(tuning),
        "table": tuning_table(tuning),
        "legend": tuning_legend(tuning),
        "log": tuning_log(tuning),
        "sentence": tuning_sentence(tuning),
        "small_print": tuning_small_print(tuning, recipe),
    }


def tuning_log(tuning: Tuning) -> list[LogLine]:
    """In their order; none of former versions, whose documents have no turning points."""
    lams = [lam_of(row) for row in candidates(tuning)]
    turns = tuning.get("turns", [])
    lines = [LogLine(seconds=turn["seconds"], text=_turn_words(turn, tuning, lams)) for turn in turns]
    return [line for line in lines if line["text"]]


def tuning_legend(tuning: Tuning) -> list[LegendEntry]:
    """The marks that there are, the best first; at those that are out also why."""
    rows = candidates(tuning)
    every: list[tuple[Mark, str]] = [
        ("best", STANDINGS["best"]),
        ("as_good", STANDINGS["as_good"]),
        (
            "worse",
            "; ".join(
                f"{lam_text(lam_of(row))} clearly worse after draw {row['draws']}"
                for row in rows
                if row["standing"] == "worse"
            ),
        ),
        ("measured", MEASURED),
        ("not_reached", STANDINGS["not_reached"] if tuning["end"] else "not reached yet"),
        ("ruled_out", "ruled out by errors of layers, perplexity not measured"),
    ]
    there = {mark_of(row) for row in rows}
    return [LegendEntry(mark=mark, text=text) for mark, text in every if mark in there]


def _turn_words(turn: TuningTurn, tuning: Tuning, lams: Sequence[float]) -> str:
    """One turning point; ``lams``: all λ, of which neighbours are named as spans."""

    out, left = (  # “0 to 0.02 and 2”: neighbours on the axis as a span
        spans_text([(lams[first], lams[last]) for first, last in spans(np.isin(lams, some))])
        for some in (turn["out"], turn["left"])
    )
    leading = "" if turn["leading"] is None else lam_text(turn["leading"])
    match turn["what"]:
        case "screening":
            return f"Screening: errors of layers at {len(lams)} λ"
        case "screened":
            return f"{out or 'No λ'} ruled out by errors of layers"
        case "draw" if turn["draws"] < 2:
            return f"Draw 1: {leading} ahead, nothing sure yet" if leading else "Draw 1 measured"
        case "draw":
            lead = "leads alone" if len(turn["left"]) < 2 else f"leads, {left} can’t be separated"
            return f"Draw {turn['draws']}: {leading} {lead}{f'; {out} clearly worse' if out else ''}"
        case "tasks":
            names = " and ".join(tuning["tasks"]["names"]) if tuning["tasks"] else "tasks"
            return f"Asking {names} of {left}" if left else f"Asking {names}"
        case "end":
            return f"Ended {ENDS[tuning['end']]}" if tuning["end"] else "Ended"
