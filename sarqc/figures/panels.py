"""Stacked panels over one ordinal λ axis: how the Lab's main figure and the comparison of studies are drawn.

A panel holds curves of one quantity; all panels share the axis, the marker of the shown λ and the sweet-spot band.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sarqc.figures.drawing import (
    PAPER,
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
    value_axis,
    whiskers,
)
from sarqc.figures.numbers import Format, difference_decimals
from sarqc.study.intervals import span_text
from sarqc.study.paired import spans

WORDS_ROOM = 0.09  # of a panel's range, beside the usual air, for words at its edge
VALUE_SIZE = 26  # of the value at the shown point
VALUE_ROOM = 40  # pixels above the panel for it
AXIS = "axis"  # the name of the axis’ sign, before the names of its ticks
BAND = "band"  # the name of its shapes and words, by which the page finds what a link hides
BAND_WORDS_SHARE = 0.22  # of the axis, which a band that holds its words has at least
RIGHT_OF_AXIS, LETTER = 18, 5.9  # pixels beside a label at a line's end, and of each of its letters
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
class Band:
    """The λ that may be the best of a panel's quantity, behind its curves."""

    mask: np.ndarray  # G M
    words: str
    fill: str = "band"  # the role of its colour


@dataclass(frozen=True)
class NamedPoint:
    """A single point with its name: of one λ alone, and not of the λ of the shown curve."""

    label: str
    lam: float
    value: float
    of_curve: bool = False  # it is the only point of the panel's first curve


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
    points: tuple[NamedPoint, ...] = ()
    band: Band | None = None
    alone: bool = False  # the only panel of its figure, whose title the card has: a single value stands above its point

    @property
    def has_value_at_point(self) -> bool:
        """True where the shown value stands above its point, in large type."""
        return self.alone and sum(not curve.faint for curve in self.curves) == 1


def stack(lams: Sequence[float], names: Sequence[str], panels: Sequence[Panel], *, ring: bool) -> Figure:
    """Stack panels one above the other over one axis of λ with these names. With ``ring`` the shown λ is marked in
    each."""
    names = list(names)
    is_alone = len(panels) == 1 and panels[0].has_value_at_point
    longest = max((len(curve.label) for panel in panels for curve in panel.curves), default=0)
    right = RIGHT_OF_AXIS + math.ceil(LETTER * longest)
    layout = base_layout(left=50, right=right, top=VALUE_ROOM if is_alone else 22, bottom=30)
    layout |= {"xaxis": lam_axis(names), "hovermode": "x unified", "hoversubplots": "axis"}
    figure: Figure = {"data": [], "layout": layout, "bindings": [], "narrow": {}, "narrow_bindings": []}
    figure["narrow"] |= {"layout.margin.r": 16} if ring else {"layout.margin.r": 32}
    total, gap, top = sum(panel.weight for panel in panels), 0.085, 1.0
    room = 1.0 - gap * (len(panels) - 1)
    for index, panel in enumerate(panels):
        bottom = max(0.0, top - room * panel.weight / total)
        axis = f"y{index + 1}" if index else "y"
        span = _panel_range(panel, lams)
        if panel.reference is not None and _holds(span, panel.reference):
            panel = replace(panel, curves=(*panel.curves, _reference_curve(panel, panel.reference)))
        _PanelDrawing(figure, panel, axis, lams, names, ring, span).add(top, bottom)
        top = bottom - gap
    layout["xaxis"]["anchor"] = "y" if len(panels) == 1 else f"y{len(panels)}"
    if len(names) > 1:
        near = {"xshift": -10}  # where ticks begin on a narrow screen
        add_note(figure, "λ", narrow=near, **PAPER, x=0, y=0, yanchor="top", name=AXIS)
    return figure


