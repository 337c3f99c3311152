"""Stacked panels over one ordinal λ axis: how the Lab's main figure and the comparison of studies are drawn.

A panel holds curves of one quantity; all panels share the axis, the marker of the shown λ and the sweet-spot band.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from sarqc.figures.drawing import (
    PAPER,
    REFERENCE,
    Figure,
    Part,
    Role,
    Span,
    add_note,
    add_ring,
    add_trace,
    bar_lengths,
    base_layout,
    bind_fields,
    box_shape,
    clamp,
    edge_trace,
    error_bars,
    format_values,
    honest_range,
    ink_of,
    lam_axis,
    line_trace,
    scatter,
    spread_labels,
    step_decimals,
    value_axis,
    whiskers,
)
from sarqc.figures.numbers import NBSP, Format, difference_decimals, number
from sarqc.study.intervals import span_text

WORDS_ROOM = 0.09  # of a panel's range, beside the usual air, for words at its edge
BREAK_ROOM = 0.16  # the same for the float model's line beyond a break of the axis
VALUE_SIZE = 26  # of the value at the shown point
VALUE_REACH = 2  # points of the axis beside which it stands
USUAL_STEPS = 9  # between points of a line
VALUE_HEIGHT = 0.12  # of the span
NARROW_ROOM = 0.24  # the same on a narrow screen, where panels are low
FEW_LAMS = 3  # up to which names at the lines' ends reach to where words at the right edge begin
AXIS = "axis"  # the name of the axis’ sign, before the names of its ticks
BAND = "band"  # the name of its shapes and words, by which the page finds what a link hides
LABEL_GAP, LONE_LABEL_GAP = 0.2, 0.065  # least distance of two labels at the lines' ends, as a share of their panel


@dataclass(frozen=True)
class Curve:
    """One line of a panel. ``values`` and the ends of their 95 % intervals are (γ, λ), NaN where nothing was
    measured."""

    name: str
    style: Role
    values: np.ndarray
    ends: tuple[np.ndarray, np.ndarray] | None = None
    label: str = ""  # written at the line's end
    faint: bool = False  # a comparison in the background: thin, with small hollow marks, no ring
    short: str = ""  # its name on a narrow screen, where it stands in the title instead of at the line's end
    level: bool = False  # one value over the whole axis, which has no place on it: a line without marks

    @property
    def ink(self) -> str:
        """Colour of words about it."""
        return "var(--ink-2)" if self.faint else ink_of(self.style)


@dataclass(frozen=True)
class Panel:
    """One quantity: its title, how its values are written, its curves and its share of the height."""

    title: str
    show: Format
    curves: tuple[Curve, ...]
    weight: float
    short: str = ""  # the title on a narrow screen
    reference: float | None = None  # the float model's value, drawn as a thin line
    ticks: str = ""  # how plotly writes them
    pinned: tuple[float, ...] = field(default=())  # values that must be inside the range
    points: tuple[tuple[str, float, float], ...] = field(default=())  # named single points (label, λ, value)
    alone: bool = False  # the only panel of its figure, whose title the card has: a single value stands at its point

    @property
    def has_value_at_point(self) -> bool:
        """True where the shown value stands beside its point, in large type."""
        return self.alone and sum(not curve.faint for curve in self.curves) == 1


def stack(lams: Sequence[float], names: Sequence[str], panels: Sequence[Panel], *, ring: bool) -> Figure:
    """Stack panels one above the other over one axis of λ with these names. With ``ring`` the shown λ is marked in
    each."""
    names = list(names)
    is_alone = len(panels) == 1 and panels[0].has_value_at_point
    layout = base_layout(left=50, right=104, top=8 if is_alone else 22, bottom=30)
    layout |= {"xaxis": lam_axis(names), "hovermode": "x unified", "hoversubplots": "axis"}
    figure: Figure = {"data": [], "layout": layout, "bindings": [], "narrow": {}, "narrow_bindings": []}
    figure["narrow"] |= {"layout.margin.r": 16} if ring else {"layout.margin.r": 32}
    total, gap, top = sum(panel.weight for panel in panels), 0.085, 1.0
    room = 1.0 - gap * (len(panels) - 1)
    for index, panel in enumerate(panels):
        bottom = max(0.0, top - room * panel.weight / total)
        axis = f"y{index + 1}" if index else "y"
        _PanelDrawing(figure, panel, axis, lams, names, ring, _panel_range(panel, lams)).add(top, bottom)
        top = bottom - gap
    layout["xaxis"]["anchor"] = "y" if len(panels) == 1 else f"y{len(panels)}"
    if len(names) > 1:
        near = {"xshift": -10}  # where ticks begin on a narrow screen
        add_note(figure, "λ", narrow=near, **PAPER, x=0, y=0, yanchor="top", name=AXIS)
    return figure


def band_shape(first: float, last: float) -> Part:
    """Return the sweet spot behind all panels, from one place on the λ axis to another."""
    place = {"name": BAND, "xref": "x", "yref": "paper", "layer": "below"}
    return box_shape((first, last), (0, 1), {"width": 0}, **place, fillcolor="var(--band)")


@dataclass(frozen=True)
class _PanelDrawing:
    """A panel in its figure, over the λ that all panels share; with ``ring`` the shown λ is marked."""

    figure: Figure
    panel: Panel
    axis: str  # plotly's name
    lams: Sequence[float]
    names: list[str]
    ring: bool
    span: Span  # of the values

    @property
    def room(self) -> float:
        """Length of the span."""
        return self.span[1] - self.span[0]

    def add(self, top: float, bottom: float) -> None:
        """Draw everything, from one height of the figure to another."""
        panel, figure, names, ring = self.panel, self.figure, self.names, self.ring
        values = value_axis((bottom, top), self.span, ticks=5 if panel.weight > 1.2 else 4)
        figure["layout"]["yaxis" + self.axis[1:]] = values
        if panel.ticks:
            values["tickformat"] = panel.ticks
        # The side on which the axis of a lone panel is broken, so that the float model has its line.
        beyond: Literal[-1, 0, 1] = 0
        if panel.alone and panel.reference is not None and not self.span[0] <= panel.reference <= self.span[1]:
            beyond = -1 if panel.reference < self.span[0] else 1
        if beyond:
            _break_axis(values, self.span, beyond)
        if ring:  # a trace and not a shape, so that it lies above the grid and below the curves
            line = {"color": "var(--ink)", "width": 1.5}
            marker = scatter("marker", "lines", y=list(values["range"]), yaxis=self.axis, hoverinfo="skip", line=line)
            add_trace(figure, marker, {"x": [[name, name] for name in names]}, "lambda")
        # Faint curves first, so that what is compared lies behind what is shown.
        curves = sorted(panel.curves, key=lambda curve: not curve.faint)
        for curve in curves:
            self._add_curve(curve)
        self._add_points()
        for curve in panel.curves:
            if ring and not curve.faint:
                add_ring(figure, curve.style, self.axis, names, clamp(curve.values, self.span)[0])
        self._add_off_scale()
        ends = [(curve, clamp(curve.values, self.span)[0]) for curve in curves if curve.label]
        if beyond:
            self._add_beyond_break(beyond)
        elif panel.reference is not None:
            at_end = bool(ends) and ring and len(names) > FEW_LAMS and self.span[0] <= panel.reference <= self.span[1]
            if at_end:  # among the names at the lines' ends, which keep apart from each other
                along, text = np.full((len(ends[0][1]), 1), panel.reference), f"float {panel.show(panel.reference)}"
                ends.append((Curve("float model", panel.curves[0].style, along, label=text, faint=True), along))
            self._add_reference(panel.reference, at_end=at_end)
        if ring and panel.has_value_at_point:
            self._add_value()
        else:
            self._add_title(top)
        if ends:
            self._add_end_labels(ends)

    def _add_curve(self, curve: Curve) -> None:
        panel = self.panel
        drawn, side = clamp(curve.values, self.span)
        trace = line_trace(curve.name, curve.style, self.names, self.axis, width=3 if panel.alone else 2)
        if curve.faint:
            hollow = {**trace["marker"], "symbol": f"{curve.style['symbol']}-open", "size": 5}
            trace |= {"line": {**trace["line"], "width": 1.5}, "marker": hollow}
            if not curve.label:  # it would hide the curves behind a list of names
                trace["hoverinfo"] = "skip"
        if curve.level:
            trace |= {"mode": "lines"}
            if len(self.names) == 1:  # a line over one place has no length
                dash = {"symbol": "line-ew-open", "size": 14, "line": {"width": 2, "color": curve.style["color"]}}
                trace |= {"mode": "markers", "marker": {**trace["marker"], **dash}}
        bound: Part = {}
        if curve.ends is not None and np.isfinite(curve.ends[0]).any():
            trace["error_y"] = error_bars([], [], curve.style["color"])
            down, up = bar_lengths(curve.values, curve.ends, self.room)
            for part, lengths in (("arrayminus", down), ("array", up)):
                bound[f"error_y.{part}"] = np.where(side == 0, lengths, 0.0)
        texts = [[_hover(curve, panel.show, row, i) for i in range(len(self.names))] for row in range(len(drawn))]
        add_trace(self.figure, trace, {**bound, "y": drawn, "text": texts}, "gamma")

    def _add_points(self) -> None:
        """Add named single points. The first, the baseline, has its name beside it: it belongs to that λ alone, and
        not to the λ of the shown curve."""
        panel, span = self.panel, self.span
        for place, (label, lam, value) in enumerate(panel.points):
            at = next((at for at, tick in enumerate(self.lams) if abs(tick - lam) < 1e-9), None)
            if at is None:
                continue
            edge = {"width": 2, "color": "var(--ink-2)"}
            marker = {"symbol": "diamond-open", "size": 10, "color": "var(--ink-2)", "line": edge}
            self.figure["data"].append(
                scatter(
                    label,
                    "markers",
                    x=[self.names[at]],
                    y=[float(clamp(np.array(value), span)[0])],
                    yaxis=self.axis,
                    text=[panel.show(value)],
                    hovertemplate="%{text}",
                    cliponaxis=False,
                    marker=marker,
                )
            )
            if place == 0 and span[0] <= value <= span[1]:
                # It reaches to the next λ, on the side that the curves leave free.
                nearby = np.concatenate([curve.values[:, at : at + 2].ravel() for curve in panel.curves])
                above = np.nanmax(nearby, initial=value) - value <= value - np.nanmin(nearby, initial=value)
                side = {"yshift": 3, "yanchor": "bottom"} if above else {"yshift": -3, "yanchor": "top"}
                note = {"xref": "x", "yref": self.axis, "x": at, "y": value, "xshift": 8, **side}
                add_note(self.figure, label, "var(--ink-2)", **note)

    def _add_beyond_break(self, side: Literal[-1, 1]) -> None:
        """Add the float model as a line beyond the break of the axis."""
        assert self.panel.reference is not None
        edge, room = self.span[0] if side < 0 else self.span[1], BREAK_ROOM * self.room
        height, place = edge + side * 0.75 * room, {"xref": "paper", "yref": self.axis, "xanchor": "right"}
        across = {"xref": "paper", "yref": self.axis, "x0": 0, "x1": 1, "y0": height, "y1": height}
        self.figure["layout"]["shapes"].append({"type": "line", "line": REFERENCE, **across})
        text = f"float model {self.panel.show(self.panel.reference)}"
        add_note(self.figure, text, "var(--ink-2)", **place, x=1, y=height)
        middle = {"y": edge + side * 0.25 * room, "yanchor": "middle", "size": 16}
        add_note(self.figure, "≈", "var(--ink-2)", **place, x=0, xshift=-12, **middle)

    def _add_value(self) -> None:
        """Add the shown value in large type beside its point, on the side that has more room, above the curves
        there."""
        (curve,) = (curve for curve in self.panel.curves if not curve.faint)
        heights, is_left = _room_for_value(self.panel, self.span)
        place = {"xref": "x", "yref": self.axis, "x": 0, "y": 0, "yshift": 8, "xshift": 12}
        path = add_note(self.figure, "", ink_of(curve.style), size=VALUE_SIZE, **place)
        texts = format_values(curve.values, lambda value: f"<b>{self.panel.show(value)}</b>", "")
        bind_fields(self.figure, path, {"text": texts, "y": heights})
        bind_fields(self.figure, path, {"x": list(range(len(self.names)))}, "lambda")
        sides = {"xanchor": np.where(is_left, "right", "left").tolist(), "xshift": np.where(is_left, -12, 12).tolist()}
        bind_fields(self.figure, path, sides)

    def _add_off_scale(self) -> None:
        """Add marks at the edge, with their values, where a curve runs off the scale."""
        span = self.span
        off = [(curve.values, clamp(curve.values, span)[1]) for curve in self.panel.curves if not curve.faint]
        if not any(side.any() for _, side in off):
            return
        rows: list[list[list[Any]]] = []
        for row in range(len(off[0][0])):
            marks: list[list[Any]] = []
            seen: dict[tuple[int, float], list[Any]] = {}
            for values, side in off:
                for i in np.flatnonzero(side[row]).tolist():
                    above, edge = side[row, i] > 0, float(clamp(values[row, i], span)[0])
                    text, corner = self.panel.show(values[row, i]), "bottom right" if above else "top right"
                    mark = [self.names[i], edge, f" {text}", corner, "triangle-up" if above else "triangle-down"]
                    # Two curves off the scale at one λ share the place at the edge, and one line of text.
                    first = seen.setdefault((i, edge), mark)
                    if first is not mark:
                        first[2], mark[2] = f"{first[2]} and {text}", ""
                    marks.append(mark)
            rows.append(marks)
        fields = ("x", "y", "text", "textposition", "marker.symbol")
        columns = {name: [[mark[at] for mark in marks] for marks in rows] for at, name in enumerate(fields)}
        add_trace(self.figure, edge_trace(self.axis), columns, "gamma")

    def _add_reference(self, value: float, *, at_end: bool) -> None:
        """Add the float model: a thin line, or where it is off the scale a word at that edge.

        Its words keep clear of the names at the lines' ends, which reach far into an axis of few λ, and of the band's
        words in the upper corners: below the scale they stand at the left, and beside a line there too where there are
        few λ. With ``at_end`` they stand on a narrow screen alone, in a room of their own below the scale: beside the
        line points would be under them.
        """
        text = f"float model {self.panel.show(value)}"
        ink, right = "var(--ink-2)", {"xref": "paper", "yref": self.axis, "x": 1, "xanchor": "right"}
        left = {"xref": "paper", "yref": self.axis, "x": 0, "xshift": 4}
        if value < self.span[0]:
            add_note(self.figure, f"↓ {text}, off the scale", ink, y=self.span[0], **left)
            return
        if value > self.span[1]:
            add_note(self.figure, f"↑ {text}, off the scale", ink, y=self.span[1], yanchor="top", **right)
            return
        last = len(self.names) - 1
        across = {"xref": "x", "x0": -0.45, "x1": last} if at_end else {"xref": "paper", "x0": 0, "x1": 1}
        line = {"type": "line", "yref": self.axis, "y0": value, "y1": value, "line": REFERENCE}
        self.figure["layout"]["shapes"].append(line | across)
        if at_end:
            lowest = self.span[0] - NARROW_ROOM * self.room
            add_note(self.figure, f"dotted: {text}", ink, narrow={"visible": True}, y=lowest, visible=False, **left)
            self.figure["narrow"][f"layout.yaxis{self.axis[1:]}.range"] = [lowest, self.span[1]]
        elif len(self.names) > FEW_LAMS:
            add_note(self.figure, text, ink, y=value, **right)
        else:
            add_note(self.figure, text, ink, y=value, yanchor="top" if value > sum(self.span) / 2 else "bottom", **left)

    def _add_title(self, top: float) -> None:
        """Add the panel's title; with a ring, the shown values stand in it, in the colours of their curves."""
        path = add_note(self.figure, "" if self.panel.alone else self.panel.title, **PAPER, x=0, y=top, yshift=2)
        if not self.ring:
            return
        rows, columns = self.panel.curves[0].values.shape
        for title, is_narrow in ((_title_text, False), (_short_title, True)):
            texts = [[title(self.panel, row, column) for column in range(columns)] for row in range(rows)]
            bind_fields(self.figure, path, {"text": texts}, narrow=is_narrow)

    def _add_end_labels(self, ends: list[tuple[Curve, np.ndarray]]) -> None:
        """Add names of curves at the ends of their lines."""
        span, room, last = self.span, self.room, len(self.names) - 1
        gap = LONE_LABEL_GAP if self.panel.alone else LABEL_GAP
        placed = []
        for drawn in zip(*(drawn for _, drawn in ends), strict=True):
            raw = [_last(row, sum(span) / 2) for row in drawn]
            placed.append(spread_labels(raw, gap * room, span[0] + 0.06 * room, span[1] - 0.06 * room))
        for (curve, _), heights in zip(ends, zip(*placed, strict=True), strict=True):
            place = {"xref": "x", "yref": self.axis, "x": last, "y": 0, "yanchor": "middle", "xshift": 12}
            path = add_note(
                self.figure, curve.label, curve.ink, narrow={"visible": False} if self.ring else None, **place
            )
            bind_fields(self.figure, path, {"y": heights}, "gamma")


