"""Statistics of paired draws: means, differences with their standard error, the sweet spot and its band."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, Self

import numpy as np

MOST = 100.0  # an interval of a ratio that reaches further up than this has no upper end


@dataclass(frozen=True)
class Difference:
    """Mean and standard error of a paired difference, elementwise; ``error`` is NaN for a single draw."""

    mean: np.ndarray
    error: np.ndarray
    draws: np.ndarray  # number of paired draws
    freedom: np.ndarray  # degrees of freedom of the error
    among: int = 1  # number of comparisons for which its intervals hold at once

    @cached_property
    def doubt(self) -> np.ndarray:
        """Half the width of the 95 % interval: the size that a mean must exceed to be clear of 0; NaN if not known."""
        doubt: np.ndarray = self.error * clear_from(self.freedom, self.among)
        return doubt

    @cached_property
    def low(self) -> np.ndarray:
        """Lower end of the 95 % interval."""
        low: np.ndarray = self.mean - self.doubt
        return low

    @cached_property
    def high(self) -> np.ndarray:
        """Upper end of the 95 % interval."""
        high: np.ndarray = self.mean + self.doubt
        return high

    def at(self, place: tuple[int, ...]) -> Self:
        """Return the difference at one place, with arrays without axes."""
        names = ("mean", "error", "draws", "freedom")
        parts: dict[str, Any] = {name: np.asarray(getattr(self, name)[place]) for name in names}
        return replace(self, **parts)

    def chosen_of(self, count: int) -> Self:
        """Return the difference with intervals for ``count`` comparisons at once, to judge the best of them."""
        return self if count == self.among else replace(self, among=max(1, count))

    def scaled(self, factor: float) -> Self:
        """Return the difference in another unit; a negative factor turns it round."""
        if factor == 1:
            return self
        return replace(self, mean=factor * self.mean, error=abs(factor) * self.error)

    def verdict(self, at: tuple[int, ...]) -> Literal[-1, 0, 1]:
        """Return -1 for clearly lower, +1 for clearly higher, 0 otherwise and for a single draw.

        Clear means that the 95 % interval (Student's t) excludes 0.
        """
        mean, doubt = float(self.mean[at]), float(self.doubt[at])
        if not np.isfinite(mean) or not np.isfinite(doubt) or abs(mean) <= doubt or mean == 0:
            return 0
        return 1 if mean > 0 else -1


@dataclass(frozen=True)
class RatioDifference(Difference):
    """Difference of two positive quantities that vary in proportion to their size, such as perplexities.

    Statistics are those of the paired ln(values / reference); mean and interval are mapped back to the unit of the
    quantity as ``scale`` · (ratio − 1), so that the interval is not symmetric. ``error`` is that of the logarithm times
    the value, to first order.
    """

    log: Difference = field(kw_only=True)  # of ln(values / reference)
    # Geometric mean of the reference over the paired draws, in the unit asked for; negative the other way round.
    scale: np.ndarray = field(kw_only=True)

    @cached_property
    def doubt(self) -> np.ndarray:
        """Half the width of the interval, whose two sides differ; infinite without an upper end."""
        doubt: np.ndarray = (self.high - self.low) / 2
        return doubt

    @cached_property
    def low(self) -> np.ndarray:
        return np.where(self.scale > 0, *self._ends)

    @cached_property
    def high(self) -> np.ndarray:
        return np.where(self.scale > 0, *self._ends[::-1])

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the interval: that of the lower ratio, that of the higher, which may lie too far up to say anything."""
        high = np.where(self._log.high > np.log(MOST), np.inf, self._log.high)
        return self.scale * np.expm1(self._log.low), self.scale * np.expm1(high)

    @cached_property
    def _log(self) -> Difference:
        return self.log.chosen_of(self.among)

    def at(self, place: tuple[int, ...]) -> Self:
        return replace(super().at(place), log=self.log.at(place), scale=np.asarray(self.scale[place]))

    def scaled(self, factor: float) -> Self:
        return self if factor == 1 else replace(super().scaled(factor), scale=factor * self.scale)

    def verdict(self, at: tuple[int, ...]) -> Literal[-1, 0, 1]:
        """Return the verdict of the logarithm, whose interval excludes 0 exactly if this interval does."""
        verdict = self._log.verdict(at)
        return verdict if self.scale[at] > 0 or verdict == 0 else -verdict


def geometric_mean(values: np.ndarray) -> np.ndarray:
    """Return the geometric mean of the measured values over the first axis; for perplexities that of the mean loss."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean: np.ndarray = np.exp(mean_over_draws(np.log(values.astype(np.float64))))
    return mean


def mean_over_draws(values: np.ndarray) -> np.ndarray:
    """Return the mean of the measured values over the first axis; NaN without any."""
    total = values.sum(axis=0)
    if len(values) and np.isfinite(total).all():  # everything was measured, as nearly always
        return np.asarray(total / len(values))
    counts = np.isfinite(values).sum(axis=0)
    mean = np.full(counts.shape, np.nan)
    np.divide(np.nansum(values, axis=0), counts, out=mean, where=counts > 0)
    return mean


def paired_difference(values: np.ndarray, reference: np.ndarray) -> Difference:
    """Return ``values - reference`` over the draws (first axis) in which both were measured.

    The standard error is the sample deviation of the per-draw differences over √draws, NaN for fewer than two draws.

    Args:
        values: Draws on the first axis; NaN if not measured.
        reference: Broadcasts against ``values``.
    """
    per_draw = values.astype(np.float64) - reference
    seen = np.isfinite(per_draw)
    draws = seen.sum(axis=0)
    mean = mean_over_draws(per_draw)
    squares = np.where(seen, (per_draw - mean) ** 2, 0.0).sum(axis=0)
    enough = draws >= 2
    variance = np.divide(squares, draws - 1, out=np.full(mean.shape, np.nan), where=enough)
    error = np.sqrt(np.divide(variance, draws, out=np.full(mean.shape, np.nan), where=enough))
    return Difference(mean, error, draws, np.maximum(draws - 1, 0))


def paired_ratio(values: np.ndarray, reference: np.ndarray) -> RatioDifference:
    """Return ``values - reference`` of positive quantities, by the ratio of each draw.

    The result is that of geometric means over the paired draws, which is exact if every draw has both.

    Args:
        values: As for ``paired_difference``.
        reference: As for ``paired_difference``.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ours, theirs = np.log(values.astype(np.float64)), np.log(np.asarray(reference, dtype=np.float64))
    log = paired_difference(ours, theirs)
    both = np.isfinite(ours - theirs)
    scale = np.exp(mean_over_draws(np.where(both, theirs, np.nan)))
    mean = scale * np.expm1(log.mean)
    return RatioDifference(mean, (scale + mean) * log.error, log.draws, log.freedom, log=log, scale=scale)


def interval_of_draws(values: np.ndarray, *, of_ratio: bool) -> tuple[float, float, float]:
    """Return the mean over draws (D) and the ends of its 95 % interval, unpaired.

    Args:
        values: (D,).
        of_ratio: Geometric mean, for perplexities.
    """
    if not of_ratio:
        alone = paired_difference(values, np.zeros(len(values)))
        return float(alone.mean), float(alone.low), float(alone.high)
    mean = float(geometric_mean(values))
    apart = paired_ratio(values, np.full(len(values), mean))
    return mean, mean + float(apart.low), mean + float(apart.high)


def paired_items(correct: np.ndarray, reference: np.ndarray) -> Difference:
    """Return the difference of two accuracies on the same test items in the same draws.

    Items are a sample as much as draws are. With both crossed, the variance of the mean is the draws' part plus the
    items' part minus the residual that both contain; it is kept at least as large as either part alone. Degrees of
    freedom are those of a sum of two variances (Welch and Satterthwaite).

    Args:
        correct: D … T.
        reference: D … T.
    """
    per_cell = correct.astype(np.float64) - reference  # D … T
    n_draws, n_items = per_cell.shape[0], per_cell.shape[-1]
    mean = per_cell.mean(axis=(0, -1))
    by_draw = per_cell.mean(axis=-1)  # D …
    by_item = per_cell.mean(axis=0)  # … T
    of_items = by_item.var(axis=-1, ddof=1) / n_items if n_items > 1 else np.full(mean.shape, np.nan)
    count = np.full(mean.shape, n_draws)
    if n_draws < 2:
        return Difference(mean, np.sqrt(of_items), count, np.full(mean.shape, n_items - 1))
    of_draws = by_draw.var(axis=0, ddof=1) / n_draws
    residual = per_cell - by_draw[..., None] - by_item[None] + mean[None, ..., None]
    left = max(1, (n_draws - 1) * (n_items - 1))
    of_both = (residual**2).sum(axis=(0, -1)) / left / (n_draws * n_items)
    error = np.sqrt(np.maximum(of_draws + of_items - of_both, np.maximum(of_draws, of_items)))
    squares = of_draws**2 / (n_draws - 1) + of_items**2 / max(1, n_items - 1)
    freedom = np.full(mean.shape, float(n_draws - 1))
    np.divide((of_draws + of_items) ** 2, squares, out=freedom, where=squares > 0)
    return Difference(mean, error, count, freedom)


def sweet_spots(values: np.ndarray, *, lower_is_better: bool = True) -> tuple[tuple[int | None, ...], np.ndarray]:
    """Return the best λ of each curve, and the mask of a set that holds the truly best λ with probability 95 %.

    Perplexities (lower is better) are compared by their logarithms, see ``RatioDifference``. Best and mask are taken
    among the λ that were measured in most draws: means over other draws don't compare. A single draw has no set: the
    mask is then empty, because one draw can't show which other λ may be the best.

    A λ is outside the set if any other λ is clearly better, by an interval that holds for its K − 1 comparisons at
    once: the truly best λ is then excluded with probability 5 % at most (Gupta, On some multiple decision rules,
    Technometrics 7, 1965; Hsu, Simultaneous confidence intervals for all distances from the “best”, Annals of
    Statistics 9, 1981).

    Args:
        values: D G M.
        lower_is_better: True for perplexities.

    Returns:
        Positions of the best λ per γ, and the mask G M.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.log(values.astype(np.float64)) if lower_is_better else -values  # the lowest is the best
    mean, counts = mean_over_draws(values), np.isfinite(values).sum(axis=0)
    most = (counts == counts.max(axis=-1, keepdims=True)) & np.isfinite(mean)
    best = np.where(most, mean, np.inf).argmin(axis=-1)
    compared = np.where(most, values, np.nan)
    band = most & may_be_best(lambda other: paired_difference(compared, compared[..., [other]]), values.shape[-1])
    known = np.isfinite(mean).any(axis=-1).tolist()
    return tuple(at if is_known else None for at, is_known in zip(best.tolist(), known, strict=True)), band


def may_be_best(minus: Callable[[int], Difference], count: int) -> np.ndarray:
    """Return the mask of a set that holds the point with the lowest true value with probability 95 %, of any number.

    A point is outside if it is clearly higher than another, or if it was not measured in two draws. Pairs are taken one
    after the other, since an uploaded study may have any number of points.

    Args:
        minus: Returns the differences of all points (last axis) to the point of a position; NaN where not compared.
        count: M, the number of points.

    Returns:
        … M.
    """
    # With how many a point was compared, itself included.
    partners = sum(np.isfinite(minus(other).error).astype(int) for other in range(count))
    band: np.ndarray = np.asarray(partners) > 0
    for other in range(count):
        apart = minus(other)
        bound = clear_from(apart.freedom, np.maximum(partners - 1, 1)) * apart.error
        band &= ~(apart.mean > np.where(np.isfinite(bound), bound, np.inf))
    return band


def spans(band: np.ndarray) -> list[tuple[int, int]]:
    """Return the first and last position of each run of True."""
    first, last = np.flatnonzero(np.diff(np.pad(np.asarray(band, dtype=np.int8), 1))).reshape(-1, 2).T
    return list(zip(first.tolist(), (last - 1).tolist(), strict=True))


def clear_from(freedom: np.ndarray | float, among: np.ndarray | int = 1) -> np.ndarray:
    """Return the number of standard errors from which a mean is clear, elementwise; NaN below one degree of freedom.

    It is half the width of the 95 % interval in standard errors. Fractions of a degree of freedom are rounded down.

    Args:
        freedom: Degrees of freedom.
        among: Number of comparisons for which intervals hold at once (Bonferroni): with probability 95 % none of them
            misses its value, so that the best may be judged on the data that chose it.
    """
    whole = np.floor(np.asarray(freedom, dtype=np.float64))
    if whole.ndim == 0 and isinstance(among, int):  # of a single comparison, of which a page has thousands
        return np.asarray(_clear_from(float(whole), among))
    return np.asarray(_quantile(whole, among))


@lru_cache(maxsize=4096)
def _clear_from(whole: float, among: int) -> float:
    return float(_quantile(np.asarray(whole), among))


def _quantile(whole: np.ndarray, among: np.ndarray | int) -> np.ndarray:
    """Of Student's t at whole degrees of freedom."""
    from scipy.special import stdtrit  # a fifth of a second, of which pages without a comparison know nothing

    known = np.where(whole >= 1, whole, np.nan)
    quantile: np.ndarray = stdtrit(known, 1 - 0.025 / among)
    return quantile
