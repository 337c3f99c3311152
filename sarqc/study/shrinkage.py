"""λ from shrinkage: the λ of the identity penalty that a closed form suggests, without a sweep, and its regret.

A study holds ρ of each draw and layer, see ``sarqc/quantization/shrinkage.py``. Shrinkage towards μ I replaces S by
(1 − ρ) S + ρ μ I, a multiple of S + λ μ I at λ = ρ / (1 − ρ).

Axes in comments: D calibration draws, L layers, M λ values.
"""

import math
from dataclasses import dataclass

import numpy as np

from sarqc.quantization.methods import METHODS
from sarqc.study.facts import LineFacts, has_lam
from sarqc.study.paired import Difference, paired_ratio

ESTIMATORS = {"shrinkage_oas": "OAS", "shrinkage_lw": "Ledoit–Wolf"}  # by the quantity of a line


@dataclass(frozen=True)
class ShrinkageLam:
    """λ from the shrinkage of layers: of one layer, or the median over layers; medians over draws."""

    lam: float  # infinite where an estimator puts the target in the place of S
    low: float  # of the layer with the least shrinkage
    high: float  # of the layer with the most
    is_median: bool  # over layers


def lam_of(shrinkage: float) -> float:
    """Return λ = ρ / (1 − ρ) of a shrinkage ρ."""
    return math.inf if shrinkage >= 1 else shrinkage / (1 - shrinkage)


def shrinkage_lam(facts: LineFacts, estimator: str = "shrinkage_oas") -> ShrinkageLam | None:
    """Return λ from the shrinkage of the facts' layer, or the median over all layers.

    The median, because one λ of the axis holds for every layer alike, and a few layers with little text would dominate
    a mean.

    Args:
        facts: A line of the column solver with the identity penalty.
        estimator: A name in ``ESTIMATORS``.

    Returns:
        None for other lines, whose λ is not a share of the mean diagonal, and for studies without the quantity.
    """
    entry = METHODS.get(facts.line.method)
    if entry is None or not entry.make.lam_is_damping or not has_lam(facts.line):
        return None
    if facts.line.fitting.get("expert_damping") == "damped" or facts.line.second != "gamma":
        return None
    values = facts.read(estimator, facts.layer)  # D L, or D of one layer
    if values is None or not np.isfinite(values).any():
        return None
    columns = np.where(np.isfinite(values), values, np.nan).reshape(len(values), -1)  # D L
    known = np.nanmedian(columns[:, np.isfinite(columns).any(axis=0)], axis=0)  # of each layer that has a number
    median, low, high = (lam_of(float(value)) for value in (np.median(known), known.min(), known.max()))
    return ShrinkageLam(median, low, high, facts.layer is None)


def regret(facts: LineFacts, lam: float) -> Difference | None:
    """Return the perplexity at a λ minus that at the best λ of the line, paired by draw.

    Between two measured λ the logarithm of the perplexity of each draw is taken in proportion. The best λ was chosen on
    the same draws, so that intervals hold for all λ of the line at once.

    Args:
        facts: A line with one γ.
        lam: λ.

    Returns:
        The difference, without axes; None where λ lies beyond the measured ones, or without perplexities.
    """
    quality, lams = facts.perplexity, facts.line.lams
    if quality is None or quality.best[0] is None or not lams[0] <= lam <= lams[-1]:
        return None
    logs = np.log(quality.values[:, 0])  # D M
    between = np.exp([np.interp(lam, lams, row) for row in logs])  # D; NaN beside an unmeasured λ
    if not np.isfinite(between).any():
        return None
    return paired_ratio(between, quality.values[:, 0, quality.best[0]]).chosen_of(len(lams))
