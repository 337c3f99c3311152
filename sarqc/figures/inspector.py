"""One group of weights, weight by weight: its float values, the grid's levels, and those taken at the shown λ.

Axes in comments: G γ values, M λ values, C weights of the group, B levels.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from sarqc.figures.drawing import (
    PAPER,
    PLAIN_AXIS,
    Figure,
    Span,
    add_note,
    add_trace,
    bind_fields,
    honest_range,
    new_figure,
    scatter,
)
from sarqc.figures.layer_map import layer_label
from sarqc.figures.numbers import At, number, point_names
from sarqc.figures.titles import bind_aria, map_points
from sarqc.study.facts import LineFacts, once

MOST_LEVELS = 32  # more are too close to be told apart
NARROW_CHANNELS = 32  # shown where there is little room
TIE = 1e-3  # of a step: a weight so near the middle of two levels is at its nearest either way


@dataclass(frozen=True)
class WeightGroup:
    """The inspected group of one layer, read from its study."""

    row: int
    first: int  # input channel of the first weight
    weight: np.ndarray  # C
    levels: np.ndarray  # G M B C, or G M B 1 where all channels have the same
    taken: np.ndarray  # G M C, Ŵ
    off_nearest: np.ndarray  # G M C, True where another level lies nearer to the weight


@once
def read_group(facts: LineFacts, layer: int) -> WeightGroup | None:
    """Return the group of a layer; None where the study holds none."""
    names = ("group_place", "group_weight", "group_codes", "group_zero", "group_step")
    arrays = [facts.read(name, layer) for name in names]
    if any(array is None for array in arrays):
        return None
    place, weight, codes, zero, step = (array for array in arrays if array is not None)
    count = int(np.isfinite(weight).sum())
    weight, codes, step, zero = weight[:count], codes[..., :count], step[..., :count], zero[..., None]
    last = 2**facts.line.bits - 1
    exact = weight / step + zero  # G M C, as a number of a level
    nearest = np.clip(np.rint(exact), 0, last)
    levels = (np.arange(last + 1)[:, None] - zero[..., None]) * step[..., None, :]
    off_nearest = np.abs(codes - exact) > np.abs(nearest - exact) + TIE
    return WeightGroup(int(place[0]), int(place[1]), weight, levels, (codes - zero) * step, off_nearest)


def inspector(facts: LineFacts, layer: int) -> Figure | None:
    """Return float weights as rings on the grid's levels, and an arrow from each to the level that it takes.

    An arrow that does not end at the nearest level stands out: that weight makes up for errors of others.
    """
    group = read_group(facts, layer)
    if group is None:
        return None
    channels = range(group.first, group.first + len(group.weight))
    ends = (channels[0] - 1, channels[-1] + 1)
    has_levels = group.levels.shape[-2] <= MOST_LEVELS
    low, high = _heights(group, has_levels=has_levels)
    digits = max(0, 3 - math.floor(math.log10((high - low) or 1.0)))
    info, axis = facts.study.layers[layer], {**PLAIN_AXIS, "showgrid": False}
    title = {"text": "input channel", "standoff": 6, "font": {"size": 12}}
    figure = new_figure(
        {**axis, "range": list(ends), "nticks": 9, "title": title},
        {**axis, "range": [low, high], "nticks": 5},
        left=56,
        right=16,
        top=30,
        bottom=38,
        title=f"Weight by weight: {layer_label(info)}, output {group.row}, inputs {channels[0]} to {channels[-1]}",
    )
    if has_levels:
        _add_levels(figure, group, ends, digits)
    for off_nearest, color in ((False, "var(--ink-3)"), (True, "var(--recon)")):
        _add_arrows(figure, group, group.off_nearest == off_nearest, 0.03 * (high - low), digits, color)
    _add_weights(figure, group, channels, digits)
    _add_words(figure, facts, group, info.name)
    figure["narrow"] = {"layout.annotations.1.visible": False}
    if len(channels) > NARROW_CHANNELS:
        figure["narrow"] |= {
            "layout.xaxis.range": [ends[0], channels[NARROW_CHANNELS - 1] + 0.7],
            "layout.xaxis.title.text": f"input channel, the first {NARROW_CHANNELS} of {len(channels)}",
        }
    return figure


def _heights(group: WeightGroup, *, has_levels: bool) -> Span:
    """Return the range of the picture: all weights, levels and taken levels, but those of the smallest λ only where
    they do not flatten the others."""
    first = 1 if group.taken.shape[1] > 1 else 0
    parts = [group.taken, *([group.levels] if has_levels else [])]
    inner = np.concatenate([group.weight, *(part[:, first:].ravel() for part in parts)])
    outer = np.concatenate([part[:, :first].ravel() for part in parts])
    return honest_range(inner, outer, pad=0.04)


def _add_path(figure: Figure, paths: list[list[str]], color: str, width: float) -> None:
    """Add one drawing below the weights, which γ and λ change as a whole: quicker than a trace with gaps."""
    at = len(figure["layout"]["shapes"])
    figure["layout"]["shapes"].append(
        {"type": "path", "path": "", "layer": "below", "fillcolor": color, "line": {"color": color, "width": width}}
    )
    bind_fields(figure, f"layout.shapes.{at}", {"path": paths})


def _add_levels(figure: Figure, group: WeightGroup, ends: tuple[int, int], digits: int) -> None:
    """Add lines through the whole group, or a mark for each channel where each has levels of its own."""

    def path(levels: np.ndarray) -> str:  # B C
        if levels.shape[-1] == 1:
            return "".join(f"M{ends[0]},{y:.{digits}f}L{ends[1]},{y:.{digits}f}" for y in levels[:, 0].tolist())
        return "".join(
            f"M{group.first + k - 0.4:.1f},{y:.{digits}f}L{group.first + k + 0.4:.1f},{y:.{digits}f}"
            for level in levels.tolist()
            for k, y in enumerate(level)
        )

    _add_path(figure, [[path(point) for point in row] for row in group.levels], "var(--line-2)", 1)


def _add_arrows(figure: Figure, group: WeightGroup, chosen: np.ndarray, head: float, digits: int, color: str) -> None:
    """Add an arrow from each weight that ``chosen`` (G M C) marks to the level that it takes; ``head`` is its
    height."""

    starts = group.weight.tolist()
    shafts = [f"M{x},{start:.{digits}f}L{x}," for x, start in enumerate(starts, group.first)]
    sides = [(f"M{x - 0.3:.1f},", f"L{x},", f"L{x + 0.3:.1f},") for x in range(group.first, group.first + len(starts))]

    def arrow(k: int, end: float) -> str:
        way = end - starts[k]
        tip, back = f"{end:.{digits}f}", f"{end - math.copysign(min(head, abs(way)), way):.{digits}f}"
        left, middle, right = sides[k]
        return f"{shafts[k]}{tip}{left}{back}{middle}{tip}{right}{back}Z"

    def path(taken: np.ndarray, marks: np.ndarray) -> str:  # C
        at = np.flatnonzero(marks)
        return "".join(map(arrow, at.tolist(), taken[at].tolist()))

    paths = [[path(*point) for point in zip(*row, strict=True)] for row in zip(group.taken, chosen, strict=True)]
    _add_path(figure, paths, color, 1.5)


def _add_weights(figure: Figure, group: WeightGroup, channels: range, digits: int) -> None:
    """Add the float weights, and the level that each takes as text for the pointer."""
    edge = {"color": "var(--ink)", "width": 1.25}
    trace = scatter(
        "float weights",
        "markers",
        x=[*channels],
        y=np.round(group.weight, digits).tolist(),
        text=[],
        marker={"symbol": "circle", "size": 5, "color": "var(--surface)", "line": edge},
        hovertemplate="input %{x}: float weight %{y}<br>takes %{text}<extra></extra>",
        meta={"row": group.row, "first": group.first, "count": len(group.weight)},  # where the group is
    )
    name = cache(lambda level: number(level, digits))  # few levels, taken by many weights
    taken = np.vectorize(lambda level, far: f"{name(level)}{', not the nearest' if far else ''}", otypes=[object])
    add_trace(figure, trace, {"text": taken(group.taken, group.off_nearest)})


def _add_words(figure: Figure, facts: LineFacts, group: WeightGroup, name: str) -> None:
    """Write how many weights are not at their nearest level, above the drawing and for screen readers."""
    points, count = point_names(facts.line), len(group.weight)
    counts = group.off_nearest.sum(axis=-1)  # G M

    def text(at: At) -> str:
        lead = f'{points[at[1]]}: <span style="color:var(--recon-ink)">{counts[at]} of {count}</span>'
        return f"{lead} not at the nearest level"

    def aria(at: At) -> str:
        return (
            f"One group of {count} weights of {name} at {points[at[1]]} and the levels of its grid: {counts[at]} of "
            "them do not take the nearest level."
        )

    path = add_note(figure, "", "var(--ink)", **PAPER, x=0, y=1, yshift=6)
    key = "○ float weight, arrow: to the level it takes; lines: levels"
    add_note(figure, key, "var(--ink-2)", **PAPER, x=1, y=1, yshift=6, xanchor="right")
    bind_fields(figure, path, {"text": map_points(facts, text)})
    bind_aria(figure, facts, aria)
