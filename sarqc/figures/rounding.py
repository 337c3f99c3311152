"""Learned rounding step by step: held-out error, calibration error and drift of blocks, each relative to its start.

A faint line is the held-out error of one block, with a mark at the step that was kept. The other lines are means over
blocks, as far as every block was checked.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypedDict

import numpy as np

from sarqc.figures.drawing import (
    DRIFT,
    HELD_OUT,
    HOVER,
    PERCENT,
    PLAIN_AXIS,
    RECON,
    Figure,
    Role,
    add_note,
    ink_of,
    line_of,
    line_shape,
    marker_of,
    new_figure,
    plain_numbers,
    scatter,
    spread_labels,
    value_axis,
)
from sarqc.figures.numbers import DataTable, Headings, data_table, number, percent
from sarqc.figures.titles import constant_finding, fit_text, set_finding
from sarqc.study.facts import LineFacts
from sarqc.study.rounding import BlockRounding, RoundingCurves, blocks_of

# Of each mean: the name in ``RoundingCurves``, on the figure, on a narrow one, and how it is drawn.
_MEANS: tuple[tuple[str, str, str, Role], ...] = (
    ("held_out", "held-out error", "held-out", HELD_OUT),
    ("error", "calibration error", "calibration", RECON),
    ("drift", "drift", "drift", DRIFT),
)
HEADINGS: Headings = (
    ("block", "Block", "plain"),
    ("steps", "Steps of learned rounding", "plain"),
    ("block_error", "Mean squared error of the block’s outputs, calibration text", "significant"),
    ("block_held_out", "Mean squared error of the block’s outputs, held-out text", "significant"),
    ("block_drift", "Weight drift of the block", "significant"),
    ("kept", "Kept", "flag"),
)
_APART = 0.07  # least distance of two names, in the height of the figure
TITLE = "Learned rounding, step by step"


def rounding(facts: LineFacts) -> Figure | None:
    """Return the figure of a study's run; None where no learned rounding was checked at its steps."""
    curves = curves_of(facts)
    return None if curves is None else rounding_figure(curves)


def curves_of(facts: LineFacts) -> RoundingCurves | None:
    """Return the curves of a study's run; None as for ``rounding``."""
    study = facts.study
    blocks = {layer.name: layer.block for layer in study.layers}
    return RoundingCurves.of(blocks_of((blocks[name], report) for name, report in study.layer_reports.items()))


def rows_of(facts: LineFacts) -> Iterator[dict[str, Any]]:
    """Yield the checks of a study's run with the measured numbers; none as for ``rounding``."""
    curves = curves_of(facts)
    return iter(()) if curves is None else _rows(curves)


def _rows(curves: RoundingCurves) -> Iterator[dict[str, Any]]:
    for block in curves.blocks:
        for check in block.checks:
            yield {
                "block": block.block,
                "steps": check["step"],
                "block_error": check["error"],
                "block_held_out": check["held_out_error"],
                "block_drift": check["drift"],
                "kept": check["step"] == block.kept_step,
            }


def rounding_figure(curves: RoundingCurves) -> Figure:
    """Return errors and drift over the steps, all as shares of those of the start.

    Args:
        curves: The blocks that have been checked.
    """
    low, high = _span(curves)
    figure = new_figure(
        {**PLAIN_AXIS, "range": [0, curves.most], "nticks": 6, "title": {"text": "Steps", "standoff": 4}},
        {**value_axis((0.0, 1.0), (low, high)), "tickformat": PERCENT},
        left=50,
        right=116,
        top=14,
        bottom=38,
        narrow={"layout.margin.r": 78, "layout.margin.l": 44},
        title=TITLE,
        subtitle=", start = 100 %",
    )
    figure["data"] += [*_block_traces(curves), *(_mean(curves, *words) for words in _MEANS)]
    figure["layout"]["shapes"].append(line_shape((0, curves.most), [1], "var(--line)", xref="x", yref="y"))
    ends = [float(curves.mean(name)[-1]) for name, *_ in _MEANS]
    heights = spread_labels(ends, _APART * (high - low), low, high)
    for (_, long, short, style), height in zip(_MEANS, heights, strict=True):
        place = {"xref": "paper", "yref": "y", "x": 1, "y": height, "yanchor": "middle", "xshift": 6}
        add_note(figure, long, ink_of(style), narrow={"text": short}, **place)
    set_finding(figure, constant_finding(_finding(curves)))
    figure["aria"] = _aria(curves)
    return figure


