"""Efforts: the fields that they set, recipes with these fields instead, and what a model leaves out."""

import json
import math
from itertools import product

import pytest
import yaml
from fastapi.testclient import TestClient

from app import create_app
from sarqc.engine.plan import resolve
from sarqc.errors import Refused
from sarqc.quantization.methods import METHODS
from sarqc.recipe import EFFORTS, Recipe, expanded, without_defaults
from sarqc.recipe.texts import one_text
from tests.test_command_line import ROOT, answer, sarqc
from tests.test_recipe import LEAST

QUICK = {"range": "search"}
BALANCED = {"range": "search", "order": "activation", "refine": 1}
BEST = {
    "range": "joint", "order": "activation", "refine": 3, "refit": 3, "distill": 5, "distill_codes": True,
    "held_out_samples": 16,
}  # fmt: skip
UNDISTILLED = BEST | {"distill": 0, "distill_codes": False, "held_out_samples": 0}
CASES = [  # what is given, and what it means
    ({"effort": None}, {}),
    ({"effort": "quick"}, QUICK),
    ({"effort": "balanced"}, BALANCED),
    ({"effort": "best"}, BEST),
    ({"effort": "best", "method": "gptq+saliency"}, BEST),
    ({"effort": "best", "method": "gptaq", "samples": 9}, BEST | {"held_out_samples": 4}),
    ({"effort": "best", "samples": "1"}, BEST | {"held_out_samples": 1}),
    ({"effort": "balanced", "method": "rtn"}, {"range": "search", "refine": 1}),
    ({"effort": "best", "method": "awq"}, {"range": "joint", "refine": 3, "refit": 3}),  # which has no free scales
    ({"effort": "best", "method": "signround"}, QUICK),
    ({"effort": "best", "method": "omniquant"}, {}),
    ({"effort": "best", "layer": "model.layers.0.mlp.up_proj"}, UNDISTILLED),
    ({"effort": "best", "kind": "tune", "test": "t"}, UNDISTILLED),
    ({"effort": "best", "kind": "ladder", "test": "t"}, {}),
    ({"effort": "best", "method": "gptq", "quantized_checkpoint": "q"}, {"order": "activation", "refine": 3}),
    ({"effort": "best", "method": "as-found", "quantized_checkpoint": "q"}, {}),
    # Fields that are given stay, also where they are those of another effort or of none.
    ({"effort": "best", "refine": 1, "range": "minmax"}, BEST),
    ({"effort": "best", "distill": 0}, UNDISTILLED),
    ({"effort": "best", "distill": "0"}, UNDISTILLED),
    ({"effort": "best", "distill_codes": False}, BEST),
    ({"effort": "best", "held_out_samples": 3}, BEST),
    ({"effort": "quick", "refit": 2, "order": "activation"}, QUICK),
]


@pytest.mark.parametrize(("given", "meant"), CASES, ids=lambda case: ",".join(map(str, case.values())))
def test_an_effort_is_its_fields(given, meant):
    without = {name: value for name, value in given.items() if name != "effort"}
    asked, explicit = Recipe.parse(LEAST | given), Recipe.parse(LEAST | meant | without)
    assert asked.to_json() == explicit.to_json()
    assert "effort" not in asked.to_json()
    assert asked.fingerprint() == explicit.fingerprint()
    assert one_text("cli", LEAST | given, "") == one_text("cli", LEAST | meant | without, "")


@pytest.mark.parametrize("method", METHODS)
def test_a_recipe_says_which_effort_it_amounts_to(method):
    by_effort = {effort: Recipe.parse(LEAST | {"method": method, "effort": effort}) for effort in EFFORTS}
    if METHODS[method].make.unit == "block":  # what is learned has its own number of steps
        assert len({recipe.fingerprint() for recipe in by_effort.values()}) == 1
        assert {recipe.amounts_to() for recipe in by_effort.values()} == {None}
        return
    for effort, recipe in by_effort.items():
        kept = Recipe.parse(recipe.to_json())
        assert kept.amounts_to() == effort
        assert kept.model_copy(update={"refine": 7}).amounts_to() is None
    assert Recipe.parse(LEAST | {"method": method}).amounts_to() is None  # min-max is a choice of one's own
    undistilled = by_effort["best"].model_copy(update={"distill": 0, "distill_codes": False})
    assert undistilled.amounts_to(can_distill=False) == "best"


def test_efforts_that_are_alike_are_one():
    repair = Recipe.parse(LEAST | {"method": "gptq", "quantized_checkpoint": "q", "effort": "best"})
    assert list(repair.efforts()) == ["quick", "balanced", "best"]
    assert repair.amounts_to() == "best"
    learned = Recipe.parse(LEAST | {"method": "signround", "effort": "best"})
    assert learned.efforts() == {"quick": {"range": "search"}}
    assert learned.amounts_to() is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"effort": "fast"}, "effort is 'fast': it must be 'quick', 'balanced' or 'best'"),
        ({"held_out_samples": 0}, "judged by the predictions on held-out sequences, and there are none"),
        ({"method": "none"}, "unknown method"),
    ],
)
def test_what_is_wrong_is_refused(more, words):
    with pytest.raises(Refused, match=words):
        Recipe.parse(LEAST | {"effort": "best"} | more)


