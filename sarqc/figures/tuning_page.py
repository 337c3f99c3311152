"""Everything a page shows of a tuning run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from sarqc.documents import Tuning
from sarqc.figures.drawing import Figure
from sarqc.figures.sentence import Piece
from sarqc.figures.tuning import tuning_table
from sarqc.figures.tuning_layers import layers_figure
from sarqc.figures.tuning_log import LegendEntry, LogLine, tuning_legend, tuning_log
from sarqc.figures.tuning_race import race_figure
from sarqc.figures.tuning_words import tuning_sentence, tuning_small_print
from sarqc.figures.view import DataTable


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
