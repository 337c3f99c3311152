"""Worth of λ, of the value beside it, and of both: perplexity saved over zero, from one line's plane.

A line over α or β has every pair of that value (the *second*) with λ. λ is worth what its best value saves with the
second at 0, the second what its best value saves at λ = 0, and both what the best pair saves. Each best was chosen on
the draws that judge it, so its interval holds for all values that it was chosen from (Bonferroni).

Axes: D calibration draws, G values of the second, M values of λ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sarqc.study.document import Line
from sarqc.study.facts import lam_index
from sarqc.study.paired import Difference, RatioDifference, geometric_mean, paired_ratio

Knob = Literal["lam", "second"]


@dataclass(frozen=True)
class KnobWorth:
    """What the best of some points saves over zero.

    Attributes:
        at: Positions of the second value and of λ.
        saved: Perplexity at zero less that at the point, without axes; its interval holds for all points that the best
            was chosen from.
    """

    at: tuple[int, int]
    saved: Difference


@dataclass(frozen=True)
class Knobs:
    """Worth of λ alone, of the second alone, and of both.

    Attributes:
        lam: Best λ above 0, the second being 0.
        second: Best second above 0, λ being 0.
        both: Best of all pairs but zero.
        most: The one of λ and the second that is clearly worth more than the other; None if neither is.
        zero: Geometric mean of the perplexity with both at 0.
    """

    lam: KnobWorth
    second: KnobWorth
    both: KnobWorth
    most: Knob | None
    zero: float


def read_knobs(line: Line, perplexity: np.ndarray | None) -> Knobs | None:
    """Return the worth of λ and of the second value of a line.

    Args:
        line: The line.
        perplexity: (D, G, M), NaN where it was not measured.

    Returns:
        The worth; None for a line over γ, without λ = 0 or further values of both, or without their perplexities.
    """
    zero = lam_index(line, 0.0)
    if line.second == "gamma" or line.gammas[0] != 0 or zero is None:
        return None
    if perplexity is None or min(perplexity.shape[1:]) < 2:
        return None
    places = [(g, m) for g in range(perplexity.shape[1]) for m in range(perplexity.shape[2]) if (g, m) != (0, zero)]
    of_lam = [(g, m) for g, m in places if g == 0]
    of_second = [(g, m) for g, m in places if m == zero]
    found = [_best(perplexity, chosen, (0, zero)) for chosen in (of_lam, of_second, places)]
    lam, second, both = found
    if lam is None or second is None or both is None:
        return None
    most: Knob | None = None
    if lam.saved.low > 0 and _beats(perplexity, lam.at, of_second, len(of_lam)):
        most = "lam"
    elif second.saved.low > 0 and _beats(perplexity, second.at, of_lam, len(of_second)):
        most = "second"
    return Knobs(lam, second, both, most, float(geometric_mean(perplexity[:, 0, zero])))


def _best(perplexity: np.ndarray, places: list[tuple[int, int]], zero: tuple[int, int]) -> KnobWorth | None:
    """The place with the lowest perplexity, beside zero; of those that were measured in most draws."""
    apart = _between(perplexity, places, zero)
    known = np.isfinite(apart.log.mean) & (apart.draws == apart.draws.max())
    if not known.any():
        return None
    best = int(np.where(known, apart.log.mean, np.inf).argmin())
    return KnobWorth(places[best], apart.at((best,)).chosen_of(len(places)).scaled(-1))


def _between(perplexity: np.ndarray, places: list[tuple[int, int]], other: tuple[int, int]) -> RatioDifference:
    """Perplexity at some places less that at another one, paired over draws."""
    return paired_ratio(
        np.stack([perplexity[:, g, m] for g, m in places], axis=-1), perplexity[:, [other[0]], other[1]]
    )


def _beats(perplexity: np.ndarray, best: tuple[int, int], others: list[tuple[int, int]], among: int) -> bool:
    """Whether a place, the best of ``among``, is clearly better than each of the others.

    All must be shown, so that their number asks for no allowance (an intersection–union test); the choice of the best
    does.
    """
    apart = _between(perplexity, others, best).chosen_of(among)
    return all(apart.verdict((at,)) > 0 for at in range(len(others)))
