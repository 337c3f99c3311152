"""Reconstruction error against weight drift: the points, their lower convex hull, and the weight that selects each.

Corollary 1 made visible. The hull lies in the plane (relative drift², relative reconstruction error) of the very points
that are drawn, so its weight is a multiplier μ of relative drift², and not the λ of a solver, which may weigh channels.
"""

import math
from collections.abc import Sequence

import numpy as np

from sarqc.figures.drawing import (
    HELD_OUT,
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
from sarqc.figures.numbers import point_names, significant
from sarqc.figures.titles import set_finding, trade_off_finding
from sarqc.quantization.hull import weight_intervals
from sarqc.study.facts import LineFacts

Interval = tuple[float, float]
NO_WEIGHT = (math.inf, -math.inf)


def plane(facts: LineFacts) -> Figure | None:
    """Return the points of a line joined in the order of λ; None for a line of one."""
    kinds = (("unseen text", HELD_OUT, facts.held_out), ("calibration text", RECON, facts.recon))
    curves = [(name, style, errors) for name, style, errors in kinds if errors is not None]
    if facts.drift is None or not curves or len(facts.line.lams) < 2:
        return None
    names, inner = point_names(facts.line), np.array([lam > 0 for lam in facts.line.lams])
    every = [np.concatenate([errors[:, mask].ravel() for *_, errors in curves]) for mask in (inner, ~inner)]
    span_y = honest_range(*every, pad=0.14)
    span_x = honest_range(facts.drift[:, inner], facts.drift[:, ~inner], pad=0.08)
    across = even_axis(span_x, 6) | {"title": {"text": "", "standoff": 4}}
    figure = new_figure(across, even_axis(span_y, 5), left=52, right=14, top=6, bottom=34)
    x, side_x = clamp(facts.drift, span_x)
    supports: list[list[list[Interval]]] = []  # for each curve and γ
    for name, style, errors in curves:
        y, side_y = clamp(errors, span_y)
        supports.append([plane_intervals(drift, row) for drift, row in zip(facts.drift, errors, strict=True)])
        _add_curve(figure, facts, supports[-1], (name, style), x, y, (side_x != 0) | (side_y != 0))
    _name_points(figure, names, x, clamp(curves[0][2], span_y)[0])
    hollow = [any(NO_WEIGHT in curve[g] for curve in supports) for g in range(len(facts.drift))]
    words = ["drift (open marks: off the convex hull)" if some else "drift" for some in hollow]
    arias = [
        _aria(names, curves[0][0], drift, errors, support)
        for drift, errors, support in zip(facts.drift, curves[0][2], supports[0], strict=True)
    ]
    figure["bindings"] += [bind("layout.xaxis.title.text", words, "gamma"), bind("aria", arias, "gamma")]
    figure["title"] = "Error against drift"
    set_finding(figure, trade_off_finding(facts))
    # For the line R of the page: the point of least error among those that drift no more than R.
    name, _, errors = curves[-1]
    drift, error = plain_numbers(facts.drift), plain_numbers(errors)
    figure["radius"] = {"drift": drift, "error": error, "names": names, "on": name}
    return figure


def plane_intervals(drift: Sequence[float], error: Sequence[float]) -> list[Interval]:
    """Return for each point the μ ≥ 0 at which error + μ · drift² is smallest over all of them; empty where none.

    Points that were not measured are left out and have none.
    """
    pairs = [(float(distance) ** 2, float(loss)) for distance, loss in zip(drift, error, strict=True)]
    measured = [math.isfinite(square) and math.isfinite(value) for square, value in pairs]
    intervals = iter(weight_intervals([pair for pair, known in zip(pairs, measured, strict=True) if known]))
    return [next(intervals) if known else NO_WEIGHT for known in measured]


def _add_curve(
    figure: Figure,
    facts: LineFacts,
    supports: list[list[Interval]],
    curve: tuple[str, Role],
    x: np.ndarray,
    y: np.ndarray,
    off: np.ndarray,
) -> None:
    """Add one error: the path through its points, their hull, the points themselves, and the shown one."""
    (name, style), all_drift = curve, facts.drift
    assert all_drift is not None
    path = unclipped("way", mode="lines", line=line_of(style), hoverinfo="skip")
    add_trace(figure, path, {"x": x, "y": y}, "gamma")
    # The supported points from the smallest drift to the largest.
    hulls = [
        [k for k in np.argsort(drift, kind="stable") if support[k] != NO_WEIGHT]
        for drift, support in zip(all_drift, supports, strict=True)
    ]
    along = {key: [values[g, hull] for g, hull in enumerate(hulls)] for key, values in (("x", x), ("y", y))}
    thin = {"color": "var(--ink-2)", "width": 1}
    add_trace(figure, unclipped("hull", mode="lines", line=thin, hoverinfo="skip"), along, "gamma")
    symbols = np.where(off, "triangle-right", style["symbol"]).tolist()
    symbols = [
        [f"{symbol}-open" if interval == NO_WEIGHT else symbol for symbol, interval in zip(row, support, strict=True)]
        for row, support in zip(symbols, supports, strict=True)
    ]
    edge = {"width": 1.5, "color": style["color"]}
    marker = {"color": style["color"], "size": 7, "symbol": [], "line": edge}
    template = f"%{{text}}<extra>{name}</extra>"
    marks = unclipped(name, mode="markers", text=point_names(facts.line), hovertemplate=template, marker=marker)
    add_trace(figure, marks, {"x": x, "y": y, "marker.symbol": symbols}, "gamma")
    ring = {"size": 12, "color": style["color"], "symbol": [], "line": RING}
    shown = {"x": x[..., None], "y": y[..., None], "marker.symbol": [[[symbol] for symbol in row] for row in symbols]}
    add_trace(figure, unclipped("shown", mode="markers", hoverinfo="skip", marker=ring), shown)


def _name_points(figure: Figure, names: Sequence[str], x: np.ndarray, y: np.ndarray) -> None:
    """Label both ends of the path."""
    last = len(names) - 1
    for index, yanchor, yshift in ((0, "top", -8), (last, "bottom", -2)):
        place = {"xanchor": "left", "xshift": 8} if index else {"xanchor": "center"}
        path = add_note(figure, names[index], x=0, y=0, yanchor=yanchor, yshift=yshift, **place)
        bind_fields(figure, path, {"x": x[:, index], "y": y[:, index]}, "gamma")


def _aria(names: Sequence[str], on: str, drift: np.ndarray, error: np.ndarray, supports: Sequence[Interval]) -> str:
    """Describe the path, and the points that some weight selects."""
    ends = [
        " to ".join(significant(row[at]) if math.isfinite(row[at]) else "not measured" for at in (0, -1))
        for row in (drift, error)
    ]
    route = f"From {names[0]} to {names[-1]} weight drift goes from {ends[0]}"
    text = f"{route} and reconstruction error on {on} from {ends[1]}."
    selected = [name for name, interval in zip(names, supports, strict=True) if interval != NO_WEIGHT]
    if len(selected) == len(names):
        return f"{text} Each point is selected by some weight of drift."
    missed = len(names) - len(selected)
    return f"{text} Some weight of drift selects {', '.join(selected)}; none selects the other {missed}."
