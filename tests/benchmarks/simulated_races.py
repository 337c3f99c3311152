"""Races on simulated models, whose best λ is known: how often it is kept, what is found, and what that costs.

A model has a valley of ln(perplexity / float model's) over λ, flat or deep, wide or narrow, and one of the errors of
layers, up to three times further left and as steep as in the shipped studies. A draw shifts all λ alike, and each has
an error of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sarqc.engine.tuning import DULL
from sarqc.recipe import TUNED_LAMS
from sarqc.study.paired import sweet_spot
from sarqc.study.racing import Race

LAMS = np.array(TUNED_LAMS)
MODELS, RACES = 20, 50
BASELINES = 2  # measured in every draw
EXHAUSTIVE = 5  # draws of every λ


def valley(place: float, depth: float, width: float) -> np.ndarray:
    return depth * (1 - np.exp(-((np.log(LAMS + 1e-3) - np.log(place)) ** 2) / width))


@dataclass(frozen=True)
class Simulated:
    """A model: what is true of each λ, its errors of layers, and how much single measurements scatter."""

    truth: np.ndarray
    errors: np.ndarray
    spread: np.ndarray

    @classmethod
    def of(cls, rng: np.random.Generator, *, uneven: float = 0.3) -> Simulated:
        place = 10 ** rng.uniform(-2, 0)
        truth = valley(place, 10 ** rng.uniform(-2.5, -0.5), rng.uniform(2, 12))
        errors = valley(place / rng.uniform(1, 3), rng.uniform(0.3, 0.5), rng.uniform(10, 14))
        return cls(truth, errors, 0.006 * np.exp(rng.normal(0, uneven, len(LAMS))))

    def draws(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Measurements (count, M)."""
        alike = rng.normal(0, 0.03, (count, 1))
        return self.truth + alike + rng.normal(0, 1, (count, len(LAMS))) * self.spread

    def in_question(self) -> np.ndarray:
        """Positions of the λ that the errors of layers leave."""
        return np.flatnonzero(self.errors <= self.errors.min() + DULL)


def raced(everything: np.ndarray) -> Race:
    """A race over measurements (R, K), of which it sees those that it asks for."""
    values = np.full_like(everything, np.nan)
    for draw, row in enumerate(everything):
        running = Race(values).running()
        values[draw, running] = row[running]
        if Race(values).told_apart():
            break
    return Race(values)


def simulated(draws: int) -> dict[str, float]:
    """Over all models and races: shares, and the mean number of models that were measured."""
    rng = np.random.default_rng(draws)
    in_band = kept = others = measured = 0
    for _ in range(MODELS):
        model = Simulated.of(rng)
        arms = model.in_question()
        for _ in range(RACES):
            race = raced(model.draws(draws, rng)[:, arms])
            left = np.flatnonzero(race.running())
            found = arms[left[race.values[: race.draws, left].mean(axis=0).argmin()]]
            _, band = sweet_spot(model.draws(EXHAUSTIVE, rng))
            other, _ = sweet_spot(model.draws(EXHAUSTIVE, rng))
            in_band += bool(band[found])
            others += bool(band[other])
            kept += bool(np.isin(model.truth.argmin(), arms[left]))
            measured += int(np.isfinite(race.values).sum()) + BASELINES * race.draws
    races = MODELS * RACES
    return {
        "models": MODELS, "races": races, "draws": draws, "in_band": in_band / races, "kept": kept / races,
        "exhaustive_in_band": others / races, "measured": measured / races, "exhaustive": EXHAUSTIVE * len(LAMS),
    }  # fmt: skip
