"""Why a calibration set misleads: the error on calibration text and on unseen text over the amount of calibration."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sarqc.figures.drawing import (
    HELD_OUT,
    PAPER,
    PLAIN_AXIS,
    RECON,
    Figure,
    Part,
    Role,
    Span,
    add_note,
    add_trace,
    bind_fields,
    clamp,
    edge_trace,
    even_axis,
    honest_range,
    ink_of,
    line_of,
    marker_of,
    new_figure,
    plain_numbers,
    unclipped,
    whiskers,
)
from sarqc.figures.numbers import At, draws_text, lam_text, point_names, significant
from sarqc.figures.titles import Say, bind_aria, finding_by_point, fit_text, least, map_points, set_finding, shown_layer
from sarqc.study.facts import LineFacts, has_lam
from sarqc.study.intervals import error_decimals, span_text
from sarqc.study.paired import Difference, paired_difference


@dataclass(frozen=True)
class _Sizes:
    """Means over draws with their intervals, S G M, by amount of text."""

    amounts: list[int]  # tokens, or sequences where their length is not known
    unit: str
    calibration: Difference
    unseen: Difference
    gap: Difference  # unseen minus calibration, paired by draw

    @property
    def both(self) -> tuple[tuple[str, Role, Difference], ...]:
        """Names and styles of the two errors, with their means."""
        return ("calibration text", RECON, self.calibration), ("unseen text", HELD_OUT, self.unseen)


def gap(facts: LineFacts) -> Figure | None:
    """Draw the two errors at the shown λ and γ, the gap between them, and faintly the same at the smallest λ."""
    sizes = read_sizes(facts)
    if sizes is None:
        return None
    line = facts.line
    several = len(line.lams) > 1 and has_lam(line)
    span = _range(facts, sizes)
    margins = {"left": 50, "right": 112, "top": 26, "bottom": 40}
    figure = new_figure(_amount_axis(sizes), even_axis(span, 5), **margins, narrow={})
    if several:
        _add_faint(figure, sizes, span)
    _add_curves(figure, sizes)
    _add_labels(figure, sizes, lam_text(line.lams[0]) if several else "")
    _add_words(figure, facts, sizes)
    first, last = sizes.gap.mean[0], sizes.gap.mean[-1]
    shrinks = bool((last[np.isfinite(last)] < first[np.isfinite(last)]).all())
    figure["title"] = "More calibration text, smaller gap" if shrinks else "Calibration text and the gap to unseen text"
    set_finding(figure, finding_by_point(facts, _finding(facts, sizes)))
    return figure


def _finding(facts: LineFacts, sizes: _Sizes) -> Say:
    """Describe how the best λ moves as the text grows, if clearly; else how the gap changes."""
    unseen, calibration = facts.selected("held_out_by_size"), facts.selected("recon_by_size")
    assert unseen is not None
    assert calibration is not None
    gaps = unseen.astype(np.float64) - calibration  # D S G M
    change = paired_difference(gaps[:, -1], gaps[:, 0])
    moves = [_best_lam_moves(facts, unseen[:, :, g]) for g in range(len(facts.line.gammas))]

    def say(at: At) -> str:
        first, last = (sizes.gap.mean[s, *at] for s in (0, -1))
        if moves[at[0]] or not (math.isfinite(first) and math.isfinite(last)):
            return moves[at[0]]
        if len(sizes.amounts) < 2:
            return fit_text(f"The gap between the texts is {significant(first)}")
        difference = change.at(at)
        if math.isfinite(difference.error) and difference.verdict(()) == 0:
            return "The gap does not clearly change with more text"
        goes = "shrinks" if last < first else "grows"
        return fit_text(f"The gap {goes} from {significant(first)} to {significant(last)} with more text")

    return say


def _best_lam_moves(facts: LineFacts, errors: np.ndarray) -> str:
    """Describe how the λ of least error on unseen text (D S M) moves from the least to the most text; empty unless each
    of the two is clearly worse where the other is best."""
    lams = facts.line.lams
    if errors.shape[1] < 2 or len(lams) < 2 or not has_lam(facts.line):
        return ""
    best, band = least(errors[:, [0, -1]])
    first, last = best
    if first is None or last is None or band[0, last] or band[1, first] or not band.any(axis=1).all():
        return ""
    goes = "falls" if last < first else "rises"
    return fit_text(f"The best λ {goes} from {lam_text(lams[first])} to {lam_text(lams[last])} as the text grows")


def read_sizes(facts: LineFacts) -> _Sizes | None:
    """Return the errors by amount of calibration of the layer, or their mean over layers; None if not measured."""
    line = facts.line
    calibration, unseen = (facts.selected(name) for name in ("recon_by_size", "held_out_by_size"))
    if calibration is None or unseen is None or not line.sizes:
        return None
    protocol = facts.study.protocol.get("calibration")
    length = protocol.get("length") if isinstance(protocol, dict) else None
    amounts = [size * length for size in line.sizes] if isinstance(length, int) else list(line.sizes)
    zero = np.zeros(1)
    return _Sizes(
        amounts,
        "tokens" if isinstance(length, int) else "sequences",
        paired_difference(calibration, zero),
        paired_difference(unseen, zero),
        paired_difference(unseen, calibration),
    )


def _range(facts: LineFacts, sizes: _Sizes) -> Span:
    """Return one range for every λ, so that nothing jumps; λ = 0 is inside where it does not flatten the others."""
    lams = facts.line.lams
    positive = np.array([lam > 0 or len(lams) == 1 for lam in lams])
    inner = [
        whiskers(*(part[..., positive] for part in (errors.mean, errors.low, errors.high)))
        for _, _, errors in sizes.both
    ]
    outer = [errors.mean[..., ~positive].ravel() for _, _, errors in sizes.both]
    low, high = honest_range(np.concatenate(inner), np.concatenate(outer), pad=0.08)
    return max(low, 0.0) if low < 0 else low, high


def _amount_axis(sizes: _Sizes) -> Part:
    ends = [math.log10(sizes.amounts[0]), math.log10(sizes.amounts[-1])]
    pad = 0.06 * max(ends[1] - ends[0], 0.3)
    return {
        **PLAIN_AXIS,
        "type": "log",
        "range": [ends[0] - pad, ends[1] + pad],
        "tickvals": sizes.amounts,
        "ticktext": [f"{amount:,}" for amount in sizes.amounts],
        "tickangle": 0,
        "title": {"text": f"{sizes.unit} of calibration text", "standoff": 4},
    }


def _add_faint(figure: Figure, sizes: _Sizes, span: Span) -> None:
    """Add the smallest λ behind; values off the scale are marked at the edge."""
    off: list[tuple[np.ndarray, np.ndarray]] = []
    for _, style, errors in sizes.both:
        values = errors.mean[..., 0].T  # G S
        faint = {"color": "var(--ink-3)", "dash": style["dash"], "width": 1.5}
        trace = _trace(sizes, "smallest λ", mode="lines", line=faint, hoverinfo="skip", cliponaxis=True)
        add_trace(figure, trace, {"y": values}, "gamma")
        off.append((values, clamp(values, span)[1]))
    if not any(side.any() for _, side in off):
        return
    edges = [
        [
            (sizes.amounts[s], float(clamp(values[g, s], span)[0]), f" {significant(values[g, s])}", "triangle-up")
            for values, side in off
            for s in np.flatnonzero(side[g]).tolist()
        ]
        for g in range(len(off[0][0]))
    ]
    columns = {
        name: [[mark[place] for mark in edge] for edge in edges]
        for place, name in enumerate(("x", "y", "text", "marker.symbol"))
    }
    add_trace(figure, {**edge_trace("y"), "textposition": "bottom right"}, columns, "gamma")


def _add_curves(figure: Figure, sizes: _Sizes) -> None:
    """Add the shaded gap and the two curves that bound it."""
    plain = {"mode": "lines", "line": {"width": 0, "color": "rgba(0,0,0,0)"}, "hoverinfo": "skip"}
    add_trace(figure, _trace(sizes, "lower bound", **plain), {"y": _points_first(sizes.calibration.mean)})
    shaded = _trace(sizes, "gap", **plain, fill="tonexty", fillcolor="var(--gap)")
    add_trace(figure, shaded, {"y": _points_first(sizes.unseen.mean)})
    for name, style, errors in sizes.both:
        mean, doubt = _points_first(errors.mean), _points_first(errors.doubt)
        trace = _trace(
            sizes,
            name,
            mode="lines+markers",
            line=line_of(style, 2.5),
            text=[],
            marker=marker_of(style, 8),
            hovertemplate=f"%{{x:,}} {sizes.unit}: %{{text}}<extra>{name}</extra>",
        )
        fields = {"y": mean, "text": np.vectorize(_interval_text, otypes=[object])(mean, doubt)}
        if np.isfinite(doubt).any():
            trace["error_y"] = {"type": "data", "array": [], "thickness": 1.5, "width": 4, "color": style["color"]}
            fields["error_y.array"] = np.where(np.isfinite(doubt), doubt, 0.0)
        add_trace(figure, trace, fields)


def _add_labels(figure: Figure, sizes: _Sizes, smallest: str) -> None:
    """Add names at the lines' ends, of calibration text below and of unseen text above; in the corner the smallest
    λ's."""
    for (text, style, errors), side in zip(sizes.both, ("top", "bottom"), strict=True):
        place = {"x": math.log10(sizes.amounts[-1]), "y": 0, "xshift": 12, "yanchor": side}
        path = add_note(figure, text, ink_of(style), narrow={"visible": False}, **place)
        bind_fields(figure, path, {"y": errors.mean[-1]})
    figure["narrow"]["layout.margin.r"] = 16
    if smallest:
        corner = {**PAPER, "x": 1, "y": 1, "xanchor": "right", "yanchor": "top", "yshift": -2}
        add_note(figure, f"grey: λ = {smallest}", "var(--ink-2)", **corner)


