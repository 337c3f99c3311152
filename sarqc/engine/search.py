"""The search for λ as a plan: the next measurement, the results so far, and the end. Nothing is measured here.

Two draws of three λ come first, because a single λ or a single draw compares nothing, and the better of two is often
still far from the best. Then come further λ, each in all draws so far, then further draws of those that are left
(``study.elimination``): a host that becomes slower ends with fewer λ compared, never with many that are not.
Whatever is measured is planned by the time that is left and by what such work took in this very run, so a search that
is stopped anywhere is as far as its time allowed.

Axes: R draws that there may be, K candidates.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from sarqc.documents import Standing
from sarqc.study.elimination import INDIFFERENT, PATIENCE, SuccessiveElimination
from sarqc.study.gain import Gains, gains
from sarqc.study.paired import mean_over_draws

End = Literal["known", "narrow", "draws"]
ENOUGH = 3  # λ that must be compared, if there are as many, before one of them is called the best


@dataclass(frozen=True)
class Step:
    """Candidates to measure in a draw, counted from 0."""

    draw: int
    candidates: tuple[int, ...]


@dataclass(frozen=True)
class Costs:
    """Seconds of a step, by what the run has measured so far."""

    model: float  # one candidate, solved and measured
    draw: float = 0.0  # the statistics of a draw that is new
    known: Callable[[int, int], bool] = lambda _draw, _candidate: False  # stored results cost nothing

    def of(self, step: Step, *, is_new: bool) -> float:
        models = sum(not self.known(step.draw, candidate) for candidate in step.candidates)
        return models * self.model + (self.draw if is_new and models else 0.0)


@dataclass(frozen=True)
class Search:
    """The conclusions from some measurements.

    ``values`` (R, K): ln(perplexity / float model's), NaN where nothing was measured. ``windows`` (R, K, W): how far
    each is below the first baseline in each window of the test text. ``order``: the λ that the errors of layers leave,
    the most promising first. ``baselines`` are measured in every draw, gains are over the first of them;
    ``once`` in the first draw alone.
    """

    values: np.ndarray
    order: tuple[int, ...]
    baselines: tuple[int, ...]
    once: tuple[int, ...] = ()
    windows: np.ndarray | None = None

    @cached_property
    def seen(self) -> np.ndarray:
        """True where a candidate was measured, (R, K)."""
        seen: np.ndarray = np.isfinite(self.values)
        return seen

    @cached_property
    def compared(self) -> tuple[int, ...]:
        """The λ that were measured in both of the first draws, in their order; none before the baselines were."""
        if not self.seen[:2, list(self.baselines)].all():
            return ()
        return tuple(index for index in self.order if self.seen[:2, index].all())

    @cached_property
    def draws(self) -> int:
        """Draws of which conclusions are drawn: in them the baselines and all λ still running were measured."""
        if len(self.compared) < 1:
            return int(self.seen[0, list(self.baselines)].all() and self.seen[0, list(self.order)].any())
        draws = 2
        while draws < len(self.values) and self.seen[draws, [*self.baselines, *self._running(draws)]].all():
            draws += 1
        return draws

    def _race(self, draws: int) -> SuccessiveElimination:
        values = np.where(np.arange(len(self.values))[:, None] < draws, self.values, np.nan)[:, list(self.order)]
        values[:, [index not in self.compared for index in self.order]] = np.nan
        return SuccessiveElimination(values)

    def _running(self, draws: int) -> list[int]:
        left = self._race(draws).running()
        return [index for index, is_left in zip(self.order, left, strict=True) if is_left and index in self.compared]

    @cached_property
    def running(self) -> tuple[int, ...]:
        """The compared λ that none beats, in their order."""
        return tuple(self._running(self.draws)) if self.compared else ()

    @cached_property
    def means(self) -> np.ndarray:
        """Means over the draws that count, (K,)."""
        return mean_over_draws(self.values[: self.draws])

    @cached_property
    def best(self) -> int | None:
        """The λ with the smallest mean, once enough were compared in at least two draws."""
        if len(self.compared) < max(2, min(ENOUGH, len(self.order))) or self.draws < 2:
            return None
        return min(self.running, key=lambda index: float(self.means[index]))

    @cached_property
    def leading(self) -> int | None:
        """The λ with the smallest mean so far, compared or not."""
        if self.best is not None:
            return self.best
        measured = [index for index in self.order if self.seen[0, index]]
        return min(measured, key=lambda index: float(mean_over_draws(self.values)[index]), default=None)

    def standing(self, candidate: int) -> Standing:
        """Return the word for a candidate: the only place where it is decided."""
        if candidate in (*self.baselines, *self.once):
            return "baseline"
        if self.order and candidate not in self.order:
            return "ruled_out"
        if self.best is None or candidate not in self.compared:
            return "not_reached"
        if candidate == self.best:
            return "best"
        return "as_good" if candidate in self.running else "worse"

    @cached_property
    def gains(self) -> Gains:
        """Gains of all candidates over the first baseline; intervals hold for all compared λ at once."""
        count = self.values.shape[1]
        mean, low, high = (np.full(count, np.nan) for _ in range(3))
        draws = np.zeros(count, dtype=int)
        seen = self.values[: max(1, self.draws)]
        every = gains(seen, seen[:, self.baselines[0]])
        mean[:], draws[:] = every.mean, every.draws
        if self.best is not None:
            some = list(self.compared)
            windows = None if self.windows is None else self.windows[: self.draws, some]
            compared_gains = gains(seen[:, some], seen[:, self.baselines[0]], windows)
            low[some], high[some] = compared_gains.low, compared_gains.high
        return Gains(mean, low, high, draws)

    def told_apart(self) -> bool:
        """Return True if further draws would change nothing that matters: neither which λ are left nor the verdict on
        the best one, or the latter not within ``PATIENCE`` draws.
        """
        if self.best is None or not self._race(self.draws).told_apart():
            return False
        low, high = self.gains.low[self.best], self.gains.high[self.best]
        decided = low > 0 or high < 0 or max(abs(low), abs(high)) <= INDIFFERENT
        return bool(decided) or self.draws >= PATIENCE

    def end(self, lams: Sequence[float | None], narrow: float | None) -> End | None:
        """Return the reason to end even with time left; None without one. ``narrow``: the largest λ that is as
        good as the best is at most so many times the smallest.
        """
        if self.best is None or len(self.compared) < len(self.order):
            return None
        if self.told_apart():
            return "known"
        if narrow is not None:
            left = [lams[index] or 0.0 for index in self.running]
            if max(left) <= narrow * min(left):
                return "narrow"
        return "draws" if self.draws == len(self.values) else None

    def next(self, left: float, costs: Costs, together: int) -> Step | None:
        """Return the next step for which ``left`` seconds suffice; None: there is none. ``together``: how many
        candidates may be solved at once.
        """

        if (step := self._comparison(left)) is not None:
            return Step(step.draw, step.candidates[:together])
        for step in (self._missing(0, self.once), self._further(left, costs), self._further_draw(left, costs)):
            if step is not None and step.candidates and costs.of(step, is_new=self._is_new(step)) <= left:
                return Step(step.draw, step.candidates[:together])
        return None

    def _is_new(self, step: Step) -> bool:
        return not self.seen[step.draw].any()

    def _missing(self, draw: int, indices: Sequence[int]) -> Step:
        return Step(draw, tuple(index for index in indices if not self.seen[draw, index]))

    def _comparison(self, left: float) -> Step | None:
        """Return the missing measurements of two draws of three λ, made at any cost, since fewer say nothing; without a
        budget of all λ. None once there is a best λ.
        """
        if self.best is not None:
            return None
        target = self.order if math.isinf(left) else self.order[:ENOUGH]
        for draw in (0, 1):
            for group in (target[:1], self.baselines, target[1:]):
                if (step := self._missing(draw, group)).candidates:
                    return step
        return None

    def _further(self, left: float, costs: Costs) -> Step | None:
        """Return a λ that was not compared yet, in all draws so far: the last one first, so that none is missing when
        it is compared.
        """
        for candidate in self.order:
            if candidate not in self.compared:
                steps = [self._missing(draw, (candidate,)) for draw in reversed(range(self.draws))]
                steps = [step for step in steps if step.candidates]
                return steps[0] if sum(costs.of(step, is_new=False) for step in steps) <= left else None
        return None

    def _further_draw(self, left: float, costs: Costs) -> Step | None:
        """Return one more draw of the λ that are left, if there is time for all of it."""
        if self.draws >= len(self.values) or self.draws < 2:
            return None
        step = self._missing(self.draws, (*self.running, *self.baselines))
        return step if costs.of(step, is_new=not self.seen[self.draws].any()) <= left else None


def order_by_promise(left: Sequence[int], errors: Sequence[float]) -> tuple[int, ...]:
    """Return places on the axis of λ that the errors of layers leave, the most promising first: nearest to the place
    after that of the smallest error, since perplexity prefers a λ two to three times as large (docs/results.md).
    """
    aim = left[int(np.argmin(errors))] + 1
    return tuple(sorted(left, key=lambda place: (abs(place - aim), -place)))


def rounded_up(minutes: float) -> float:
    """Return a budget that a person would choose, at least so many minutes."""
    usual = (1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440)
    return next((float(value) for value in usual if value >= minutes), float(1440 * math.ceil(minutes / 1440)))