def _span(curves: RoundingCurves) -> tuple[float, float]:
    """Return all means and, of single blocks, all but the outermost."""
    means = np.concatenate([curves.mean(name) for name, *_ in _MEANS])
    blocks = curves.held_out[np.isfinite(curves.held_out)]
    low = min(means.min(), float(np.percentile(blocks, 2)))
    high = max(means.max(), float(np.percentile(blocks, 98)))
    pad = 0.06 * max(high - low, 0.01)
    return low - pad, high + pad


def _block_traces(curves: RoundingCurves) -> list[dict[str, Any]]:
    """Return the held-out error of each block, and a mark where it was kept."""
    steps, marked = curves.steps.tolist(), []
    traces: list[dict[str, Any]] = []
    for block, values in zip(curves.blocks, curves.held_out, strict=True):
        count = len(block.checks)
        shares = values[:count].tolist()
        marked.append((block, shares[steps.index(block.kept_step)]))
        line = {"color": "var(--held-out-faint)", "width": 1}
        x, y = steps[:count], plain_numbers(shares)
        traces.append(scatter(f"block {block.block}", "lines", x=x, y=y, hoverinfo="skip", line=line))
    texts = [
        f"Block {block.block} keeps step {number(block.kept_step, 0)}: held-out error {percent(value, 1)} of its start"
        for block, value in marked
    ]
    edge = {"color": HELD_OUT["color"], "width": 1}
    marks = scatter(
        "kept",
        "markers",
        x=[block.kept_step for block, _ in marked],
        y=plain_numbers([value for _, value in marked]),
        cliponaxis=False,
        text=texts,
        hovertemplate=HOVER,
        marker={"symbol": "diamond", "size": 8, "color": "var(--held-out-faint)", "line": edge},
    )
    return [*traces, marks]


def _mean(curves: RoundingCurves, name: str, long: str, _short: str, style: Role) -> dict[str, Any]:
    values, steps = curves.mean(name), curves.steps[: curves.shared].tolist()
    texts = [
        f"Step {number(step, 0)}: {long} {percent(value, 1)} of the start"
        for step, value in zip(steps, values.tolist(), strict=True)
    ]
    return scatter(
        long,
        "lines+markers",
        x=steps,
        y=plain_numbers(values),
        line=line_of(style),
        marker=marker_of(style, 6),
        cliponaxis=False,
        text=texts,
        hovertemplate=HOVER,
    )


def _finding(curves: RoundingCurves) -> str:
    words = curves.words().removesuffix(".")
    return fit_text(words, words.partition(";")[0])


def _aria(curves: RoundingCurves) -> str:
    ends = [f"{long} {percent(float(curves.mean(name)[-1]), 1)} of the start" for name, long, _, _ in _MEANS]
    count = len(curves.blocks)
    blocks = "one block" if count == 1 else f"{number(count, 0)} blocks"
    steps = number(int(curves.steps[curves.shared - 1]), 0)
    return f"{curves.words()} Mean of {blocks} after {steps} steps: {', '.join(ends)}."


class RoundingView(TypedDict):
    """The steps of the blocks that are done: drawn, as numbers and in words."""

    figure: Figure
    table: DataTable
    words: list[str]


def rounding_view(events: Iterable[Mapping[str, Any]]) -> RoundingView | None:
    """Return everything that a page shows of the blocks; None without any.

    Args:
        events: ``BlockRounded`` as plain data, in their order; the last one of a block counts.
    """
    blocks = {event["block"]: BlockRounding(event["block"], event["kept"], tuple(event["checks"])) for event in events}
    curves = RoundingCurves.of([*blocks.values()])
    if curves is None:
        return None
    return {
        "figure": rounding_figure(curves),
        "table": data_table(HEADINGS, [*_rows(curves)]),
        "words": [curves.words(), curves.kept_steps_text()],
    }
