"""The model card says what was done and measured, and nothing else; both kinds of export have it."""

from pathlib import Path

import pytest
import yaml

from sarqc import Recipe, execute
from sarqc.checkpoints.formats import FORMATS, who_can_load
from sarqc.checkpoints.model_card import model_card


@pytest.fixture
def document(random_llama: Path, text_file: Path) -> dict[str, object]:
    return {
        "model": str(random_llama), "bits": 3, "grid": "symmetric", "group_size": 16, "method": "sarqc-gbs",
        "lambda": 0.3, "gamma": 0.5, "calibration": str(text_file), "samples": 4, "length": 32,
        "test": str(text_file), "window": 64, "test_tokens": 500, "baseline": False,
    }  # fmt: skip


def recipe_in(card: str) -> Recipe:
    return Recipe.parse(yaml.safe_load(card.split("```yaml\n")[1].split("```")[0]))


def rows_of(card: str, heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading, without its head."""
    lines = [line for line in card.split(f"## {heading}\n")[1].split("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.thorough
@pytest.mark.parametrize("checkpoint_format", ["plain", "packed"])
def test_a_run_s_card(document, fresh_settings, tmp_path, checkpoint_format):
    recipe = Recipe.parse(document)
    *_, finished = execute(
        recipe, fresh_settings, checkpoint_dir=tmp_path / "model", checkpoint_format=checkpoint_format
    )  # fmt: skip
    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    assert card == model_card(recipe, finished.summary, checkpoint_format)
    assert yaml.safe_load(card.split("---")[1]) == {"library_name": "transformers"}
    local = {name: Path(str(document[name])).name for name in ("model", "calibration", "test")}
    assert recipe_in(card) == Recipe.parse(document | local)  # names of this host's files, without where they are
    assert str(Path(str(document["model"])).parent) not in card
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()} == {0o644}
    name, quantized, original = rows_of(card, "What was measured")[0]
    assert name == f"perplexity, {local['test']}"
    assert float(quantized) == pytest.approx(finished.summary["perplexity"], rel=1e-4)
    assert float(original) == pytest.approx(finished.summary["perplexity_float"], rel=1e-4)
    for words in ("window 64", "only_the_first_tokens 500", "predicted_tokens 441"):
        assert words in card
    assert f"{finished.summary['share_quantized']:.1%} of the parameters" in card
    assert "21 linear layers" in card
    rows = rows_of(card, "Who can load it")
    assert [row[0].endswith("this folder") for row in rows] == [one == checkpoint_format for one in FORMATS]
    assert [row[2] for row in rows] == [row.note for row in who_can_load(recipe, is_mixture=False)]
    assert finished.summary["written"]["words"] in card


def a_summary(**changes: object) -> dict[str, object]:
    return {
        "device": "cpu", "share_quantized": 0.5, "selection": None, "perplexity": None, "perplexity_float": None,
        "protocol": {"calibration": {"corpus": "text"}, "test": None, "versions": {"torch": "2"}}, "tasks": {},
        "quantized_layers": 7,
    } | changes  # fmt: skip


def test_how_far_the_model_is_from_the_original_is_told(document):
    far = {"log_ratio": 0.2391, "log_ratio_standard_error": 0.0085, "kl": 0.324, "kl_standard_error": None,
           "kl_99": 1.757, "same_top": 0.5932, "same_top_standard_error": 0.0046}  # fmt: skip
    selection = {"by": "model", "lambda": 1, "edge": "λ = 1 is the largest of the candidates."}
    summary = a_summary(**far, baseline={"words": "2.1 % lower perplexity than GPTQ 1 %."}, selection=selection)
    card = model_card(Recipe.parse(document), summary, "plain")
    assert [row[:2] for row in rows_of(card, "What was measured")] == [
        ["ln(ppl / float)", "0.2391 ± 0.0085"],
        ["KL from float", "0.3240 nats a token, 99th percentile 1.76"],
        ["same top token", "59.3% ± 0.5%"],
    ]
    assert "2.1 % lower perplexity than GPTQ 1 %." in card
    assert selection["edge"] in card


def test_nothing_measured_nothing_claimed(document):
    card = model_card(Recipe.parse(document | {"test": None}), a_summary(), "plain")
    assert "Nothing was measured." in card
    assert rows_of(card, "What was measured") == []
    assert "Calibration: corpus text" in card


def test_tasks_and_auto_are_told(document):
    task = {
        "quantized": {"accuracy": 0.25, "standard_error": 0.01},
        "float": {"accuracy": 0.5, "standard_error": 0.02},
        "protocol": {"task": "some", "items": 100},
    }
    recipe = Recipe.parse(document | {"method": "sarqc-gs", "lambda": "auto", "gamma": None, "mode": "foldable"})
    summary = a_summary(tasks={"some": task}, selection={"by": "model", "lambda": 0.3})
    card = model_card(recipe, summary, "packed")
    assert rows_of(card, "What was measured") == [["accuracy, some", "25.0% ± 1.0%", "50.0% ± 2.0%"]]
    assert "Accuracy, some: task some, items 100" in card
    assert "λ = 0.3 for the whole model" in card
    assert "took up the channel scales" in card


def test_experts_that_saw_little_are_told(document):
    dense = model_card(Recipe.parse(document), a_summary(experts=None), "plain")
    assert "experts" not in dense
    counted = {"no_tokens": 1, "words": "Of 8 experts, 1 saw none of 64 calibration tokens."}
    card = model_card(Recipe.parse(document), a_summary(experts=counted), "plain")
    assert "Of 8 experts, 1 saw none of 64 calibration tokens. Linears that no token reached are rounded" in card
    learned = Recipe.parse(document | {"method": "omniquant", "lambda": None, "gamma": None})
    assert "rounded" not in model_card(learned, a_summary(experts=counted), "plain")  # learned with their block
    assert "rounded" not in model_card(Recipe.parse(document), a_summary(experts=counted | {"no_tokens": 0}), "plain")


def test_the_reason_is_told_where_a_format_can_t_carry_it(document):
    card = model_card(Recipe.parse(document | {"grid": "asymmetric"}), a_summary(), "plain")
    readers = {row[0].split()[0]: row[1:] for row in rows_of(card, "Who can load it")}
    assert readers["plain"][0] != "none"
    assert readers["packed"][0] == "none"
    assert "zero points" in readers["packed"][1]


def test_speed_is_given_with_its_kernel_or_the_lack_of_one(document, fresh_settings):
    recipe = Recipe.parse(document | {"samples": 1, "test": None, "method": "rtn", "lambda": None, "gamma": None})
    *_, finished = execute(recipe, fresh_settings)
    rates = {"prefill": 2000.0, "decode": 25.0}
    speed = {"float": rates, "quantized": None, "kernel": None, "reason": "no kernel for 3 bits"}
    speed["protocol"] = {"batch": 1}
    card = model_card(recipe, finished.summary | {"speed": speed}, "plain")
    assert ["decoding, tokens per second", "not measured", "25"] in rows_of(card, "What was measured")
    assert "- Speed: quantized not measured, no kernel for 3 bits, batch 1" in card
    measured = speed | {"quantized": rates, "kernel": "k", "reason": ""}
    card = model_card(recipe, finished.summary | {"speed": measured}, "plain")
    assert ["prefill, tokens per second", "2000", "2000"] in rows_of(card, "What was measured")
    assert "- Speed: kernel k, batch 1" in card
