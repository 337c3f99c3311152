"""The ladder: the worth of each choice beside the bits at one width, one step after the other, on the same draws.

Rounding to nearest, GPTQ 1 %, then the steps in an order that may be chosen, since the worth of a step depends on those
before it, and at last learned rounding, which takes their place or begins at GPTQ's codes. D calibration draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from sarqc.errors import Refused
from sarqc.study.document import Line, Study
from sarqc.study.facts import lam_index
from sarqc.study.paired import (
    Difference,
    RatioDifference,
    geometric_mean,
    mean_over_draws,
    paired_difference,
    paired_ratio,
)

STEPS = ("order", "range", "lambda", "refine")
PLAIN_LAMBDA, LAMBDA = 0.01, 0.1  # of the identity: GPTQ's damping, and the λ of the step
QUALITIES = ("perplexity", "kl")
METHODS = ("rqc-gbs", "sarqc-gbs")  # the solver of its steps, with either penalty


@dataclass(frozen=True)
class Rung:
    """A point with the change by the step onto it; by quality, without those that were not measured."""

    step: str  # of STEPS, or “nearest”, “gptq”, “learned”; in a model's own ladder also “refit”, “affine”, “joint”
    name: str  # public name of the method, with its fitting
    fitting: Mapping[str, str | int | float]  # see ``Method.fitting``
    lam: float  # of the method; 0 without a penalty
    values: Mapping[str, np.ndarray]  # D, NaN where a draw did not reach the point
    bits: float | None  # of a weight, with scales, zero points or biases; None: not known
    differences: Mapping[str, Difference]  # to the rung before; empty for the first
    means: Mapping[str, float]

    def mean(self, quality: str) -> float:
        """Return the mean over draws; the geometric mean for perplexities.

        Where the draws of two rungs differ it is the rung before plus the paired difference, so that differences and
        means agree.
        """
        return self.means[quality]


class LadderPoint(NamedTuple):
    """A measured point before it is compared, see ``Rung``."""

    step: str
    name: str
    fitting: Mapping[str, str | int | float]
    lam: float
    values: Mapping[str, np.ndarray]
    bits: float | None = None


def rungs_of(points: Sequence[LadderPoint]) -> tuple[Rung, ...]:
    """Return the points in their order, each with its paired difference to the point before."""
    rungs: list[Rung] = []
    for point in points:
        changes, means = {}, {name: _mean(name, values) for name, values in point.values.items()}
        if rungs:
            previous = rungs[-1]
            for name, change in _differences(point.values, previous.values).items():
                if isinstance(change, RatioDifference):  # in the unit of the value that it starts from
                    change = change.scaled(previous.means[name] / float(change.scale))
                changes[name] = change
            means |= {name: previous.means[name] + float(change.mean) for name, change in changes.items()}
        rungs.append(Rung(*point, differences=changes, means=means))
    return tuple(rungs)


def _mean(quality: str, values: np.ndarray) -> float:
    return float((geometric_mean if quality == "perplexity" else mean_over_draws)(values))


@dataclass(frozen=True)
class Ladder:
    """The rungs from the first to the last, and the worth of each step before and after all the others."""

    steps: tuple[str, ...]  # in their order
    rungs: tuple[Rung, ...]
    alone: Mapping[str, Mapping[str, Difference]]  # by step and quality
    last: Mapping[str, Mapping[str, Difference]]


def ladder(study: Study, bits: int, steps: Sequence[str] | None = None) -> Ladder | None:
    """Return the ladder of a width; None if the study lacks one of its points.

    Args:
        study: The study.
        bits: Bit width.
        steps: All of ``STEPS``, in any order; None for their own order.

    Raises:
        Refused: For other steps.
    """
    if steps is not None and sorted(steps) != sorted(STEPS):
        raise Refused(f"the steps are {', '.join(steps)[:80]}", "ladder", f"Give {', '.join(STEPS)} in any order.")
    order = tuple(steps or STEPS)
    # It is the same whichever line and layer of the study is shown.
    return study.once(None, f"ladder at {bits} bits by {', '.join(order)}", lambda: _ladder(study, bits, order))


def _ladder(study: Study, bits: int, order: tuple[str, ...]) -> Ladder | None:
    corners = _corners(study, bits)
    if corners is None:
        return None
    taken = [frozenset(order[:count]) for count in range(len(order) + 1)]
    places = [("gptq", corners[taken[0]])]
    places += [(step, corners[done]) for step, done in zip(order, taken[1:], strict=True)]
    draws = corners[taken[0]].line.draws
    for step, methods, last in (("nearest", ("rtn",), False), ("learned", ("signround", "sarqc-signround"), True)):
        place = _find_place(study, bits, methods, draws)
        if place is not None:
            places.insert(len(places) if last else 0, (step, place))
    rungs = rungs_of([place.point(step, study) for step, place in places])

    def worth(step: str, done: frozenset[str]) -> dict[str, Difference]:
        return _differences(corners[done | {step}].values(study), corners[done - {step}].values(study))

    alone, last_worths = study.once(  # whatever the order
        None,
        f"worth of steps at {bits} bits",
        lambda: [{step: worth(step, done) for step in STEPS} for done in (frozenset[str](), frozenset(STEPS))],
    )
    return Ladder(order, rungs, *({step: worths[step] for step in order} for worths in (alone, last_worths)))


@dataclass(frozen=True)
class _Place:
    """A point of a line without γ."""

    line: Line
    lam: int  # position

    def values(self, study: Study) -> dict[str, np.ndarray]:
        return study.once(self.line, f"qualities at {self.lam}", lambda: self._read(study))

    def _read(self, study: Study) -> dict[str, np.ndarray]:
        arrays = {name: study.read(self.line, name) for name in QUALITIES}  # D G M
        return {name: array[:, 0, self.lam].copy() for name, array in arrays.items() if array is not None}

    def point(self, step: str, study: Study) -> LadderPoint:
        line = self.line
        return LadderPoint(step, line.name, line.fitting, line.lams[self.lam], self.values(study))


def _differences(values: Mapping[str, np.ndarray], before: Mapping[str, np.ndarray]) -> dict[str, Difference]:
    return {
        name: (paired_ratio if name == "perplexity" else paired_difference)(values[name], before[name])
        for name in values
        if name in before
    }


def _corners(study: Study, bits: int) -> dict[frozenset[str], _Place] | None:
    """Return the column solver's point for every subset of the steps; None if one is missing or has other draws.

    The step of refinement has the most passes that the study has.
    """
    candidates = [line for line in study.lines if line.bits == bits and not line.selected and not line.later]
    lines = [line for line in candidates if line.method == "rqc-gbs"]
    passes = max((int(line.fitting.get("refine", 0)) for line in lines), default=0)
    settings = {"order": "activation", "range": "search", "refine": passes}
    corners: dict[frozenset[str], _Place] = {}
    for subset in chain.from_iterable(combinations(STEPS, count) for count in range(len(STEPS) + 1)):
        fitting = {name: value for name, value in settings.items() if name in subset}
        line = next(
            (candidate for candidate in lines if candidate.fitting == fitting and candidate.draws == lines[0].draws),
            None,
        )
        at = None if line is None else lam_index(line, LAMBDA if "lambda" in subset else PLAIN_LAMBDA)
        if line is None or at is None or passes == 0:
            return None
        corners[frozenset(subset)] = _Place(line, at)
    return corners


def _find_place(study: Study, bits: int, methods: Sequence[str], draws: tuple[int, ...]) -> _Place | None:
    """Return the point of the first of the methods that the width has on these draws, at the line's largest λ.

    The plain grid is preferred to a fitted one.
    """
    lines = sorted(
        (line for line in study.lines if not (line.selected or line.later)), key=lambda line: len(line.fitting)
    )
    keys = [(method, bits, draws) for method in methods]
    fitting = (line for key in keys for line in lines if (line.method, line.bits, line.draws) == key)
    return next((_Place(line, len(line.lams) - 1) for line in fitting), None)
