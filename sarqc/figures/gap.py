"""Why a calibration set misleads: the error on calibration text and on unseen text over the amount of calibration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sarqc.figures.drawing import (
    HELD_OUT,
    PLAIN_AXIS,
    RECON,
    Figure,
    Role,
    apart,
    base_layout,
    bind,
    clamp,
    edge_trace,
    even_ticks,
    honest_range,
    note,
    plain_numbers,
    whiskers,
)
from sarqc.figures.numbers import draws_text, lam_text, point_names, significant
from sarqc.figures.titles import at_each, fitting, least, set_finding
from sarqc.study.facts import LineFacts, has_lam
from sarqc.study.intervals import error_decimals, span_text
from sarqc.study.paired import Difference, paired_difference

LABEL_GAP = 0.075  # least distance of two labels at the lines' ends, as a share of the panel


@dataclass(frozen=True)
class _Sizes:
    """Means over draws with their intervals, S G M, and where they stand."""

    amounts: list[int]  # tokens, or sequences where their length is not known
    in_tokens: bool
    calibration: Difference
    unseen: Difference
    gap: Difference  # unseen minus calibration, paired by draw


def gap(facts: LineFacts) -> Figure | None:
    """The two errors at the shown λ and γ, what lies between them, and faintly the same at the smallest λ."""
    sizes = read_sizes(facts)
    if sizes is None:
        return None
    line = facts.line
    several = len(line.lams) > 1 and has_lam(line)
    curves = (sizes.calibration, sizes.unseen)
    span = _range(facts, curves)
    layout = base_layout(left=50, right=112, top=26, bottom=40)
    layout["xaxis"] = _amount_axis(sizes)
    layout["yaxis"] = {**PLAIN_AXIS, "range": list(span), **even_ticks(span, 5)}
    figure: Figure = {"data": [], "layout": layout, "bindings": [], "narrow": {}, "narrow_bindings": []}
    if several:
        _add_faint(figure, sizes, span)
    _add_shown(figure, sizes)
    _add_labels(figure, sizes, span, lam_text(line.lams[0]) if several else "")
    _add_words(figure, facts, sizes)
    first, last = sizes.gap.mean[0], sizes.gap.mean[-1]
    shrinks = bool((last[np.isfinite(last)] < first[np.isfinite(last)]).all())
    figure["title"] = "More calibration text, smaller gap" if shrinks else "Calibration text and the gap to unseen text"
    set_finding(figure, at_each(facts, _finding(facts, sizes)))
    return figure


def _finding(facts: LineFacts, sizes: _Sizes) -> Callable[[int, int], str]:
    """Where the best λ goes as the text grows, if it clearly moves; else what the gap does."""
    unseen, calibration = facts.selected("held_out_by_size"), facts.selected("recon_by_size")
    assert unseen is not None
    assert calibration is not None
    gaps = unseen.astype(np.float64) - calibration  # D S G M
    change = paired_difference(gaps[:, -1], gaps[:, 0])
    moves = [_best_lam_moves(facts, unseen[:, :, g]) for g in range(len(facts.line.gammas))]

    def say(g: int, m: int) -> str:
        first, last = (float(sizes.gap.mean[s, g, m]) for s in (0, -1))
        if moves[g] or not (math.isfinite(first) and math.isfinite(last)):
            return moves[g]
        if len(sizes.amounts) < 2:
            return fitting(f"The gap between the texts is {significant(first)}")
        difference = change.at((g, m))
        if math.isfinite(difference.error) and difference.verdict(()) == 0:
            return "The gap does not clearly change with more text"
        first_text = significant(first)
        last_text = significant(last)
        if last < first:
            return fitting(f"The gap shrinks from {first_text} to {last_text} with more text")
        return fitting(f"The gap grows from {first_text} to {last_text} with more text")

    return say


def _best_lam_moves(facts: LineFacts, errors: np.ndarray) -> str:
    """How the λ of least error on unseen text (D S M) moves from the least to the most text; empty unless each of the
    two is clearly worse where the other is best."""
    lams = facts.line.lams
    if errors.shape[1] < 2 or len(lams) < 2 or not has_lam(facts.line):
        return ""
    best, band = least(errors[:, [0, -1]])
    first, last = best
    if first is None or last is None or band[0, last] or band[1, first] or not band.any(axis=1).all():
        return ""
    first_text = lam_text(lams[first])
    last_text = lam_text(lams[last])
    if last < first:
        return fitting(f"The best λ falls from {first_text} to {last_text} as the text grows")
    return fitting(f"The best λ rises from {first_text} to {last_text} as the text grows")


def read_sizes(facts: LineFacts) -> _Sizes | None:
    """The errors by amount of calibration of the layer, or their mean over layers; None where nobody looked."""
    line = facts.line
    arrays = [facts.selected(name) for name in ("recon_by_size", "held_out_by_size")]
    calibration, unseen = arrays
    if calibration is None or unseen is None or not line.sizes:
        return None
    given = facts.study.protocol.get("calibration")
    length = given.get("length") if isinstance(given, dict) else None
    amounts = [size * length for size in line.sizes] if isinstance(length, int) else list(line.sizes)
    alone = np.zeros(1)
    return _Sizes(
        amounts,
        isinstance(length, int),
        paired_difference(calibration, alone),
        paired_difference(unseen, alone),
        paired_difference(unseen, calibration),
    )


def _range(facts: LineFacts, curves: tuple[Difference, ...]) -> tuple[float, float]:
    """One range for every λ, so that nothing jumps; λ = 0 is inside where it does not flatten the others."""
    lams = facts.line.lams
    positive = np.array([lam > 0 or len(lams) == 1 for lam in lams])
    inner = [whiskers(*(part[..., positive] for part in (one.mean, one.low, one.high))) for one in curves]
    outer = [one.mean[..., ~positive].ravel() for one in curves]
    low, high = honest_range(np.concatenate(inner), np.concatenate(outer), pad=0.08)
    return max(low, 0.0) if low < 0 else low, high


def _amount_axis(sizes: _Sizes) -> dict[str, Any]:
    ends = [math.log10(sizes.amounts[0]), math.log10(sizes.amounts[-1])]
    pad = 0.06 * max(ends[1] - ends[0], 0.3)
    return {
        **PLAIN_AXIS,
        "type": "log",
        "range": [ends[0] - pad, ends[1] + pad],
        "tickvals": sizes.amounts,
        "ticktext": [_amount(amount) for amount in sizes.amounts],
        "tickangle": 0,
        "title": {
            "text": "tokens of calibration text" if sizes.in_tokens else "sequences of calibration text",
            "standoff": 4,
        },
    }


def _amount(amount: int) -> str:
    return f"{amount:,}"


def _add_faint(figure: Figure, sizes: _Sizes, span: tuple[float, float]) -> None:
    """The smallest λ, behind; what runs off the scale is marked at the edge with its value."""
    off: list[tuple[np.ndarray, np.ndarray]] = []
    for style, found in ((RECON, sizes.calibration), (HELD_OUT, sizes.unseen)):
        values = found.mean[..., 0].T  # G S
        faint = {"color": "var(--ink-3)", "dash": style["dash"], "width": 1.5}
        figure["bindings"].append(bind(f"data.{len(figure['data'])}.y", values, "gamma"))
        figure["data"].append(_trace(sizes, "smallest λ", mode="lines", line=faint, hoverinfo="skip", cliponaxis=True))
        off.append((values, clamp(values, span)[1]))
    if not any(side.any() for _, side in off):
        return
    at, columns = len(figure["data"]), ("x", "y", "text", "marker.symbol")
    figure["data"].append({**edge_trace("y"), "textposition": "bottom right"})
    rows: dict[str, list[list[Any]]] = {name: [] for name in columns}
    for g in range(len(off[0][0])):
        edge = [
            (sizes.amounts[s], float(clamp(values[g, s], span)[0]), f" {significant(values[g, s])}")
            for values, side in off
            for s in np.flatnonzero(side[g]).tolist()
        ]
        for name, column in zip(columns, [*zip(*edge, strict=True)] or [()] * 3, strict=False):
            rows[name].append(list(column))
        rows["marker.symbol"].append(["triangle-up"] * len(edge))
    figure["bindings"] += [bind(f"data.{at}.{name}", rows[name], "gamma") for name in columns]


def _add_shown(figure: Figure, sizes: _Sizes) -> None:
    """The shaded gap and the two curves that bound it."""
    below, above = len(figure["data"]), len(figure["data"]) + 1
    plain = {"mode": "lines", "line": {"width": 0, "color": "rgba(0,0,0,0)"}, "hoverinfo": "skip"}
    figure["data"].append(_trace(sizes, "lower bound", **plain))
    figure["data"].append(_trace(sizes, "gap", **plain, fill="tonexty", fillcolor="var(--gap)"))
    for at, found in ((below, sizes.calibration), (above, sizes.unseen)):
        figure["bindings"].append(bind(f"data.{at}.y", _by_point(found.mean), "gamma", "lambda"))
    at_point = "%{x:,} tokens: %{text}" if sizes.in_tokens else "%{x:,} sequences: %{text}"
    for name, style, found in (
        ("calibration text", RECON, sizes.calibration),
        ("unseen text", HELD_OUT, sizes.unseen),
    ):
        at, mean, doubt = len(figure["data"]), _by_point(found.mean), _by_point(found.doubt)
        trace = _trace(sizes, name, mode="lines+markers", line={**_line(style), "width": 2.5}, text=[])
        trace |= {"marker": {"color": style["color"], "symbol": style["symbol"], "size": 8}}
        trace["hovertemplate"] = f"{at_point}<extra>{name}</extra>"
        figure["bindings"] += [
            bind(f"data.{at}.y", mean, "gamma", "lambda"),
            bind(f"data.{at}.text", _texts(mean, doubt), "gamma", "lambda"),
        ]
        if np.isfinite(doubt).any():
            trace["error_y"] = {"type": "data", "array": [], "thickness": 1.5, "width": 4, "color": style["color"]}
            bars = np.where(np.isfinite(doubt), doubt, 0.0)
            figure["bindings"].append(bind(f"data.{at}.error_y.array", bars, "gamma", "lambda"))
        figure["data"].append(trace)


def _add_labels(figure: Figure, sizes: _Sizes, span: tuple[float, float], smallest: str) -> None:
    """Names at the lines' ends, never nearer than ``LABEL_GAP``; at the left the smallest λ's."""
    layout, room = figure["layout"], span[1] - span[0]
    low, high = _by_point(sizes.calibration.mean)[..., -1], _by_point(sizes.unseen.mean)[..., -1]
    pairs = np.stack([low, high], axis=-1).tolist()
    placed = np.array([[apart(pair, LABEL_GAP * room) for pair in row] for row in pairs])  # G M 2
    for text, style, heights in (
        ("unseen text", HELD_OUT, placed[..., 1]),
        ("calibration text", RECON, placed[..., 0]),
    ):
        at = len(layout["annotations"])
        ink = style["color"].replace(")", "-ink)")
        place = {"x": math.log10(sizes.amounts[-1]), "y": 0, "xshift": 12, "yanchor": "middle"}
        layout["annotations"].append(note(text, **place, font={"size": 12, "color": ink}))
        clipped = np.clip(heights, span[0] + 0.03 * room, span[1] - 0.03 * room)
        figure["bindings"].append(bind(f"layout.annotations.{at}.y", clipped, "gamma", "lambda"))
        figure["narrow"][f"layout.annotations.{at}.visible"] = False
    figure["narrow"]["layout.margin.r"] = 16
    if smallest:
        corner = {"xref": "paper", "yref": "paper", "x": 1, "y": 1, "xanchor": "right", "yanchor": "top", "yshift": -2}
        font = {"size": 12, "color": "var(--ink-2)"}
        layout["annotations"].append(note(f"grey: λ = {smallest}", **corner, font=font))


def _add_words(figure: Figure, facts: LineFacts, sizes: _Sizes) -> None:
    """Above the plot the gap at the least and at the most text; the whole in words for who can't see it."""
    points, layout = point_names(facts.line), figure["layout"]
    shape = _by_point(sizes.gap.mean).shape[:2]
    long, short, arias = [], [], []
    unit = "tokens" if sizes.in_tokens else "sequences"
    for g in range(shape[0]):
        long.append([f"{points[m]}   gap {_ends(sizes, g, m)} {unit}" for m in range(shape[1])])
        short.append([f"{points[m]}  gap {_ends(sizes, g, m, brief=True)}" for m in range(shape[1])])
        arias.append([_aria(facts, sizes, g, m, points[m]) for m in range(shape[1])])
    at = len(layout["annotations"])
    layout["annotations"].append(
        note("", xref="paper", yref="paper", x=0, y=1, yshift=4, font={"size": 12, "color": "var(--ink)"})
    )
    figure["bindings"].append(bind(f"layout.annotations.{at}.text", long, "gamma", "lambda"))
    figure["narrow_bindings"].append(bind(f"layout.annotations.{at}.text", short, "gamma", "lambda"))
    figure["bindings"].append(bind("aria", arias, "gamma", "lambda"))


