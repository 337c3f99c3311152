"""Drift by decile of channel saliency at the smallest λ, at the shown one, and without saliency: what it protects.

Beside it the same drift as a difference to identity's, in percent: the two curves are near each other, and which
channels saliency holds, and which it lets go, is in that difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sarqc.figures.changes import SAME, change_text, times_text
from sarqc.figures.drawing import (
    DRIFT,
    PLAIN_AXIS,
    Figure,
    Role,
    apart,
    base_layout,
    bind,
    even_ticks,
    honest_range,
    note,
)
from sarqc.figures.layer_map import layer_label
from sarqc.figures.numbers import number, point_names, significant
from sarqc.figures.titles import at_each, fitting, set_finding
from sarqc.study.facts import LineFacts, equal_points

LABEL_GAP = 0.2  # least distance of two labels at the lines' ends, as a share of the axis
# Side by side, or one above the other where the card is as narrow as a phone.
LEFT, RIGHT, UPPER, LOWER = (0, 0.48), (0.73, 1), (0.62, 1), (0, 0.34)
NARROW_BELOW = 420


def deciles(facts: LineFacts) -> Figure | None:
    """Root-mean-square drift of the first draw, by decile; identity is drawn where the study has it at some λ."""
    chosen = decile_drift(facts)
    if chosen is None:
        return None
    names, several = point_names(facts.line), len(facts.line.lams) > 1
    twin = _identity(facts) if several else None
    every = [chosen] if twin is None else [chosen, twin]
    # Without damping a channel may drift a thousandfold, which would flatten everything else.
    inner, outer = ([one[:, 1:] for one in every], [one[:, :1] for one in every]) if several else (every, [])
    high = honest_range(_flat(inner), _flat(outer), always=(0.0,), pad=0.08)[1]
    count = chosen.shape[-1]
    layout = base_layout(left=50, right=72, top=8, bottom=24)
    names_of_ends = ["least salient", "most salient"]
    ends = {"tickvals": [0, count - 1], "ticktext": names_of_ends, "range": [-0.6, count - 0.4]}
    clear = {"ticks": "outside", "ticklen": 5, "tickcolor": "rgba(0,0,0,0)"}
    layout["xaxis"] = {**PLAIN_AXIS, **ends, **clear, "showgrid": False}
    layout["yaxis"] = {**PLAIN_AXIS, "range": [0, high], **even_ticks((0, high), 4)}
    where = "all layers" if facts.layer is None else layer_label(facts.study.layers[facts.layer])
    figure: Figure = {"data": [], "layout": layout, "bindings": []}
    figure["title"], figure["subtitle"] = "Drift by saliency decile", f", {where}"
    if several:
        first = np.repeat(chosen[:, :1], chosen.shape[1], axis=1)
        if (most := float(np.nanmax(chosen[:, 0]))) > high:
            reach = f"{names[0]} up to {significant(most)}"
            figure["subtitle"] += f"; {reach}".replace(" = ", "\u00a0=\u00a0")
        grey: Role = {"color": "var(--ink-3)", "dash": "dot", "symbol": "circle"}
        _add(figure, first, [names[0]] * len(names), grey)
    if twin is not None:
        faint: Role = {"color": "var(--drift-faint)", "dash": "solid", "symbol": "square"}
        _add(figure, twin, ["identity"] * len(names), faint)
    _add(figure, chosen, names if several else [""], {**DRIFT, "dash": "solid"})
    _place_labels(figure, high)
    if twin is not None:
        _against_identity(figure, 100 * (chosen / twin - 1))
    texts = [[_aria(row[0], row[lam], names, lam) for lam in range(len(names))] for row in chosen]
    if twin is not None:
        texts = [
            [text + _identity_aria(mine, row) for text, mine, row in zip(each, own, rows, strict=True)]
            for each, own, rows in zip(texts, chosen, twin, strict=True)
        ]
    figure["bindings"].append(bind("aria", texts, "gamma", "lambda"))
    set_finding(figure, at_each(facts, lambda g, m: _finding(facts, chosen, twin, (g, m))))
    return figure


def _finding(facts: LineFacts, chosen: np.ndarray, twin: np.ndarray | None, at: tuple[int, int]) -> str:
    """The most salient decile: against identity, against the smallest λ, or against the least salient decile."""
    own = float(chosen[at][-1])
    point = point_names(facts.line)[at[1]]
    is_positive = own > 0 and facts.line.lams[at[1]] > 0
    if twin is not None and is_positive and (other := float(twin[at][-1])) > 0:
        return _against(own / other, point, "under identity")
    if at[1] > 0 and is_positive and (other := float(chosen[at[0], 0, -1])) > 0:
        return _against(own / other, point, f"at {point_names(facts.line)[0]}")
    least = float(chosen[at][0])
    if not (own > 0 and least > 0):
        return ""
    return f"The most salient decile drifts {times_text(own / least)} as much as the least"


def _against(ratio: float, point: str, other: str) -> str:
    """The drift of the most salient decile beside that “under identity”, or “at λ = 0”."""
    if abs(ratio - 1) < SAME:
        return fitting(f"{point}: most salient decile drifts as {other}")
    change = f"{change_text(ratio - 1)} {'less' if ratio < 1 else 'more'} than {other}"
    return fitting(f"{point}: most salient decile drifts {change}", f"{point}: most salient drift {change}")


def _flat(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([array.ravel() for array in arrays]) if arrays else np.empty(0)


def decile_drift(facts: LineFacts) -> np.ndarray | None:
    """Root-mean-square ΔW by decile, (G, M, 10): of the layer, or over the layers together; None where not recorded."""
    array = facts.read("deciles", facts.layer)  # L G M 10, or G M 10
    if array is None or facts.layer is not None:
        return array
    drift: np.ndarray = np.sqrt(np.nanmean(array**2, axis=0))
    return drift


def _identity(facts: LineFacts) -> np.ndarray | None:
    """The identity line's drift at each λ of this line, NaN where it has no such λ; equal for every γ."""
    found = None if facts.identity is None else decile_drift(facts.identity)
    if facts.identity is None or found is None:
        return None
    columns = equal_points(facts.line, facts.identity.line)
    nothing = np.full(found.shape[-1], np.nan)
    row = np.stack([nothing if column is None else found[0, column] for column in columns])  # M 10
    if not np.isfinite(row).any():
        return None
    return np.tile(row, (len(facts.line.gammas), 1, 1))


