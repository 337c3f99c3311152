"""The yield of a budget in tuning and for a ladder, before any of it is spent. No torch.

Tuning: how many λ are compared in how many draws. A ladder: how many draws of all its steps.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from sarqc.engine.costs import LadderCosts, TuningCosts
from sarqc.engine.search import ENOUGH

USUAL_MINUTES = (1, 3, 5, 10, 20, 30, 60, 120, 240, 480, 1440)
IN_QUESTION = 6  # λ that the errors of layers leave: four to eight were seen
SCREENING_SHARE = 1 / 5  # of a budget
RESERVE = 0.9  # of a budget that is planned, since hosts are not always as fast as before
ENOUGH_DRAWS = 4  # of a ladder: the interval of a difference over fewer is more than three standard errors each way


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TuningBudget(_Part):
    """A budget and what it buys."""

    minutes: float
    lams: int  # that are compared, or measured where nothing is
    draws: int
    enough: bool  # three λ are compared in two draws
    words: str  # “10 min: 6 λ × 4 draws”


class TuningPlan(_Part):
    """Budgets to choose from, and the shortest one that is enough."""

    budgets: tuple[TuningBudget, ...]
    sensible_minutes: float


class StepCost(_Part):
    """The time of a step in a draw."""

    step: str  # see ``ladder_steps.StepMethod``
    seconds: float  # the model solved and measured


class LadderBudget(_Part):
    """A budget and what it buys."""

    minutes: float
    draws: int  # in which all steps are measured
    steps: int  # of one more draw
    enough: bool
    words: str  # “10 min: 6 steps × 4 draws”


class LadderPlan(_Part):
    """Budgets to choose from, and the shortest one that is enough."""

    steps: tuple[StepCost, ...]
    draw_seconds: float  # the calibration text through the model, once in each draw
    budgets: tuple[LadderBudget, ...]
    sensible_minutes: float


Budget = TypeVar("Budget", TuningBudget, LadderBudget)


def _choices(minutes: float | None, budget: Callable[[float], Budget]) -> tuple[tuple[Budget, ...], float]:
    """Return the usual budgets around the shortest sufficient one, with the requested one; and the minutes of the
    former.
    """
    every = [budget(usual) for usual in USUAL_MINUTES]
    at = next((place for place, choice in enumerate(every) if choice.enough), len(every) - 1)
    lengths = {choice.minutes for choice in every[max(0, at - 1) : at + 3]} | (
        {minutes} if minutes is not None else set()
    )
    return tuple(map(budget, sorted(lengths))), every[at].minutes


def tuning_plan(costs: TuningCosts, minutes: float | None, draws: int) -> TuningPlan:
    """Return the yield of budgets in tuning; ``minutes`` is the recipe's, ``draws`` the largest number."""
    budgets, sensible = _choices(minutes, lambda length: tuning_budget(length, costs, draws))
    return TuningPlan(budgets=budgets, sensible_minutes=sensible)


def ladder_plan(costs: LadderCosts, minutes: float | None, draws: int) -> LadderPlan:
    """Return the yield of budgets for a ladder, as ``tuning_plan`` does."""
    budgets, sensible = _choices(minutes, lambda length: ladder_budget(length, costs, draws))
    steps = tuple(StepCost(step=step, seconds=seconds) for step, seconds in costs.steps.items())
    return LadderPlan(steps=steps, draw_seconds=costs.draw, budgets=budgets, sensible_minutes=sensible)


def tuning_budget(minutes: float, costs: TuningCosts, most_draws: int) -> TuningBudget:
    """Return the result of ``search.Search`` with a budget on a host that is as fast as planned."""
    seconds = RESERVE * 60 * minutes
    left = seconds - costs.start - costs.draw - min(costs.screening, SCREENING_SHARE * seconds)

    def of(lams: int, draws: int) -> float:
        return draws * (lams + 1) * costs.model + (draws - 1) * costs.draw

    lams = next((count for count in range(IN_QUESTION, ENOUGH - 1, -1) if of(count, 2) <= left), 0)
    draws = 1
    if lams:
        draws = next(count for count in range(most_draws, 1, -1) if count == 2 or of(lams, count) <= left)
    else:
        lams = max(0, min(ENOUGH - 1, int(left / costs.model) - 1))
    if draws > 1:
        words = f"{lams} λ × {draws} draws"
    else:
        words = f"{f'about {lams} λ' if lams else 'errors of layers alone'}, not enough to compare"
    words = f"{minutes:g} min: {words}"
    return TuningBudget(minutes=minutes, lams=lams, draws=draws, enough=draws > 1 and lams >= ENOUGH, words=words)


def ladder_budget(minutes: float, costs: LadderCosts, most_draws: int) -> LadderBudget:
    """Return the result of a ladder with a budget on a host that is as fast as planned: step by step, draw by draw."""
    left = RESERVE * 60 * minutes - costs.start
    draws = min(most_draws, max(0, int(left / (costs.draw + sum(costs.steps.values())))))
    left -= draws * (costs.draw + sum(costs.steps.values())) + costs.draw
    steps = 0
    for seconds in costs.steps.values() if draws < most_draws else ():
        if (left := left - seconds) < 0:
            break
        steps += 1
    enough, step_count = draws >= min(ENOUGH_DRAWS, most_draws), len(costs.steps)
    if draws:
        words = f"{step_count} steps × {draws} {'draw, no intervals' if draws == 1 else 'draws'}"
    else:
        words = f"{steps} of {step_count} steps in one draw, no intervals" if steps else "no step, no intervals"
    words = f"{minutes:g} min: {words}"
    return LadderBudget(minutes=minutes, draws=draws, steps=steps, enough=enough, words=words)


def short_budget_warnings(plan: TuningPlan | LadderPlan | None, minutes: float | None) -> Iterator[str]:
    """Yield a warning if the requested budget compares nothing: it takes two draws."""
    chosen = next((choice for choice in (plan.budgets if plan else ()) if choice.minutes == minutes), None)
    if plan and chosen is not None and chosen.draws < 2:
        yield f"this budget is too short ({chosen.words}): take {plan.sensible_minutes:g} min"
