"""Checked steps of learned rounding as the page of a run shows them, as far as blocks are done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

from sarqc.figures.drawing import Figure
from sarqc.figures.rounding import rounding_figure, rounding_rows
from sarqc.figures.tables import HEADINGS
from sarqc.figures.view import DataTable, columns_of
from sarqc.plain import plain
from sarqc.study.rounding import BlockRounding, RoundingCurves

_COLUMNS = ("block", "steps", "block_error", "block_held_out", "block_drift", "kept")


class RoundingView(TypedDict):
    """The steps of the blocks that are done: drawn, as numbers and in words."""

    figure: Figure
    table: DataTable
    words: list[str]


def rounding_view(said: Iterable[Mapping[str, Any]]) -> RoundingView | None:
    """Return everything that a page shows of the blocks; None without any.

    Args:
        said: Events ``BlockRounded`` as plain data, in their order; the last one of a block counts.
    """
    blocks = {one["block"]: BlockRounding(one["block"], one["kept"], tuple(one["checks"])) for one in said}
    curves = RoundingCurves.of([*blocks.values()])
    if curves is None:
        return None
    rows = [{key: plain(value) for key, value in row.items()} for row in rounding_rows(curves)]
    return {
        "figure": rounding_figure(curves),
        "table": {"columns": columns_of(HEADINGS, _COLUMNS), "rows": rows},
        "words": [curves.words(), curves.kept_words()],
    }