def _ends(sizes: _Sizes, g: int, m: int, *, brief: bool = False) -> str:
    """The gap at the least and at the most text; ``brief``: without its interval and the amounts."""
    ends = []
    for s in (0, -1):
        value, doubt = float(sizes.gap.mean[s, g, m]), float(sizes.gap.doubt[s, g, m])
        if not math.isfinite(value):
            ends.append("not measured")
        elif brief:
            ends.append(f"<b>{significant(value)}</b>")
        else:
            text, space, interval = _with_interval(value, doubt).partition(" ")
            ends.append(f"<b>{text}</b>{space}{interval} at {_amount(sizes.amounts[s])}")
    return " → ".join(ends)


def _with_interval(value: float, doubt: float) -> str:
    if not math.isfinite(doubt) or doubt <= 0:
        return significant(value)
    return span_text(value, value - doubt, value + doubt, max(2, min(6, error_decimals(doubt))))


def _aria(facts: LineFacts, sizes: _Sizes, g: int, m: int, point: str) -> str:
    unit = "tokens" if sizes.in_tokens else "sequences"
    parts = [f"with {_amount(sizes.amounts[s])} {unit} of calibration text {_errors(sizes, s, g, m)}" for s in (0, -1)]
    where = "mean of all layers" if facts.layer is None else facts.study.layers[facts.layer].name
    return f"Reconstruction error, {where}, {point}, {draws_text(facts.n_draws)}: {'; '.join(parts)}."


