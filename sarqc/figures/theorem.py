"""Theorem 1 beside what was measured: the gap between two texts, the bound on it, and why the bound is loose.

Everything is per token and over the mean of ‖W x‖² on the calibration text, the unit of the errors in the other
figures. The bound counts all code matrices, |Q| and not |Q_R|: it is larger than the printed one, and holds for the
weights that a run has chosen, whose radius nobody fixed beforehand.

Axes in comments: D calibration draws, L layers, G γ values, M λ values.
"""

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from sarqc.figures.drawing import (
    DRIFT,
    HELD_OUT,
    LAM_CORNER,
    PLAIN_AXIS,
    Figure,
    Role,
    add_note,
    add_ring,
    add_trace,
    bind_fields,
    format_values,
    ink_of,
    lam_axis,
    line_trace,
    new_figure,
)
from sarqc.figures.numbers import NBSP, At, draws_text, lam_names, number, point_names
from sarqc.figures.titles import bind_aria, finding_by_point, fit_text, set_finding, shown_layer
from sarqc.study.facts import LineFacts, once, once_a_line, over_layers
from sarqc.study.intervals import error_decimals, span_text
from sarqc.study.paired import Difference, mean_over_draws, paired_difference

Number = TypeVar("Number", bound=Any)
DELTA = 0.05  # the bound holds with probability 1 − δ
_ARRAYS = ("recon", "held_out", "drift", "tokens", "weight_norm", "token_norm", "output_energy", "held_out_energy")
LIMIT: Role = {"color": "var(--ink-3)", "dash": "dot", "symbol": "circle"}


def log_all_codes(n_weights: int, bits: int) -> float:
    """ln|Q| at fixed scales: n_weights · bits · ln 2, an upper bound on ln|Q_R| for every radius R."""
    return n_weights * bits * math.log(2)


def bound_on_gap(span: Number, log_count: Number | float, n_tokens: Number | int, delta: float = DELTA) -> Number:
    """Return the right side of Theorem 1: span · √(ln(2 · count/δ)/2n), of floats, arrays and tensors alike.

    span: R² M_X², an upper bound on the risk of all weights within R of the float ones; log_count: the logarithm of
    the number of code matrices; n_tokens: tokens of the calibration text, taken as independent.
    """
    bound: Number = span * ((math.log(2 / delta) + log_count) / (2 * n_tokens)) ** 0.5
    return bound


@dataclass(frozen=True)
class Terms:
    """Both sides of Theorem 1 for a layer, or as means over the layers: (G, M), risks over the output's energy."""

    gap: Difference  # risk on unseen text minus risk on calibration text, paired by draw
    bound: np.ndarray  # on |true risk - calibration risk|, with probability 1 - δ
    limit: np.ndarray  # R² M_X²: every risk lies between 0 and this


def terms(facts: LineFacts) -> Terms | None:
    """Return both sides of Theorem 1; None where a study holds no unseen text or no norms of tokens."""
    return (_terms_of_line if facts.layer is None else _terms)(facts)


@once
def _terms(facts: LineFacts) -> Terms | None:
    quantities = (_layer_values(facts, name) for name in _ARRAYS)
    arrays = [array for array in quantities if array is not None and np.isfinite(array).any()]
    if len(arrays) < len(_ARRAYS):
        return None
    recon, held_out, drift = arrays[:3]  # D L G M
    tokens, weight_norm, token_norm, energy, held_out_energy = (array[..., None, None] for array in arrays[3:])
    layers = facts.study.layers if facts.layer is None else [facts.study.layers[facts.layer]]
    weights = np.array([math.prod(layer.shape) for layer in layers], dtype=np.float64)
    log_count = weights * log_all_codes(1, facts.line.bits)  # L
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = held_out * held_out_energy / energy - recon
        limit = (drift * weight_norm * token_norm) ** 2 / energy
        bound = bound_on_gap(limit, log_count[:, None, None], tokens)
    gaps, bounds, limits = (
        over_layers(np.where(np.isfinite(array), array, np.nan)) for array in (gap, bound, limit)
    )  # D G M
    if gaps is None or bounds is None or limits is None:
        return None
    return Terms(paired_difference(gaps, np.zeros_like(gaps)), mean_over_draws(bounds), mean_over_draws(limits))


_terms_of_line = once_a_line(_terms)  # of thousands of layers


