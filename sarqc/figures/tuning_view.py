"""All that a page shows of a tuning run: the figure with its table, the sentence and the small print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from sarqc.documents import Tuning
from sarqc.figures.drawing import Figure
from sarqc.figures.sentence import Piece
from sarqc.figures.tuning import tuning_figure, tuning_table
from sarqc.figures.tuning_words import tuning_sentence, tuning_small_print
from sarqc.figures.view import DataTable
from sarqc.former_tuning import current_tuning


class TuningView(TypedDict):
    """Where tuning stands, and what is drawn and said of it."""

    tuning: Tuning
    figure: Figure
    table: DataTable
    sentence: list[Piece]
    small_print: list[str]


def tuning_view(document: Mapping[str, Any], recipe: Mapping[str, Any]) -> TuningView:
    """``document``: a ``Tuning`` of any version; ``recipe``: of the tuning run, under its public names."""
    tuning = current_tuning(document)
    return {
        "tuning": tuning,
        "figure": tuning_figure(tuning),
        "table": tuning_table(tuning),
        "sentence": tuning_sentence(tuning),
        "small_print": tuning_small_print(tuning, recipe),
    }