def band_shape(first: float, last: float, heights: Span = (0, 1), fill: str = "band") -> Part:
    """Return the sweet spot behind a panel, from one place on the λ axis to another."""
    place = {"name": BAND, "xref": "x", "yref": "paper", "layer": "below"}
    return box_shape((first, last), heights, {"width": 0}, **place, fillcolor=f"var(--{fill})")


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
        if panel.band is not None:
            self._add_band(panel.band, (bottom, top))
        if ring:  # a trace and not a shape, so that it lies above the grid and below the curves
            line = {"color": "var(--ink)", "width": 1.5}
            marker = scatter("marker", "lines", y=list(values["range"]), yaxis=self.axis, hoverinfo="skip", line=line)
            add_trace(figure, marker, {"x": [[name, name] for name in names]}, "lambda")
        # Faint curves first, so that what is compared lies behind what is shown.
        curves = sorted(panel.curves, key=lambda curve: not curve.faint)
        for curve in curves:
            self._add_curve(curve)
        for point in panel.points:
            self._add_point(point)
        for curve in panel.curves:
            if ring and not curve.faint:
                add_ring(figure, curve.style, self.axis, names, clamp(curve.values, self.span)[0])
        self._add_off_scale()
        ends = [(curve, clamp(curve.values, self.span)[0]) for curve in curves if curve.label]
        if panel.reference is not None and not _holds(self.span, panel.reference):
            self._add_reference_off_scale(panel.reference)
        if ring and panel.has_value_at_point:
            self._add_value()
        else:
            self._add_title(top)
        if ends:
            self._add_end_labels(ends)

    def _add_band(self, band: Band, heights: Span) -> None:
        """Add the λ that may be the best. The shapes are bound, because each γ has its own."""
        runs, figure = [spans(row) for row in band.mask], self.figure
        shapes = figure["layout"]["shapes"]
        for slot in range(max((len(run) for run in runs), default=0)):
            path = f"layout.shapes.{len(shapes)}"
            shapes.append(band_shape(0, 0, heights, band.fill))
            edges = [(run[slot][0] - 0.4, run[slot][1] + 0.4) if slot < len(run) else (0.0, 0.0) for run in runs]
            bind_fields(figure, path, dict(zip(("x0", "x1"), zip(*edges, strict=True), strict=True)), "gamma")
        widest = [max(run, key=lambda span: span[1] - span[0], default=(0, 0)) for run in runs]
        visible = [last - first + 0.8 > BAND_WORDS_SHARE * len(self.names) for first, last in widest]
        if not any(visible):
            return  # the title above says it
        place = {"xref": "x", "yref": "paper", "y": heights[1], "yanchor": "top", "yshift": -2, "name": BAND}
        place |= {"xanchor": "right", "xshift": -5, "bgcolor": f"var(--{band.fill}-solid)"}  # over λ's line
        path = add_note(figure, band.words, ink_of(self.panel.curves[0].style), narrow={"opacity": 0}, **place)
        bind_fields(figure, path, {"x": [last + 0.4 for _, last in widest], "visible": visible}, "gamma")

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

    def _add_point(self, point: NamedPoint) -> None:
        """Add a single point with its name beside it; one of a curve has its mark there."""
        label, value = point.label, point.value
        at = next((at for at, tick in enumerate(self.lams) if abs(tick - point.lam) < 1e-9), None)
        if at is None:
            return
        if not point.of_curve:
            edge = {"width": 2, "color": "var(--ink-2)"}
            mark = scatter(
                label,
                "markers",
                x=[self.names[at]],
                y=[float(clamp(np.array(value), self.span)[0])],
                yaxis=self.axis,
                text=[self.panel.show(value)],
                hovertemplate="%{text}",
                cliponaxis=False,
                marker={"symbol": "diamond-open", "size": 10, "color": "var(--ink-2)", "line": edge},
            )
            self.figure["data"].append(mark)
        if _holds(self.span, value):
            # It reaches to the next λ, on the side that the curves leave free.
            nearby = np.concatenate(
                [curve.values[:, at : at + 2].ravel() for curve in self.panel.curves if not curve.level]
            )
            up, down = np.nanmax(nearby, initial=value) - value, value - np.nanmin(nearby, initial=value)
            above = up < down or (up == down > 0)
            # Below at the top of a panel that has its title there.
            above = above and (self.panel.alone or value < self.span[1] - 0.3 * self.room)
            side = {"yshift": 3, "yanchor": "bottom"} if above else {"yshift": -3, "yanchor": "top"}
            note = {"xref": "x", "yref": self.axis, "x": at, "y": value, "xshift": 8, **side}
            add_note(self.figure, label, self.panel.curves[0].ink if point.of_curve else "var(--ink-2)", **note)

    def _add_off_scale(self) -> None:
        """Add marks at the edge, with their values, where a curve runs off the scale."""
        span = self.span
        off = [(curve.values, clamp(curve.values, span)[1]) for curve in self.panel.curves if not curve.faint]
        if not any(side.any() for _, side in off):
            return
        # Away from the curve where no title stands there.
        corners = ("bottom right", "top right") if self.panel.alone else ("top right", "bottom right")
        rows: list[list[list[Any]]] = []
        for row in range(len(off[0][0])):
            marks: list[list[Any]] = []
            seen: dict[tuple[int, float], list[Any]] = {}
            for values, side in off:
                for i in np.flatnonzero(side[row]).tolist():
                    above, edge = side[row, i] > 0, float(clamp(values[row, i], span)[0])
                    text, corner = self.panel.show(values[row, i]), corners[int(above)]
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

    def _add_value(self) -> None:
        """Add the shown value in large type above the line of the shown λ."""
        (curve,) = (curve for curve in self.panel.curves if not curve.faint)
        last, place = len(self.names) - 1, {"xref": "x", "yref": "paper", "x": 0, "y": 1}
        path = add_note(self.figure, "", ink_of(curve.style), size=VALUE_SIZE, **place)
        texts = format_values(curve.values, lambda value: f"<b>{self.panel.show(value)}</b>", "")
        bind_fields(self.figure, path, {"text": texts})
        anchors = ["right" if at == last > 0 else "left" if at == 0 else "center" for at in range(last + 1)]
        bind_fields(self.figure, path, {"x": list(range(last + 1)), "xanchor": anchors}, "lambda")

    def _add_reference_off_scale(self, value: float) -> None:
        """Add words on the float model at the edge beyond which it is: below the scale at the left, above it at the
        right, clear of the names at the lines' ends and of the band's words."""
        text, ink = f"float model {self.panel.show(value)}", "var(--ink-2)"
        place: Part = {"xref": "paper", "yref": self.axis}
        if value < self.span[0]:
            place |= {"yshift": 10 if self.panel.alone else 0}  # over the slider
            place |= {"bgcolor": "var(--surface)", "borderpad": 0}  # over λ's line
            add_note(self.figure, f"↓ {text}", ink, x=0, xshift=4, y=self.span[0], **place)
        else:
            add_note(self.figure, f"↑ {text}", ink, x=1, xanchor="right", y=self.span[1], yanchor="top", **place)

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
            narrow = {"xanchor": "right", "yanchor": "bottom", "xshift": 0} if curve.level else {"visible": False}
            path = add_note(self.figure, curve.label, curve.ink, narrow=narrow if self.ring else None, **place)
            bind_fields(self.figure, path, {"y": heights}, "gamma")


