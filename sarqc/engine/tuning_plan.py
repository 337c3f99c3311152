"""What a budget buys in tuning: how many λ are compared in how many draws, before any of it is spent. No torch."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ConfigDict

from sarqc.engine.costs import TuningCosts
from sarqc.engine.search import ENOUGH

USUAL_MINUTES = (1, 3, 5, 10, 20, 30, 60, 120, 240, 480, 1440)
IN_QUESTION = 6  # λ that the errors of layers leave: four to eight were seen
SCREENING_SHARE = 1 / 5  # of a budget
RESERVE = 0.9  # of a budget that is planned, since hosts are not always as fast as before


class TuningBudget(BaseModel):
    """A budget and what it buys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    minutes: float
    lams: int  # that are compared, or measured where nothing is
    draws: int
    enough: bool  # three λ are compared in two draws
    words: str  # “10 min: 6 λ × 4 draws”


class TuningPlan(BaseModel):
    """Budgets to choose from, and the shortest one that is enough."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    budgets: tuple[TuningBudget, ...]
    sensible_minutes: float


def tuning_plan(costs: TuningCosts, minutes: float | None, draws: int) -> TuningPlan:
    """``minutes``: the budget that the recipe asks for; ``draws``: the most that there may be."""
    every = [budget_of(one, costs, draws) for one in USUAL_MINUTES]
    at = next((place for place, one in enumerate(every) if one.enough), len(every) - 1)
    shown = {one.minutes for one in every[max(0, at - 1) : at + 3]} | ({minutes} if minutes is not None else set())
    return TuningPlan(
        budgets=tuple(budget_of(one, costs, draws) for one in sorted(shown)), sensible_minutes=every[at].minutes
    )


def budget_of(minutes: float, costs: TuningCosts, most_draws: int) -> TuningBudget:
    """As ``search.Search`` spends it on a host that is as fast as planned."""
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


def too_short(plan: TuningPlan, minutes: float | None) -> Iterator[str]:
    """A warning where the budget that is asked for is not enough."""
    chosen = next((one for one in plan.budgets if one.minutes == minutes), None)
    if chosen is not None and not chosen.enough:
        yield f"this budget is too short ({chosen.words}): take {plan.sensible_minutes:g} min"  # fmt: skip
