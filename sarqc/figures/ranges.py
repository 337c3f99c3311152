"""Axes of figures with their ranges: of λ, of quantities, of the rows of a map; and where a value lies on them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sarqc.figures.drawing import Part, Span

PERCENT = ".1~%"  # of ticks
PLAIN_AXIS = {"fixedrange": True, "zeroline": False, "gridcolor": "var(--grid)", "ticks": ""}


def lam_axis(names: Sequence[str]) -> Part:
    """An ordinal λ axis with 0 on it: equal steps between the values that were tried, by their names."""
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


def row_axis(title: str, count: int, standoff: int) -> Part:
    """Return the axis of a map's rows, so many, by their names."""
    axis = {"type": "category", "fixedrange": True, "ticks": "", "showgrid": False}
    return axis | {"title": {"text": title, "standoff": standoff}, "range": [-0.5, count - 0.5]}


def even_ticks(span: Span, most: int) -> Part:
    """At most about so many ticks on an axis, all with the same decimals: plotly's own drop zeros at the end."""
    rough = max((span[1] - span[0]) / most, 1e-12)
    base = 10.0 ** math.floor(math.log10(rough))
    step = base * next(times for times in (1, 2, 5, 10) if times * base >= rough * (1 - 1e-9))
    return {"tick0": 0, "dtick": step, "tickformat": f".{step_decimals(step)}f"}


def step_decimals(step: float) -> int:
    """Return the decimals of ticks that are so far apart."""
    return max(0, -math.floor(math.log10(step) + 1e-9))


def position(lam: float, lams: Sequence[float]) -> float | None:
    """Where a λ lies on the ordinal axis; between two ticks in proportion, None beyond the ends."""
    if not lams or lam < lams[0] - 1e-12 or lam > lams[-1] + 1e-12:
        return None
    return float(np.interp(lam, lams, range(len(lams))))


def honest_range(inner: np.ndarray, outer: np.ndarray, *, always: Sequence[float] = (), pad: float = 0.12) -> Span:
    """Range of an axis: all ``inner`` values, and those of ``outer`` (λ = 0) that do not flatten the rest.

    What stays outside is marked at the edge with its value (see ``clamp``), never dropped silently.
    """
    inside = np.concatenate([inner[np.isfinite(inner)].ravel(), [v for v in always if v is not None]])
    outside = outer[np.isfinite(outer)].ravel()
    if not inside.size:
        inside = outside
    if not inside.size:
        return 0.0, 1.0
    low, high = float(inside.min()), float(inside.max())
    # A curve whose last points run away must not flatten the others either.
    at = np.array([0.1, 0.85]) * (inside.size - 1)
    middle_low, middle_high = np.interp(at, np.arange(inside.size), np.sort(inside)).tolist()
    reach = 6 * max(middle_high - middle_low, 0.01 * abs(middle_high), 1e-9)
    low, high = max(low, middle_low - reach), min(high, middle_high + reach)
    span = max(high - low, 0.02 * max(abs(high), 1e-9), 1e-9)
    for value in outside.tolist():
        if low - 0.8 * span <= value <= high + 0.8 * span:
            low, high = min(low, value), max(high, value)
    span = max(high - low, 0.02 * max(abs(high), 1e-9), 1e-9)
    return low - pad * span, high + pad * span


def whiskers(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The ends of 95 % intervals, as far as they may set a range: of few draws an interval is many times as wide as all
    values are apart, and would flatten them."""
    seen = values[np.isfinite(values)]
    most = float(np.ptp(seen)) if seen.size > 1 else np.inf
    down, up = (np.minimum(length, most) for length in bar_lengths(values, (low, high), most))
    return np.concatenate([(values - down).ravel(), (values + up).ravel()])


def bar_lengths(values: np.ndarray, ends: tuple[np.ndarray, np.ndarray], width: float) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of error bars below and above values, 0 where an end is not known. An infinite interval reaches out of
    an axis of this width."""
    down, up = (np.nan_to_num(reach, nan=0.0, posinf=2 * width) for reach in (values - ends[0], ends[1] - values))
    return np.maximum(down, 0.0), np.maximum(up, 0.0)


def clamp(values: np.ndarray, span: Span) -> tuple[np.ndarray, np.ndarray]:
    """Values brought to the edge of the range, and +1 / -1 / 0 for above, below, inside."""
    side = np.where(values > span[1], 1, np.where(values < span[0], -1, 0))
    inset = 0.07 * (span[1] - span[0])
    return np.where(side > 0, span[1] - inset, np.where(side < 0, span[0] + inset, values)), side


def apart(values: Sequence[float], gap: float, low: float = -math.inf, high: float = math.inf) -> list[float]:
    """Heights of labels, moved apart around their middle where they are nearer than ``gap``; their order stays.

    Labels beyond an edge would not be drawn: together they move to below ``high``, and to above ``low``. All are NaN
    where one is.
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    placed: list[float] = []
    for at in order:
        placed.append(max(values[at], placed[-1] + gap) if placed else values[at])
    shift = (sum(placed) - sum(values)) / max(1, len(values))
    shift = min(max(shift, max(placed, default=0.0) - high), min(placed, default=0.0) - low)
    heights = dict(zip(order, placed, strict=True))
    return [heights[at] - shift for at in range(len(values))]
