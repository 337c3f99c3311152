"""What a tuning run knows: its candidates, what each draw found of them, which are left, and why it ends.

Nothing is measured here: ``tuning.tune`` does that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from sarqc.documents import End, Tuning, TuningRow, TuningTasks
from sarqc.engine.answers import Answers, difference
from sarqc.engine.draws import Found
from sarqc.plain import measured as or_none
from sarqc.quantization.methods import Method
from sarqc.recipe import Recipe
from sarqc.study.paired import Difference, mean_over_draws, paired_difference, spans, sweet_spot
from sarqc.study.racing import Race


@dataclass(frozen=True)
class Candidate:
    """A method at a point. Baselines are measured in every draw and never given up."""

    name: str
    method: Method
    is_baseline: bool = False


@dataclass(frozen=True)
class FloatAnswers:
    """What the float model answered on the recipe's tasks: accuracy with its error, and the seconds that it took."""

    accuracy: tuple[float, float] | None  # None: there are no tasks
    seconds: float


@dataclass
class Course:
    """What a tuning run has found out so far. Draws count from 0, candidates by their positions."""

    recipe: Recipe
    gammas: tuple[float | None, ...]
    gamma_errors: tuple[float, ...]
    gamma: float | None
    candidates: tuple[Candidate, ...]  # by λ, then the baselines
    layer_errors: tuple[float | None, ...]  # of each candidate, in the first draw
    dull: frozenset[int]
    seconds: float  # of work, as kept with what it made
    blocks: tuple[int, ...] | None  # that are quantized; None: all
    original: FloatAnswers
    found: list[dict[int, Found]] = field(default_factory=list)  # [draw][candidate]
    complete: int = 0  # draws; conclusions are drawn from these alone
    answers: list[dict[int, Answers]] = field(default_factory=list)  # [draw][candidate], after the last draw

    def in_question(self) -> list[int]:
        """The candidates that the next draw measures, baselines left out, the most promising first."""
        racing = self._racing()
        running = Race(self._values("log_ratio")[:, racing]).running()
        left = [one for one, is_left in zip(racing, running, strict=True) if is_left]
        return sorted(left, key=lambda one: self.layer_errors[one] or 0.0)

    def by_name(self, wanted: Iterable[int]) -> list[list[int]]:
        """The same candidates, those of one method together: they are solved at once."""
        together: dict[str, list[int]] = {}
        for index in wanted:
            together.setdefault(self.candidates[index].name, []).append(index)
        return [*together.values()]

    def note(self, index: int, found: Found) -> None:
        """What the last draw says of a candidate."""
        self.found[-1][index] = found
        self.seconds += found.seconds

    def note_answers(self, index: int, answers: Answers) -> None:
        """What the last draw that was asked says of a candidate."""
        self.answers[-1][index] = answers
        self.seconds += answers.seconds

    def beyond_budget(self) -> frozenset[int]:
        """The least promising candidates, for whose measurement the budget has no room, by the seconds of the first
        one: in two draws where two λ have room beside the baselines, else in one. The first one is always left.
        """
        [first] = self.found[0].values()
        assert self.budget is not None
        models = int((self.budget - self.seconds - self.seconds_of_answers() + first.seconds) / first.seconds)
        in_two, in_one = (models // draws - len(self.baselines()) for draws in (2, 1))
        return frozenset(self.in_question()[in_two if in_two >= 2 else min(2, max(1, in_one)) :])

    def seconds_of_answers(self) -> float:
        """Of the tasks in one more draw: by the last draw, or by the float model."""
        if not self.recipe.tasks:
            return 0.0
        each = self.original.seconds
        if self.answers:
            last = self.answers[-1].values()
            each = sum(one.seconds for one in last) / len(last)
        return each * len(self.wanted())

    def wanted(self) -> list[int]:
        """The candidates in question, and the baselines."""
        return [*self.in_question(), *self.baselines()]

    def baselines(self) -> list[int]:
        return [index for index, one in enumerate(self.candidates) if one.is_baseline]

    def _racing(self) -> list[int]:
        return [i for i, one in enumerate(self.candidates) if not one.is_baseline and i not in self.dull]

    def _values(self, name: str) -> np.ndarray:
        """(draws that there may be, candidates) of what whole draws measured, the first as it goes; NaN elsewhere."""
        values = np.full((self.recipe.draws, len(self.candidates)), np.nan)
        for draw, of_draw in enumerate(self.found[: max(1, self.complete)]):
            for index, found in of_draw.items():
                if found.divergence is not None:
                    values[draw, index] = getattr(found.divergence, name).mean
        return values

    @property
    def budget(self) -> float | None:
        """In seconds."""
        return None if self.recipe.minutes is None else 60 * self.recipe.minutes

    def end(self) -> End:
        """Why there is nothing to do after the draws so far; empty: the next draw is wanted."""
        if not self.complete:
            return ""
        if self.complete >= 2:
            racing = self._racing()
            if Race(self._values("log_ratio")[:, racing]).told_apart():
                return "known"
            band = self._band()
            if band is not None and self.recipe.band is not None and band[1] <= self.recipe.band * band[0]:
                return "narrow"
        if self.complete == self.recipe.draws:
            return "draws"
        return "" if self.has_room(self._next_seconds() + self.seconds_of_answers()) else "budget"

    def has_room(self, seconds: float) -> bool:
        """Whether so much more work is within the budget."""
        return self.budget is None or self.seconds + seconds <= self.budget

    def _next_seconds(self) -> float:
        """Of the next draw, by the last one, whose every candidate was solved and measured."""
        if not self.found:
            return 0.0
        last = [found.seconds for found in self.found[-1].values() if found.divergence is not None]
        return sum(last) / len(last) * len(self.wanted())

    def best(self) -> int | None:
        """Of the candidates that are left the one with the smallest mean ratio."""
        if not any(found.divergence is not None for of_draw in self.found for found in of_draw.values()):
            return None
        values, left = self._values("log_ratio"), self.in_question()
        means = mean_over_draws(values[:, left])
        return None if np.isnan(means).all() else left[int(np.nanargmin(means))]

    def _band(self) -> list[float] | None:
        """Smallest and largest λ of those left around the best that can't be told from it, as the Lab draws it."""
        if self.complete < 2:
            return None
        left = sorted(self.in_question())
        best, mask = sweet_spot(self._values("log_ratio")[: self.complete, left])
        if best is None or not mask[best]:
            return None
        first, last = next(span for span in spans(mask) if span[0] <= best <= span[1])
        return [self.candidates[left[end]].method.lam or 0.0 for end in (first, last)]

    def to_json(self, end: End = "") -> Tuning:
        """Where it stands; with ``end`` how it ended, and the recipe to follow."""
        best, measured = self.best(), sum(f.divergence is not None for draw in self.found for f in draw.values())
        rows = self._rows(best)
        wanted = self.wanted()
        remaining = 0 if end else len(wanted) * self.recipe.draws - sum(
            index in of for of in self.found for index in wanted
        )  # fmt: skip
        return {
            "method": self.recipe.method,
            "gamma": self.gamma,
            "gammas": list(self.gammas),
            "gamma_errors": list(self.gamma_errors),
            "rows": rows,
            "best": best,
            "band": self._band(),
            "draws": self.complete,
            "measured": measured,
            "planned": measured + remaining,
            "seconds": round(self.seconds, 1),
            "budget": self.budget,
            "blocks": None if self.blocks is None else list(self.blocks),
            "tasks": self._tasks(),
            "end": end,
            "recipe": None if best is None or not end else self._following(best),
        }

    def _tasks(self) -> TuningTasks | None:
        if not self.recipe.tasks:
            return None
        accuracy, error = self.original.accuracy or (None, None)
        return {
            "names": [*self.recipe.tasks], "draws": len(self.answers),
            "accuracy_float": accuracy, "accuracy_float_error": error,
        }  # fmt: skip

    def _asked(self, index: int, reference: int) -> tuple[Difference, Difference] | None:
        """Accuracy, and how much higher than a reference's, in the draws in which both were asked; None without."""
        both = [of_draw for of_draw in self.answers if index in of_draw and reference in of_draw]
        if not both:
            return None
        own, theirs = [of_draw[index] for of_draw in both], [of_draw[reference] for of_draw in both]
        return difference(own, None), difference(own, theirs)

    def _rows(self, best: int | None) -> list[TuningRow]:
        ratios, kl = self._values("log_ratio"), self._values("kl")
        left = set(self.in_question())
        gptq = next(index for index, one in enumerate(self.candidates) if one.is_baseline and one.name == "gptq")
        rows: list[TuningRow] = []
        for index, one in enumerate(self.candidates):
            above = (None, None) if best is None else _difference(ratios[:, index], ratios[:, best])
            better = _difference(ratios[:, gptq], ratios[:, index])
            of_best = None if best is None else _mean(ratios[:, best])[0]
            own, own_error = _mean(ratios[:, index])
            asked = self._asked(index, gptq)
            rows.append(
                {
                    "method": one.name,
                    "lambda": one.method.lam if one.method.sweeps() else None,
                    "gamma": one.method.gamma,
                    "standing": "baseline" if one.is_baseline else "dull" if index in self.dull
                    else "left" if index in left else "retired",
                    "draws": int(np.isfinite(ratios[:, index]).sum()),
                    "layer_error": self.layer_errors[index],
                    "log_ratio": own if above[0] is None or of_best is None else of_best + above[0],
                    "log_ratio_error": own_error,
                    "worse": above[0],
                    "worse_error": above[1],
                    "kl": _mean(kl[:, index])[0],
                    "kl_error": _mean(kl[:, index])[1],
                    "better": better[0],
                    "better_error": better[1],
                    "accuracy": asked and or_none(float(asked[0].mean)),
                    "accuracy_error": asked and or_none(float(asked[0].error)),
                    "more_accurate": asked and or_none(float(asked[1].mean)),
                    "more_accurate_error": asked and or_none(float(asked[1].error)),
                    "more_accurate_verdict": asked and asked[1].verdict(()),
                }
            )  # fmt: skip
        return rows

    def _following(self, best: int) -> dict[str, object]:
        """The recipe of the run with the best λ, on the whole model."""
        plain = {name: Recipe.model_fields[name].default for name in (
            "kind", "sweep", "minutes", "draws", "band", "blocks", "share"
        )}  # fmt: skip
        point = self.candidates[best].method
        following = self.recipe.model_copy(update=plain | {"lam": point.lam, "gamma": point.gamma})
        return following.to_json()


def _mean(values: np.ndarray) -> tuple[float | None, float | None]:
    """Mean over draws and its standard error, as far as there are any."""
    return _difference(values, np.zeros(len(values)))


def _difference(values: np.ndarray, reference: np.ndarray) -> tuple[float | None, float | None]:
    """Mean of a paired difference and its standard error; None for what is not known."""
    difference = paired_difference(values[:, None], reference[:, None])
    mean, error = float(difference.mean[0]), float(difference.error[0])
    return (None if math.isnan(mean) else mean), (None if math.isnan(error) else error)
