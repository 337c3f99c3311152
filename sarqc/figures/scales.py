"""Named scales of the main figure's errors: as measured, by the paper's rule, and as a ratio to λ = 0."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sarqc.study.facts import LineFacts, has_lam, lam_index

SCALES = {"raw": "raw", "paper": "paper’s rule", "ratio": "ratio to λ = 0"}
SCALE_WORDS = {**SCALES, "raw": "relative"}
PAPER_SPAN = (0.1, 1.0)  # λ whose least and largest value become 0 and 1; others are drawn by the same rule


def scales_of(facts: LineFacts) -> list[str]:
    """The scales that a line can be drawn on: raw always, the others where it has the λ that they need."""
    found = ["raw"]
    if not has_lam(facts.line) or len(facts.line.lams) < 2:
        return found
    if sum(_in_span(facts)) > 1:
        found.append("paper")
    if lam_index(facts.line, 0.0) is not None:
        found.append("ratio")
    return found


def on_scale(facts: LineFacts, scale: str) -> LineFacts:
    """The facts with errors and drift on a scale, for drawing; the given ones are not changed.

    Each curve is scaled by its own values, for each γ. The identity line, a comparison, is scaled by its own too, and
    left out where it has not the λ that the scale needs.
    """
    return facts if scale == "raw" else facts.once(f"scale {scale}", lambda: _on_scale(facts, scale))


def _on_scale(facts: LineFacts, scale: str) -> LineFacts:
    recon, held_out, drift, sar = (
        _scaled(facts, values, scale) for values in (facts.recon, facts.held_out, facts.drift, facts.sar)
    )
    identity = facts.identity
    if identity is not None:
        shown = on_scale(identity, scale) if scale in scales_of(identity) else None
        identity = shown or replace(identity, recon=None, held_out=None, drift=None, sar=None)
    return replace(facts, recon=recon, held_out=held_out, drift=drift, sar=sar, identity=identity)


def _scaled(facts: LineFacts, values: np.ndarray | None, scale: str) -> np.ndarray | None:
    """G M on a scale; a curve without any spread, or without a value at λ = 0, has nothing to be measured by."""
    if values is None:
        return None
    scaled = np.full(values.shape, np.nan)
    if scale == "ratio":
        zero = lam_index(facts.line, 0.0)
        assert zero is not None  # see ``scales_of``
        first = values[:, [zero]]
        np.divide(values, first, out=scaled, where=first > 0)
        return scaled
    inside = values[:, _in_span(facts)]
    low, high = inside.min(axis=1, keepdims=True), inside.max(axis=1, keepdims=True)
    np.divide(values - low, high - low, out=scaled, where=high > low)
    return scaled


def _in_span(facts: LineFacts) -> list[bool]:
    low, high = PAPER_SPAN
    return [low - 1e-9 <= lam <= high + 1e-9 for lam in facts.line.lams]
