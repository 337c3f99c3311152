"""Searches on simulated models, whose best λ is known, on hosts of any load.

A model has a valley of ln(perplexity / float model's) over λ, flat or deep, wide or narrow, and one of the errors of
layers, up to three times further left and as steep as in the shipped studies. A draw shifts all λ alike; each λ has an
error of its own in each draw and in each window of the test text, independent of its neighbours' or nearly the same.
GPTQ 1 % is one more such model.

A host takes 1 to 20 times as long as planned for all of a search, each step as much longer again as chance has it, and
now and then it stands still.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from sarqc.engine.screening import in_question
from sarqc.engine.search import Costs, Search, order_by_promise
from sarqc.recipe import TUNED_LAMS
from sarqc.study.evidence import EQUAL
from sarqc.study.gain import gains

LAMS = np.array(TUNED_LAMS)
K = len(LAMS)
WINDOWS = 20
LAYERS = 42
# λ whose ln perplexity is within this of the best one's are the true band: so much two λ must differ to be told apart
# by five draws of each, t(0.975, 4) √(2/5) with errors of 0.006.
RESOLUTION = 2.7764 * 0.4**0.5 * 0.006
MOST = 8  # draws of a search
COST = 0.3  # of quantization at the best λ, in ln perplexity

Noise = Literal["independent", "smooth", "heavy tails", "uneven"]
NOISES: tuple[Noise, ...] = ("independent", "smooth", "heavy tails", "uneven")


def valley(place: float, depth: float, width: float) -> np.ndarray:
    return depth * (1 - np.exp(-((np.log(LAMS + 1e-3) - np.log(place)) ** 2) / width))


def noise(kind: Noise, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Errors of variance 1, the last axis over candidates."""
    if kind == "heavy tails":
        return rng.standard_t(4, shape) / np.sqrt(2)
    normal = rng.normal(size=shape)
    if kind == "smooth":  # over four neighbours
        place = np.arange(shape[-1])
        likeness = np.exp(-((place[:, None] - place) ** 2) / 32) + 1e-9 * np.eye(shape[-1])
        return normal @ np.linalg.cholesky(likeness).T
    return normal