def _layer_values(facts: LineFacts, name: str) -> np.ndarray | None:
    """Return a quantity of all layers, or of the chosen one as if there were no other: D L …"""
    if facts.layer is None:
        return facts.read(name)
    array = facts.selected(name)
    return None if array is None else array[:, None]


def theorem(facts: LineFacts) -> Figure | None:
    """Return the measured gap, the bound and the limit R² M_X² over λ, on a logarithmic axis; None as for ``terms``."""
    known = terms(facts)
    if known is None:
        return None
    names = lam_names(facts.line)
    curves = (
        ("largest possible, R²·M²", LIMIT, known.limit),
        ("bound of Theorem 1", DRIFT, known.bound),
        ("measured gap", HELD_OUT, np.abs(known.gap.mean)),
    )
    positive = np.concatenate([values[np.isfinite(values) & (values > 0)] for _, _, values in curves])
    low, high = math.floor(np.log10(positive.min()) - 0.1), math.ceil(np.log10(positive.max()) + 0.35)
    decades = range(low, high + 1, max(1, (high - low) // 6))
    ticks = {"tickvals": [10.0**decade for decade in decades], "ticktext": [*map(_decade, decades)]}
    figure = new_figure(
        lam_axis(names),
        {**PLAIN_AXIS, "type": "log", "range": [low, high], **ticks},
        left=50,
        right=20,
        top=8,
        bottom=30,
        title="What the calibration text can't see",
    )
    for label, style, values in curves:
        _add_curve(figure, label, style, np.where(values > 0, values, np.nan), names)
    if len(names) > 1:
        add_note(figure, "λ", **LAM_CORNER)
    bind_aria(figure, facts, lambda at: _aria(known, at, facts))
    set_finding(figure, finding_by_point(facts, lambda at: _finding(known, at)))
    return figure


def _finding(known: Terms, at: At) -> str:
    """State how loose the bound is, where the gap is clear."""
    gap, bound = known.gap.at(at), known.bound[at]
    if not math.isfinite(gap.mean) or not math.isfinite(bound) or gap.mean == 0 or bound <= 0:
        return ""
    if math.isfinite(gap.error) and gap.verdict(()) == 0:
        return "No clear gap between unseen and calibration text"
    times = f"{times_of(bound / abs(float(gap.mean)))}{NBSP}×"
    return fit_text(f"The bound is {times} the measured gap")


def _add_curve(figure: Figure, label: str, style: Role, values: np.ndarray, names: list[str]) -> None:
    """Add a curve (G, M), its name above its left end or below it where a curve is above, and a ring at the shown λ."""
    hover = f"λ = %{{x}}: %{{text}}<extra>{label}</extra>"
    add_trace(
        figure,
        line_trace(label, style, names, text=[], hovertemplate=hover),
        {"y": values, "text": format_values(values, times_of)},
        "gamma",
    )
    add_ring(figure, style, "y", names, values)
    place = {"yanchor": "top", "yshift": -6} if style is LIMIT else {"yshift": 6}
    path = add_note(figure, label, "var(--ink-2)" if style is LIMIT else ink_of(style), x=0, y=0, xshift=-4, **place)
    bind_fields(figure, path, {"y": np.log10(values[:, 0])}, "gamma")


def _gap_text(known: Terms, at: At) -> str:
    gap = known.gap.at(at)
    if not math.isfinite(gap.mean):
        return "not measured"
    doubt = float(gap.doubt)
    if not math.isfinite(doubt) or doubt <= 0:
        return number(float(gap.mean), 4)
    return span_text(float(gap.mean), float(gap.low), float(gap.high), max(3, error_decimals(doubt)))


def times_of(value: float) -> str:
    """Return a number of any size, to two or three digits."""
    if not math.isfinite(value):
        return "not measured"
    return number(float(f"{value:.2g}"), 0) if value >= 1000 else f"{value:.3g}"


def _decade(exponent: int) -> str:
    if -3 <= exponent <= 4:
        return number(10.0**exponent, max(0, -exponent))
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _aria(known: Terms, at: At, facts: LineFacts) -> str:
    layer, point = shown_layer(facts, "mean of all layers"), point_names(facts.line)[at[1]]
    bound, limit = times_of(known.bound[at]), times_of(known.limit[at])
    return (
        f"Theorem 1, {layer}, {point}, {draws_text(facts.n_draws)}: measured gap {_gap_text(known, at)}, bound "
        f"{bound}, largest possible {limit}."
    )
