"""Candidates that are still in question: successive elimination on paired differences.

Every calibration draw measures all candidates that are left, so that effects of a draw on all of them alike cancel.
After each draw from the second on a candidate is given up where another one is better by more than chance allows.

The rule and its guarantee. Let x[a, d] = μ[a] + β[d] + e[a, d], with independent normal errors e of one variance (a
randomised block design). After r draws the variance is pooled over the candidates left, with (k - 1)(r - 1) degrees of
freedom, and a is given up where some b has mean x[a] - mean x[b] > t · √(2 s²/r), or that difference's own standard
error where it is larger. t is Student's quantile at δ / ((K - 1)(R - 1)), with K candidates and at most R draws: by the
union bound over rivals and looks, the best candidate is given up with a probability of at most δ. Successive
elimination is Even-Dar, Mannor and Mansour (2006); blocks in a race are Moore and Lee (1994).
"""

from dataclasses import dataclass

import numpy as np

DELTA = 0.05  # largest probability that the best candidate is given up
PATIENCE = 4  # draws before a race ends in which no further difference can be shown
INDIFFERENT = 1e-3  # negligible differences of ln perplexity, a tenth of a percent


@dataclass(frozen=True)
class SuccessiveElimination:
    """State of K candidates after some draws.

    A candidate that is left has a value in every draw so far.

    Attributes:
        values: (R, K), measured values, the smaller the better, one row for each of at most R draws; NaN if not
            measured.
    """

    values: np.ndarray

    @property
    def draws(self) -> int:
        """Number of draws in which at least one candidate was measured."""
        return int(np.isfinite(self.values).any(axis=1).sum())

    def running(self) -> np.ndarray:
        """Return a mask (K,) of the candidates that are left after all draws, each look in its turn."""
        left = np.ones(self.values.shape[1], dtype=bool)
        for draws in range(2, self.draws + 1):
            # One look after the other, as in the race itself: the union bound counts every look.
            left &= ~self._beaten(self.values[:draws], left)
        return left

    def _beaten(self, seen: np.ndarray, left: np.ndarray) -> np.ndarray:
        """Mask (K,) of the candidates left that another one of them beats after these draws (r, K)."""
        beaten = np.zeros(len(left), dtype=bool)
        among = np.flatnonzero(left & np.isfinite(seen).all(axis=0))
        if len(among) < 2:
            return beaten
        gap, bar = _gaps(seen[:, among], len(left), len(self.values))
        beaten[among] = (gap > bar).any(axis=1)
        return beaten

    def told_apart(self) -> bool:
        """Return True if further draws could not change the result in a way that matters.

        One candidate is left; or all that are left differ by less than ``INDIFFERENT``, as far as can be known; or,
        from the ``PATIENCE``-th draw on, no two of them differ by as much as the last possible draw could show.
        """
        among = np.flatnonzero(self.running())
        if len(among) < 2:
            return True
        if self.draws < 2:
            return False
        seen, candidates, looks = self.values[: self.draws, among], self.values.shape[1], len(self.values)
        gap, bar = _gaps(seen, candidates, looks)
        others = ~np.eye(len(among), dtype=bool)
        if (np.abs(gap) + bar <= INDIFFERENT)[others].all():
            return True
        return self.draws >= PATIENCE and not (gap > _gaps(seen, candidates, looks, of_draws=looks)[1]).any()


def _gaps(
    seen: np.ndarray, candidates: int, looks: int, *, of_draws: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Differences of the candidates' means (k, k), and the bars above which these are not chance.

    ``seen`` (r, k) of the candidates left; ``candidates`` and ``looks``: numbers of candidates and of draws in all;
    ``of_draws``: number of draws for which the bars are computed, with the variance of these.
    """
    from scipy.special import stdtrit  # a third of a second, of which pages that only name ``DELTA`` know nothing

    draws, left = seen.shape
    means, after = seen.mean(axis=0), of_draws or draws
    gap = means[:, None] - means[None, :]
    # Residuals of the two-way design: without the candidates' means and without the effect of each draw.
    residual = seen - means[None, :] - seen.mean(axis=1, keepdims=True) + seen.mean()
    pooled = 2 * (residual**2).sum() / ((left - 1) * (draws - 1))
    own = (seen[:, :, None] - seen[:, None, :]).var(axis=0, ddof=1)
    level = DELTA / ((candidates - 1) * max(1, looks - 1))
    bar: np.ndarray = stdtrit((left - 1) * (after - 1), 1 - level) * np.sqrt(np.maximum(pooled, own) / after)
    return gap, bar