def _add_words(figure: Figure, facts: LineFacts, sizes: _Sizes) -> None:
    """Write the gap at the least and at the most text above the plot; all errors for screen readers."""
    points = point_names(facts.line)
    path = add_note(figure, "", "var(--ink)", **PAPER, x=0, y=1, yshift=4)
    bind_fields(figure, path, {"text": map_points(facts, lambda at: f"{points[at[1]]}  gap {_ends(sizes, at)}")})
    bind_aria(figure, facts, lambda at: _aria(facts, sizes, at))


def _ends(sizes: _Sizes, at: At) -> str:
    """Return the gap at the least and at the most text."""
    ends = [sizes.gap.mean[s, *at] for s in (0, -1)]
    return " → ".join(f"<b>{significant(value)}</b>" if math.isfinite(value) else "not measured" for value in ends)


def _interval_text(value: float, doubt: float) -> str:
    if not math.isfinite(value):
        return "not measured"
    if not math.isfinite(doubt) or doubt <= 0:
        return significant(value)
    return span_text(value, value - doubt, value + doubt, max(2, min(6, error_decimals(doubt))))


def _aria(facts: LineFacts, sizes: _Sizes, at: At) -> str:
    parts = []
    for s in (0, -1):
        errors = [
            f"{significant(value)} on {text}"
            for text, _, difference in sizes.both
            if math.isfinite(value := difference.mean[s, *at])
        ]
        measured = " and ".join(errors) or "not measured"
        parts.append(f"with {sizes.amounts[s]:,} {sizes.unit} of calibration text {measured}")
    scope, point = shown_layer(facts, "mean of all layers"), point_names(facts.line)[at[1]]
    return f"Reconstruction error, {scope}, {point}, {draws_text(facts.n_draws)}: {'; '.join(parts)}."


def _points_first(values: np.ndarray) -> np.ndarray:
    """S G M → G M S, the order of bindings."""
    return np.moveaxis(values, 0, -1)


def _trace(sizes: _Sizes, name: str, **more: Any) -> Part:
    return unclipped(name, x=plain_numbers([float(amount) for amount in sizes.amounts]), **more)