def _panel_range(panel: Panel, lams: Sequence[float]) -> Span:
    positive = np.array([lam > 0 for lam in lams]) if len(lams) > 1 else np.array([True])
    inner = [np.zeros(0)]
    for curve in panel.curves:
        values = curve.values[:, positive]
        inner.append(values.ravel())
        if curve.ends is not None:
            inner.append(whiskers(values, *(end[:, positive] for end in curve.ends)))
    outer = np.concatenate([curve.values[:, ~positive].ravel() for curve in panel.curves] or [np.zeros(0)])
    always = [*panel.pinned]
    inside = np.concatenate(inner)
    measured = inside[np.isfinite(inside)]
    if panel.reference is not None and measured.size:
        spread = max(np.ptp(measured), 0.01 * abs(measured.max()))
        alone = np.unique(measured).size == 1  # a single point has no scale of its own; the float model gives it one
        if alone or abs(panel.reference - measured.min()) < 0.6 * spread:
            always.append(panel.reference)
    low, high = honest_range(inside, outer, always=always)
    if panel.reference is None or panel.alone or low <= panel.reference <= high:
        return low, high
    room = WORDS_ROOM * (high - low)  # for the word that says where the float model is
    return (low - room, high) if panel.reference < low else (low, high + room)


def _break_axis(axis: Part, span: Span, side: Literal[-1, 1]) -> None:
    """Give an axis room beyond a span, in which no value is named."""
    room, step = BREAK_ROOM * (span[1] - span[0]), axis["dtick"]
    axis["range"] = [span[0] - room, span[1]] if side < 0 else [span[0], span[1] + room]
    first, last = math.ceil(span[0] / step - 1e-9), math.floor(span[1] / step + 1e-9)
    values = [step * at for at in range(first, last + 1)]
    unit, sign = (100, f"{NBSP}%") if "%" in axis["tickformat"] else (1, "")
    decimals = step_decimals(unit * step)
    axis |= {"tickvals": values, "ticktext": [f"{number(unit * value, decimals)}{sign}" for value in values]}


