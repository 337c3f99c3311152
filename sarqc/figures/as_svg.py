"""A drawing as SVG, by the server alone: no browser and no plotly.

It knows those of plotly's words that the figures of a line are written in: scatter traces with error bars, shapes,
annotations, and axes of names or numbers. What it does not know is an error, never left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape, unescape
from typing import Any

LINE = 1.3  # height of a line of text, in its size
DESCENT = 0.25  # below the baseline, in the size of the text
TICK_GAP = 6  # between an axis and the names of its ticks
_MARKUP = re.compile(r'<(b|/b|br|/span|span style="color:([^"]+)")>')


def svg_body(drawing: dict[str, Any], width: float, height: float, family: str) -> str:
    """The elements of ``drawing`` on a plane of ``width`` × ``height`` units, one for a pixel of the page.

    ``drawing``: data and layout with every binding resolved and every role replaced by a colour (``resolved``,
    ``coloured``). ``family``: the typeface. Raises ``ValueError`` for what it can't draw.
    """
    layout = drawing["layout"]
    plane = _Plane(layout, width, height)
    writer = _Writer(family, layout["font"])
    shapes = layout.get("shapes", [])
    below = [_shape(shape, plane) for shape in shapes if shape.get("layer") == "below"]
    above = [_shape(shape, plane) for shape in shapes if shape.get("layer") != "below"]
    grid = [element for name in plane.axes for element in _grid(name, plane, writer)]
    traces = [element for trace in drawing["data"] for element in _trace(trace, plane, writer)]
    notes = [_annotation(one, plane, writer) for one in layout.get("annotations", []) if _is_seen(one)]
    return "\n".join([*below, *grid, *traces, *above, *notes])


@dataclass(frozen=True)
class _Axis:
    """Where the values of an axis lie, in units of the plane."""

    layout: dict[str, Any]
    start: float  # of the first end of the range
    end: float

    def at(self, value: Any) -> float:
        """The place of a name or number."""
        names = self.layout.get("categoryarray")
        number = names.index(value) if names is not None and isinstance(value, str) else float(value)
        low, high = self.layout["range"]
        return float(self.start + (self.end - self.start) * (number - low) / (high - low))

    def inside(self, value: Any) -> bool:
        return min(self.start, self.end) - 0.5 <= self.at(value) <= max(self.start, self.end) + 0.5

    def kept_inside(self, place: float) -> float:
        """A place, or the edge where it is beyond."""
        return min(max(place, min(self.start, self.end)), max(self.start, self.end))

    def share(self, value: float) -> float:
        """The place of a share of the axis' own domain."""
        return self.start + (self.end - self.start) * value


class _Plane:
    """The axes of a layout on a plane, and the paper inside its margins."""

    def __init__(self, layout: dict[str, Any], width: float, height: float) -> None:
        margin = layout["margin"]
        self.paper = {
            "x": _Axis({"range": [0, 1]}, margin["l"], width - margin["r"]),
            "y": _Axis({"range": [0, 1]}, height - margin["b"], margin["t"]),
        }
        self.width, self.height = width, height
        self.axes: dict[str, _Axis] = {}
        for key, axis in layout.items():
            found = re.fullmatch(r"([xy])axis(\d*)", key)
            if found:
                low, high = axis.get("domain", [0, 1])
                along = self.paper[found[1]]
                self.axes[found[1] + found[2]] = _Axis(axis, along.share(low), along.share(high))

    def place(self, reference: str, value: Any) -> float:
        """Where a value lies: of an axis (“x2”), of an axis' own domain (“y2 domain”) or of the paper."""
        name, _, domain = reference.partition(" ")
        return self.axes[name].share(value) if domain else self.axes[name].at(value)

    def on(self, letter: str, reference: str, value: Any) -> float:
        return self.paper[letter].share(value) if reference == "paper" else self.place(reference, value)

    def foot(self, axis: str) -> tuple[float, float]:
        """Where an axis begins on the other one that it is anchored to: its far end in x or y, and its near one."""
        other = self.axes.get(self.axes[axis].layout.get("anchor", "y" if axis[0] == "x" else "x"))
        if other is None:
            raise ValueError(f"the axis {axis} is anchored to none")
        return other.start, other.end