def _add(figure: Figure, values: np.ndarray, labels: list[str], style: Role) -> None:
    """One curve (G, M, 10) with its name at its end."""
    at, last = len(figure["data"]), values.shape[-1] - 1
    marker = {"color": style["color"], "symbol": style["symbol"], "size": 6}
    figure["data"].append(
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": labels[0],
            "x": list(range(last + 1)),
            "y": [],
            "line": {"color": style["color"], "dash": style["dash"], "width": 2},
            "marker": marker,
            "hovertemplate": "decile %{x}: %{y:.4f}" + "<extra></extra>",
        }
    )
    ink = "var(--drift-ink)" if style["color"] == DRIFT["color"] else "var(--ink-2)"
    place: dict[str, Any] = {"x": last, "y": 0, "xshift": 10, "yanchor": "middle", "font": {"size": 12, "color": ink}}
    figure["layout"]["annotations"].append(note(labels[0], **place))
    figure["bindings"] += [
        bind(f"data.{at}.y", values, "gamma", "lambda"),
        bind(f"data.{at}.name", labels, "lambda"),
        bind(f"layout.annotations.{at}.text", labels, "lambda"),
    ]


def _against_identity(figure: Figure, percent: np.ndarray) -> None:
    """A second panel: how much more each decile drifts than under identity at the same λ, (G, M, 10) in percent."""
    layout, last = figure["layout"], percent.shape[-1] - 1
    reach = max(float(np.nanmax(np.abs(percent))) * 1.15, 1.0)
    layout["margin"] |= {"t": 24, "r": 14}
    layout["xaxis"] |= {"domain": list(LEFT), "anchor": "y"}
    layout["xaxis2"] = {**layout["xaxis"], "domain": list(RIGHT), "anchor": "y2"}
    layout["xaxis2"]["ticktext"] = ["least", "most"]
    mark = next(step for step in (50, 20, 10, 5, 2, 1, 0.5) if step <= reach)
    size = f"{mark:g}"
    marks = {"tickvals": [-mark, 0, mark], "ticktext": [f"−{size} %", "0 %", f"+{size} %"]}
    layout["yaxis2"] = {**PLAIN_AXIS, **marks, "range": [-reach, reach], "anchor": "x2"}
    layout["shapes"].append(
        {
            "type": "line",
            "layer": "below",
            "xref": "x2 domain",
            "yref": "y2",
            "x0": 0,
            "x1": 1,
            "y0": 0,
            "y1": 0,
            "line": {"color": "var(--ink-3)", "width": 1, "dash": "dot"},
        }
    )
    figure["bindings"].append(bind(f"data.{len(figure['data'])}.y", percent, "gamma", "lambda"))
    figure["data"].append(
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": "against identity",
            "x": list(range(last + 1)),
            "y": [],
            "xaxis": "x2",
            "yaxis": "y2",
            "cliponaxis": False,
            "line": {"color": DRIFT["color"], "width": 2},
            "marker": {"color": DRIFT["color"], "symbol": DRIFT["symbol"], "size": 5},
            "hovertemplate": "decile %{x}: %{y:+.1f} % against identity" + "<extra></extra>",
        }
    )
    title = {"xref": "paper", "yref": "paper", "x": 1, "y": 1, "yshift": 6, "xanchor": "right"}
    at = len(layout["annotations"])
    layout["annotations"].append(note("saliency against identity", **title))
    figure["narrow_below"] = NARROW_BELOW
    figure["narrow"] = {
        "layout.xaxis.domain": [0, 0.8],
        "layout.xaxis2.domain": [0, 0.8],
        "layout.yaxis.domain": list(UPPER),
        "layout.yaxis2.domain": list(LOWER),
        f"layout.annotations.{at}.x": 0,
        f"layout.annotations.{at}.xanchor": "left",
        f"layout.annotations.{at}.y": LOWER[1],
        "layout.margin.t": 8,
    }


