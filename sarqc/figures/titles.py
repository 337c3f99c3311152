"""The finding above a figure of the Lab, composed from its numbers for every γ and λ.

A finding is a phrase without a full stop. A difference that several draws do not show
clearly is called unclear, and one draw is named as such. The name of what is drawn stands below the finding.

Axes in comments: D calibration draws, G γ values, M λ values.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from sarqc.figures.drawing import BOTH, Axis, BoundValues, Figure, bind
from sarqc.figures.numbers import (
    NBSP,
    SAME,
    At,
    accuracy_text,
    baseline_name,
    change_text,
    lam_text,
    perplexity_text,
    small_percent,
    times_text,
)
from sarqc.study.document import Result
from sarqc.study.facts import LineFacts, Quality, has_lam, lam_index, once
from sarqc.study.paired import mean_over_draws, paired_ratio, spans, sweet_spots

Say = Callable[[At], str]  # text at a point
LONGEST = 60  # characters of a finding
ERRORS = ("held_out", "recon")  # in order of preference
TEXTS = {"held_out": "unseen text", "recon": "calibration text"}


NOUNS = {
    "perplexity": "perplexity",
    "accuracy": "accuracy",
    "held_out": "error on unseen text",
    "recon": "error on calibration text",
}


def fit_text(*texts: str) -> str:
    """Return the first text that is short enough; empty without one."""
    return next((text for text in texts if len(text) <= LONGEST), "")


def set_finding(figure: Figure, finding: BoundValues | None) -> None:
    """Put a finding above a figure, where there is one."""
    if finding is not None:
        figure["finding"] = finding


def finding_at(figure: Figure, at: Mapping[Axis, int]) -> str:
    """Return the finding of a figure at positions of γ and λ; empty without one."""
    if "finding" not in figure:
        return ""
    value = figure["finding"]["values"]
    for axis in figure["finding"]["over"]:
        value = value[at[axis]]
    return str(value)


def map_points(facts: LineFacts, say: Callable[[At], Result]) -> list[list[Result]]:
    """Evaluate ``say`` at every γ, then λ, of a line by their positions."""
    return [[say((g, m)) for m in range(len(facts.line.lams))] for g in range(len(facts.line.gammas))]


def shown_layer(facts: LineFacts, every: str = "all layers") -> str:
    """Return the name of the facts' layer, or of all together."""
    return every if facts.layer is None else facts.study.layers[facts.layer].name


def bind_aria(figure: Figure, facts: LineFacts, say: Say) -> None:
    """Bind a figure's words for screen readers, at every γ and λ of a line."""
    figure["bindings"].append(bind("aria", map_points(facts, say), *BOTH))


def finding_by_point(facts: LineFacts, say: Say) -> BoundValues | None:
    """Return the findings of a figure at every γ and λ of a line; None where all are empty."""
    values = map_points(facts, say)
    return bind("finding", values, *BOTH) if any(any(row) for row in values) else None


def constant_finding(text: str) -> BoundValues | None:
    """Return a finding that neither γ nor λ changes; None for an empty one."""
    return bind("finding", text) if text else None


def lam_point(lam: float) -> str:
    """Return “λ = 0.1”, without a line break."""
    return f"λ{NBSP}={NBSP}{lam_text(lam)}"


def best_lam(lams: Sequence[float], best: int | None, band: np.ndarray, noun: str) -> str:
    """Name the best λ of a curve, and the λ between which the true best lies.

    Args:
        lams: The λ of the curve, M.
        best: Position of the best; None where nothing was measured.
        band: Mask M of the λ that may be the best, see ``sweet_spots``; empty for a single draw.
        noun: Name of the quantity.
    """
    if best is None or len(lams) < 2:
        return ""
    runs = spans(band)
    if runs == [(0, len(lams) - 1)]:
        return f"No λ stands out in {noun}"
    superlative = "highest" if noun == "accuracy" else "lowest"
    lead = f"{noun[0].upper()}{noun[1:]} is {superlative} at {lam_point(lams[best])}"
    if not runs:
        return f"{lead} on one draw"
    if len(runs) > 1:
        return f"{lead}, not clearly"
    first, last = runs[0]
    return (
        f"{lead}, clearly" if first == last else f"{lead} (95{NBSP}%: {lam_text(lams[first])}–{lam_text(lams[last])})"
    )


def quality_finding(facts: LineFacts, name: str) -> BoundValues | None:
    """Name the λ with the best perplexity or accuracy."""
    quality: Quality | None = getattr(facts, name)
    if quality is None or not has_lam(facts.line):
        return None
    show = perplexity_text if name == "perplexity" else accuracy_text

    def say(at: At) -> str:
        mean, best = quality.mean[at[0]], quality.best[at[0]]
        if best is not None and np.isfinite(mean).sum() < 2:  # lowest of nothing
            return f"{NOUNS[name].capitalize()} {show(mean[best])}, measured at {lam_point(facts.line.lams[best])} only"
        return best_lam(facts.line.lams, best, quality.band[at[0]], NOUNS[name])

    return finding_by_point(facts, say)


