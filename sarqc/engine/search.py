"""The search for λ as a plan: the next measurement, the results so far, and the end. Nothing is measured here.

With a budget the first question is whether a λ is worth it at all: the most promising three are compared with GPTQ 1 %,
in two draws and then in four, since two draws have a single degree of freedom; then come further draws of it and the
best two; only then further λ, the neighbours of the best first. The search ends as soon as the comparison of the best λ
has a verdict (``study.evidence``) and its neighbours were compared. Without a budget all λ are compared in two draws,
and further draws of those that are left tell them apart (``study.elimination``).

Whatever is measured is planned by the time that is left and by what such work took in this very run, so a search that
is stopped anywhere is as far as its time allowed.

Axes: R draws that there may be, K candidates.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from sarqc.documents import Standing
from sarqc.study.elimination import PATIENCE, SuccessiveElimination
from sarqc.study.evidence import Evidence
from sarqc.study.gain import Gains, gains
from sarqc.study.paired import mean_over_draws

End = Literal["verdict", "known", "narrow", "draws"]
ENOUGH = 3  # λ that must be compared, if there are as many, before one of them is called the best
SURE = (
    4  # draws before a further λ: the interval of a difference over fewer is more than three standard errors each way
)
AHEAD = 2  # λ that have draws beyond


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
        """Draws of which conclusions are drawn: the baselines, and two of the λ left or all of them, were measured."""
        if not self.compared:
            return int(self.seen[0, list(self.baselines)].all() and self.seen[0, list(self.order)].any())
        draws = 2
        while draws < len(self.values) and self.seen[draws, list(self.baselines)].all():
            running = self._running(draws)
            if self.seen[draws, running].sum() < min(AHEAD, len(running)):
                break
            draws += 1
        return draws

    def _race(self, draws: int) -> SuccessiveElimination:
        values = np.where(np.arange(len(self.values))[:, None] < draws, self.values, np.nan)[:, list(self.order)]
        values[:, [index not in self.compared for index in self.order]] = np.nan
        return SuccessiveElimination(values)

    def _running(self, draws: int) -> list[int]:
        left = itertools.compress(self.order, self._race(draws).running())
        return [index for index in left if index in self.compared]

    @cached_property
    def running(self) -> tuple[int, ...]:
        """The compared λ that none beats, in their order; one without the latest draws is not judged by these."""
        return tuple(self._running(self.draws)) if self.compared else ()

    @cached_property
    def means(self) -> np.ndarray:
        """Means over the draws that count, (K,)."""
        return mean_over_draws(self.values[: self.draws])

    @cached_property
    def better(self) -> np.ndarray:
        """Means of the first baseline less each candidate, over the draws that count and have both, (K,)."""
        seen = self.values[: max(1, self.draws)]
        return mean_over_draws(seen[:, self.baselines[:1]] - seen)

    @cached_property
    def best(self) -> int | None:
        """The λ with the largest mean gain, once enough were compared in at least two draws."""
        if len(self.compared) < max(2, min(ENOUGH, len(self.order))) or self.draws < 2:
            return None
        return self._ahead[0]

    @property
    def _ahead(self) -> list[int]:
        """The λ left, by their gains."""
        return sorted(self.running, key=lambda index: -float(self.better[index]))

    @cached_property
    def leading(self) -> int | None:
        """The λ with the largest mean gain so far, compared or not."""
        if self.best is not None:
            return self.best
        measured = [index for index in self.order if np.isfinite(self.better[index])]
        return max(measured, key=lambda index: float(self.better[index]), default=None)

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

    def evidence(self, text: str = "") -> Evidence | None:
        """Return the comparison of the best λ with the first baseline on a text; None without a best λ."""
        if self.best is None:
            return None
        return Evidence.of_gain(self.gains, self.best, len(self.compared), quantity="perplexity", text=text)

    def told_apart(self) -> bool:
        """Return True if further draws would change nothing that matters: neither which λ are left nor the verdict on
        the best one, or the latter not within ``PATIENCE`` draws.
        """
        if self.best is None or not self._race(self.draws).told_apart():
            return False
        return self._is_decided() or self.draws >= PATIENCE

    def _is_decided(self) -> bool:
        evidence = self.evidence()
        return evidence is not None and evidence.verdict != "unknown"

    def end(self, lams: Sequence[float | None], narrow: float | None, *, has_budget: bool) -> End | None:
        """Return the reason to end even with time left; None without one. ``narrow``: the largest λ that is as
        good as the best is at most so many times the smallest.
        """
        if self.best is None:
            return None
        if has_budget and narrow is None:
            # A look at fewer draws would only add to the chance of a false verdict.
            if self.draws >= min(SURE, len(self.values)) and self._is_decided() and not self._neighbours():
                return "verdict"
        elif len(self.compared) == len(self.order):
            if self.told_apart():
                return "known"
            if narrow is not None:
                left = [lams[index] or 0.0 for index in self.running]
                if max(left) <= narrow * min(left):
                    return "narrow"
        return "draws" if len(self.compared) == len(self.order) and self.draws == len(self.values) else None

    def next(self, left: float, costs: Costs, together: int) -> Step | None:
        """Return the next step for which ``left`` seconds suffice; None: there is none. ``together``: how many
        candidates may be solved at once.
        """
        if (step := self._comparison(left)) is not None:
            return Step(step.draw, step.candidates[:together])
        every = len(self.values)
        if math.isinf(left):
            plans = [self._missing(0, self.once), self._further_draw(self.running, every)]
        else:
            ahead = self._ahead[:AHEAD]
            plans = [
                self._further_draw(self.running, SURE),
                None if self._is_decided() else self._further_draw(ahead, SURE + 2),
                self._further_lam(left, costs),
                self._further_draw(ahead, every),
            ]
        for step in plans:
            if step is not None and step.candidates and costs.of(step, is_new=self._is_new(step)) <= left:
                return Step(step.draw, step.candidates[:together])
        return None

    def _is_new(self, step: Step) -> bool:
        return not self.seen[step.draw].any()

    def _missing(self, draw: int, indices: Iterable[int]) -> Step:
        return Step(draw, tuple(index for index in indices if not self.seen[draw, index]))

    def _comparison(self, left: float) -> Step | None:
        """Return the missing measurements of two draws of three λ, made at any cost, since fewer say nothing; without a
        budget of all λ. None once there is a best λ.
        """
        if self.best is not None:
            return None
        target = self.order if math.isinf(left) else self.order[:ENOUGH]
        for draw in (0, 1):
            for group in (self.baselines, target):
                if (step := self._missing(draw, group)).candidates:
                    return step
        return None

    def _further_draw(self, lams: Sequence[int], until: int) -> Step | None:
        """Return the first draw of at most ``until`` in which some of the λ, or the baselines, were not measured."""
        steps = (self._missing(draw, (*self.baselines, *lams)) for draw in range(min(until, len(self.values))))
        return next((step for step in steps if step.candidates), None)

    def _neighbours(self) -> list[int]:
        """Return the λ in question next to the best that were not compared."""
        assert self.best is not None
        return [index for index in (self.best + 1, self.best - 1) if index in self.order and index not in self.compared]

    def _further_lam(self, left: float, costs: Costs) -> Step | None:
        """Return a λ that was not compared yet, in ``SURE`` draws: the last one first, so that none is missing when it
        is compared.
        """
        for candidate in (*self._neighbours(), *self.order):
            if candidate not in self.compared:
                steps = [self._missing(draw, (candidate,)) for draw in reversed(range(min(SURE, self.draws)))]
                steps = [step for step in steps if step.candidates]
                return steps[0] if sum(costs.of(step, is_new=False) for step in steps) <= left else None
        return None


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
