"""What every figure shares: the form that it travels in, its layout, notes and bindings.

A figure is a plain dict: ``data`` and ``layout`` for plotly, and ``bindings`` that say what changes with γ and λ, so
that the browser only indexes. Axes, traces and styles have modules of their own.

A binding is ``{"path": "data.3.y", "over": ["gamma", "lambda"], "values": nested lists}``; or, for an array of the
study, ``{"path": "data.0.z", "array": "surface", "lambda": 0}``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict, final

import numpy as np

from sarqc.figures.styles import FONT

Axis = Literal["gamma", "lambda"]
BOTH: tuple[Axis, ...] = ("gamma", "lambda")
_Lam = TypedDict("_Lam", {"lambda": int})  # a keyword of Python, so that a class can't name it
_MaybeLam = TypedDict("_MaybeLam", {"lambda": NotRequired[int]})


class Point(_Lam):
    """Positions of a λ and a γ on the axes of a line."""

    gamma: int


@final
class BoundValues(TypedDict):
    """What belongs at a path of a figure: ``values`` is nested by the axes in ``over``."""

    path: str
    over: list[Axis]
    values: Any


@final
class BoundArray(_MaybeLam):
    """An array of the study that belongs at a path: at ``lambda``, or at the shown λ, less that at ``minus``."""

    path: str
    array: str
    minus: NotRequired[int]


Binding = BoundValues | BoundArray


class Radius(TypedDict):
    """What the page's line R chooses among: drift, error and name of each point, and the text of the error."""

    drift: list[list[float | None]]  # γ, point
    error: list[list[float | None]]  # γ, point
    names: list[str]
    on: str


class Means(TypedDict):
    """Matrices whose means over rows and over columns a page draws beside a surface, so many times as high, and the
    words for that; ``of`` is filled by bindings."""

    times: float
    words: str
    of: list[Any]


class Figure(TypedDict):
    """A drawing in plotly's words, with what changes with γ and λ. ``narrow`` is what belongs at its paths on a screen
    narrower than ``narrow_below``; ``aria`` is the drawing in words, ``finding`` what it shows at a point, as a heading
    above the title."""

    data: list[dict[str, Any]]
    layout: dict[str, Any]
    bindings: list[Binding]
    narrow: NotRequired[dict[str, Any]]
    narrow_bindings: NotRequired[list[Binding]]
    narrow_below: NotRequired[int]
    finding: NotRequired[BoundValues]
    title: NotRequired[str]
    subtitle: NotRequired[str]
    aria: NotRequired[str]
    means: NotRequired[Means]
    radius: NotRequired[Radius]


PAPER = {"xref": "paper", "yref": "paper"}  # places as shares of the plot
LAM_CORNER = {**PAPER, "x": 1, "y": 0, "yanchor": "top", "xshift": 6, "yshift": -4}  # of the axis' sign


def plain_numbers(values: Any) -> Any:
    """Nested lists of Python numbers for a drawing: six digits; None for what was not measured (JSON has no NaN)."""
    if isinstance(values, float):
        return _six_digits(values)
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, (list, tuple)):
        return [_six_digits(value) if isinstance(value, float) else plain_numbers(value) for value in values]
    return values


def _six_digits(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def base_layout(*, left: int = 48, right: int = 16, top: int = 24, bottom: int = 36) -> dict[str, Any]:
    """A quiet page: no frame, no legend, no title, no drag; the caller adds axes."""
    return {
        "autosize": True,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": FONT,
        "template": {"layout": {f"{side}axis": {"title": {"font": {"size": 12}}} for side in "xy"}},
        "margin": {"l": left, "r": right, "t": top, "b": bottom, "pad": 0},
        "showlegend": False,
        "dragmode": False,
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": "var(--surface)",
            "bordercolor": "var(--line)",
            "font": {**FONT, "color": "var(--ink)"},
        },
        "shapes": [],
        "annotations": [],
    }


def add_note(figure: Figure, text: str, color: str = "", /, *, size: Any = 12, narrow: Any = None, **place: Any) -> str:
    """Write a text on a figure, at a place in plotly's annotation fields, with its fields on a narrow screen; return
    its path."""
    path = f"layout.annotations.{len(figure['layout']['annotations'])}"
    font = {"size": size, "color": color} if color else {"size": size}
    own = {"text": text, "showarrow": False, "font": font, "xanchor": "left", "yanchor": "bottom"}
    figure["layout"]["annotations"].append(own | place)
    if narrow:
        figure["narrow"] |= {f"{path}.{field}": value for field, value in narrow.items()}
    return path


def bind(path: str, values: Any, *over: Axis) -> BoundValues:
    """``values`` is nested by the axes in ``over``, and each entry is what belongs at ``path``."""
    return {"path": path, "over": list(over), "values": plain_numbers(values)}


def bind_fields(figure: Figure, path: str, fields: Mapping[str, Any], *over: Axis, narrow: bool = False) -> None:
    """Bind fields of what is at a path, or with ``narrow`` those on a narrow screen; without axes over both."""
    bindings = figure.setdefault("narrow_bindings", []) if narrow else figure["bindings"]
    bindings += [bind(f"{path}.{field}", values, *(over or BOTH)) for field, values in fields.items()]


def add_trace(figure: Figure, trace: dict[str, Any], fields: Mapping[str, Any], *over: Axis) -> str:
    """Add a trace with its bound fields, see ``bind_fields``; return its path."""
    path = f"data.{len(figure['data'])}"
    figure["data"].append(trace)
    bind_fields(figure, path, fields, *over)
    return path
