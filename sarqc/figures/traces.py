"""Traces and shapes of figures: curves, points with their error bars, maps, lines and boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sarqc.figures.drawing import plain_numbers
from sarqc.figures.styles import SHADES, Role

HOVER = "%{text}<extra></extra>"  # texts alone, under the pointer
RING = {"color": "var(--surface)", "width": 2.5}  # the edge of what marks the shown point


def line_shape(x: Sequence[float], y: Sequence[float], color: str, dash: str = "", /, **more: Any) -> dict[str, Any]:
    """Return a thin straight line from the first to the last of ``x`` and of ``y``."""
    line = {"color": color, "width": 1} | ({"dash": dash} if dash else {})
    return {"type": "line", "x0": x[0], "x1": x[-1], "y0": y[0], "y1": y[-1], **more, "line": line}


def box_shape(x: Sequence[float], y: Sequence[float], line: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a rectangle from the first to the last of ``x`` and of ``y``, with its edge."""
    return {"type": "rect", "x0": x[0], "x1": x[-1], "y0": y[0], "y1": y[-1], "line": line, **more}


def error_bars(up: Any, down: Any, color: str, *, thickness: float = 1.5, width: float = 4) -> dict[str, Any]:
    """Return bars of these lengths above and below points."""
    return {
        "type": "data",
        "symmetric": False,
        "array": up,
        "arrayminus": down,
        "thickness": thickness,
        "width": width,
        "color": color,
    }


def scatter(name: str, mode: str, /, **more: Any) -> dict[str, Any]:
    """Return a trace of lines, marks or texts; without ``x`` and ``y`` both are bound."""
    return {"type": "scatter", "mode": mode, "name": name, "x": [], "y": [], **more}


def line_of(style: Role, width: float = 2) -> dict[str, Any]:
    """Return the line of a quantity's curve."""
    return {"color": style["color"], "dash": style["dash"], "width": width}


def marker_of(style: Role, size: float, **more: Any) -> dict[str, Any]:
    """Return the marker of a quantity."""
    return {"color": style["color"], "symbol": style["symbol"], "size": size, **more}


def line_trace(
    name: str, style: Role, x: Sequence[str], axis: str = "y", /, *, width: Any = 2, **more: Any
) -> dict[str, Any]:
    """A curve over λ in the colour, dash and marker of its quantity."""
    own = {"connectgaps": True, "cliponaxis": False, "line": line_of(style, width), "marker": marker_of(style, 7)}
    return scatter(name, "lines+markers", x=list(x), yaxis=axis, **own, hovertemplate="%{text}") | more


def ring_trace(style: Role, axis: str) -> dict[str, Any]:
    """The marker of the shown λ on one curve; its x and y are bound."""
    marker = {"symbol": style["symbol"], "size": 13, "color": style["color"], "line": RING}
    return scatter("shown λ", "markers", yaxis=axis, cliponaxis=False, hoverinfo="skip", marker=marker)


def edge_trace(axis: str) -> dict[str, Any]:
    """Points that lie off the scale, shown at its edge with their value."""
    return scatter(
        "off the scale",
        "markers+text",
        text=[],
        yaxis=axis,
        cliponaxis=False,
        hoverinfo="skip",
        textposition="middle right",
        textfont={"size": 12, "color": "var(--ink-2)"},
        marker={"size": 9, "symbol": [], "color": "var(--ink-2)"},
    )


def map_trace(x: Any, y: Any, values: np.ndarray, span: tuple[float, float], /, **more: Any) -> dict[str, Any]:
    """Return a map of values, dark where they are small, with gaps between its cells."""
    ends = {"zmin": span[0], "zmax": span[1], "colorscale": SHADES}
    return {"type": "heatmap", "x": x, "y": y, "z": plain_numbers(values), **ends, "xgap": 2, "ygap": 2, **more}
