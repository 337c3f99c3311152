"""Gain of each of several candidates over a reference measured beside them, with its uncertainty.

The candidate that looks best was chosen on the draws that judge it, so intervals hold for all candidates at once: by
Bonferroni's inequality each is made at 5 % / K. Two draws must suffice for a large effect, and Student's t with a
single degree of freedom is very wide. So the variance between draws is pooled over the candidates. Their differences to
the reference are correlated (they share it, and neighbouring λ make nearly the same model), so the pooled variance has
fewer degrees of freedom than candidates times draws: Satterthwaite's, with the correlations that the windows of the
test text show within draws. Without windows they count as fully correlated, which is Student's t.

Axes: R draws, K candidates, W windows of the test text.
"""

from dataclasses import dataclass

import numpy as np

ALPHA = 0.05  # probability that any of the intervals misses


@dataclass(frozen=True)
class Gains:
    """Reference less candidate, ln perplexity, each (K,): positive for a better candidate; NaN is not known."""

    mean: np.ndarray
    low: np.ndarray  # simultaneous 95 % interval; NaN for less than two draws
    high: np.ndarray
    draws: np.ndarray


def gains(values: np.ndarray, reference: np.ndarray, windows: np.ndarray | None = None) -> Gains:
    """Return the gains of candidates over a reference, with simultaneous intervals.

    Args:
        values: (R, K), ln perplexity of the candidates; NaN if not measured.
        reference: (R,), ln perplexity of the reference; NaN if not measured.
        windows: (R, K, W), reference less candidate in each window; NaN if not measured.
    """
    difference = reference[:, None] - values
    measured = np.isfinite(difference)
    draws = measured.sum(axis=0)
    mean = np.full(draws.shape, np.nan)
    np.divide(np.where(measured, difference, 0.0).sum(axis=0), draws, out=mean, where=draws > 0)
    half = np.full(draws.shape, np.nan)
    if (compared := np.flatnonzero(draws >= 2)).size:
        half[compared] = _half_widths(difference[:, compared], windows if windows is None else windows[:, compared])
    return Gains(mean, mean - half, mean + half, draws)


def _half_widths(difference: np.ndarray, windows: np.ndarray | None) -> np.ndarray:
    """Half widths (K,) of the intervals of candidates (R, K) that were measured in two draws or more."""
    from scipy.special import stdtrit  # a third of a second, of which pages know nothing

    own = np.nanvar(difference, axis=0, ddof=1)
    freedom = np.isfinite(difference).sum(axis=0) - 1
    pooled = (freedom * own).sum() / freedom.sum()
    squared = np.ones((len(own), len(own))) if windows is None else _squared_correlations(windows)
    # Satterthwaite's degrees of freedom of a pooled variance whose parts are correlated.
    effective = freedom.sum() ** 2 / (np.minimum.outer(freedom, freedom) * squared).sum()
    quantile = stdtrit(effective, 1 - ALPHA / 2 / len(own))
    # A candidate with a larger spread of its own keeps it.
    half: np.ndarray = quantile * np.sqrt(np.maximum(pooled, own) / (freedom + 1))
    return half


def _squared_correlations(windows: np.ndarray) -> np.ndarray:
    """Squared correlations (K, K) of a draw's changes in single windows, over draws that measured all candidates."""
    shared = windows[np.isfinite(windows).all(axis=(1, 2))]
    count = windows.shape[1]
    if len(shared) < 2 or windows.shape[2] < 3:
        return np.ones((count, count))
    change = shared - shared.mean(axis=0)  # of each window from its mean over draws
    change -= change.mean(axis=2, keepdims=True)  # and of the draw as a whole
    flat = change.transpose(1, 0, 2).reshape(count, -1)
    size = np.sqrt((flat**2).sum(axis=1))
    if not (size > 0).all():
        return np.ones((count, count))
    correlation: np.ndarray = flat @ flat.T / np.outer(size, size)
    return correlation**2
