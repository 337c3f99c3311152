"""A model's own ladder: its numbers are those of runs, it goes on where it was stopped, and it keeps a budget."""

from typing import Any

import numpy as np
import pytest

from sarqc.calibration import float_statistics
from sarqc.documents import LadderRun
from sarqc.engine import comparison, trials
from sarqc.engine.budget import Budget
from sarqc.engine.budget_plans import budget_plan, ladder_budget
from sarqc.engine.costs import ComparisonCosts, comparison_costs, work_of
from sarqc.engine.execute import execute
from sarqc.engine.ladder_steps import ladder_steps
from sarqc.engine.plan import plan, prepare
from sarqc.errors import Refused
from sarqc.evaluation.perplexity import perplexity_steps
from sarqc.events import MEASURING_STEPS, Event, Finished, Stage
from sarqc.quantization.counts import TWO_CORES
from sarqc.recipe import Recipe
from tests.engine.running import run, summary_of

FAST = {"samples": 4, "length": 32, "held_out_samples": 2, "window": 32, "test_tokens": 640}
STEPS = ["nearest", "gptq", "order", "range", "lambda", "refine", "refit", "affine", "joint"]


@pytest.fixture(scope="module")
def document(small):
    return small | FAST | {"kind": "ladder", "bits": 2, "draws": 2}


@pytest.fixture(scope="module")
def own_settings(settings, tmp_path_factory):
    return settings.model_copy(update={"state_dir": tmp_path_factory.mktemp("ladder")})


@pytest.fixture(scope="module")
def climbed(document, own_settings):
    return run(document, own_settings)


def outcome(events: list[Event]) -> LadderRun:
    return summary_of(events)["ladder"]


def without_clock(ladder: LadderRun) -> dict[str, Any]:
    return {name: value for name, value in ladder.items() if name != "seconds"}


@pytest.mark.thorough
def test_each_point_is_that_of_a_run(climbed, document, fresh_settings):
    """A run that takes the float model's inputs, of the same draw, has the same perplexity and KL to the last digit."""
    ladder = outcome(climbed)
    assert [row["step"] for row in ladder["rows"]] == STEPS
    single = {name: document[name] for name in document if name not in ("kind", "draws")} | {
        "inputs_from": "float", "sampling": "random", "seed": 1, "baseline": False,
    }  # fmt: skip
    ordered = {"order": "activation"}
    fitted = ordered | {"range": "search"}
    asked = [
        {"method": "rtn"},
        {"method": "gptq"},
        {"method": "gptq"} | ordered,
        {"method": "gptq"} | fitted,
        {"method": "rqc-gbs", "lambda": 0.1} | fitted,
        {"method": "rqc-gbs", "lambda": 0.1, "refine": 3} | fitted,
        {"method": "rqc-gbs", "lambda": 0.1, "refine": 3, "refit": 3} | fitted,
        {"method": "rqc-gbs", "lambda": 0.1, "refine": 3, "refit": 3, "grid": "affine"} | fitted,
        {"method": "rqc-gbs", "lambda": 0.1, "refine": 3, "refit": 3, "grid": "affine"} | fitted | {"range": "joint"},
    ]
    for row, point in zip(ladder["rows"], asked, strict=True):
        summary = summary_of(run(single | point, fresh_settings))
        assert (row["perplexity"][1], row["kl"][1]) == (summary["perplexity"], summary["kl"]), row["step"]
        assert ladder["perplexity_float"] == summary["perplexity_float"]


def test_it_ends_with_what_it_says(climbed, own_settings):
    ladder = outcome(climbed)
    values = np.array([row["perplexity"] for row in ladder["rows"]], float)
    assert values.shape == (9, 2)
    assert (ladder["draws"], ladder["measured"], ladder["planned"]) == (2, 18, 18)
    assert (ladder["end"], ladder["next"], ladder["best"]) == ("draws", "run", int(values.prod(axis=1).argmin()))
    following = Recipe.parse(ladder["recipe"])
    best = ladder["rows"][ladder["best"]]
    assert (following.kind, following.method, following.inputs_from) == ("run", best["method"], "quantized")
    assert following.to_method().fitting() == best["fitting"]
    assert plan(following, own_settings).layers == 21
    assert [event.detail for event in climbed if isinstance(event, Stage) and event.name == MEASURING_STEPS] == [
        "draw 1 of 2", "draw 2 of 2",
    ]  # fmt: skip


