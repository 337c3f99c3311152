"""Tuning: the best λ of a model, and its certainty, with as little work as tells candidates apart.

1. The float model and its copy by GPTQ 1 %. Where the float model is no better on the test text, that text can't rank
   λ: tuning ends before its budget is spent.
2. Errors of layers on unseen text from the statistics of one draw (``screening``). They settle γ and rule λ out.
3. Whole models, draw by draw, for the λ still in question and for the baselines: ln(perplexity / float model's) and KL
   on the test text. ``search.Search`` plans the next step, for which of them, and the end.

With a budget each part has the rest of it, and work that does not end in time is given up: the results are valid
whenever it stops. Statistics are of the float model, as in an exploring study; the run to follow has the quantized
prefix.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial

from sarqc.engine.budget import Budget, TimeUp
from sarqc.engine.comparison import begin
from sarqc.engine.result import summary_of
from sarqc.engine.run import RunContext
from sarqc.engine.screening import Screening
from sarqc.engine.search import Costs, Step
from sarqc.engine.trials import Draw, draw_of, is_stored, run_trials
from sarqc.engine.tuning_output import has_study, write_tuning
from sarqc.engine.tuning_state import Candidate, TuningState
from sarqc.events import COMPARING, Event, Saved, Stage, TuningStanding
from sarqc.quantization.methods import METHODS, method
from sarqc.recipe import Recipe

TOGETHER = 64  # candidates that are solved at once where time does not matter


def tune_lambda(run: RunContext) -> Iterator[Event]:
    """Compare values of λ on draws of the calibration text instead of quantizing the model once."""
    base, (lams, gammas) = run.recipe.to_method(), run.recipe.compared()
    ground, budget = yield from begin(run, base.points(lams, gammas))
    screening = Screening.of(draw_of(run.recipe, ground, 0), base, lams, gammas)
    state = TuningState(run, ground, budget, screening, _baselines(run.recipe))
    try:
        if (yield from _text_ranks(state)):
            yield from _run_parts(state)
            state.why = state.end() or "budget"
        else:
            state.why = "yardstick"
    except TimeUp:
        state.why = "budget"
    state.note_turn("end", state.search.draws)
    tuning = state.to_json()
    yield TuningStanding(tuning)
    if run.output.study is not None and has_study(state):
        yield Stage("saving", "study")
        write_tuning(state, run.output.study)
        yield Saved("study", str(run.output.study))
    run.summary = {**summary_of(run.prepared, run.original, run.device), "tuning": tuning}


def _text_ranks(state: TuningState) -> Generator[Event, None, bool]:
    """Return True if the float model is better than its copy by GPTQ 1 % on the test text."""
    yield from state.measure_float()
    gptq, draw, began = state.references[0].method, state.draw(0), state.budget.spent()
    is_new = not is_stored(draw, gptq, pictures=True)
    [(_, trial)] = run_trials(draw, [gptq], pictures=True, check=state.budget.check)
    if is_new:
        state.durations.append(state.budget.spent() - began)
        state.new += 1
    assert trial.divergence is not None
    if trial.divergence.log_ratio.mean > 0:
        return True  # the comparison reads the stored result: candidates have no fixed places before the screening
    state.note(0, len(state.screening.lams), trial)
    return False


def _run_parts(state: TuningState) -> Iterator[Event]:
    budget = state.budget
    state.note_turn("screening", 0)
    yield Stage(COMPARING, "every λ and γ on unseen text, from the statistics of one draw")
    for _ in state.screening.run(budget):
        yield TuningStanding(state.to_json())
    state.settle()
    state.note_turn("screened", 0)
    yield TuningStanding(state.to_json())
    yield from _compare(state)
    rest = [index for index in state.search.once if state.search.draws and not state.search.seen[0, index]]
    if rest and budget.left() >= state.model_seconds():
        yield from _measure(state, state.draw(0), Step(0, tuple(rest)))
    yield from _make_pictures(state)


def _compare(state: TuningState) -> Iterator[Event]:
    recipe, budget, begun = state.recipe, state.budget, -1
    stored: dict[tuple[int, int], bool] = {}  # whether a measurement is stored

    def costs_nothing(number: int, index: int) -> bool:
        if (number, index) not in stored:
            point = state.candidates[index].method
            stored[number, index] = is_stored(state.draw(number), point, pictures=not number)
        return stored[number, index]

    while not state.end():
        costs, together = Costs(state.model_seconds(), state.draw_seconds), TOGETHER
        if budget.seconds is not None and not budget.is_shared:
            costs, together = replace(costs, known=costs_nothing), state.together()
        if (step := state.search.next(budget.left(), costs, together)) is None:
            return
        state.note_draws(min(step.draw, 1))  # the first is complete when the second begins
        draw = state.draw(step.draw)
        if step.draw != begun:
            begun = step.draw
            yield Stage("comparing models", f"draw {begun + 1} of at most {recipe.draws}")
        is_new = bool(step.draw) and not state.trials[step.draw]
        if is_new and budget.seconds is not None and not budget.is_shared:
            state.draw_seconds = max(state.draw_seconds, budget.timed(partial(_collect, draw, budget)))
        yield from _measure(state, draw, step)
        state.trim()


def _collect(draw: Draw, budget: Budget) -> None:
    """Collect the statistics of a draw before anything is solved on them, so that the time for each is known."""
    for _ in draw.blocks():
        budget.check()


def _measure(state: TuningState, draw: Draw, step: Step) -> Iterator[Event]:
    for together in state.by_name(step.candidates):
        points = [state.candidates[index].method for index in together]
        pictures, began = step.draw == 0, state.budget.spent()
        new = [point for point in points if not is_stored(draw, point, pictures=pictures)]
        for position, trial in run_trials(draw, points, pictures=pictures, check=state.budget.check):
            state.note(step.draw, together[position], trial)
            yield TuningStanding(state.to_json())
        if new:
            state.durations.append((state.budget.spent() - began) / len(new))
            state.new += len(new)


def _make_pictures(state: TuningState) -> Iterator[Event]:
    """Make for the study the pictures of λ that were not measured, and the layers that do not change with a draw."""
    search, budget = state.search, state.budget
    unmeasured = [index for index in range(len(state.candidates)) if index not in state.trials[0]]
    jobs = [(0, unmeasured), *((number, [*search.once]) for number in range(1, search.draws))]
    for number, indices in jobs:
        draw = state.draw(number)
        for together in state.by_name(indices):
            points = [state.candidates[index].method for index in together]
            if budget.left() < state.model_seconds() * len(points):
                return
            for position, trial in run_trials(draw, points, pictures=not number, measured=False, check=budget.check):
                state.note(number, together[position], trial)
    yield TuningStanding(state.to_json())


def _baselines(recipe: Recipe) -> Sequence[Candidate]:
    """Return GPTQ 1 %, AWQ beside a scale search, and rounding to nearest, each fitted as the recipe says."""
    names = ["gptq", *(["awq"] if METHODS[recipe.method].baseline == "awq" else []), "rtn"]
    return [
        Candidate(name, method(name, **{option: getattr(recipe, option) for option in METHODS[name].options}))
        for name in names
    ]
