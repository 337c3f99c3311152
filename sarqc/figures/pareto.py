"""Size against quality of many runs, and the frontier: the runs than which none is both smaller and better.

Perplexities of other models or other test texts can't be compared, so each model and text has a frontier of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypedDict

import numpy as np

from sarqc.errors import Refused
from sarqc.figures.drawing import (
    HOVER,
    PAPER,
    PLAIN_AXIS,
    Figure,
    add_note,
    new_figure,
    scatter,
    spread_labels,
)
from sarqc.figures.numbers import number, perplexity_text
from sarqc.figures.titles import constant_finding, set_finding

SERIES = 4  # colours that can be told apart
LABELLED = 4  # names at one size; more cover each other
SERIES_ROOM = 18  # pixels for the name of a series
CORNER = {**PAPER, "x": 0, "y": 1, "xshift": -50}  # above the axis' numbers

Size = Literal["bits", "mib"]
SIZES: dict[Size, str] = {"bits": "Bits per quantized weight, in full", "mib": "MiB of the whole model"}


@dataclass(frozen=True)
class ParetoRun:
    """A run's data for the figure. None: not known."""

    id: str
    name: str
    model: str
    test: str  # text and protocol of the perplexity; equal where perplexities can be compared
    bits: float | None  # per weight of the quantized linears, scales and zero points or biases included
    bytes: int | None  # of the model
    perplexity: float | None
    grid: str = ""  # in words, with its groups

    @property
    def mib(self) -> float | None:
        return None if self.bytes is None else self.bytes / 2**20


class _Label(NamedTuple):
    """The name and place of a run on a frontier."""

    x: float
    y: float
    name: str
    colour: str


class ParetoView(TypedDict):
    """The figure, and in words what is on it and what is not."""

    figure: Figure
    words: str


def frontier(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return indices of the points (size, quality; less is better in both) on the frontier, from the smallest on."""
    best, chosen = np.inf, []
    for at in sorted(range(len(points)), key=lambda at: points[at]):
        if points[at][1] < best:
            best = points[at][1]
            chosen.append(at)
    return chosen


def pareto_view(runs: Sequence[ParetoRun], size: Size = "bits") -> ParetoView:
    """Draw each run as a point, and a frontier for each model and text.

    Raises ``Refused`` where no run has both numbers, and where there are more models and texts than colours.
    """
    known = [run for run in runs if None not in (getattr(run, size), run.perplexity)]
    if not known:
        raise Refused(
            f"none of the {len(runs)} runs has both a size and a perplexity",
            "pareto",
            "Pick finished runs that name a test text; runs of an older sarqc did not keep their size.",
        )
    groups: dict[tuple[str, str], list[ParetoRun]] = {}
    for run in known:
        groups.setdefault((run.model, run.test), []).append(run)
    if len(groups) > SERIES:
        raise Refused(
            f"the runs are of {len(groups)} models and test texts, and {SERIES} frontiers can be distinguished",
            "pareto",
            "Filter by a model, a test text or a tag.",
        )
    named = len(groups) > 1
    room = SERIES_ROOM * len(groups) if named else 0  # above the figure, for the names of its series
    across = {**PLAIN_AXIS, "title": {"text": SIZES[size]}, "nticks": 8}
    margins = {"left": 58, "right": 24, "top": 28 + room, "bottom": 44}
    figure = new_figure(across, {**PLAIN_AXIS, "nticks": 6}, **margins, title="Size against quality")
    add_note(figure, "Perplexity, lower is better", **CORNER, yshift=6 + room)
    labels: list[_Label] = []
    for index, group in enumerate(groups.values()):
        labels += _draw(figure, group, index, size, named=named)
    best = len(labels)
    _write(figure, labels)
    words = _words(runs, known, groups, best)
    if size == "bits":
        words += " Bits in full are those of codes, scales, and zero points or biases."
    set_finding(figure, constant_finding(_finding(best, len(known), len(groups))))
    figure["aria"] = f"{SIZES[size]} against perplexity, {len(known)} runs. {words}"
    return {"figure": figure, "words": words}


def _finding(best: int, known: int, groups: int) -> str:
    """Count the runs that no other run beats in both."""
    if known < 2:
        return ""
    return f"{_frontier_words(number(best, 0), number(known, 0), groups)} of size and quality"


def _frontier_words(best: str, known: str, groups: int) -> str:
    return f"{best} of {known} runs {'is' if best == '1' else 'are'} on {'the' if groups == 1 else 'a'} frontier"


def _draw(figure: Figure, group: Sequence[ParetoRun], index: int, size: Size, *, named: bool) -> list[_Label]:
    """Draw the points and the frontier of one model and text; return labels of the runs on it."""
    xs = [float(getattr(run, size)) for run in group]
    ys = [float(run.perplexity or 0.0) for run in group]
    indices = frontier(list(zip(xs, ys, strict=True)))
    colour = f"var(--series-{index + 1})"
    style = {"color": colour, "width": 2, "shape": "hv"}
    series = f"{group[0].model}, {group[0].test}"
    best = {"x": [xs[at] for at in indices], "y": [ys[at] for at in indices]}
    figure["data"].append(scatter(f"frontier of {series}", "lines", hoverinfo="skip", line=style, **best))
    marker = {
        "size": 9,
        "symbol": ("circle", "square", "diamond", "cross")[index],
        "color": [colour if at in indices else "var(--surface)" for at in range(len(group))],
        "line": {"color": colour, "width": 1.5},
    }
    points = scatter(
        series,
        "markers",
        x=xs,
        y=ys,
        customdata=[run.id for run in group],
        text=[_hover(run) for run in group],
        hovertemplate=HOVER,
        marker=marker,
    )
    figure["data"].append(points)
    ink = f"var(--series-{index + 1}-ink)"
    if named:
        add_note(figure, f"{'●■◆✚'[index]} {series}", ink, **CORNER, yshift=6 + SERIES_ROOM * index)
    return [_Label(xs[at], ys[at], group[at].name, ink) for at in indices]


def _write(figure: Figure, labels: Sequence[_Label]) -> None:
    """Add names beside points; those above each other are moved apart."""
    heights = [y for trace in figure["data"] for y in trace["y"]]
    gap = 0.055 * (max(heights) - min(heights))
    for x in dict.fromkeys(label.x for label in labels):
        column = [label for label in labels if label.x == x][:LABELLED]
        for label, y in zip(column, spread_labels([label.y for label in column], gap), strict=True):
            add_note(figure, label.name, label.colour, x=x, y=y, xref="x", yref="y", xshift=8, yshift=2)


def _hover(run: ParetoRun) -> str:
    size = [] if run.bits is None else [f"{number(run.bits, 2)} bits per weight"]
    size += [] if run.mib is None else [f"{number(run.mib, 1)} MiB"]
    lines = [f"<b>{run.name}</b>", run.model, *filter(None, [run.grid]), ", ".join(size)]
    if run.perplexity is not None:
        lines.append(f"perplexity {perplexity_text(run.perplexity)}")
    return "<br>".join(lines)


def _words(
    runs: Sequence[ParetoRun], known: Sequence[ParetoRun], groups: dict[tuple[str, str], list[ParetoRun]], best: int
) -> str:
    lead = _frontier_words(str(best), str(len(known)), len(groups))
    words = [f"{lead}: no other is both smaller and better."]
    if len(groups) > 1:
        words.append("Models and test texts have frontiers of their own: their perplexities can’t be compared.")
    if left := len(runs) - len(known):
        words.append(f"{left} {'is' if left == 1 else 'are'} not drawn: no size or no perplexity is known.")
    return " ".join(words)
