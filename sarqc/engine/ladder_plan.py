"""What a budget buys for a ladder: how many draws of all its steps, before any of it is spent. No torch."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from sarqc.engine.costs import LadderCosts
from sarqc.engine.tuning_plan import RESERVE, USUAL_MINUTES

ENOUGH_DRAWS = 4  # the interval of a difference over fewer is more than three standard errors to each side


class StepCost(BaseModel):
    """The time of a step in a draw."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: str  # see ``ladder_steps.StepMethod``
    seconds: float  # the model solved and measured


class LadderBudget(BaseModel):
    """A budget and what it buys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    minutes: float
    draws: int  # in which all steps are measured
    steps: int  # of one more draw
    enough: bool
    words: str  # “10 min: 6 steps × 4 draws”


class LadderPlan(BaseModel):
    """Budgets to choose from, and the shortest one that is enough."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: tuple[StepCost, ...]
    draw_seconds: float  # the calibration text through the model, once in each draw
    budgets: tuple[LadderBudget, ...]
    sensible_minutes: float


def ladder_plan(costs: LadderCosts, minutes: float | None, draws: int) -> LadderPlan:
    """``minutes``: the budget that the recipe asks for; ``draws``: the most that there may be."""
    every = [budget_of(one, costs, draws) for one in USUAL_MINUTES]
    at = next((place for place, one in enumerate(every) if one.enough), len(every) - 1)
    shown = {one.minutes for one in every[max(0, at - 1) : at + 3]} | ({minutes} if minutes is not None else set())
    return LadderPlan(
        steps=tuple(StepCost(step=step, seconds=seconds) for step, seconds in costs.steps.items()),
        draw_seconds=costs.draw,
        budgets=tuple(budget_of(one, costs, draws) for one in sorted(shown)),
        sensible_minutes=every[at].minutes,
    )


def budget_of(minutes: float, costs: LadderCosts, most_draws: int) -> LadderBudget:
    """As a ladder spends it on a host that is as fast as planned: step by step, draw by draw."""
    left = RESERVE * 60 * minutes - costs.start
    draws = min(most_draws, max(0, int(left / (costs.draw + sum(costs.steps.values())))))
    left -= draws * (costs.draw + sum(costs.steps.values())) + costs.draw
    steps = 0
    for seconds in costs.steps.values() if draws < most_draws else ():
        if (left := left - seconds) < 0:
            break
        steps += 1
    enough, of = draws >= min(ENOUGH_DRAWS, most_draws), len(costs.steps)
    if draws:
        words = f"{of} steps × {draws} {'draw, no intervals' if draws == 1 else 'draws'}"
    else:
        words = f"{steps} of {of} steps in one draw, no intervals" if steps else "no step, no intervals"
    words = f"{minutes:g} min: {words}"
    return LadderBudget(minutes=minutes, draws=draws, steps=steps, enough=enough, words=words)


def too_short(plan: LadderPlan, minutes: float | None) -> Iterator[str]:
    """A warning where the budget that is asked for has no interval."""
    chosen = next((one for one in plan.budgets if one.minutes == minutes), None)
    if chosen is not None and chosen.draws < 2:
        yield f"this budget is too short ({chosen.words}): take {plan.sensible_minutes:g} min"  # fmt: skip
