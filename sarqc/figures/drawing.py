"""Parts of figures: their form as JSON, notes, bindings, axes with their ranges, traces, shapes, colours.

A figure is a plain dict: ``data`` and ``layout`` for plotly, and ``bindings`` that say what changes with γ and λ, so
that the browser only indexes. Colours are written ``var(--role)`` and resolved where the theme is known.

A binding is ``{"path": "data.3.y", "over": ["gamma", "lambda"], "values": nested lists}``; or, for an array of the
study, ``{"path": "data.0.z", "array": "surface", "lambda": 0}``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict, cast, final

import numpy as np

Axis = Literal["gamma", "lambda"]
Part = dict[str, Any]  # of a drawing, in plotly's words
Span = tuple[float, float]  # from one value or place to another
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
    """An array of the study that belongs at a path: at ``lambda``, or at the shown λ."""

    path: str
    array: str


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

    data: list[Part]
    layout: Part
    bindings: list[Binding]
    narrow: NotRequired[Part]
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
    """Return nested lists of six-digit numbers for a drawing; None for unmeasured values (JSON has no NaN)."""
    if isinstance(values, float):
        return _six_digits(values)
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, (list, tuple)):
        return [_six_digits(value) if isinstance(value, float) else plain_numbers(value) for value in values]
    return values


def _six_digits(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def base_layout(*, left: int = 48, right: int = 16, top: int = 24, bottom: int = 36) -> Part:
    """Return a quiet page: no frame, no legend, no title, no drag; the caller adds axes."""
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


def new_figure(x: Any, y: Any, /, *, left: int, right: int, top: int, bottom: int, **further: Any) -> Figure:
    """Return a figure without data with its two axes, and further keys of it."""
    layout = base_layout(left=left, right=right, top=top, bottom=bottom) | {"xaxis": x, "yaxis": y}
    return cast(Figure, {"data": [], "layout": layout, "bindings": [], **further})


def add_note(figure: Figure, text: str, color: str = "", /, *, size: Any = 12, narrow: Any = None, **place: Any) -> str:
    """Write a text on a figure, at a place in plotly's annotation fields, with its fields on a narrow screen; return
    its path."""
    path = f"layout.annotations.{len(figure['layout']['annotations'])}"
    font = {"size": size, "color": color} if color else {"size": size}
    defaults = {"text": text, "showarrow": False, "font": font, "xanchor": "left", "yanchor": "bottom"}
    figure["layout"]["annotations"].append(defaults | place)
    if narrow:
        figure["narrow"] |= {f"{path}.{field}": value for field, value in narrow.items()}
    return path


def bind(path: str, values: Any, *over: Axis) -> BoundValues:
    """Bind ``values``, nested by the axes in ``over``, to a path, where each entry is set."""
    return {"path": path, "over": list(over), "values": plain_numbers(values)}


def bind_fields(figure: Figure, path: str, fields: Mapping[str, Any], *over: Axis, narrow: bool = False) -> None:
    """Bind fields of the part at a path, with ``narrow`` for narrow screens; without axes over both."""
    bindings = figure.setdefault("narrow_bindings", []) if narrow else figure["bindings"]
    bindings += [bind(f"{path}.{field}", values, *(over or BOTH)) for field, values in fields.items()]


def add_trace(figure: Figure, trace: Part, fields: Mapping[str, Any], *over: Axis) -> str:
    """Add a trace with its bound fields, see ``bind_fields``; return its path."""
    path = f"data.{len(figure['data'])}"
    figure["data"].append(trace)
    bind_fields(figure, path, fields, *over)
    return path


class Role(TypedDict):
    """How a quantity is drawn, in plotly's words."""

    color: str
    dash: str
    symbol: str


# One colour, one dash and one marker for each quantity, everywhere. Of two that share a panel the one that matters is
# solid and dark: the error on unseen text before that on calibration text, drift before the penalty.
QUALITY: Role = {"color": "var(--quality)", "dash": "solid", "symbol": "diamond"}
RECON: Role = {"color": "var(--recon)", "dash": "dot", "symbol": "circle"}
HELD_OUT: Role = {"color": "var(--held-out)", "dash": "solid", "symbol": "circle"}
DRIFT: Role = {"color": "var(--drift)", "dash": "solid", "symbol": "square"}
PENALTY: Role = {"color": "var(--penalty)", "dash": "dash", "symbol": "circle"}
ROLES = {"quality": QUALITY, "recon": RECON, "held_out": HELD_OUT, "drift": DRIFT, "penalty": PENALTY}
REFERENCE = {"color": "var(--ink-2)", "width": 1, "dash": "2px 3px"}  # the line of the float model
SHADES = "Cividis"
# Cividis in five places, from dark to light: plotly knows the whole by name only.
CIVIDIS = ((0, 32, 76), (61, 78, 107), (124, 123, 120), (186, 174, 108), (255, 233, 69))
# Colour bar.
SLIM_BAR = {"thickness": 8, "len": 1.0, "x": 1.02, "xpad": 0, "ypad": 2, "outlinewidth": 0, "ticks": ""}
FONT = {
    "family": "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif",
    "size": 12,
    "color": "var(--ink-2)",
}


