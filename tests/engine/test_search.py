"""What a search does next and what it says, at any stage of it; and whole searches on simulated hosts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulated_races import simulated
from sarqc.engine.budget_plans import budget_plan, short_budget_warnings, tuning_budget
from sarqc.engine.costs import ComparisonCosts
from sarqc.engine.screening import DULL, in_question
from sarqc.engine.search import ENOUGH, Costs, Search, Step, order_by_promise, rounded_up
from sarqc.recipe import Recipe

LAMS = 6
GPTQ, RTN = LAMS, LAMS + 1


def search(values: np.ndarray, order: tuple[int, ...] = (2, 3, 1, 4)) -> Search:
    return Search(values, order, (GPTQ,), (RTN,))


def blank(draws: int = 5) -> np.ndarray:
    return np.full((draws, LAMS + 2), np.nan)


@st.composite
def stages(draw: st.DrawFn) -> Search:
    """Any measurements at all, in an order that a search may have made and in others."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    values = rng.normal(0, draw(st.sampled_from([1e-4, 0.01, 1.0])), (5, LAMS + 2))
    values += rng.normal(0, 1, LAMS + 2)
    seen = rng.random(values.shape) < draw(st.sampled_from([0.1, 0.5, 0.9, 1.0]))
    order = draw(st.permutations(range(LAMS)).map(lambda all_of: tuple(all_of[: 1 + len(all_of) // 2])))
    return search(np.where(seen, values, np.nan), order)


@given(stages())
def test_a_best_lambda_was_compared_with_others_in_two_draws(stage):
    standings = [stage.standing(at) for at in range(LAMS)]
    if stage.best is None:
        assert {*standings} <= {"ruled_out", "not_reached"}
        return
    assert standings.count("best") == 1
    compared = [at for at, one in enumerate(standings) if one in ("best", "as_good", "worse")]
    assert len(compared) >= min(ENOUGH, len(stage.order))
    assert np.isfinite(stage.values[:2, [*compared, GPTQ]]).all()
    assert stage.draws >= 2
    as_good = [at for at, one in enumerate(standings) if one in ("best", "as_good")]
    assert stage.better[stage.best] == max(stage.better[at] for at in as_good)
    assert {at for at, one in enumerate(standings) if one == "ruled_out"} == {*range(LAMS)} - {*stage.order}
    low, mean, high = stage.gains.low[stage.best], stage.gains.mean[stage.best], stage.gains.high[stage.best]
    assert low <= mean <= high


@given(stages(), st.floats(0, 100), st.floats(0.1, 10), st.floats(0, 5))
def test_a_step_is_new_fits_and_begins_with_a_comparison(stage, left, model, draw):
    step = stage.next(left, Costs(model, draw), together=3)
    if step is None:
        return
    assert len(step.candidates) in (1, 2, 3)
    assert not stage.seen[step.draw, list(step.candidates)].any()
    if stage.best is None:
        assert step.draw < 2
    else:
        assert len(step.candidates) * model <= left


def test_nothing_is_ruled_out_before_the_errors_of_layers_were_compared():
    assert {search(blank(), ()).standing(at) for at in range(LAMS)} == {"not_reached"}


def measured(order: list[Step], values: np.ndarray) -> np.ndarray:
    seen = np.full_like(values, np.nan)
    for step in order:
        seen[step.draw, list(step.candidates)] = values[step.draw, list(step.candidates)]
    return seen


def test_without_a_budget_everything_is_compared_and_with_a_small_one_three_in_two_draws():
    values = np.random.default_rng(1).normal(0, 0.01, (5, LAMS + 2)) + np.arange(LAMS + 2) * 1e-3
    for left, least in ((math.inf, 4), (9.0, 3)):
        steps = []
        spent = 0.0
        while (step := search(measured(steps, values)).next(left - spent, Costs(1.0), 64)) is not None:
            steps.append(step)
            spent += len(step.candidates)
            if spent > 60:
                break
        end = search(measured(steps, values))
        assert len(end.compared) == least
        assert end.best is not None
    drawn = [step.draw for step in steps if step.candidates != (RTN,)]
    assert drawn == sorted(drawn)


@given(st.integers(0, 2**32 - 1), st.floats(1, 1e6))
def test_three_lambdas_are_compared_before_a_fourth_is_measured(seed, left):
    """Whatever models are said to take: a host that becomes slower has compared what its time was enough for."""
    rng = np.random.default_rng(seed)
    values, steps = rng.normal(size=(5, LAMS + 2)), list[Step]()
    while (stage := search(measured(steps, values))).best is None:
        step = stage.next(left, Costs(rng.uniform(1e-6, 10), rng.uniform(0, 10)), together=int(rng.integers(1, 9)))
        steps.append(step)
    assert {(step.draw, one) for step in steps for one in step.candidates} == {
        (draw, one) for draw in (0, 1) for one in (2, 3, 1, GPTQ)
    }


def test_what_is_kept_from_before_costs_nothing():
    costs = Costs(10.0, 5.0, lambda draw, _candidate: draw == 0)
    assert costs.of(Step(0, (1, 2)), is_new=True) == 0
    assert costs.of(Step(1, (1, 2)), is_new=True) == 25


def test_a_further_lambda_is_compared_only_once_all_its_draws_are_there():
    values = np.random.default_rng(2).normal(size=(5, LAMS + 2))
    seen = values.copy()
    seen[:, 4], seen[:, [0, 5]] = np.nan, np.nan
    step, drawn = search(seen).next(1e9, Costs(1.0), 1), []
    while step is not None and step.candidates == (4,):
        drawn.append(step.draw)
        seen[step.draw, 4] = values[step.draw, 4]
        assert search(seen.copy()).draws == 5, "no draw is lost on the way"
        step = search(seen).next(1e9, Costs(1.0), 1)
    assert drawn[:4] == [3, 2, 1, 0]


def steps_of(values: np.ndarray, left: float = 1e9) -> list[Step]:
    """Return the steps of a search that has as much time as ``left``, to its end."""
    steps = list[Step]()
    while not (stage := search(measured(steps, values))).end([0.1] * LAMS, None, has_budget=True):
        if (step := stage.next(left - len(steps), Costs(1.0), 1)) is None:
            break
        steps.append(step)
    return steps


def near(*gains: float, draws: int = 8, spread: float = 0.02) -> np.ndarray:
    """Return ln perplexities of λ with these gains over GPTQ 1 %, in draws that differ by ``spread``."""
    values = np.random.default_rng(7).normal(0.5, spread, (draws, LAMS + 2))
    return values - np.array([*gains, 0.0, -1.0])


class TestIsItWorthIt:
    """The order of ``search``: 2, 3, 1, 4."""

    def test_three_lambdas_have_four_draws_before_further_draws_of_two_and_then_a_fourth(self):
        steps = steps_of(near(*[0.01] * LAMS))
        first = steps[:16]
        assert {(step.draw, *step.candidates) for step in first} == {
            (draw, at) for draw in range(4) for at in (1, 2, 3, GPTQ)
        }
        assert {step.draw for step in steps[16:22]} == {4, 5}
        pair = {at for step in steps[16:22] for at in step.candidates}
        assert len(pair) == 3
        assert pair < {1, 2, 3, GPTQ}
        assert steps[22].candidates == (4,)

    def test_a_verdict_ends_it_once_the_neighbours_of_the_best_were_compared(self):
        values = near(-0.1, 0.1, 0.3, 0.1, -0.1, -0.1, spread=0.002)
        steps = steps_of(values)
        end = search(measured(steps, values))
        assert len(steps) == 12, "two λ are beaten in two draws"
        assert end.evidence().verdict == "better"
        assert end.best == 2
        at_an_edge = steps_of(near(-0.1, 0.1, 0.2, 0.3, -0.1, -0.1, spread=0.002))
        assert [step.candidates for step in at_an_edge[12:]] == [(4,)] * 4

    @pytest.mark.parametrize(("gain", "verdict"), [(0.0, "equal"), (-0.1, "worse"), (0.1, "better")])
    def test_each_verdict_ends_it(self, gain, verdict):
        values = near(*[gain] * LAMS, spread=0.0005)
        end = search(measured(steps_of(values), values))
        assert (end.evidence().verdict, end.end([0.1] * LAMS, None, has_budget=True)) == (verdict, "verdict")

    def test_without_a_budget_a_verdict_is_not_enough(self):
        values = near(-0.1, 0.1, 0.3, 0.1, -0.1, -0.1, spread=0.002)
        stage = search(measured(steps_of(values), values))
        assert len(stage.compared) < len(stage.order)
        assert stage.end([0.1] * LAMS, None, has_budget=False) is None


def test_the_most_promising_is_the_place_after_the_smallest_error_of_layers():
    assert order_by_promise([1, 2, 3, 4, 5], [3.0, 1.0, 2.0, 4.0, 5.0]) == (3, 4, 2, 5, 1)
    assert rounded_up(2.1) == 3
    assert rounded_up(2000) == 2880


class TestInQuestion:
    def test_all_layers_decide_by_the_mean_alone(self):
        errors = np.array([[0.0, DULL / 2, 2 * DULL, 3 * DULL]] * 8)
        assert in_question(errors, 8).tolist() == [0, 1, 2], "the best three are always left"
        wide = np.array([[0.0, 0.01, 0.02, DULL / 2, 2 * DULL]] * 8)
        assert in_question(wide, 8).tolist() == [0, 1, 2, 3]

    def test_few_layers_rule_out_only_what_the_others_can_not_change(self):
        rng = np.random.default_rng(4)
        every = np.array([0.0, 0.02, 0.05, 1.5 * DULL, 20 * DULL]) + rng.normal(0, 0.3, (42, 5))
        few = in_question(every[:3], 42).tolist()
        assert {0, 1, 2} <= {*few}
        assert 4 not in few
        assert {*in_question(every, 42).tolist()} <= {*few}

    def test_one_layer_rules_nothing_out(self):
        assert len(in_question(np.array([[0.0, 1.0, 2.0, 3.0, 4.0]]), 42)) == 5


class TestPlan:
    COSTS = ComparisonCosts(start=10.0, draw=5.0, screening=60.0, models={"model": 8.0})

    def plan(self, minutes):
        document = {"model": "toy", "calibration": "a", "test": "b", "kind": "tune", "draws": 8, "minutes": minutes}
        return budget_plan(self.COSTS, Recipe.parse(document))

    def test_more_minutes_buy_more_and_the_shortest_sensible_budget_compares_three_in_four_draws(self):
        plan = self.plan(None)
        bought = [(one.draws, one.models) for one in plan.budgets]
        assert bought == sorted(bought)
        sensible = next(one for one in plan.budgets if one.minutes == plan.sensible_minutes)
        assert sensible.enough
        assert not any(one.enough for one in plan.budgets if one.minutes < plan.sensible_minutes)

    def test_words(self):
        assert tuning_budget(self.COSTS, 8, 1).words == "1 min: about 2 λ, not enough to compare"
        assert tuning_budget(self.COSTS, 8, 0.2).words == "0.2 min: errors of layers alone, not enough to compare"
        assert tuning_budget(self.COSTS, 8, 3).words == "3 min: 3 λ × 3 draws"
        assert tuning_budget(self.COSTS, 8, 5).words == "5 min: 3 λ × 4 to 6 draws"
        assert tuning_budget(self.COSTS, 4, 60).words == "60 min: 6 λ × 4 draws"
        assert tuning_budget(self.COSTS, 8, 60).words == "60 min: 6 λ × 4 to 6 draws"
        [warning] = short_budget_warnings(self.plan(1), 1)
        assert warning == "this budget is too short (1 min: about 2 λ, not enough to compare): take 5 min"
        assert not [*short_budget_warnings(self.plan(10), 10)]

    def test_a_plan_that_is_kept_is_what_a_search_does_with_it(self):
        """On a host that is as fast as planned."""
        for minutes in (3, 5, 10):
            budget, costs = tuning_budget(self.COSTS, 8, minutes), self.COSTS
            left = 60 * minutes - costs.start - costs.draw - min(costs.screening, 60 * minutes / 5)
            values, seen = np.random.default_rng(5).normal(0, 0.01, (8, LAMS + 2)), blank(8)
            while (
                step := search(seen, (0, 1, 2, 3, 4, 5)).next(left, Costs(costs.models["model"], costs.draw), 1)
            ) is not None:
                left -= costs.models["model"] + (
                    costs.draw if step.draw and not np.isfinite(seen[step.draw]).any() else 0
                )
                seen[step.draw, list(step.candidates)] = values[step.draw, list(step.candidates)]
            end = search(seen, (0, 1, 2, 3, 4, 5))
            assert len(end.compared) >= budget.models
            assert end.draws >= budget.draws


@pytest.mark.parametrize("budget", [20.0, 60.0])
def test_searches_on_a_host_of_any_load(budget):
    """The full table is in docs/results.md."""
    outcome = simulated("independent", budget, 60)
    assert outcome["late"] <= 0.05
    assert outcome["false"] <= 0.05
    assert outcome["outside"] <= 0.1
