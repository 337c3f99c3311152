"""Changes as ratios of positive quantities, with their verdict over paired draws, and how they are written.

Axes in comments: D calibration draws, G γ values, M λ values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sarqc.figures.numbers import NBSP, number, percent, small_percent
from sarqc.study.intervals import decimals_of
from sarqc.study.paired import Difference, mean_over_draws, paired_ratio

SAME = 0.005  # a change below this share is none once it is rounded to whole per cents


@dataclass(frozen=True)
class Ratio:
    """A positive quantity over another in the draws that have both, G M: of means, as the Lab's other changes are."""

    mean: np.ndarray
    paired: Difference  # by draw, for the verdict

    def known(self, at: tuple[int, int]) -> bool:
        return bool(np.isfinite(self.mean[at]))

    def clear(self, at: tuple[int, int]) -> bool:
        """Whether the draws show the direction. One draw has no others beside it, so its ratio stands as it is."""
        error = float(self.paired.error[at])
        if not math.isfinite(error) or error == 0:
            return True
        verdict = self.paired.verdict(at)
        return verdict != 0 and (verdict > 0) == bool(self.mean[at] > 1)

    def same(self, at: tuple[int, int]) -> bool:
        return bool(abs(self.mean[at] - 1) < SAME)

    def change_in(self, name: str, at: tuple[int, int]) -> str:
        """Return “31 % less drift”, of a name."""
        ratio = float(self.mean[at])
        return f"{change_text(ratio - 1)}{NBSP}{'less' if ratio < 1 else 'more'} {name}"


def ratio_of(values: np.ndarray, reference: np.ndarray) -> Ratio:
    """Of ``values`` (D G M) to ``reference``, which broadcasts against them."""
    values, reference = np.broadcast_arrays(values, reference)
    with np.errstate(invalid="ignore"):
        both = np.isfinite(values) & np.isfinite(reference) & (values > 0) & (reference > 0)
    above, below = (np.where(both, part, np.nan) for part in (values, reference))
    return Ratio(mean_over_draws(above) / mean_over_draws(below), paired_ratio(above, below))


def is_unclear(difference: Difference) -> bool:
    """Return True for a difference without axes of several draws that do not show it clearly."""
    return bool(math.isfinite(difference.error) and difference.verdict(()) == 0)


def change_text(change: float) -> str:
    """The size of a change in whole per cents; with decimals where it is less than one, or would round to all."""
    size, left = abs(change), 1 + change
    if size < 0.01:
        return small_percent(size)
    return percent(size, decimals_of(100 * left, 1) if 0 < left < SAME else 0)


def times_text(ratio: float) -> str:
    """“2.4 ×”."""
    return f"{number(ratio, decimals_of(ratio, 2))}{NBSP}×"


def less_or_more(change: float, same: str = "", less: str = "less", more: str = "more") -> str:
    """“31 % less”; ``same`` for a change below half a percent."""
    return same if abs(change) < SAME else f"{percent(abs(change))} {less if change < 0 else more}"
