"""Tuning: the λ that a model wants, and how sure that is, with as little work as tells candidates apart.

1. Errors of layers on unseen text, for all λ and γ, from the statistics of one draw alone. They settle γ and give up
   the λ that are dull: worse by more than ``DULL`` on the mean. Where the best is near an end, the range is widened.
2. Whole models, draw by draw, for the λ still in question and for the baselines: ln(perplexity / float model's) and KL
   on the test text. ``racing.Race`` says after each draw which λ are left, with its guarantee.
3. It ends when nothing more can be told apart, the band is narrow enough, or budget or draws are spent.
4. The recipe's tasks, draw by draw within the budget, for the λ still in question and the baselines.

Statistics are of the float model, as in an exploring study; the run to follow has the quantized prefix.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import numpy as np

from sarqc.calibration.corpora import draw_sequences
from sarqc.calibration.job import calibration_job
from sarqc.engine.answers import answers_of
from sarqc.engine.course import Candidate, Course, FloatAnswers
from sarqc.engine.draws import Draw, Found, Ground, find, ground_of, screen
from sarqc.engine.keys import weights_of
from sarqc.engine.measure import Workbench
from sarqc.engine.plan import prepare
from sarqc.events import COMPARING, Event, Stage, TuningStanding, Warned
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.loading import choose_device, load
from sarqc.quantization.methods import METHODS, method
from sarqc.recipe import Recipe
from sarqc.settings import Settings

LARGEST = 1000.0  # λ to which a range is widened
# Above the smallest mean of ln errors. In the shipped studies the λ with the best perplexity is at most 0.04 above it.
DULL = 0.1
MATTERS = 0.01  # by so much smaller must the errors at another γ be to leave the method's own


def tune(recipe: Recipe, ground: Ground, original: FloatAnswers) -> Generator[Event, None, Course]:
    """Tunes on draws of the calibration text; returns all that was found out. The last event says how it ended."""
    yield Stage(COMPARING, "every λ and γ on unseen text, from the statistics of one draw")
    course = _screened(recipe, draw_of(recipe, ground, 0), original)
    yield TuningStanding(course.to_json())
    while not (end := course.end()):
        number = len(course.found)
        draw = draw_of(recipe, ground, number)
        course.found.append({})
        count = len(course.wanted())
        yield Stage("comparing models", f"draw {number + 1} of at most {recipe.draws}, {count} candidates")
        if number == 0 and course.budget is not None:
            yield from _measured(course, draw, course.in_question()[:1])
            if beyond := course.beyond_budget():
                course.dull |= beyond
                yield Warned(
                    f"the budget leaves room for {len(course.in_question())} λ; {len(beyond)} more are given up by the "
                    "errors of layers", "budget",
                )  # fmt: skip
        yield from _measured(course, draw, course.wanted())
        course.complete += 1
        ground.statistics.trim(int(ground.bench.settings.statistics_gib * 2**30))
        yield TuningStanding(course.to_json())
    if recipe.tasks:
        yield from _asked(course, ground)
    first = draw_of(recipe, ground, 0)  # for the pictures of the study
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


def _asked(course: Course, ground: Ground) -> Iterator[Event]:
    """The tasks, in the first draw and in as many more as the budget has room for."""
    wanted, tasks = course.wanted(), ", ".join(course.recipe.tasks)
    for number in range(course.complete):
        if number and not course.has_room(course.seconds_of_answers()):
            break
        yield Stage("asking tasks", f"{tasks}: draw {number + 1} of {course.complete}, {len(wanted)} models")
        draw = draw_of(course.recipe, ground, number)
        course.answers.append({})
        for together in course.by_name(wanted):
            points = [course.candidates[index].method for index in together]
            for position, answers in answers_of(draw, points):
                course.note_answers(together[position], answers)
                yield TuningStanding(course.to_json())


def first_draw(recipe: Recipe, settings: Settings) -> Draw:
    """The first draw of a recipe that tunes, with the model loaded. Raises as ``prepare``."""
    prepared = prepare(recipe, settings, download=True)
    scratch = settings.scratch_dir() if prepared.streamed else None
    loaded = load(prepared.checkpoint, choose_device(settings.device), scratch=scratch)
    job = calibration_job(recipe, prepared.checkpoint, prepared.sequences, prepared.per_channel)
    bench = Workbench(loaded, ArtefactStore(settings.artefacts_root()), settings)
    return Draw.of(ground_of(bench, prepared, job.grids, weights_of(loaded)), prepared.sequences)


def draw_of(recipe: Recipe, ground: Ground, number: int) -> Draw:
    calibration = ground.prepared.calibration
    sequences = draw_sequences(
        calibration.ids, calibration.corpus, part=calibration.part, samples=recipe.samples, length=recipe.length,
        held_out_samples=recipe.unseen_samples(), sampling="random", seed=recipe.seed + number,
    )  # fmt: skip
    return Draw.of(ground, sequences)


def _of_draw(
    course: Course, draw: Draw, wanted: Sequence[int], *, measured: bool, pictures: bool
) -> Iterator[tuple[int, Found]]:
    """What the draw says of the wanted candidates, methods of one name at a time."""
    for together in course.by_name(wanted):
        points = [course.candidates[index].method for index in together]
        for position, found in find(draw, points, pictures=pictures, measured=measured):
            yield together[position], found


def _screened(recipe: Recipe, draw: Draw, original: FloatAnswers) -> Course:
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
        draw.ground.bench.loaded.checkpoint.of_blocks, original,
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
