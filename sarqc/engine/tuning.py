"""Tuning: the λ that a model wants, and how sure that is, with as little work as tells candidates apart.

1. Errors of layers on unseen text, for all λ and γ, from the statistics of one draw alone. They settle γ and give up
   the λ that are dull: worse by more than ``DULL`` on the mean. Where the best is near an end, the range is widened.
2. Whole models, draw by draw, for the λ still in question and for the baselines: ln(perplexity / float model's) and KL
   on the test text. ``racing.Race`` says after each draw which λ are left, with its guarantee.
3. It ends when nothing more can be told apart, the band is narrow enough, or budget or draws are spent.

Statistics are of the float model, as in an exploring study; the run to follow has the quantized prefix.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sarqc.calibration.corpora import Text, draw_sequences
from sarqc.calibration.job import calibration_job
from sarqc.documents import End, Tuning, TuningRow
from sarqc.engine.draws import Draw, Found, Ground, find, ground_of, screen
from sarqc.engine.keys import weights_of
from sarqc.engine.measure import Workbench
from sarqc.engine.plan import prepare
from sarqc.events import Event, Stage, TuningStanding, Warned
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.loading import choose_device, load
from sarqc.quantization.methods import METHODS, Method, method
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study.paired import mean_over_draws, paired_difference, spans, sweet_spot
from sarqc.study.racing import Race

LARGEST = 1000.0  # λ to which a range is widened
# Above the smallest mean of ln errors. In the shipped studies the λ with the best perplexity is at most 0.04 above it.
DULL = 0.1
MATTERS = 0.01  # by so much smaller must the errors at another γ be to leave the method's own


@dataclass(frozen=True)
class Candidate:
    """A method at a point. Baselines are measured in every draw and never given up."""

    name: str
    method: Method
    is_baseline: bool = False


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
    found: list[dict[int, Found]] = field(default_factory=list)  # [draw][candidate]
    complete: int = 0  # draws; conclusions are drawn from these alone

    def in_question(self) -> list[int]:
        """The candidates that the next draw measures, baselines left out, the most promising first."""
        racing = self._racing()
        running = Race(self._values("log_ratio")[:, racing]).running()
        left = [one for one, is_left in zip(racing, running, strict=True) if is_left]
        return sorted(left, key=lambda one: self.layer_errors[one] or 0.0)

    def note(self, index: int, found: Found) -> None:
        """What the last draw says of a candidate."""
        self.found[-1][index] = found
        self.seconds += found.seconds

    def beyond_budget(self) -> frozenset[int]:
        """The least promising candidates, for whose measurement in two draws the budget has no room, by the seconds of
        the first one. Two are always left.
        """
        [first] = self.found[0].values()
        assert self.budget is not None
        room = int((self.budget - self.seconds + first.seconds) / first.seconds) // 2 - len(self.baselines())
        return frozenset(self.in_question()[max(2, room) :])

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
        return "" if self.budget is None or self.seconds + self._next_seconds() <= self.budget else "budget"

    def _next_seconds(self) -> float:
        """Of the next draw, by the last one, whose every candidate was solved and measured."""
        if not self.found:
            return 0.0
        last = [found.seconds for found in self.found[-1].values() if found.divergence is not None]
        return sum(last) / len(last) * (len(self.in_question()) + len(self.baselines()))

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
        of_draw = len(self.in_question()) + len(self.baselines())
        remaining = 0 if end else of_draw * self.recipe.draws - sum(
            index in of for of in self.found for index in [*self.in_question(), *self.baselines()]
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
            "end": end,
            "recipe": None if best is None or not end else self._following(best),
        }

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


def tune(recipe: Recipe, ground: Ground, calibration: Text) -> Generator[Event, None, Course]:
    """Tunes on draws of ``calibration``; returns all that was found out. The last event says how it ended."""
    yield Stage("comparing layers", "every λ and γ on unseen text, from the statistics of one draw")
    course = _screened(recipe, draw_of(recipe, ground, calibration, 0))
    yield TuningStanding(course.to_json())
    while not (end := course.end()):
        number = len(course.found)
        draw = draw_of(recipe, ground, calibration, number)
        course.found.append({})
        count = len(course.in_question()) + len(course.baselines())
        yield Stage("comparing models", f"draw {number + 1} of at most {recipe.draws}, {count} candidates")
        if number == 0 and course.budget is not None:
            yield from _measured(course, draw, course.in_question()[:1])
            if beyond := course.beyond_budget():
                course.dull |= beyond
                yield Warned(
                    f"the budget has room for {len(course.in_question())} λ in two draws; {len(beyond)} more are given "
                    "up by the errors of layers", "budget",
                )  # fmt: skip
        yield from _measured(course, draw, [*course.in_question(), *course.baselines()])
        course.complete += 1
        ground.statistics.trim(int(ground.bench.settings.statistics_gib * 2**30))
        yield TuningStanding(course.to_json())
    first = draw_of(recipe, ground, calibration, 0)  # for the pictures of the study
    for index, found in _of_draw(course, first, sorted(course.dull), measured=False, pictures=True):
        course.found[0][index] = found
        course.seconds += found.seconds
    yield TuningStanding(course.to_json(end))
    return course


def _measured(course: Course, draw: Draw, wanted: Sequence[int]) -> Iterator[Event]:
    """Measures those of the wanted candidates that the draw has not measured yet."""
    is_first = len(course.found) == 1
    missing = [index for index in wanted if index not in course.found[-1]]
    for index, found in _of_draw(course, draw, missing, measured=True, pictures=is_first):
        course.note(index, found)
        yield TuningStanding(course.to_json())


def first_draw(recipe: Recipe, settings: Settings) -> Draw:
    """The first draw of a recipe that tunes, with the model loaded. Raises as ``prepare``."""
    prepared = prepare(recipe, settings, download=True)
    scratch = settings.scratch_dir() if prepared.streamed else None
    loaded = load(prepared.checkpoint, choose_device(settings.device), scratch=scratch)
    job = calibration_job(recipe, prepared.checkpoint, prepared.sequences, prepared.per_channel)
    bench = Workbench(loaded, ArtefactStore(settings.artefacts_dir()), settings)
    return Draw.of(ground_of(bench, prepared, job.grids, weights_of(loaded)), prepared.sequences)


def draw_of(recipe: Recipe, ground: Ground, calibration: Text, number: int) -> Draw:
    sequences = draw_sequences(
        calibration.ids, calibration.corpus, samples=recipe.samples, length=recipe.length,
        held_out_samples=recipe.unseen_samples(), sampling="random", seed=recipe.seed + number,
    )  # fmt: skip
    return Draw.of(ground, sequences)


def _of_draw(
    course: Course, draw: Draw, wanted: Sequence[int], *, measured: bool, pictures: bool
) -> Iterator[tuple[int, Found]]:
    """What the draw says of the wanted candidates, methods of one name at a time."""
    for name in dict.fromkeys(course.candidates[index].name for index in wanted):
        together = [index for index in wanted if course.candidates[index].name == name]
        points = [course.candidates[index].method for index in together]
        for position, found in find(draw, points, pictures=pictures, measured=measured):
            yield together[position], found


def _screened(recipe: Recipe, draw: Draw) -> Course:
    """What the errors of layers say of all λ and γ."""
    base, (lams, gammas) = recipe.to_method(), recipe.compared()
    screened = screen(draw, base, gammas, lams)
    errors, seconds = screened.of_model(), screened.seconds
    while further := _beyond(lams, errors):
        screened = screen(draw, base, gammas, further)
        order = np.argsort([*lams, *further])
        errors = np.concatenate([errors, screened.of_model()], axis=1)[:, order]
        lams, seconds = tuple(sorted((*lams, *further))), seconds + screened.seconds
    of_gammas, own = errors.min(axis=1), gammas.index(base.gamma)
    best = int(np.argmin(of_gammas))
    best = best if of_gammas[best] < of_gammas[own] - MATTERS else own
    row = errors[best]
    points = base.points(lams, (gammas[best],))
    candidates = [Candidate(recipe.method, point) for point in points] + _baselines(recipe)
    dull = frozenset(int(index) for index in np.flatnonzero(row > row.min() + DULL))
    return Course(
        recipe, gammas, tuple(map(float, of_gammas)), gammas[best], tuple(candidates),
        (*map(float, row), *(None for _ in candidates[len(row) :])), dull, seconds,
        draw.ground.bench.loaded.checkpoint.of_blocks,
    )  # fmt: skip


def _beyond(lams: tuple[float, ...], errors: np.ndarray) -> tuple[float, ...]:
    """Further λ where the best one is the last or the last but one of the range, at either end."""
    best = int(np.unravel_index(np.nanargmin(errors), errors.shape)[1])
    beyond: tuple[float, ...] = ()
    if best >= len(lams) - 2 and 0 < lams[-1] < LARGEST:
        beyond = (2 * lams[-1], 5 * lams[-1])
    if best <= 1 and lams[0] > 0:
        beyond = (0.0, lams[0] / 2, *beyond)
    return beyond


def _baselines(recipe: Recipe) -> list[Candidate]:
    """GPTQ 1 % and rounding to nearest, AWQ beside a scale search, each fitted as the recipe says."""
    names = ["gptq", "rtn", *(["awq"] if METHODS[recipe.method].baseline == "awq" else [])]
    return [
        Candidate(name, method(name, **{one: getattr(recipe, one) for one in METHODS[name].options}), is_baseline=True)
        for name in names
    ]