def _room_for_value(panel: Panel, span: Span) -> tuple[np.ndarray, np.ndarray]:
    """Find room for the shown value beside each point: its height, and whether it stands to the left: G M each.

    It stands above the point and all that is drawn as far as it reaches on its side, and within the span. With few
    points it ends between two of them, where nothing but the curves between them is beside it.
    """
    tops = []
    for curve in panel.curves:
        drawn = (curve.values,) if curve.ends is None else (curve.values, curve.ends[1])
        tops += [clamp(values, span)[0] for values in drawn]
    top = np.fmax.reduce(np.stack(np.broadcast_arrays(*tops)), axis=0)  # G M
    (points,) = (clamp(curve.values, span)[0] for curve in panel.curves if not curve.faint)
    last = top.shape[1] - 1
    reach = VALUE_REACH * min(1.0, last / USUAL_STEPS)
    whole, part = int(reach), reach - int(reach)
    heights, is_left = np.full(points.shape, sum(span) / 2), np.zeros(points.shape, dtype=bool)
    for g, m in zip(*np.nonzero(np.isfinite(points)), strict=True):
        sides = {}
        for left in (False, True):
            columns = [m + (-step if left else step) for step in range(1, math.ceil(reach) + 1)]
            inside = [column for column in columns if 0 <= column <= last]
            nearby = [points[g, m], *(top[g, column] for column in inside[:whole])]
            if part and len(inside) > whole:
                previous = points[g, columns[whole - 1] if whole else m]
                nearby.append(previous + part * (points[g, columns[whole]] - previous))
            sides[left] = (len(columns) - len(inside), float(np.fmax.reduce(nearby)))
        is_left[g, m] = min(sides, key=lambda left: sides[left])
        heights[g, m] = sides[is_left[g, m]][1]
    return np.minimum(heights, span[1] - VALUE_HEIGHT * (span[1] - span[0])), is_left


