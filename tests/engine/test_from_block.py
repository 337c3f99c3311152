"""Another λ or γ from a block on: what is finished before it is taken as it is, and everything says so."""

import pytest

from sarqc.engine.execute import execute
from sarqc.engine.plan import prepare
from sarqc.errors import Refused
from sarqc.events import Event, LayerDone
from sarqc.extras.engines.programs import program_for
from sarqc.extras.survey.gather import gather
from sarqc.figures import lab_view
from sarqc.figures.sentence import plain, sentence
from sarqc.quantization import column_solver
from sarqc.recipe import Recipe
from sarqc.recipe.texts import one_text
from sarqc.settings import Settings
from sarqc.study.as_recipe import as_recipe, of_run
from sarqc.study.document import Study
from sarqc.study.facts import line_facts
from sarqc.web.link_preview import LinePoint, point_title


@pytest.fixture
def document(small):
    values = {"bits": 3, "method": "sarqc-gbs", "lambda": 0.1, "gamma": 0.5, "test_tokens": 1000, "baseline": False}
    return small | values


@pytest.fixture
def solved(monkeypatch):
    """λ and name of every linear that the column solver is given."""
    seen = []
    together = column_solver._solve_together

    def counted(points, recorder):
        seen.extend((point.method.lam, point.layer.name) for point in points)
        return together(points, recorder)

    monkeypatch.setattr(column_solver, "_solve_together", counted)
    return seen


def layers(events: list[Event]) -> dict[str, LayerDone]:
    return {event.name: event for event in events if isinstance(event, LayerDone)}


def block_of(name: str) -> int:
    return int(name.split(".")[2])


def run(document: dict, settings: Settings, **changes) -> list[Event]:
    return list(execute(Recipe.parse(document | changes), settings, study_dir=settings.studies_dir()))


def study_of(document: dict, settings: Settings, **changes) -> Study:
    """Of a run that is made for it."""
    run(document, settings, **changes)
    return Study.open(settings.studies_dir() / Recipe.parse(document | changes).fingerprint())


@pytest.mark.thorough
def test_finished_blocks_are_taken_and_the_rest_is_solved_again(document, fresh_settings, tmp_path, solved):
    plain_run = layers(run(document, fresh_settings))
    solved.clear()
    changed = layers(run(document, fresh_settings, from_block=2, then_lambda=0.3))
    assert [lam for lam, _ in solved] == [0.3] * 7
    assert {block_of(name) for _, name in solved} == {2}
    for name, event in changed.items():
        assert event.from_cache == (block_of(name) < 2)
        assert event.report["chosen"]["lam"] == (0.1 if block_of(name) < 2 else 0.3)
        assert (event.report == plain_run[name].report) == (block_of(name) < 2)
    # From nothing the same comes out, so that the recipe alone means it.
    other = fresh_settings.model_copy(update={"state_dir": tmp_path / "other"})
    solved.clear()
    anew = layers(run(document, other, from_block=2, then_lambda=0.3))
    assert [event.report for event in anew.values()] == [event.report for event in changed.values()]
    assert [lam for lam, _ in solved] == [0.1] * 14 + [0.3] * 7
    # And all of it is found again.
    solved.clear()
    run(document, fresh_settings, from_block=2, then_lambda=0.3)
    run(document, fresh_settings)
    assert solved == []


def test_a_run_that_failed_half_way_goes_on_with_another_lambda(document, fresh_settings, monkeypatch, solved):
    counted = column_solver._solve_together

    def failing(points, recorder):
        if block_of(points[0].layer.name) == 2:
            raise RuntimeError("broken")
        return counted(points, recorder)

    with monkeypatch.context() as patch:
        patch.setattr(column_solver, "_solve_together", failing)
        with pytest.raises(RuntimeError):
            run(document, fresh_settings)
    assert len(solved) == 14
    solved.clear()
    run(document, fresh_settings, from_block=2, then_lambda=1)
    assert [lam for lam, _ in solved] == [1.0] * 7


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["sarqc-omniquant", "sarqc-gs"])
def test_methods_over_blocks_and_scale_searches_too(document, fresh_settings, name):
    document |= {"method": name, "epochs": 1, "gamma": None}
    events = layers(run(document, fresh_settings, from_block=1, then_lambda=0.3))
    assert [event.report["chosen"]["lam"] for event in events.values()] == [0.1] * 7 + [0.3] * 14
    again = layers(run(document, fresh_settings))
    assert [event.from_cache for event in again.values()] == [True] * 7 + [False] * 14