@dataclass(frozen=True)
class _Writer:
    """Text in plotly's markup, as SVG."""

    family: str
    font: dict[str, Any]

    def text(
        self, text: str, x: float, y: float, font: dict[str, Any], xanchor: str, yanchor: str, ground: str = ""
    ) -> str:
        """A text whose box is anchored at ``x``, ``y`` as annotations say it; ``ground``: behind the letters."""
        if not text:
            return ""
        size = float(font.get("size", self.font["size"]))
        lines = text.split("<br>")
        first = {"top": 0.0, "middle": -len(lines) / 2, "bottom": -float(len(lines))}[yanchor]
        baseline = y + size * (LINE * (first + 1) - DESCENT - (LINE - 1) / 2)
        rows = "".join(
            f'<tspan x="{_n(x)}" y="{_n(baseline + at * LINE * size)}">{self._runs(line)}</tspan>'
            for at, line in enumerate(lines)
        )
        halo = f' stroke="{ground}" stroke-width="5" stroke-linejoin="round" paint-order="stroke"' if ground else ""
        anchor = {"left": "start", "center": "middle", "right": "end"}[xanchor]
        colour = font.get("color", self.font["color"])
        return (
            f'<text font-family="{self.family}" font-size="{_n(size)}" fill="{colour}" text-anchor="{anchor}"{halo}>'
            f"{rows}</text>"
        )

    @staticmethod
    def _runs(line: str) -> str:
        """One line, its bold and its coloured parts as spans."""
        made, at = "", 0
        for found in _MARKUP.finditer(line):
            made += _plain(line[at : found.start()])
            at = found.end()
            tag, colour = found.groups()
            if tag in ("/b", "/span"):
                made += "</tspan>"
            else:
                made += '<tspan font-weight="600">' if tag == "b" else f'<tspan fill="{escape(colour)}">'
        return made + _plain(line[at:])


def _plain(text: str) -> str:
    """Text that can't become an element; spaces in a row stay."""
    return escape(unescape(text)).replace("  ", "\u00a0 ")


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _is_seen(annotation: dict[str, Any]) -> bool:
    return annotation.get("visible", True) is not False and annotation.get("opacity", 1) != 0


def _annotation(note: dict[str, Any], plane: _Plane, writer: _Writer) -> str:
    x = plane.on("x", note["xref"], note["x"]) + note.get("xshift", 0)
    y = plane.on("y", note["yref"], note["y"]) - note.get("yshift", 0)
    pole = ""
    if note.get("showarrow"):
        end = (x + note["ax"], y + note["ay"])
        pole = _line(x, y, *end, {"color": note["arrowcolor"], "width": note["arrowwidth"]})
        x, y = end
    return pole + writer.text(
        note["text"], x, y, note.get("font", {}), note["xanchor"], note["yanchor"], note.get("bgcolor", "")
    )


def _shape(shape: dict[str, Any], plane: _Plane) -> str:
    x0, x1 = (plane.on("x", shape["xref"], shape[key]) for key in ("x0", "x1"))
    y0, y1 = (plane.on("y", shape["yref"], shape[key]) for key in ("y0", "y1"))
    if shape["type"] == "line":
        return _line(x0, y0, x1, y1, shape["line"])
    if shape["type"] != "rect":
        raise ValueError(f"no SVG for a shape of type {shape['type']}")
    left, right = max(0.0, min(x0, x1)), min(plane.width, max(x0, x1))
    box = f'x="{_n(left)}" y="{_n(min(y0, y1))}" width="{_n(right - left)}" height="{_n(abs(y1 - y0))}"'
    return f'<rect {box} fill="{shape["fillcolor"]}"/>'


def _line(x0: float, y0: float, x1: float, y1: float, style: dict[str, Any]) -> str:
    return f'<path d="M{_n(x0)} {_n(y0)}L{_n(x1)} {_n(y1)}" {_stroke(style)}/>'


def _stroke(style: dict[str, Any]) -> str:
    width = float(style.get("width", 2))
    dashes = _dashes(style.get("dash", "solid"), width)
    return f'fill="none" stroke="{style["color"]}" stroke-width="{_n(width)}"' + (
        f' stroke-dasharray="{dashes}"' if dashes else ""
    )


def _dashes(name: str, width: float) -> str:
    """A dash by plotly's name, or by lengths such as “2px 3px”."""
    unit = max(width, 3.0)
    known = {"solid": (), "dot": (1, 1), "dash": (3, 3), "longdash": (5, 5), "dashdot": (3, 1, 1, 1)}
    if name in known:
        return " ".join(_n(unit * part) for part in known[name])
    return " ".join(part.removesuffix("px") for part in name.replace(",", " ").split())


def _grid(name: str, plane: _Plane, writer: _Writer) -> Iterator[str]:
    """The lines of an axis across the axis that it stands on, and the names of its ticks."""
    axis, (foot, far) = plane.axes[name], plane.foot(name)
    values, texts = _ticks(axis.layout)
    font = {**writer.font, **axis.layout.get("tickfont", {})}
    for value, text in zip(values, texts, strict=True):
        if not axis.inside(value):
            continue
        at = axis.at(value)
        thin = {"color": axis.layout.get("gridcolor", "none"), "width": 1}
        if name[0] == "x":
            if axis.layout.get("showgrid", True):
                yield _line(at, plane.paper["y"].start, at, plane.paper["y"].end, thin)
            yield writer.text(
                text, at, foot + TICK_GAP - 2 + axis.layout.get("ticklabelstandoff", 0), font, "center", "top"
            )
        else:
            if axis.layout.get("showgrid", True):
                yield _line(foot, at, far, at, thin)
            yield writer.text(text, foot - TICK_GAP, at, font, "right", "middle")