def _place_labels(figure: Figure, high: float) -> None:
    """Heights of the end labels at each point, never nearer than the gap; what is not there, or twice, has none."""
    curves = [bound["values"] for bound in figure["bindings"] if "values" in bound and bound["path"].endswith(".y")]
    n_g, n_m, n_c = len(curves[0]), len(curves[0][0]), len(curves)
    heights = np.zeros((n_c, n_g, n_m))
    shown = np.ones((n_c, n_g, n_m), dtype=bool)
    for g in range(n_g):
        for m in range(n_m):
            ends = [curve[g][m][-1] for curve in curves]
            there = [i for i, end in enumerate(ends) if end is not None and not (m == 0 and 0 < i == n_c - 1)]
            placed = dict(zip(there, apart([ends[i] for i in there], LABEL_GAP * high, 0.0, 0.97 * high), strict=True))
            for i in range(n_c):
                shown[i, g, m] = i in placed
                heights[i, g, m] = placed.get(i, 0.0)
    for i in range(n_c):
        figure["bindings"] += [
            bind(f"layout.annotations.{i}.y", heights[i], "gamma", "lambda"),
            bind(f"layout.annotations.{i}.visible", shown[i].tolist(), "gamma", "lambda"),
        ]


def _aria(first: np.ndarray, shown: np.ndarray, names: list[str], lam: int) -> str:
    least, most = (number(float(shown[at]), 4) for at in (0, -1))
    if len(names) < 2:
        return (
            f"Root-mean-square weight change by saliency decile, {names[lam]}: least salient {least}, most salient "
            f"{most}."
        )
    return (
        f"Root-mean-square weight change by saliency decile at {names[lam]}: least salient {least}, most salient "
        f"{most}; at {names[0]} {number(float(first[0]), 4)} and {number(float(first[-1]), 4)}."
    )


def _identity_aria(mine: np.ndarray, row: np.ndarray) -> str:
    if not np.isfinite(row).all():
        return ""
    changes = [f"{100 * (float(mine[at] / row[at]) - 1):+.1f} %".replace("-", "−") for at in (0, -1)]
    text = (
        f"Identity at this λ: {number(float(row[0]), 4)} and {number(float(row[-1]), 4)}; against it the least "
        f"salient drift {changes[0]}, the most salient {changes[1]}."
    )
    return f" {text}"