@pytest.mark.thorough
def test_what_tuning_measured_is_read(document, fresh_settings, monkeypatch):
    """Rounding to nearest, and GPTQ 1 % in both draws: baselines of a tuning run on the same text."""
    run(document | {"kind": "tune", "method": "rqc-gbs", "sweep": [0.05, 0.1]}, fresh_settings)
    measured = []

    def measuring(*given, **named):
        measured.append(1)
        return perplexity_steps(*given, **named)

    monkeypatch.setattr(trials, "perplexity_steps", measuring)
    monkeypatch.setattr(float_statistics, "BlockWalk", None)
    outcome(run(document, fresh_settings))
    # Nothing that reads no text changes with a draw, so that tuning measures it in the first alone.
    assert len(measured) == 18 - 3


class Checks(Budget):
    """A budget of so many checks, with no clock."""

    def __init__(self, most):
        super().__init__(1000.0)
        self.most, self.made = most, 0

    def spent(self):
        return 1000.0 * min(1.0, self.made / self.most)

    def check(self):
        self.made += 1
        super().check()


@pytest.mark.thorough
@pytest.mark.parametrize("most", [1, 40, 90, 150, 10_000])
def test_a_budget_ends_it_at_the_next_check(climbed, document, fresh_settings, monkeypatch, most):
    budget = Checks(most)
    monkeypatch.setattr(comparison, "Budget", lambda *_: budget)
    ladder = outcome(run(document, fresh_settings))
    assert budget.made <= most
    whole = outcome(climbed)
    assert ladder["end"] == ("draws" if most == 10_000 else "budget")
    reached = [value for row in ladder["rows"] for value in row["perplexity"] if value is not None]
    assert ladder["measured"] == len(reached)
    for row, of_whole in zip(ladder["rows"], whole["rows"], strict=True):  # what is known is true
        for value, expected in zip(row["perplexity"], of_whole["perplexity"], strict=False):
            assert value in (None, expected)
    if ladder["draws"] < 2:
        assert (ladder["next"], ladder["more_minutes"] is None) == ("go_on", False)
        again = Recipe.parse(ladder["recipe"])
        assert (again.kind, again.minutes) == ("ladder", ladder["more_minutes"])
    assert (ladder["best"] is None) == (ladder["draws"] == 0)


def test_workers_of_a_crew_end_alike(document, own_settings, climbed):
    """Several workers count the work that is kept, so that each of them stops at the same place."""
    whole = outcome(climbed)
    for minutes in (1e-9, 5.0):
        asked = Recipe.parse(document | {"minutes": minutes})
        ends = [list(execute(asked, own_settings, crew=2))[-1] for _ in range(2)]
        ladders = [end.summary["ladder"] for end in ends if isinstance(end, Finished)]
        assert without_clock(ladders[0]) == without_clock(ladders[1])
        assert ladders[0]["measured"] == (1 if minutes < 1 else whole["measured"])


def test_the_recipe_s_own_numbers_are_taken(document):
    own = {"lambda": 0.3, "refine": 2, "refit": 1, "static_groups": True, "expert_damping": "damped"}
    steps = ladder_steps(Recipe.parse(document | own))
    assert [step.step for step in steps] == STEPS
    last = steps[-1].method
    assert (last.lam, last.refine, last.refit, last.range, last.order) == (0.3, 2, 1, "joint", "activation")
    assert all(step.method.static_groups for step in steps[1:] if hasattr(step.method, "static_groups"))
    assert steps[1].method.fitting() == {"expert_damping": "damped"}


@pytest.mark.thorough
def test_a_step_that_changes_nothing_is_left_out(document, fresh_settings):
    ladder = outcome(run(document | {"lambda": 0.01}, fresh_settings))
    assert [row["step"] for row in ladder["rows"]] == [step for step in STEPS if step != "lambda"]
    assert ladder["left_out"] == [{"step": "lambda", "why": "λ = 0.01 is the damping of GPTQ 1 % itself"}]
    assert {row["method"] for row in ladder["rows"]} == {"rtn", "gptq"}


