"""Reconstruction error against weight drift: the points, their lower convex hull, and the weight that selects each.

Corollary 1 made visible. The hull lies in the plane (relative drift², relative reconstruction error) of the very points
that are drawn, so its weight is a multiplier μ of relative drift², and not the λ of a solver, which may weigh channels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sarqc.figures.drawing import (
    HELD_OUT,
    PAPER,
    RECON,
    RING,
    Figure,
    Role,
    add_note,
    add_trace,
    bind,
    bind_fields,
    clamp,
    even_axis,
    honest_range,
    line_of,
    new_figure,
    plain_numbers,
    unclipped,
)
from sarqc.figures.numbers import lam_text, point_names, significant, two_digits
from sarqc.figures.titles import set_finding, trade_off_finding
from sarqc.quantization.hull import weight_intervals
from sarqc.study.facts import LineFacts, is_point, line_facts

Interval = tuple[float, float]
NO_WEIGHT = (math.inf, -math.inf)


@dataclass(frozen=True)
class _Points:
    """The drawn points, P for each γ, and the index of the shown one for each λ of the line."""

    names: list[str]  # P
    drift: np.ndarray  # G P
    errors: tuple[tuple[str, Role, np.ndarray], ...]  # name, style, G P
    inner: np.ndarray  # P, False for points that must not flatten the rest
    shown: list[int]  # for each λ
    lines: list[str] | None = None  # names of lines, where the points are those of several methods


def plane(facts: LineFacts) -> Figure | None:
    """Return the points of a line joined in the order of λ; for a line of one point, those of the study's other
    methods."""
    if facts.drift is None or (facts.recon is None and facts.held_out is None):
        return None
    if (count := len(facts.line.lams)) > 1:
        inner = np.array([lam > 0 for lam in facts.line.lams])
        points = _Points(point_names(facts.line), facts.drift, _errors([facts]), inner, [*range(count)])
    else:
        points = _method_points(facts)
    every = [
        np.concatenate([v[:, mask].ravel() for _, _, v in points.errors]) for mask in (points.inner, ~points.inner)
    ]
    span_y = honest_range(every[0], every[1], pad=0.14)
    span_x = honest_range(points.drift[:, points.inner], points.drift[:, ~points.inner], pad=0.08)
    across = even_axis(span_x, 6) | {"title": {"text": "", "standoff": 4}}
    top = 6 if points.lines is None else 20
    figure = new_figure(across, even_axis(span_y, 5), left=52, right=14, top=top, bottom=34)
    x, side_x = clamp(points.drift, span_x)
    supports: list[list[list[Interval]]] = []  # for each curve and γ
    for name, style, values in points.errors:
        y, side_y = clamp(values, span_y)
        supports.append([plane_intervals(drift, row) for drift, row in zip(points.drift, values, strict=True)])
        _add_curve(figure, points, supports[-1], name, style, x, y, (side_x != 0) | (side_y != 0))
    _name_points(figure, points, x, clamp(points.errors[0][2], span_y)[0])
    hollow = [any(NO_WEIGHT in curve[g] for curve in supports) for g in range(len(points.drift))]
    words = ["drift (open marks: off the convex hull)" if some else "drift" for some in hollow]
    arias = [_aria(points, supports[0][g], g) for g in range(len(points.drift))]
    figure["bindings"] += [bind("layout.xaxis.title.text", words, "gamma"), bind("aria", arias, "gamma")]
    figure["title"] = "Error against drift"
    set_finding(figure, trade_off_finding(facts))
    if points.lines is None:
        # For the line R of the page: the point of least error among those that drift no more than R.
        name, _, errors = points.errors[-1]
        drift, error = plain_numbers(points.drift), plain_numbers(errors)
        figure["radius"] = {"drift": drift, "error": error, "names": points.names, "on": name}
    return figure


def plane_intervals(drift: Sequence[float], error: Sequence[float]) -> list[Interval]:
    """Return for each point the μ ≥ 0 at which error + μ · drift² is smallest over all of them; empty where none.

    Points that were not measured are left out and have none.
    """
    pairs = [(float(distance) ** 2, float(loss)) for distance, loss in zip(drift, error, strict=True)]
    measured = [math.isfinite(square) and math.isfinite(value) for square, value in pairs]
    intervals = iter(weight_intervals([pair for pair, known in zip(pairs, measured, strict=True) if known]))
    return [next(intervals) if known else NO_WEIGHT for known in measured]


def _method_points(facts: LineFacts) -> _Points:
    """Return every line of one point at this width and with the same quantities measured."""
    study, line = facts.study, facts.line
    every = [
        facts
        if other.name == line.name
        else line_facts(study, method=other.name, bits=line.bits, layer=facts.layer, with_identity=False)
        for other in study.lines
        if other.bits == line.bits and is_point(other)
    ]

    def measured(candidate: LineFacts) -> list[bool]:
        return [quantity is not None for quantity in (candidate.drift, candidate.recon, candidate.held_out)]

    alike = [candidate for candidate in every if measured(candidate) == measured(facts)]
    drift = np.concatenate([candidate.drift for candidate in alike if candidate.drift is not None], axis=1)
    labels, lines = [candidate.line.label for candidate in alike], [candidate.line.name for candidate in alike]
    return _Points(labels, drift, _errors(alike), np.ones(len(alike), dtype=bool), [lines.index(line.name)], lines)


def _errors(methods: list[LineFacts]) -> tuple[tuple[str, Role, np.ndarray], ...]:
    kinds = (("unseen text", HELD_OUT, "held_out"), ("calibration text", RECON, "recon"))
    return tuple(
        (name, style, np.concatenate([getattr(facts, kind) for facts in methods], axis=1))
        for name, style, kind in kinds
        if getattr(methods[0], kind) is not None
    )


def _add_curve(
    figure: Figure,
    points: _Points,
    supports: list[list[Interval]],
    name: str,
    style: Role,
    x: np.ndarray,
    y: np.ndarray,
    off: np.ndarray,
) -> None:
    """Add one error: the path through its points, their hull, the points themselves, and the shown one."""
    if points.lines is None:
        path = unclipped("way", mode="lines", line=line_of(style), hoverinfo="skip")
        add_trace(figure, path, {"x": x, "y": y}, "gamma")
    # The supported points from the smallest drift to the largest.
    hulls = [
        [k for k in np.argsort(drift, kind="stable") if supports[g][k] != NO_WEIGHT]
        for g, drift in enumerate(points.drift)
    ]
    along = {key: [values[g, hull] for g, hull in enumerate(hulls)] for key, values in (("x", x), ("y", y))}
    thin = {"color": "var(--ink-2)", "width": 1}
    add_trace(figure, unclipped("hull", mode="lines", line=thin, hoverinfo="skip"), along, "gamma")
    symbols = np.where(off, "triangle-right", style["symbol"]).tolist()
    symbols = [
        [f"{symbol}-open" if interval == NO_WEIGHT else symbol for symbol, interval in zip(row, support, strict=True)]
        for row, support in zip(symbols, supports, strict=True)
    ]
    texts = [
        [f"{label}<br>{weight_text(end)}" for label, end in zip(points.names, row, strict=True)] for row in supports
    ]
    edge = {"width": 1.5, "color": style["color"]}
    marker = {"color": style["color"], "size": 7, "symbol": [], "line": edge}
    template = f"%{{text}}<extra>{name}</extra>"
    links = {} if points.lines is None else {"customdata": points.lines}
    marks = unclipped(name, mode="markers", text=[], hovertemplate=template, marker=marker, **links)
    add_trace(figure, marks, {"x": x, "y": y, "text": texts, "marker.symbol": symbols}, "gamma")
    ring = {"size": 12, "color": style["color"], "symbol": [], "line": RING}
    shown = {
        "x": x[:, points.shown, None],
        "y": y[:, points.shown, None],
        "marker.symbol": [[[row[k]] for k in points.shown] for row in symbols],
    }
    add_trace(figure, unclipped("shown", mode="markers", hoverinfo="skip", marker=ring), shown)


def weight_text(interval: Interval) -> str:
    """Describe the multipliers of relative drift² for which a point is the best of all drawn."""
    lowest, highest = interval
    if interval == NO_WEIGHT:
        return "no weight μ selects this point"
    low, high = (lam_text(two_digits(end)) for end in interval)
    if lowest == 0 and math.isinf(highest):
        weights = "every μ"
    elif lowest == highest:
        weights = f"μ = {low} alone"
    elif lowest == 0:
        weights = f"μ up to {high}"
    else:
        weights = f"μ from {low} on" if math.isinf(highest) else f"μ from {low} to {high}"
    return f"minimises reconstruction + μ · drift²<br>for {weights}"


def _name_points(figure: Figure, points: _Points, x: np.ndarray, y: np.ndarray) -> None:
    """Label both ends of the path, or above the plot the one method that is shown."""
    if points.lines is not None:
        if len(points.lines) > 1:
            add_note(figure, f"shown: {points.names[points.shown[0]]}", **PAPER, x=0, y=1, yshift=2)
        return
    last = len(points.names) - 1
    for index, yanchor, yshift in ((0, "top", -8), (last, "bottom", -2)):
        place = {"xanchor": "left", "xshift": 8} if index else {"xanchor": "center"}
        path = add_note(figure, points.names[index], x=0, y=0, yanchor=yanchor, yshift=yshift, **place)
        bind_fields(figure, path, {"x": x[:, index], "y": y[:, index]}, "gamma")


def _aria(points: _Points, supports: list[Interval], gamma: int) -> str:
    name, _, errors = points.errors[0]
    drift, error, last = points.drift[gamma], errors[gamma], len(points.names) - 1
    if points.lines is None:
        text = (
            f"From {points.names[0]} to {points.names[last]} weight drift goes from {_value(drift[0])} to "
            f"{_value(drift[last])} and reconstruction error on {name} from {_value(error[0])} to "
            f"{_value(error[last])}."
        )
    else:
        rows = zip(points.names, drift, error, strict=True)
        listed = "; ".join(f"{label} {_value(distance)} and {_value(loss)}" for label, distance, loss in rows)
        text = f"Weight drift and reconstruction error on {name}: {listed}."
    selected = [points.names[k] for k in range(last + 1) if supports[k] != NO_WEIGHT]
    if len(selected) == last + 1:
        return f"{text} Each point is selected by some weight of drift."
    names, missed = ", ".join(selected), last + 1 - len(selected)
    return f"{text} Some weight of drift selects {names}; none selects the other {missed}."


def _value(value: float) -> str:
    return significant(value) if math.isfinite(value) else "not measured"