def _ticks(axis: dict[str, Any]) -> tuple[list[Any], list[str]]:
    """The values that an axis names, and how it writes them."""
    if "tickvals" in axis:
        return list(axis["tickvals"]), list(axis["ticktext"])
    low, high = axis["range"]
    rough = (high - low) / axis.get("nticks", 4)
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * (1 - 1e-9))
    values = [step * at for at in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
    is_share = "%" in axis.get("tickformat", "")
    unit = 100 if is_share else 1
    decimals = max(0, -math.floor(math.log10(step * unit) + 1e-9))
    texts = [f"{unit * value:.{decimals}f}".replace("-", "\u2212") for value in values]
    return values, [f"{text}%" if is_share else text for text in texts]


def _trace(trace: dict[str, Any], plane: _Plane, writer: _Writer) -> Iterator[str]:
    if trace["type"] != "scatter":
        raise ValueError(f"no SVG for a trace of type {trace['type']}")
    across, along = plane.axes[trace.get("xaxis", "x")], plane.axes[trace.get("yaxis", "y")]
    points = [
        (at, across.at(x), along.at(y))
        for at, (x, y) in enumerate(zip(trace["x"], trace["y"], strict=True))
        if x is not None and y is not None
    ]
    if "lines" in trace["mode"] and points:
        path = "L".join(f"{_n(x)} {_n(y)}" for _, x, y in points)
        yield f'<path d="M{path}" stroke-linejoin="round" {_stroke(trace["line"])}/>'
    for name, axis in (("error_x", across), ("error_y", along)):
        if name in trace:
            yield from _error_bars(trace[name], axis, points, name[-1])
    for at, x, y in points:
        if "markers" in trace["mode"]:
            yield _marker(trace["marker"], at, x, y)
        if "text" in trace["mode"]:
            upper, side = _of(trace["textposition"], at).split()
            xanchor, yanchor = {"right": "left", "left": "right"}.get(side, "center"), _BESIDE[upper]
            gap = {"left": 5, "right": -5, "center": 0}[xanchor]
            yield writer.text(trace["text"][at], x + gap, y, trace["textfont"], xanchor, yanchor)


_BESIDE = {
    "top": "bottom",
    "middle": "middle",
    "bottom": "top",
}  # where text stands, by the side that it is anchored at


def _error_bars(
    error: dict[str, Any], axis: _Axis, points: list[tuple[int, float, float]], letter: str
) -> Iterator[str]:
    unit = abs(axis.at(1.0) - axis.at(0.0))
    style, cap = {"color": error["color"], "width": error["thickness"]}, float(error["width"])
    for at, x, y in points:
        above = unit * float(error["array"][at] or 0)
        below = above if error.get("symmetric", True) else unit * float(error["arrayminus"][at] or 0)
        if max(below, above) <= 0:
            continue
        middle = x if letter == "x" else y
        lengths = (-below, above) if letter == "x" else (-above, below)  # pixels grow downwards
        ends = [axis.kept_inside(middle + length) for length in lengths]
        low, high = ((end, y) if letter == "x" else (x, end) for end in ends)
        yield _line(*low, *high, style)
        for end, length, (cap_x, cap_y) in zip(ends, lengths, (low, high), strict=True):
            if abs(end - middle) < abs(length):  # the bar goes on beyond the edge
                continue
            across = (0.0, cap) if letter == "x" else (cap, 0.0)
            yield _line(cap_x - across[0], cap_y - across[1], cap_x + across[0], cap_y + across[1], style)


def _of(value: Any, at: int) -> Any:
    """What belongs to one point: its own, or what all have."""
    return value[at] if isinstance(value, list) else value


def _marker(marker: dict[str, Any], at: int, x: float, y: float) -> str:
    symbol, size, colour = (_of(marker[key], at) for key in ("symbol", "size", "color"))
    name = symbol.removesuffix("-open")
    edge = marker.get("line", {})
    fill, line = ("none", colour) if symbol.endswith("-open") else (colour, _of(edge.get("color", "none"), at))
    width = _of(edge.get("width", 1 if fill == "none" else 0), at)
    paint = f'fill="{fill}" stroke="{line}" stroke-width="{_n(width)}"'
    if dashes := _dashes(edge.get("dash", "solid"), width):
        paint += f' stroke-dasharray="{dashes}"'
    r = float(size) / 2
    if name == "circle":
        return f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(r)}" {paint}/>'
    if name not in _OUTLINES:
        raise ValueError(f"no SVG for a marker “{symbol}”")
    corners = "L".join(f"{_n(x + r * dx)} {_n(y + r * dy)}" for dx, dy in _OUTLINES[name])
    return f'<path d="M{corners}Z" {paint}/>'


# Corners of a marker, in halves of its size, from its middle.
_OUTLINES = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "triangle-up": ((-1.155, 0.577), (0, -1.155), (1.155, 0.577)),
    "triangle-down": ((-1.155, -0.577), (0, 1.155), (1.155, -0.577)),
    "triangle-left": ((0.577, -1.155), (-1.155, 0), (0.577, 1.155)),
    "triangle-right": ((-0.577, -1.155), (1.155, 0), (-0.577, 1.155)),
}