@dataclass(frozen=True)
class Simulated:
    """A model: what is true of each λ and of GPTQ 1 %, its last candidate, and how much measurements scatter."""

    truth: np.ndarray  # (K + 1,)
    errors: np.ndarray  # (K,)
    spread: np.ndarray  # (K + 1,)
    kind: Noise

    @classmethod
    def of(
        cls, rng: np.random.Generator, kind: Noise = "independent", *, level: bool = False, gain: float | None = None
    ) -> Simulated:
        """``level``: a model to which λ makes no difference; ``gain``: of the best λ over GPTQ 1 %, any where None."""
        place = 10 ** rng.uniform(-2, 0)
        truth = COST + valley(place, 0.0 if level else 10 ** rng.uniform(-2.5, -0.5), rng.uniform(2, 12))
        if gain is None:
            gain = 0.0 if level else rng.uniform(-0.02, 0.1)
        gptq = truth.min() + gain
        errors = valley(place / rng.uniform(1, 3), rng.uniform(0.3, 0.5), rng.uniform(10, 14))
        uneven = 0.5 if kind == "uneven" else 0.2
        return cls(np.append(truth, gptq), errors, 0.006 * np.exp(rng.normal(0, uneven, K + 1)), kind)

    def draws(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Measurements (count, K + 1, WINDOWS)."""
        alike = rng.normal(0, 0.03, (count, 1, 1))
        of_draw = noise(self.kind, (count, K + 1), rng) * self.spread
        of_window = np.moveaxis(noise(self.kind, (count, WINDOWS, K + 1), rng), 1, 2) * 3 * self.spread[:, None]
        of_window -= of_window.mean(axis=2, keepdims=True)
        text = rng.normal(0, 0.1, (1, 1, WINDOWS))
        return self.truth[:, None] + alike + of_draw[:, :, None] + of_window + text - text.mean()


@dataclass
class Host:
    """A clock. A step that was planned to take a second takes as long as the host lets it."""

    rng: np.random.Generator
    slow: float
    now: float = 0.0

    def work(self, planned: float, until: float) -> bool:
        """Works, in twenty parts, until it is done or the time has come; returns whether it was done."""
        jitter = float(np.exp(self.rng.normal(0, 0.3)))
        for _ in range(20):
            if self.now >= until:
                return False
            pause = 2 * float(self.rng.random()) if self.rng.random() < 0.005 else 0.0
            self.now += planned * self.slow * jitter / 20 + pause
        return True


@dataclass(frozen=True)
class Outcome:
    search: Search
    seconds: float
    needed: float  # seconds in which this host would have compared three λ in two draws


MODEL, STATISTICS, SCREENING = 1.0, 1.5, 6.0  # planned seconds


def searched(model: Simulated, host: Host, budget: float, rng: np.random.Generator) -> Outcome:
    """A search as the engine makes it: layers first, at most for a third of the budget, then whole models."""
    host.work(STATISTICS, budget)
    known = 0
    of_layers = model.errors[:, None] + rng.normal(0, 0.15, (K, LAYERS)) + rng.normal(0, 1, LAYERS)
    while known < LAYERS and host.now < budget / 3 and host.work(SCREENING / LAYERS, budget):
        known += 1
    left = in_question(of_layers[:, : max(1, known)].T, LAYERS)
    order = order_by_promise([*map(int, left)], [float(of_layers[one, : max(1, known)].mean()) for one in left])
    everything = model.draws(MOST, rng)
    values, windows = np.full((MOST, K + 1), np.nan), np.full((MOST, K + 1, WINDOWS), np.nan)
    host.work(MODEL, budget)  # the float model
    taken: list[float] = []
    while True:
        search = Search(values, order, (K,), (), windows[:, [K]] - windows)
        costs = Costs(float(np.mean(taken)) if taken else 0.0, STATISTICS * host.slow)
        if search.end(tuple(LAMS), None, has_budget=True) or (step := search.next(budget - host.now, costs, 1)) is None:
            break
        began, values, windows = host.now, values.copy(), windows.copy()
        if not np.isfinite(values[step.draw]).any() and step.draw and not host.work(STATISTICS, budget):
            break
        if not host.work(MODEL, budget):
            break
        taken.append(host.now - began)
        values[step.draw, step.candidates] = everything[step.draw, list(step.candidates)].mean(axis=1)
        windows[step.draw, step.candidates] = everything[step.draw, list(step.candidates)]
    needed = host.slow * (2 * STATISTICS + 9 * MODEL) + 0.34 * budget
    return Outcome(search, host.now, needed)


def false_claims(kind: Noise, count: int, draws: int, races: int = 2000) -> float:
    """How often the best of so many λ is said to be better or worse than GPTQ 1 %, where no λ differs from it."""
    rng, false = np.random.default_rng([NOISES.index(kind), count, draws]), 0
    for _ in range(races):
        model = Simulated.of(rng, kind, level=True)
        every = model.draws(draws, rng)[:, [*range(count), K]]
        values, windows = every.mean(axis=2), every[:, -1:] - every[:, :-1]
        gain = gains(values[:, :-1], values[:, -1], windows)
        false += gain.verdict(int(values[:, :-1].mean(axis=0).argmin())) != 0
    return false / races


def simulated(
    kind: Noise,
    budget: float,
    searches: int = 1000,
    *,
    slowest: float = 20.0,
    level: bool = False,
    gain: float | None = None,
) -> dict[str, float]:
    """Over many searches, at a budget in seconds of which one model is planned to take one: how often each verdict was
    given, how often falsely, how often none was possible, and whether the budget was kept.
    """
    rng = np.random.default_rng([NOISES.index(kind), round(budget)])
    named = beyond = silent = possible = late = false = measured = 0
    verdicts = dict.fromkeys(("better", "worse", "equal", "unknown"), 0)
    missed: list[float] = []
    for _ in range(searches):
        model = Simulated.of(rng, kind, level=level, gain=gain)
        host = Host(rng, float(np.exp(rng.uniform(0, np.log(slowest)))))
        outcome = searched(model, host, budget, rng)
        search, best = outcome.search, outcome.search.best
        late += outcome.seconds > 1.1 * budget
        possible += outcome.needed <= budget
        silent += best is None and outcome.needed <= budget
        measured += int(search.seen.sum())
        if (evidence := search.evidence()) is None or best is None:
            continue
        named += 1
        regret = float(model.truth[best] - model.truth[:K].min())
        missed.append(regret)
        beyond += regret > RESOLUTION
        change = float(np.expm1(model.truth[best] - model.truth[K]))
        verdicts[evidence.verdict] += 1
        true = {"better": change < 0, "worse": change > 0, "equal": abs(change) <= EQUAL, "unknown": True}
        false += not true[evidence.verdict]
    return {
        "searches": searches, "budget": budget, "named": named / searches, "outside": beyond / max(1, named),
        "regret": float(np.mean(missed)) if missed else 0.0, "silent": silent / max(1, possible),
        "late": late / searches, "false": false / max(1, named), "measured": measured / searches,
        **{verdict: times / max(1, named) for verdict, times in verdicts.items()},
    }  # fmt: skip