@once
def error_finding(facts: LineFacts) -> BoundValues | None:
    """Name the λ with the smallest reconstruction error, on unseen text where that was measured."""
    name, least_at = error_of(facts), least_error(facts)
    if name is None or least_at is None:
        return None
    best, band = least_at
    return finding_by_point(facts, lambda at: best_lam(facts.line.lams, best[at[0]], band[at[0]], NOUNS[name]))


@once
def least_error(facts: LineFacts) -> tuple[tuple[int | None, ...], np.ndarray] | None:
    """Return ``least`` of the error that findings speak of; None without it, and of a line without λ."""
    name = error_of(facts)
    values = None if name is None else facts.selected(name)
    return None if values is None or not has_lam(facts.line) else least(values)


def least(values: np.ndarray) -> tuple[tuple[int | None, ...], np.ndarray]:
    """Return the λ with the smallest mean of positive ``values`` (D G M) for each γ, and the mask G M of those that are
    not clearly larger."""
    with np.errstate(invalid="ignore"):
        return sweet_spots(np.where(values > 0, values, np.nan))


def error_of(facts: LineFacts) -> str | None:
    """Return the error that findings speak of: on unseen text, or on calibration text where only that is known."""
    return next((name for name in ERRORS if facts.selected(name) is not None), None)


class TradeOff:
    """Drift and error of a line at every λ, as ratios to its baseline; without one to λ = 0, or to the first λ where
    there is no 0, of the same γ."""

    def __init__(self, facts: LineFacts) -> None:
        self.lams, base = facts.line.lams, facts.baseline
        first = lam_index(facts.line, 0.0) or 0
        self.same = first if base is None else facts.baseline_position
        self.reference = lam_text(self.lams[first]) if base is None else baseline_name(base)

        def ratio(name: str) -> tuple[np.ndarray, np.ndarray] | None:
            values, others = facts.selected(name), facts.of_baseline(name)
            if base is None and values is not None:
                others = values[..., [first]]
            return None if values is None or others is None else _ratio(values, others)

        error = error_of(facts)
        self.drift, self.error = ratio("drift"), None if error is None else ratio(error)

    def at(self, at: At, *, error: bool = True) -> str:
        """Describe drift, and error, at a λ against the reference."""
        point = lam_point(self.lams[at[1]])
        if at[1] == self.same:
            return f"{point} is what others are compared with"
        changes = _change(self.drift, at, "drift") + (_change(self.error, at, "error") if error else [])
        return f"{point} against {self.reference}: {', '.join(changes)}" if changes else ""


trade_off = once(TradeOff)


def _ratio(values: np.ndarray, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ratio of means over the draws that have both, G M, as the Lab's other changes are, and where the draws
    show its direction; that of a single draw stands as it is.
    """
    both = (values > 0) & (reference > 0)
    above, below = (np.where(both, part, np.nan) for part in np.broadcast_arrays(values, reference))
    mean, paired = mean_over_draws(above) / mean_over_draws(below), paired_ratio(above, below)
    return mean, ~(paired.error > 0) | (np.where(mean > 1, paired.low, -paired.high) > 0)


def _change(ratio: tuple[np.ndarray, np.ndarray] | None, at: At, noun: str) -> list[str]:
    """“13 % less drift”, “equal drift”, “drift unclear”; nothing where it was not measured."""
    if ratio is None or not np.isfinite(ratio[0][at]):
        return []
    mean = float(ratio[0][at])
    if not ratio[1][at]:
        return [f"{noun} unclear"]
    if abs(mean - 1) < SAME:
        return [f"equal {noun}"]
    if mean >= 3:
        return [f"{times_text(mean)} the {noun}"]
    return [f"{change_text(mean - 1)}{NBSP}{'less' if mean < 1 else 'more'} {noun}"]


@once
def trade_off_finding(facts: LineFacts) -> BoundValues | None:
    """Describe the effect of each λ on drift and error; of a line without λ, its drift and error."""
    if not has_lam(facts.line) or len(facts.line.lams) < 2:
        return absolute_finding(facts)
    return finding_by_point(facts, trade_off(facts).at)


@once
def drift_finding(facts: LineFacts) -> BoundValues | None:
    """Describe the effect of each λ on drift."""
    if not has_lam(facts.line) or len(facts.line.lams) < 2:
        return None
    return finding_by_point(facts, partial(trade_off(facts).at, error=False))


def absolute_finding(facts: LineFacts) -> BoundValues | None:
    """Return drift and error of each point of a line."""
    name = error_of(facts)
    error = None if name is None else getattr(facts, name)

    def say(at: At) -> str:
        parts = []
        if facts.drift is not None and math.isfinite(facts.drift[at]):
            parts.append(f"Weights drift by {small_percent(facts.drift[at])}")
        if name is not None and error is not None and math.isfinite(error[at]):
            parts.append(f"{small_percent(error[at])} error on {TEXTS[name]}")
        return ", ".join(parts)

    return finding_by_point(facts, say)