def _panel_range(panel: Panel, lams: Sequence[float]) -> Span:
    positive = np.array([lam > 0 for lam in lams]) if len(lams) > 1 else np.array([True])
    inner, outer = [np.zeros(0)], [np.zeros(0)]
    at_0: list[Span] = []  # values with an end of their interval
    always = [*panel.pinned, *(curve.values.flat[0] for curve in panel.curves if curve.level)]
    for curve in panel.curves:
        if curve.level:
            continue
        values, values_at_0 = curve.values[:, positive], curve.values[:, ~positive]
        inner.append(values.ravel())
        outer.append(values_at_0.ravel())
        if curve.ends is not None:
            inner.append(whiskers(values, *(end[:, positive] for end in curve.ends)))
            down, up = (end[:, ~positive] for end in curve.ends)
            at_0 += zip(np.tile(values_at_0.ravel(), 2), whiskers(values_at_0, down, up, among=values), strict=True)
    inside = np.concatenate(inner)
    measured = inside[np.isfinite(inside)]
    if panel.reference is not None and measured.size:
        spread = max(np.ptp(measured), 0.01 * abs(measured.max()))
        alone = np.unique(measured).size == 1  # a single point has no scale of its own; the float model gives it one
        if alone or abs(panel.reference - measured.min()) < 0.6 * spread:
            always.append(panel.reference)
    low, high = honest_range(inside, np.concatenate(outer), always=always)
    ends = [end for value, end in at_0 if low <= value <= high and math.isfinite(end)]
    air = 0.04 * (high - low)
    low, high = min(low, *(end - air for end in ends), low), max(high, *(end + air for end in ends), high)
    if panel.reference is None or _holds((low, high), panel.reference):
        return low, high
    room = WORDS_ROOM * (high - low)  # for the word that says where the float model is
    return (low - room, high) if panel.reference < low else (low, high + room)


def _holds(span: Span, value: float) -> bool:
    return span[0] <= value <= span[1]


def _reference_curve(panel: Panel, value: float) -> Curve:
    """Return the float model's line, over the whole axis."""
    style: Role = {"color": "var(--ink-2)", "dash": "2px 3px", "symbol": "circle"}
    values = np.full(panel.curves[0].values.shape, value)
    label = f"float {panel.show(value)}"
    return Curve("float model", style, values, label=label, faint=True, short="float", level=True)


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
