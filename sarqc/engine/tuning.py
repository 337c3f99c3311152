"""Tuning: the λ that a model wants, and how sure that is, with as little work as tells candidates apart.

1. Errors of layers on unseen text from the statistics of one draw (``screening``). They settle γ and rule λ out.
2. Whole models, draw by draw, for the λ still in question and for the baselines: ln(perplexity / float model's) and KL
   on the test text. ``search.Search`` says what comes next, for which of them, and when nothing more can be told apart.
3. The recipe's tasks, draw by draw, for the λ that are left and the baselines.

With a budget each part has what is left of it, and work that does not end in time is given up: what is known then is
true whenever it stops. Statistics are of the float model, as in an exploring study; the run to follow has the quantized
prefix.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from sarqc.calibration.corpora import draw_sequences
from sarqc.calibration.job import calibration_job
from sarqc.documents import Tuning
from sarqc.engine.budget import Budget, TimeUp
from sarqc.engine.keys import weights_of
from sarqc.engine.measure import Measurements, Workbench, keep_states, measure
from sarqc.engine.plan import prepare
from sarqc.engine.screening import Screening
from sarqc.engine.search import Costs, Step
from sarqc.engine.task_answers import answers_of
from sarqc.engine.trials import Draw, TuningContext, ground_of, is_kept, run_trials
from sarqc.engine.tuning_state import Candidate, Course
from sarqc.events import COMPARING, Event, Stage, TuningStanding
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.loading import choose_device, load
from sarqc.quantization.methods import METHODS, method
from sarqc.recipe import Recipe
from sarqc.settings import Settings

Value = TypeVar("Value")
TOGETHER = 64  # candidates that are solved at once where time is no matter


def tune(recipe: Recipe, ground: TuningContext, budget: Budget) -> Generator[Event, None, tuple[Course, Tuning]]:
    """Tunes on draws of the calibration text; returns all that is known, and how it ended as a document, which the last
    event says too.
    """
    first = draw_of(recipe, ground, 0)
    base = recipe.to_method()
    lams, gammas = recipe.compared()
    course = Course(recipe, Screening.of(first, base, lams, gammas), _baselines(recipe), budget)
    try:
        yield from _worked(course, ground)
        course.why = course.search.end([one.method.lam for one in course.candidates], recipe.band) or "budget"
    except TimeUp:
        course.why = "budget"
    end = course.to_json()
    yield TuningStanding(end)
    return course, end


def _worked(course: Course, ground: TuningContext) -> Iterator[Event]:
    recipe, budget = course.recipe, course.budget
    yield Stage(COMPARING, "every λ and γ on unseen text, from the statistics of one draw")
    for _ in course.screening.run(budget):
        yield TuningStanding(course.to_json())
    course.settle()
    yield TuningStanding(course.to_json())
    plain = replace(ground.prepared, recipe=recipe.model_copy(update={"tasks": ()}))
    measuring = measure(ground.bench, plain, "float", ground.float_key, ground.states)
    course.original = yield from _in_time(measuring, budget)
    yield from _in_time(keep_states(ground.bench, plain, ground.states), budget)
    yield from _compared(course, ground)
    rest = [index for index in course.search.once if course.search.draws and not course.search.seen[0, index]]
    if rest and budget.left() >= course.model_seconds():
        yield from _measured(course, draw_of(recipe, ground, 0), Step(0, tuple(rest)))
    if recipe.tasks and course.search.draws:
        yield from _asked(course, ground)
    yield from _drawn(course, ground)


def _in_time(work: Iterator[Event] | Generator[Event, None, Value], budget: Budget) -> Generator[Event, None, Value]:
    """The same work. Raises ``TimeUp`` at its next event after the budget is spent."""
    while True:
        try:
            event = next(work)
        except StopIteration as end:
            value: Value = end.value
            return value
        yield event
        budget.check()


def _compared(course: Course, ground: TuningContext) -> Iterator[Event]:
    """Whole models, as the search asks for them."""
    recipe, budget, begun = course.recipe, course.budget, -1
    lams = [one.method.lam for one in course.candidates]
    known: dict[tuple[int, int], bool] = {}  # whether a measurement is kept from before

    def costs_nothing(number: int, index: int) -> bool:
        if (number, index) not in known:
            point = course.candidates[index].method
            known[number, index] = is_kept(draw_of(recipe, ground, number), point, pictures=not number)
        return known[number, index]

    while not course.search.end(lams, recipe.band):
        costs, together = Costs(course.model_seconds(), course.draw_seconds), TOGETHER
        if budget.seconds is not None and not budget.is_shared:
            costs, together = replace(costs, known=costs_nothing), course.together()
        if (step := course.search.next(budget.left(), costs, together)) is None:
            return
        draw = draw_of(recipe, ground, step.draw)
        if step.draw != begun:
            begun = step.draw
            yield Stage("comparing models", f"draw {begun + 1} of at most {recipe.draws}")
        is_new = bool(step.draw) and not course.trials[step.draw]
        if is_new and budget.seconds is not None and not budget.is_shared:
            course.draw_seconds = max(course.draw_seconds, budget.timed(partial(_collect, draw, budget)))
        yield from _measured(course, draw, step)
        ground.statistics.trim(int(ground.bench.settings.statistics_gib * 2**30))


def _collect(draw: Draw, budget: Budget) -> None:
    """The statistics of a draw, before anything is solved on them, so that the time for each is known."""
    for _ in draw.blocks():
        budget.check()


def _measured(course: Course, draw: Draw, step: Step) -> Iterator[Event]:
    """Measures the candidates of a step, those of one method at once."""
    for together in course.by_name(step.candidates):
        points = [course.candidates[index].method for index in together]
        pictures, began = step.draw == 0, course.budget.spent()
        new = [point for point in points if not is_kept(draw, point, pictures=pictures)]
        for position, trial in run_trials(draw, points, pictures=pictures, check=course.budget.check):
            course.note(step.draw, together[position], trial)
            yield TuningStanding(course.to_json())
        if new:
            course.taken.append((course.budget.spent() - began) / len(new))


def _asked(course: Course, ground: TuningContext) -> Iterator[Event]:
    """The tasks of the float model, and then in the first draw and as many more as there is time for."""
    recipe, budget, tasks = course.recipe, course.budget, ", ".join(course.recipe.tasks)
    wanted = [*course.search.running, *course.search.baselines, *course.search.once]
    assert course.original is not None
    alone = replace(ground.prepared, test=None)
    asked: Measurements = yield from _in_time(measure(ground.bench, alone, "float", ground.float_key, None), budget)
    course.original = replace(asked, perplexity=course.original.perplexity)
    budget.count(asked.task_seconds)
    for number in range(course.search.draws):
        if budget.left() < course.seconds_of_answers(len(wanted)):
            return
        yield Stage("asking tasks", f"{tasks}: draw {number + 1} of {course.search.draws}, {len(wanted)} models")
        draw = draw_of(recipe, ground, number)
        course.answers.append({})
        for together in course.by_name(wanted):
            points = [course.candidates[index].method for index in together]
            for position, answers in answers_of(draw, points, budget.check):
                course.note_answers(together[position], answers)
                yield TuningStanding(course.to_json())


def _drawn(course: Course, ground: TuningContext) -> Iterator[Event]:
    """For the study: the pictures of λ that were not measured, and the layers of what does not change with a draw."""
    search, budget = course.search, course.budget
    wanted = [index for index in range(len(course.candidates)) if index not in course.trials[0]]
    jobs = [(0, wanted), *((number, [*search.once]) for number in range(1, search.draws))]
    for number, indices in jobs:
        draw = draw_of(course.recipe, ground, number)
        for together in course.by_name(indices):
            points = [course.candidates[index].method for index in together]
            if budget.left() < course.model_seconds() * len(points):
                return
            for position, trial in run_trials(draw, points, pictures=not number, measured=False, check=budget.check):
                course.note(number, together[position], trial)
    yield TuningStanding(course.to_json())


def first_draw(recipe: Recipe, settings: Settings) -> Draw:
    """The first draw of a recipe that tunes, with the model loaded. Raises as ``prepare``."""
    prepared = prepare(recipe, settings, download=True)
    scratch = settings.scratch_dir() if prepared.streamed else None
    loaded = load(prepared.checkpoint, choose_device(settings.device), scratch=scratch)
    job = calibration_job(recipe, prepared.checkpoint, prepared.sequences, prepared.per_channel)
    bench = Workbench(loaded, ArtefactStore(settings.artefacts_root()), settings)
    return Draw.of(ground_of(bench, prepared, job.grids, weights_of(loaded)), prepared.sequences)


def draw_of(recipe: Recipe, ground: TuningContext, number: int) -> Draw:
    calibration = ground.prepared.calibration
    sequences = draw_sequences(
        calibration.ids, calibration.corpus, part=calibration.part, samples=recipe.samples, length=recipe.length,
        held_out_samples=recipe.unseen_samples(), sampling="random", seed=recipe.seed + number,
    )  # fmt: skip
    return Draw.of(ground, sequences)


def _baselines(recipe: Recipe) -> Sequence[Candidate]:
    """GPTQ 1 %, AWQ beside a scale search, and rounding to nearest, each fitted as the recipe says."""
    names = ["gptq", *(["awq"] if METHODS[recipe.method].baseline == "awq" else []), "rtn"]
    return [
        Candidate(name, method(name, **{option: getattr(recipe, option) for option in METHODS[name].options}))
        for name in names
    ]