def test_the_affine_grid_is_a_step_with_its_own_bits(climbed, document):
    rows = {row["step"]: row for row in outcome(climbed)["rows"]}
    assert {step: row["grid"] for step, row in rows.items() if row["grid"] != "asymmetric"} == {
        "affine": "affine", "joint": "affine",
    }  # fmt: skip
    assert rows["refit"]["bits_per_weight"] == 2 + (16 + 2) / 16  # a scale and a zero point for 16 weights
    assert rows["affine"]["bits_per_weight"] == 2 + (16 + 16) / 16
    assert rows["affine"]["perplexity"] != rows["refit"]["perplexity"] != rows["joint"]["perplexity"]
    on_it = Recipe.parse(document | {"grid": "affine"})
    assert [step.step for step in ladder_steps(on_it)] == [step for step in STEPS if step != "affine"]
    assert {step.grid for step in ladder_steps(on_it)} == {"affine"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "sarqc-gbs"}, "a ladder goes"),
        ({"lambda": "auto"}, "left to “auto”"),
        ({"test": None}, "no text to measure"),
        ({"layer": "model.layers.0.mlp.up_proj"}, "single layer"),
        ({"quantized_checkpoint": "other"}, "again and again"),
        ({"from_block": 1, "then_lambda": 0.2}, "of the whole model"),
        ({"draws": 1}, "draws"),
    ],
)
def test_what_leaves_no_ladder_is_refused(document, change, words):
    with pytest.raises(Refused, match=words):
        Recipe.parse(document | change)


def test_fields_without_an_effect_are_named(document):
    asked = Recipe.parse(document | {"tasks": ["piqa"], "range": "search", "prompts": ["Once"], "gamma": 0.5})
    said = asked.ignored()
    assert [words.split(" has no effect")[0] for words in said] == [
        "γ = 0.5", "Range of a group", "Tasks", "Prompts",
    ]  # fmt: skip
    assert Recipe.parse(document).ignored() == []


def test_a_plan_says_what_a_budget_buys(document, settings):
    shown = plan(Recipe.parse(document | {"minutes": 7, "draws": 8}), settings)
    checkpoint = prepare(Recipe.parse(document), settings).checkpoint
    by_step = comparison_costs(work_of(Recipe.parse(document), checkpoint, test_tokens=500), TWO_CORES).models
    assert [*by_step] == STEPS
    assert by_step["nearest"] < by_step["gptq"] < by_step["range"] < by_step["refine"]
    assert 7 in [one.minutes for one in shown.comparing.budgets]
    assert shown.minutes <= 7


def test_budgets_are_spent_step_by_step():
    costs = ComparisonCosts(start=10.0, draw=4.0, screening=0.0, models={"nearest": 2.0, "gptq": 4.0, "order": 10.0})
    by_hand = {  # 0.9 of the minutes: 54, 108, 540 s; less 10 s, 20 s a draw
        1: (2, 0, "1 min: 3 steps × 2 draws"),
        2: (4, 2, "2 min: 3 steps × 4 draws"),
        10: (8, 0, "10 min: 3 steps × 8 draws"),
    }
    for minutes, (draws, steps, words) in by_hand.items():
        found = ladder_budget(costs, 8, minutes)
        assert (found.draws, found.models, found.words) == (draws, steps, words)
    short = ladder_budget(costs, 8, 0.5)
    assert (short.draws, short.models, short.enough) == (0, 2, False)
    assert short.words == "0.5 min: 2 of 3 steps in one draw, no intervals"
    recipe = Recipe.parse({"model": "toy", "calibration": "a", "test": "b", "kind": "ladder", "draws": 8})
    plan = budget_plan(costs, recipe)
    assert plan.sensible_minutes == 3
    assert [one.minutes for one in plan.budgets] == [1, 3, 5]  # 10 minutes make the same 8 draws as 5
