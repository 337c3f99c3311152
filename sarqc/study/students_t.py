"""Student's t: the distance from 0, in standard errors, at which a mean of few draws is significant (5 %)."""

from __future__ import annotations

import numpy as np


def clear_from(freedom: np.ndarray | float, among: np.ndarray | int = 1) -> np.ndarray:
    """Standard errors from which a mean is clear, elementwise, by degrees of freedom; NaN for less than one of them.

    Half the width of the 95 % interval in standard errors. ``among``: the comparisons over which intervals hold at
    once (Bonferroni): with probability 95 % none of so many misses what it is an interval of, so that the best of them
    may be judged on what chose it. Fractions of a degree of freedom are rounded down.
    """
    from scipy.special import stdtrit  # a fifth of a second, of which pages without a comparison know nothing

    whole = np.floor(np.asarray(freedom, dtype=np.float64))
    known = np.where(whole >= 1, whole, np.nan)
    quantile: np.ndarray = np.asarray(stdtrit(known, 1 - 0.025 / among))
    return quantile