def _errors(sizes: _Sizes, s: int, g: int, m: int) -> str:
    """The errors that were measured at one amount of text and one point."""
    calibration, unseen = (float(found.mean[s, g, m]) for found in (sizes.calibration, sizes.unseen))
    if math.isfinite(calibration) and math.isfinite(unseen):
        return f"{significant(calibration)} on calibration text and {significant(unseen)} on unseen text"
    if math.isfinite(calibration):
        return f"{significant(calibration)} on calibration text"
    if math.isfinite(unseen):
        return f"{significant(unseen)} on unseen text"
    return "not measured"


def _by_point(values: np.ndarray) -> np.ndarray:
    """S G M → G M S, the order of bindings."""
    return np.moveaxis(values, 0, -1)


def _texts(mean: np.ndarray, doubt: np.ndarray) -> list[list[list[str]]]:
    return [
        [
            [_with_interval(*pair) if math.isfinite(pair[0]) else "not measured" for pair in zip(*both, strict=True)]
            for both in zip(means.tolist(), doubts.tolist(), strict=True)
        ]
        for means, doubts in zip(mean, doubt, strict=True)
    ]


def _line(style: Role) -> dict[str, str]:
    return {"color": style["color"], "dash": style["dash"]}


def _trace(sizes: _Sizes, name: str, **more: Any) -> dict[str, Any]:
    x = plain_numbers([float(amount) for amount in sizes.amounts])
    return {"type": "scatter", "name": name, "x": x, "y": [], "cliponaxis": False, **more}
