"""Drift by decile of channel saliency at the smallest λ, at the shown one, and without saliency: what it protects."""

import numpy as np

from sarqc.figures.drawing import (
    DRIFT,
    PLAIN_AXIS,
    Figure,
    Role,
    add_note,
    add_trace,
    bind_fields,
    even_axis,
    honest_range,
    ink_of,
    line_of,
    marker_of,
    new_figure,
    scatter,
    spread_labels,
)
from sarqc.figures.layer_map import layer_label
from sarqc.figures.numbers import SAME, At, change_text, number, point_names, significant, times_text
from sarqc.figures.titles import bind_aria, finding_by_point, fit_text, set_finding
from sarqc.study.facts import LineFacts, equal_points

LABEL_GAP = 0.2  # least distance of two labels at the lines' ends, as a share of the axis


def deciles(facts: LineFacts) -> Figure | None:
    """Return root-mean-square drift of the first draw, by decile; identity is drawn where the study has it at some
    λ."""
    chosen = decile_drift(facts)
    if chosen is None:
        return None
    names, several = point_names(facts.line), len(facts.line.lams) > 1
    twin = _identity(facts) if several else None
    curves = [chosen] if twin is None else [chosen, twin]
    # Without damping a channel may drift a thousandfold, which would flatten everything else.
    inner, outer = ([curve[:, 1:] for curve in curves], [curve[:, :1] for curve in curves]) if several else (curves, [])
    high = honest_range(_flat(inner), _flat(outer), always=(0.0,), pad=0.08)[1]
    count = chosen.shape[-1]
    ends = {
        "tickvals": [0, count - 1],
        "ticktext": ["least salient", "most salient"],
        "range": [-0.6, count - 0.4],
    }
    clear = {"ticks": "outside", "ticklen": 5, "tickcolor": "rgba(0,0,0,0)"}
    across = {**PLAIN_AXIS, **ends, **clear, "showgrid": False}
    scope = "all layers" if facts.layer is None else layer_label(facts.study.layers[facts.layer])
    figure = new_figure(across, even_axis((0, high), 4), left=50, right=72, top=8, bottom=24)
    figure["title"], figure["subtitle"] = "Drift by saliency decile", f", {scope}"
    if several:
        first = np.repeat(chosen[:, :1], chosen.shape[1], axis=1)
        if (most := np.nanmax(chosen[:, 0])) > high:
            reach = f"{names[0]} up to {significant(most)}"
            figure["subtitle"] += f"; {reach}".replace(" = ", "\u00a0=\u00a0")
        _add(figure, first, [names[0]] * len(names), {"color": "var(--ink-3)", "dash": "dot", "symbol": "circle"})
    if twin is not None:
        _add(figure, twin, ["identity"] * len(names), {**DRIFT, "color": "var(--drift-faint)"})
    _add(figure, chosen, names if several else [""], DRIFT)
    _place_labels(figure, high)

    def aria(at: At) -> str:
        return _aria(chosen[at[0]], at[1], names) + ("" if twin is None else _identity_aria(chosen[at], twin[at]))

    bind_aria(figure, facts, aria)
    set_finding(figure, finding_by_point(facts, lambda at: _finding(facts, chosen, twin, at)))
    return figure


def _finding(facts: LineFacts, chosen: np.ndarray, twin: np.ndarray | None, at: At) -> str:
    """Return the most salient decile: against identity, against the smallest λ, or against the least salient decile."""
    drift = chosen[at][-1]
    point = point_names(facts.line)[at[1]]
    is_positive = drift > 0 and facts.line.lams[at[1]] > 0
    if twin is not None and is_positive and (reference := twin[at][-1]) > 0:
        return _against(drift / reference, point, "under identity")
    if at[1] > 0 and is_positive and (reference := chosen[at[0], 0, -1]) > 0:
        return _against(drift / reference, point, f"at {point_names(facts.line)[0]}")
    least = chosen[at][0]
    if not (drift > 0 and least > 0):
        return ""
    return f"The most salient decile drifts {times_text(drift / least)} as much as the least"