def ink_of(style: Role) -> str:
    """Return the colour of words about a quantity."""
    return style["color"].replace(")", "-ink)")


HOVER = "%{text}<extra></extra>"  # texts alone, under the pointer
RING = {"color": "var(--surface)", "width": 2.5}  # the edge of what marks the shown point


def line_shape(x: Sequence[float], y: Sequence[float], color: str, dash: str = "", /, **more: Any) -> Part:
    """Return a thin straight line from the first to the last of ``x`` and of ``y``."""
    line = {"color": color, "width": 1} | ({"dash": dash} if dash else {})
    return {"type": "line", "x0": x[0], "x1": x[-1], "y0": y[0], "y1": y[-1], **more, "line": line}


def box_shape(x: Sequence[float], y: Sequence[float], line: Part, **more: Any) -> Part:
    """Return a rectangle from the first to the last of ``x`` and of ``y``, with its edge."""
    return {"type": "rect", "x0": x[0], "x1": x[-1], "y0": y[0], "y1": y[-1], "line": line, **more}


def error_bars(up: Any, down: Any, color: str, *, thickness: float = 1.5, width: float = 4) -> Part:
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


def scatter(name: str, mode: str, /, **more: Any) -> Part:
    """Return a trace of lines, marks or texts; without ``x`` and ``y`` both are bound."""
    return {"type": "scatter", "mode": mode, "name": name, "x": [], "y": [], **more}


def format_values(values: np.ndarray, show: Callable[[float], str], otherwise: str = "not measured") -> list[Any]:
    """Return the text of each value in the same nesting; ``otherwise`` for unmeasured values."""
    texts = np.vectorize(lambda value: show(value) if math.isfinite(value) else otherwise, otypes=[object])(values)
    nested: list[Any] = texts.tolist()
    return nested


def unclipped(name: str, **more: Any) -> Part:
    """Return a trace that reaches beyond its axes; without ``x`` and ``y`` both are bound."""
    return {"type": "scatter", "name": name, "x": [], "y": [], "cliponaxis": False, **more}


def line_of(style: Role, width: float = 2) -> Part:
    """Return the line of a quantity's curve."""
    return {"color": style["color"], "dash": style["dash"], "width": width}


def marker_of(style: Role, size: float, **more: Any) -> Part:
    """Return the marker of a quantity."""
    return {"color": style["color"], "symbol": style["symbol"], "size": size, **more}


def line_trace(name: str, style: Role, x: Sequence[str], axis: str = "y", /, *, width: Any = 2, **more: Any) -> Part:
    """Return a curve over λ in the colour, dash and marker of its quantity."""
    fields = {"connectgaps": True, "cliponaxis": False, "line": line_of(style, width), "marker": marker_of(style, 7)}
    return scatter(name, "lines+markers", x=list(x), yaxis=axis, **fields, hovertemplate="%{text}") | more


def add_ring(figure: Figure, style: Role, axis: str, names: Sequence[str], heights: np.ndarray) -> None:
    """Mark the shown λ of these names on one curve, whose heights are G M."""
    marker = {"symbol": style["symbol"], "size": 13, "color": style["color"], "line": RING}
    ring = scatter("shown λ", "markers", yaxis=axis, cliponaxis=False, hoverinfo="skip", marker=marker)
    path = add_trace(figure, ring, {"x": [[name] for name in names]}, "lambda")
    bind_fields(figure, path, {"y": heights[..., None]})


def edge_trace(axis: str) -> Part:
    """Return points that lie off the scale, shown at its edge with their value."""
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


PERCENT = ".1~%"  # of ticks
PLAIN_AXIS = {"fixedrange": True, "zeroline": False, "gridcolor": "var(--grid)", "ticks": ""}


def lam_axis(names: Sequence[str]) -> Part:
    """Return an ordinal λ axis with 0 on it: equal steps between the values that were tried, by their names."""
    return {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": list(names),
        "range": [-0.45, len(names) - 0.55],
        "tickvals": list(names),
        "ticktext": list(names),
        "tickangle": 0,
        **PLAIN_AXIS,
        "showgrid": True,
        "unifiedhovertitle": {"text": "λ = %{x}"},
    }


def value_axis(domain: Span, span: Span, *, ticks: int = 4) -> Part:
    """Return the axis of a quantity, over a part of the figure's height and a span of values."""
    return {
        "domain": list(domain),
        "range": list(span),
        **even_ticks(span, ticks),
        **PLAIN_AXIS,
        "showgrid": True,
        "showline": False,
        "anchor": "x",
    }


def even_axis(span: Span, ticks: int) -> Part:
    """Return a plain axis over a span of values."""
    return {**PLAIN_AXIS, "range": list(span), **even_ticks(span, ticks)}


