"""The yield of a budget in tuning and for a ladder, before any of it is spent. No torch.

Tuning: how many λ are compared in how many draws. A ladder: how many draws of all its steps.
"""

from collections.abc import Iterator
from functools import partial
from itertools import accumulate

from pydantic import BaseModel, ConfigDict

from sarqc.engine.costs import ComparisonCosts
from sarqc.engine.search import AHEAD, ENOUGH, SURE
from sarqc.recipe import Recipe

USUAL_MINUTES = (1, 3, 5, 10, 20, 30, 60, 120, 240, 480, 1440)
IN_QUESTION = 6  # λ that the errors of layers leave: four to eight were seen
SCREENING_SHARE = 1 / 5  # of a budget
RESERVE = 0.9  # of a budget that is planned, since hosts are not always as fast as before


class BudgetChoice(BaseModel):
    """A budget and what it buys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    minutes: float
    draws: int  # of tuning, and those in which all steps of a ladder are measured
    models: int  # λ that are compared, or measured where nothing is; steps of one more draw of a ladder
    enough: bool  # three λ are compared in four draws; differences of steps have useful intervals
    words: str  # “10 min: 6 λ × 4 draws”


class BudgetPlan(BaseModel):
    """Budgets to choose from, and the shortest one that is enough."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    budgets: tuple[BudgetChoice, ...]
    sensible_minutes: float


def budget_plan(costs: ComparisonCosts, recipe: Recipe) -> BudgetPlan:
    """Return the usual budgets around the shortest sufficient one that each buy more than a shorter one, with the
    requested one; and the minutes of the sufficient one.
    """
    budget = partial(tuning_budget if recipe.kind == "tune" else ladder_budget, costs, recipe.draws)
    every = [budget(usual) for usual in USUAL_MINUTES]
    at = next((place for place, choice in enumerate(every) if choice.enough), len(every) - 1)
    first = {(choice.draws, choice.models): choice.minutes for choice in reversed(every[max(0, at - 1) : at + 3])}
    lengths = {*first.values()} | ({recipe.minutes} if recipe.minutes is not None else set())
    return BudgetPlan(budgets=tuple(map(budget, sorted(lengths))), sensible_minutes=every[at].minutes)


def tuning_budget(costs: ComparisonCosts, most_draws: int, minutes: float) -> BudgetChoice:
    """Return the result of ``search.Search`` with a budget on a host that is as fast as planned, and without an earlier
    verdict.
    """
    seconds, model = RESERVE * 60 * minutes, costs.models["model"]
    left = seconds - costs.start - costs.draw - min(costs.screening, SCREENING_SHARE * seconds)

    def of(lams: int, draws: int) -> float:
        return draws * (lams + 1) * model + (draws - 1) * costs.draw

    sure = min(SURE, most_draws)
    draws = next((count for count in range(sure, 1, -1) if of(ENOUGH, count) <= left), 1)
    lams, further = ENOUGH, 0
    if draws == 1:
        lams = max(0, min(ENOUGH - 1, int(left / model) - 1))
        words = f"{f'about {lams} λ' if lams else 'errors of layers alone'}, not enough to compare"
    else:
        left -= of(ENOUGH, draws)
        if draws == sure:  # two more draws of the best two, then further λ
            further = min(2, most_draws - sure, int(left / ((AHEAD + 1) * model + costs.draw)))
            left -= further * ((AHEAD + 1) * model + costs.draw)
            lams += min(IN_QUESTION - ENOUGH, int(left / (sure * model))) if further == min(2, most_draws - sure) else 0
        words = f"{lams} λ × {draws}{f' to {draws + further}' if further else ''} draws"
    return BudgetChoice(
        minutes=minutes, draws=draws + further, models=lams, enough=draws == sure > 1, words=f"{minutes:g} min: {words}"
    )


def ladder_budget(costs: ComparisonCosts, most_draws: int, minutes: float) -> BudgetChoice:
    """Return the result of a ladder with a budget on a host that is as fast as planned: step by step, draw by draw."""
    left, whole = RESERVE * 60 * minutes - costs.start, costs.draw + sum(costs.models.values())
    draws = min(most_draws, max(0, int(left / whole)))
    left -= draws * whole + costs.draw
    steps = sum(spent <= left for spent in accumulate(costs.models.values())) if draws < most_draws else 0
    enough, step_count = draws >= min(SURE, most_draws), len(costs.models)
    if draws:
        words = f"{step_count} steps × {draws} {'draw, no intervals' if draws == 1 else 'draws'}"
    else:
        words = f"{steps} of {step_count} steps in one draw, no intervals" if steps else "no step, no intervals"
    words = f"{minutes:g} min: {words}"
    return BudgetChoice(minutes=minutes, draws=draws, models=steps, enough=enough, words=words)


def short_budget_warnings(plan: BudgetPlan | None, minutes: float | None) -> Iterator[str]:
    """Yield a warning if the requested budget compares nothing: that takes two draws."""
    chosen = next((choice for choice in (plan.budgets if plan else ()) if choice.minutes == minutes), None)
    if plan and chosen is not None and chosen.draws < 2:
        yield f"this budget is too short ({chosen.words}): take {plan.sensible_minutes:g} min"