def _hover(curve: Curve, show: Format, row: int, column: int) -> str:
    value = curve.values[row, column]
    if not math.isfinite(value):
        return "not measured"
    if curve.ends is None or value <= 1:
        return show(value)
    low, high = (end[row, column] for end in curve.ends)
    if math.isnan(low) or low == high:
        return show(value)
    return span_text(value, low, high, difference_decimals((high - low) / 2, value))


def _title_text(panel: Panel, row: int, column: int) -> str:
    curves = [curve for curve in panel.curves if not curve.faint]
    values = "  ·  ".join(_value_text(panel, curve, curve.values[row, column]) for curve in curves)
    return values if panel.alone else f"{panel.title}   {values}"


def _short_title(panel: Panel, row: int, column: int) -> str:
    """Return a panel's title on a narrow screen, with the curves' names before their values; the line's end has no
    room."""
    values = " · ".join(
        _value_text(panel, curve, curve.values[row, column], f"{curve.short} " if curve.short else "")
        for curve in sorted(panel.curves, key=lambda curve: curve.faint)
        if math.isfinite(curve.values[row, column]) and (curve.short or not curve.faint)
    )
    return values if panel.alone else f"{panel.short or panel.title}  {values}"


def _value_text(panel: Panel, curve: Curve, value: float, name: str = "") -> str:
    """Return a value, behind its name, in the colour of its curve."""
    text = panel.show(value) if math.isfinite(value) else "not measured"
    return f'<span style="color:{curve.ink}">{name}<b>{text}</b></span>'


def _last(row: np.ndarray, otherwise: float) -> float:
    measured = row[np.isfinite(row)]
    return float(measured[-1]) if measured.size else otherwise