def even_ticks(span: Span, most: int) -> Part:
    """Return at most about ``most`` ticks of an axis, all with the same decimals: plotly's own drop trailing zeros."""
    rough = max((span[1] - span[0]) / most, 1e-12)
    base = 10.0 ** math.floor(math.log10(rough))
    step = base * next(times for times in (1, 2, 5, 10) if times * base >= rough * (1 - 1e-9))
    return {"tick0": 0, "dtick": step, "tickformat": f".{step_decimals(step)}f"}


def step_decimals(step: float) -> int:
    """Return the decimals of ticks with this step."""
    return max(0, -math.floor(math.log10(step) + 1e-9))


def position(lam: float, lams: Sequence[float]) -> float | None:
    """Return a λ's place on the ordinal axis; between two ticks in proportion, None beyond the ends."""
    if not lams or lam < lams[0] - 1e-12 or lam > lams[-1] + 1e-12:
        return None
    return float(np.interp(lam, lams, range(len(lams))))


def honest_range(inner: np.ndarray, outer: np.ndarray, *, always: Sequence[float] = (), pad: float = 0.12) -> Span:
    """Return an axis range: all ``inner`` values, and those of ``outer`` (λ = 0) that do not flatten the rest.

    Values outside are marked at the edge (see ``clamp``), never dropped silently.
    """
    inside = np.concatenate([inner[np.isfinite(inner)].ravel(), [v for v in always if v is not None]])
    outside = outer[np.isfinite(outer)].ravel()
    if not inside.size:
        inside = outside
    if not inside.size:
        return 0.0, 1.0
    low, high = float(inside.min()), float(inside.max())
    # A curve whose last points run away must not flatten the others either.
    places = np.array([0.1, 0.85]) * (inside.size - 1)
    middle_low, middle_high = np.interp(places, np.arange(inside.size), np.sort(inside)).tolist()
    reach = 6 * max(middle_high - middle_low, 0.01 * abs(middle_high), 1e-9)
    low, high = max(low, middle_low - reach), min(high, middle_high + reach)
    span = max(high - low, 0.02 * max(abs(high), 1e-9), 1e-9)
    for value in outside.tolist():
        if low - 0.8 * span <= value <= high + 0.8 * span:
            low, high = min(low, value), max(high, value)
    span = max(high - low, 0.02 * max(abs(high), 1e-9), 1e-9)
    return low - pad * span, high + pad * span


def whiskers(values: np.ndarray, low: np.ndarray, high: np.ndarray, among: np.ndarray | None = None) -> np.ndarray:
    """Return the ends of 95 % intervals, as far as they may set a range: with few draws an interval may be many times
    as wide as the spread of values, here or ``among`` others, and would flatten them."""
    seen = values if among is None else among
    seen = seen[np.isfinite(seen)]
    spread = float(np.ptp(seen)) if seen.size > 1 else np.inf
    down, up = (
        np.where(length <= LONGEST_WHISKER * spread, length, spread)
        for length in bar_lengths(values, (low, high), np.inf)
    )
    return np.concatenate([(values - down).ravel(), (values + up).ravel()])


LONGEST_WHISKER = 3.0  # spreads of the values


def bar_lengths(values: np.ndarray, ends: tuple[np.ndarray, np.ndarray], width: float) -> tuple[np.ndarray, np.ndarray]:
    """Return lengths of error bars below and above values, 0 for unknown ends. An infinite interval leaves an axis of
    this width."""
    down, up = (np.nan_to_num(reach, nan=0.0, posinf=2 * width) for reach in (values - ends[0], ends[1] - values))
    return np.maximum(down, 0.0), np.maximum(up, 0.0)


def clamp(values: np.ndarray, span: Span) -> tuple[np.ndarray, np.ndarray]:
    """Return values brought to the edge of the range, and +1 / -1 / 0 for above, below, inside."""
    side = np.where(values > span[1], 1, np.where(values < span[0], -1, 0))
    inset = 0.07 * (span[1] - span[0])
    return np.where(side > 0, span[1] - inset, np.where(side < 0, span[0] + inset, values)), side


def spread_labels(values: Sequence[float], gap: float, low: float = -math.inf, high: float = math.inf) -> list[float]:
    """Return heights of labels, moved apart around their middle where they are nearer than ``gap``; their order stays.

    Labels beyond an edge would not be drawn: together they move to below ``high``, and to above ``low``. All are NaN
    where one is.
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    placed: list[float] = []
    for index in order:
        placed.append(max(values[index], placed[-1] + gap) if placed else values[index])
    shift = (sum(placed) - sum(values)) / max(1, len(values))
    shift = min(max(shift, max(placed, default=0.0) - high), min(placed, default=0.0) - low)
    heights = dict(zip(order, placed, strict=True))
    return [heights[index] - shift for index in range(len(values))]
