"""Every step of a study's ladder alone and after all others, and the worth of λ with and without each step.

The *plain* method is the column solver with the identity penalty on the min–max grid, *all steps* the same solver with
every step of ``EVERY_STEP``. A step is measured twice: added to the plain method, and taken away from all steps. So a
study needs two lines for each step instead of one for every subset. Codes are distilled together with scales: that step
alone includes the scales, and all steps without distillation lack both. Bits of a weight are not equal throughout: the
affine grid stores a bias for each group.

Worth of a step: the paired difference of the same draws at λ = 0.1, the λ of the ladder of four steps. Worth of λ:
what the best λ saves over λ = 0 in one line. It is chosen from the λ that all lines share, on the draws that judge it,
so its interval holds for all of them (Bonferroni).

Axes: D calibration draws, M values of λ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sarqc.quantization.storage import bits_per_weight
from sarqc.study.document import Line, Study
from sarqc.study.facts import lam_index
from sarqc.study.ladder import LAMBDA, QUALITIES
from sarqc.study.paired import (
    Difference,
    RatioDifference,
    geometric_mean,
    mean_over_draws,
    paired_difference,
    paired_ratio,
)

METHOD = "rqc-gbs"
EVERY_STEP = ("order", "range", "joint", "refine", "affine", "refit", "distill", "codes")
# Fields of the fitting that a step sets; the range of ``joint`` takes the place of that of ``range``.
_FIELDS = {"order": "order", "range": "range", "joint": "range", "refine": "refine", "affine": "grid", "refit": "refit",
           "distill": "distill", "codes": "distill_codes"}  # fmt: skip
_VALUES: dict[str, str | int | float] = {
    "order": "activation", "range": "search", "joint": "joint", "affine": "affine", "codes": 1,
}  # fmt: skip

Fitting = Mapping[str, str | int | float]


@dataclass(frozen=True)
class LamWorth:
    """What the best λ of a line saves.

    Attributes:
        lam: The λ with the lowest mean perplexity among those above 0.
        saved: By quality, the value at λ = 0 less that at ``lam``; without axes, with intervals for the choice.
    """

    lam: float
    saved: Mapping[str, Difference]


@dataclass(frozen=True)
class Combination:
    """The solver with some of the steps.

    Attributes:
        fitting: Fitting of the grid, see ``Line.fitting``.
        bits: Bits of a weight in full: code, scale, and zero point or bias.
        seconds: Processor seconds of one model's calibration, mean over draws and λ; NaN where they are not known.
        means: Mean over draws by quality, at λ = 0.1.
        lam: Worth of λ.
    """

    fitting: Fitting
    bits: float
    seconds: float
    means: Mapping[str, float]
    lam: LamWorth


@dataclass(frozen=True)
class StepWorth:
    """A step added to the plain method, and taken away from all steps.

    Attributes:
        step: Of ``EVERY_STEP``.
        fitting: The fields of the fitting that it sets.
        alone: The plain method with this step.
        alone_worth: Value with the step less that of the plain method, by quality; below 0 is better.
        without: All steps but this one; None where the study lacks it, and for ``range``, whose place ``joint`` takes.
        last_worth: Value of all steps less that of ``without``, by quality; empty without it.
    """

    step: str
    fitting: Fitting
    alone: Combination
    alone_worth: Mapping[str, Difference]
    without: Combination | None
    last_worth: Mapping[str, Difference]


@dataclass(frozen=True)
class EveryStep:
    """All steps of a width.

    Attributes:
        plain: The plain method.
        every: All steps.
        steps: The steps in the order of ``EVERY_STEP``.
        lams: The λ above 0 that the best λ is chosen from, M.
        draws: Number of draws that all lines share.
    """

    plain: Combination
    every: Combination
    steps: tuple[StepWorth, ...]
    lams: tuple[float, ...]
    draws: int


def every_step(study: Study, bits: int) -> EveryStep | None:
    """Return what each step and λ are worth at a width, on the draws that all of the lines have.

    Args:
        study: The study.
        bits: Bit width.

    Returns:
        The worths; None for a study without the plain method or without all steps, without a further step alone, or
        whose lines share no draw, no λ = 0 or no other λ.
    """
    lines = _lines(study, bits)
    whole = _all_steps(lines)
    if whole is None:
        return None
    made = _made(whole)
    wanted: dict[tuple[str, bool], Fitting] = {("", False): {}, ("", True): whole}
    for step, fitting in made.items():
        wanted[step, False] = fitting
        taken = {_FIELDS[step], *(["distill_codes"] if step == "distill" else [])}
        left = {name: value for name, value in whole.items() if name not in taken}
        if step == "joint":
            wanted[step, True] = {**left, **made["range"]}
        elif step != "range":
            wanted[step, True] = left
    found = {
        place: line
        for place, fitting in wanted.items()
        if (line := next((one for one in lines if one.fitting == fitting), None)) is not None
    }
    draws = [seed for seed in lines[0].draws if all(seed in line.draws for line in found.values())]
    lams = [lam for lam in found["", True].lams if all(lam_index(line, lam) is not None for line in found.values())]
    above = tuple(lam for lam in lams if lam > 0)
    if ("", False) not in found or not draws or 0.0 not in lams or not above:
        return None
    places = {place: _Place(study, line, draws, above) for place, line in found.items()}
    if any(not place.is_measured() for place in places.values()):
        return None
    steps = tuple(_step(step, made[step], places) for step in EVERY_STEP if (step, False) in places)
    if not steps:
        return None
    return EveryStep(places["", False].combination(), places["", True].combination(), steps, above, len(draws))


def _lines(study: Study, bits: int) -> list[Line]:
    """The lines of the solver at a width, whose λ are given."""
    return [
        line
        for line in study.lines
        if line.method == METHOD and line.bits == bits and line.second == "gamma" and not (line.selected or line.later)
    ]


def _all_steps(lines: Sequence[Line]) -> Fitting | None:
    """The fitting of the line with every step, or with all but distilled codes; None without such a line."""
    fields, values = set(_FIELDS.values()), {_FIELDS[step]: _VALUES[step] for step in ("order", "joint", "affine")}
    for every in (fields, fields - {"distill_codes"}):
        for line in lines:
            if set(line.fitting) == every and values.items() <= line.fitting.items():
                return line.fitting
    return None


def _made(whole: Fitting) -> dict[str, Fitting]:
    """What each step sets, by step: with as many passes, rounds and epochs as all steps have."""
    values = _VALUES | {name: whole[_FIELDS[name]] for name in ("refine", "refit", "distill")}
    steps = [step for step in EVERY_STEP if step != "codes" or "distill_codes" in whole]
    made: dict[str, Fitting] = {step: {_FIELDS[step]: values[step]} for step in steps}
    if "codes" in made:
        made["codes"] = {**made["distill"], **made["codes"]}
    return made


def _step(step: str, fitting: Fitting, places: Mapping[tuple[str, bool], _Place]) -> StepWorth:
    alone, without = places[step, False], places.get((step, True))
    return StepWorth(
        step, fitting, alone.combination(), alone.less(places["", False]),
        None if without is None else without.combination(),
        {} if without is None else places["", True].less(without),
    )  # fmt: skip


@dataclass(frozen=True)
class _Place:
    """A line on some draws."""

    study: Study
    line: Line
    draws: Sequence[int]
    lams: tuple[float, ...]

    def values(self, quality: str, lam: float) -> np.ndarray:
        """D; NaN where it was not measured."""
        array, at = self.study.read(self.line, quality), lam_index(self.line, lam)
        if array is None or at is None:
            return np.full(len(self.draws), np.nan)
        chosen: np.ndarray = array[[self.line.draws.index(seed) for seed in self.draws], 0, at]
        return chosen

    def is_measured(self) -> bool:
        return all(np.isfinite(self.values("perplexity", lam)).all() for lam in (0.0, LAMBDA, *self.lams))

    def less(self, other: _Place) -> dict[str, Difference]:
        """This less another, by quality."""
        worth: dict[str, Difference] = {}
        for name in QUALITIES:
            ours, theirs = self.values(name, LAMBDA), other.values(name, LAMBDA)
            if np.isfinite(ours - theirs).any():
                worth[name] = _compared(name, ours, theirs)
        return worth

    def combination(self) -> Combination:
        means = {
            name: float((geometric_mean if name == "perplexity" else mean_over_draws)(values))
            for name in QUALITIES
            if np.isfinite(values := self.values(name, LAMBDA)).any()
        }
        shapes = [layer.shape for layer in self.study.layers]
        full = bits_per_weight(shapes, self.line.grid, self.line.bits, self.line.group_size)
        return Combination(self.line.fitting, full, self._seconds(), means, self._worth_of_lam())

    def _seconds(self) -> float:
        seconds = self.study.read(self.line, "seconds")
        return float("nan") if seconds is None or not np.isfinite(seconds).any() else float(np.nanmean(seconds))

    def _worth_of_lam(self) -> LamWorth:
        means = [float(geometric_mean(self.values("perplexity", lam))) for lam in self.lams]
        best = self.lams[int(np.argmin(means))]
        saved = {
            name: _compared(name, self.values(name, best), zero).chosen_of(len(self.lams)).scaled(-1)
            for name in QUALITIES
            if np.isfinite(zero := self.values(name, 0.0)).any()
        }
        return LamWorth(best, saved)


def _compared(quality: str, values: np.ndarray, reference: np.ndarray) -> Difference | RatioDifference:
    return (paired_ratio if quality == "perplexity" else paired_difference)(values, reference)
