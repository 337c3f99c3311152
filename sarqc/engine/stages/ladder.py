"""The ladder of a model: the gain of each step over calibration draws, as far as there is time.

Rounding to nearest, GPTQ 1 %, and one step after the other, each measured as a whole model on the test text, in every
draw before the next draw begins. A draw that the budget ends counts for the steps that it reached: each difference is
paired over the draws that have both of its points. Statistics are of the float model, and all of it is stored under the
keys of tuning, which then has these points already, and the other way round.
"""

from collections.abc import Iterator
from itertools import groupby

from sarqc.engine.budget import TimeUp
from sarqc.engine.comparison import begin
from sarqc.engine.ladder_state import LadderState
from sarqc.engine.ladder_steps import ladder_steps
from sarqc.engine.result import summary_of
from sarqc.engine.run import RunContext
from sarqc.engine.trials import run_trials
from sarqc.events import MEASURING_STEPS, Advanced, Event, LadderStanding, Stage


def measure_ladder(run: RunContext) -> Iterator[Event]:
    """Measure the steps of the model's own ladder instead of quantizing it once."""
    state = LadderState(run, *(yield from begin(run, [ladder_steps(run.recipe)[-1].method])))
    try:
        yield from _measure(state)
        state.why = "draws" if state.whole() == run.recipe.draws else "budget"
    except TimeUp:
        state.why = "budget"
    ladder = state.to_json()
    yield LadderStanding(ladder)
    run.summary = {**summary_of(run.prepared, run.original, run.device), "ladder": ladder}


def _measure(state: LadderState) -> Iterator[Event]:
    yield from state.measure_float()
    yield LadderStanding(state.to_json())
    for number in range(state.recipe.draws):
        if state.budget.left() <= 0:
            return
        yield Stage(MEASURING_STEPS, f"draw {number + 1} of {state.recipe.draws}")
        yield from _measure_draw(state, number)
        state.trim()


def _measure_draw(state: LadderState, number: int) -> Iterator[Event]:
    draw = state.draw(number)
    state.trials.append({})
    while missing := state.missing(number)[: _at_once(state)]:
        for grid, group in groupby(missing, key=lambda at: state.steps[at].grid):
            steps = [*group]
            points = [state.steps[at].method for at in steps]
            grid_draw = draw.on_grid(grid)
            # Pictures are kept with the first draw of tuning, whose points these are.
            for made in run_trials(grid_draw, points, pictures=number == 0, check=state.budget.check):
                if isinstance(made, Advanced):
                    yield made
                    continue
                state.note(number, steps[made[0]], made[1])
                yield LadderStanding(state.to_json())


def _at_once(state: LadderState) -> int:
    """Return the number of steps to begin before the time is checked again: all, since work that takes too long is
    given up.

    Several workers give nothing up, so they begin as many as fit the budget, at first a single model to know its time.
    """
    budget, seconds = state.budget, state.model_seconds()
    if not budget.is_shared or budget.seconds is None:
        return len(state.steps)
    if budget.left() <= 0:
        return 0
    return max(1, int(budget.left() / budget.share(seconds))) if seconds else 1