def _against(ratio: float, point: str, reference: str) -> str:
    """Compare the drift of the most salient decile with that “under identity”, or “at λ = 0”."""
    if abs(ratio - 1) < SAME:
        return fit_text(f"{point}: most salient decile drifts as {reference}")
    change = f"{change_text(ratio - 1)} {'less' if ratio < 1 else 'more'} than {reference}"
    return fit_text(f"{point}: most salient decile drifts {change}", f"{point}: most salient drift {change}")


def _flat(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([array.ravel() for array in arrays]) if arrays else np.empty(0)


def decile_drift(facts: LineFacts) -> np.ndarray | None:
    """Return root-mean-square ΔW by decile, (G, M, 10): of the layer, or over the layers together; None where not
    recorded."""
    array = facts.read("deciles", facts.layer)  # L G M 10, or G M 10
    if array is None or facts.layer is not None:
        return array
    drift: np.ndarray = np.sqrt(np.nanmean(array**2, axis=0))
    return drift


def _identity(facts: LineFacts) -> np.ndarray | None:
    """Return the identity line's drift at each λ of this line, NaN where it has no such λ; equal for every γ."""
    drift = None if facts.identity is None else decile_drift(facts.identity)
    if facts.identity is None or drift is None:
        return None
    columns = equal_points(facts.line, facts.identity.line)
    nothing = np.full(drift.shape[-1], np.nan)
    row = np.stack([nothing if column is None else drift[0, column] for column in columns])  # M 10
    if not np.isfinite(row).any():
        return None
    return np.tile(row, (len(facts.line.gammas), 1, 1))


def _add(figure: Figure, values: np.ndarray, labels: list[str], style: Role) -> None:
    """Add one curve (G, M, 10) with its name at its end."""
    count = values.shape[-1]
    trace = scatter(
        labels[0],
        "lines+markers",
        x=list(range(count)),
        line=line_of(style),
        marker=marker_of(style, 6),
        hovertemplate="decile %{x}: %{y:.4f}<extra></extra>",
    )
    bind_fields(figure, add_trace(figure, trace, {"y": values}), {"name": labels}, "lambda")
    ink = ink_of(DRIFT) if style is DRIFT else "var(--ink-2)"
    path = add_note(figure, labels[0], ink, x=count - 1, y=0, xshift=10, yanchor="middle")
    bind_fields(figure, path, {"text": labels}, "lambda")


def _place_labels(figure: Figure, high: float) -> None:
    """Bind heights of the end labels at each point, at least the gap apart; absent or repeated curves have none."""
    curves = [bound["values"] for bound in figure["bindings"] if "values" in bound and bound["path"].endswith(".y")]
    n_g, n_m, n_c = len(curves[0]), len(curves[0][0]), len(curves)
    heights = np.zeros((n_c, n_g, n_m))
    visible = np.zeros((n_c, n_g, n_m), dtype=bool)
    for g, m in np.ndindex(n_g, n_m):
        ends = [curve[g][m][-1] for curve in curves]
        drawn = [i for i, end in enumerate(ends) if end is not None and not (m == 0 and 0 < i == n_c - 1)]
        heights[drawn, g, m] = spread_labels([ends[i] for i in drawn], LABEL_GAP * high, 0.0, 0.97 * high)
        visible[drawn, g, m] = True
    for i in range(n_c):
        bind_fields(figure, f"layout.annotations.{i}", {"y": heights[i], "visible": visible[i].tolist()})


def _aria(drift: np.ndarray, lam: int, names: list[str]) -> str:
    """Describe the drift of all deciles (M, 10) at a λ and at the smallest λ."""
    (first, last), (least, most) = ([number(row[end], 4) for end in (0, -1)] for row in (drift[0], drift[lam]))
    at, base = f", {names[lam]}", ""
    if len(names) > 1:
        at = f" at {names[lam]}"
        base = f"; at {names[0]} {first} and {last}"
    return f"Root-mean-square weight change by saliency decile{at}: least salient {least}, most salient {most}{base}."


def _identity_aria(drift: np.ndarray, twin: np.ndarray) -> str:
    if not np.isfinite(twin).all():
        return ""
    changes = [f"{100 * (drift[end] / twin[end] - 1):+.1f} %".replace("-", "−") for end in (0, -1)]
    return (
        f" Identity at this λ: {number(twin[0], 4)} and {number(twin[-1], 4)}; against it the least "
        f"salient drift {changes[0]}, the most salient {changes[1]}."
    )