@pytest.mark.thorough
def test_everything_that_is_said_of_the_run_says_so(document, fresh_settings, tmp_path):
    recipe = Recipe.parse(document | {"from_block": 2, "then_lambda": 0.3})
    study = study_of(document, fresh_settings, from_block=2, then_lambda=0.3)
    [line] = study.lines
    assert line.label == f"{line.title}, λ = 0.1, from block 2: 0.3"
    assert line.name == "sarqc-gbs-from2-lambda0.3"
    assert study.title.endswith(line.label)
    assert line.lams == (0.1,)
    assert [study.layer_reports[layer.name]["chosen"]["lam"] for layer in study.layers] == [0.1] * 14 + [0.3] * 7
    facts = line_facts(study, method=line.name, bits=3, layer=None)
    assert "At λ\xa0=\xa00.1, from block 2: 0.3, the 3-bit model" in plain(sentence(facts, 0, 0))
    assert point_title(facts, LinePoint(0, 0)).count("from block 2: 0.3") == 1
    assert lab_view(study)["title"].endswith(line.label)
    # Who runs the line again has the same recipe.
    said = as_recipe(study, line)
    again = Recipe.parse(said["recipe"] | {"lambda": said["lams"][0], "gamma": said["gammas"][0]})
    assert (again.from_block, again.then_lam, again.later_method()) == (2, 0.3, recipe.later_method())
    assert Recipe.parse(of_run(fresh_settings.studies_dir() / recipe.fingerprint())[2]) == recipe
    assert study.stamp.recipe["from_block"] == 2
    assert run(document, fresh_settings, from_block=2, then_lambda=0.3)[-1].summary["recipe"]["then_lambda"] == 0.3
    assert "from_block: 2\nthen_lambda: 0.3" in one_text("yaml", recipe.to_json(), "http://x")
    assert "--from-block 2" in one_text("cli", recipe.to_json(), "http://x")
    with pytest.raises(Refused, match="from block 2 on"):
        program_for("llmcompressor", recipe.to_json(), study, line)
    # In a batch it stands beside the run of one λ, and is not taken for it.
    both = gather([study, study_of(document, fresh_settings)], tmp_path / "both")
    assert sorted(one.label for one in both.lines) == sorted([line.label, line.title])


@pytest.mark.thorough
def test_it_is_never_taken_for_the_baseline(document, fresh_settings, tmp_path):
    """GPTQ 1 % is identity at λ = 0.01 in all blocks: not such a line, alone or beside another one in a batch."""
    document |= {"method": "rqc-gbs", "lambda": 0.01, "gamma": None}
    alone = study_of(document, fresh_settings, from_block=1, then_lambda=0.3)
    facts = line_facts(alone, method=alone.lines[0].name, bits=3, layer=None)
    assert facts.baseline is None
    assert facts.baseline_position is None
    both = gather([alone, study_of(document, fresh_settings)], tmp_path / "both")
    facts = line_facts(both, method=alone.lines[0].name, bits=3, layer=None)
    other = line_facts(both, method="rqc-gbs", bits=3, layer=None)
    assert facts.perplexity.mean[0, 0] != pytest.approx(other.perplexity.mean[0, 0])
    assert facts.baseline.perplexity.mean() == pytest.approx(other.perplexity.mean[0, 0])
    assert (facts.baseline_position, other.baseline_position) == (None, 0)


@pytest.mark.thorough
def test_gamma_changes_too(document, fresh_settings):
    study = study_of(document, fresh_settings, from_block=1, then_gamma=1.0)
    assert study.lines[0].label.endswith(", λ = 0.1, γ = 0.5, from block 1: γ = 1")
    assert [study.layer_reports[layer.name]["chosen"]["gamma"] for layer in study.layers] == [0.5] * 7 + [1.0] * 14


@pytest.mark.parametrize(
    ("block", "changes", "words"),
    [
        (3, {}, "no block 3. Use 1 to 2"),
        (1, {"blocks": [1, 2]}, "no layer is quantized before block 1. Use 2 to 2"),
        (2, {"blocks": [0, 1]}, "no layer is quantized from block 2 on. Use 1 to 1"),
        (2, {"blocks": [0]}, "no layer is quantized from block 2 on. Leave from_block out"),
    ],
)
def test_the_block_must_part_the_layers(document, fresh_settings, block, changes, words):
    recipe = Recipe.parse(document | changes | {"from_block": block, "then_lambda": 0.3})
    with pytest.raises(Refused) as caught:
        prepare(recipe, fresh_settings)
    assert words in str(caught.value)
    assert caught.value.field == "from_block"