def test_an_effort_without_effect_is_named():
    for more, where in (({"method": "omniquant"}, " = best has no effect on omniquant"),
                        ({"kind": "ladder", "test": "t"}, " has no effect on a ladder")):  # fmt: skip
        assert Recipe.parse(LEAST | {"effort": "best"} | more).ignored() == [f"Effort{where}"]


@pytest.mark.parametrize(
    "more",
    [
        {"effort": ["quick", "best"]},
        {"effort": "best", "method": ["rtn", "gptq", "omniquant"]},
        {"effort": ["balanced", "best"], "lambda": [0, 0.1], "refine": 1},
        {"effort": "best", "samples": [4, 8], "refit": 0},
    ],
)
def test_a_batch_keeps_its_effort(more):
    batch = LEAST | more
    said = without_defaults(batch)
    assert [recipe.to_json() for recipe in expanded(said).values()] == [
        recipe.to_json() for recipe in expanded(batch).values()
    ]
    assert said["effort"] == more["effort"]
    assert expanded(yaml.safe_load(one_text("yaml", batch, ""))).keys() == expanded(batch).keys()


def test_the_documents_have_what_was_measured():
    rows = json.loads((ROOT / "docs" / "efforts.json").read_text())["rows"]
    words = (ROOT / "docs" / "algorithms.md").read_text().partition("### Effort")[2]
    for bits, effort in product({row["bits"] for row in rows}, EFFORTS):
        line = next(line for line in words.splitlines() if line.startswith(f"| `{effort}` | {bits} |"))
        said = [cell.strip() for cell in line.split("|")[3:7]]
        for model, perplexity, seconds in (("tiny-llama", *said[:2]), ("tiny-moe", *said[2:])):
            where = (model, bits)
            of = {
                by: [row for row in rows if (row["model"], row["bits"]) == where and row["by"] == by]
                for by in ("gptq", effort)
            }
            means = {by: math.prod(math.exp(row["ln_perplexity"]) for row in of[by]) ** (1 / len(of[by])) for by in of}
            assert perplexity == f"−{100 - 100 * means[effort] / means['gptq']:.1f} %"
            taken = {by: math.fsum(row["seconds"] for row in of[by]) for by in of}
            assert seconds == f"{taken[effort] / taken['gptq']:.1f} ×"


def test_a_mixture_is_distilled_block_by_block(settings):
    document = {"model": "tiny-moe", "calibration": "tiny-moe-calibration"}
    job = resolve(Recipe.parse(document | {"effort": "best"}), settings)
    assert (job.recipe.distill, job.recipe.distill_by, job.recipe.effort) == (5, "block", None)
    assert (job.plan.effort, job.plan.fitting["distill"]) == ("best", 5)
    assert job.plan.fitting["distill_by"] == "block"
    assert job.plan.warnings[0].startswith("effort best distills scales block by block: distillation by the")
    assert job.prepared.recipe == job.recipe
    kept = resolve(job.recipe, settings)
    assert (kept.recipe, kept.plan.effort) == (job.recipe, "best")
    with pytest.raises(Refused, match="not available for mixtures"):  # asked for by itself
        resolve(Recipe.parse(document | {"effort": "best", "distill": 4, "held_out_samples": 2}), settings)


def test_a_streamed_model_is_distilled_block_by_block(settings):
    streamed = settings.model_copy(update={"weights": "streamed"})
    job = resolve(Recipe.parse(LEAST | {"effort": "best"}), streamed)
    assert (job.recipe.distill, job.recipe.distill_by, job.plan.effort) == (5, "block", "best")
    assert "needs it with its gradients in memory" in job.plan.warnings[0]


def test_over_rest(fresh_settings):
    app = create_app(
        fresh_settings.model_copy(update={"hosts": "testserver"}),
        execute="tests.jobs.fake_runs:quick",
        with_pages=False,
    )
    with TestClient(app) as client:
        plans = {effort: client.post("/api/plan", json=LEAST | {"effort": effort}).json() for effort in EFFORTS}
        assert {effort: plan["fitting"] for effort, plan in plans.items()} == EFFORTS
        assert {effort: plan["effort"] for effort, plan in plans.items()} == {effort: effort for effort in EFFORTS}
        minutes = [plan["minutes"] for plan in plans.values()]
        assert minutes == sorted(minutes)
        run = client.post("/api/runs", json=LEAST | {"effort": "balanced"}).json()
        assert run["recipe"] == Recipe.parse(LEAST | BALANCED).to_json()


def test_on_the_command_line(random_llama, text_file, tmp_path):
    flags = [
        "--model", str(random_llama), "--calibration", str(text_file), "--bits", "2", "--group-size", "16",
        "--samples", "2", "--length", "32", "--effort", "balanced", "--refine", "2",
    ]  # fmt: skip
    recipe = answer("quantize", *flags, SARQC_STATE_DIR=str(tmp_path))["recipe"]
    assert "effort" not in recipe
    assert (recipe["range"], recipe["order"], recipe["refine"]) == ("search", "activation", 2)
    assert "--effort" in sarqc("tune", "--help").stdout
    for command in ("ladder", "inspect"):
        assert "--effort" not in sarqc(command, "--help").stdout
