"""The pretrained model that hosts are given: two of its blocks, quantized on some hundred tokens."""

import math
from pathlib import Path

import pytest

from sarqc import Recipe, execute
from sarqc.events import Finished
from sarqc.models import catalogue
from sarqc.models.checkpoint import read_checkpoint
from sarqc.settings import SITE, Settings

PLACE = SITE / "build" / "pretrained"
pytestmark = pytest.mark.skipif(
    not (PLACE / "smollm2-135m-instruct").is_dir(), reason="make pretrained could not fetch it"
)


@pytest.fixture
def host(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path, pretrained_dir=PLACE, device="cpu")


def test_it_stands_behind_the_models_of_the_app_and_says_what_was_lost(host):
    entries = catalogue.offered(host)
    names = [entry.name for entry in entries if entry.where == "embedded"]
    assert names == ["tiny-llama", "tiny-moe", "smollm2-135m-instruct"]
    entry = entries[2]
    assert (entry.family, entry.parameters) == ("LLaMA, dense", 134_515_008)
    assert "quantized once" in entry.description
    assert "Apache-2.0" in entry.description
    assert "calibration" not in entry.suggested
    origin = read_checkpoint(PLACE / entry.name).origin
    assert origin is not None
    assert origin.types == ("Q4_1",)
    assert origin.sha256 == ("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",)


def test_its_tokens_are_those_of_its_authors(host):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(PLACE / "smollm2-135m-instruct")
    # Each digit by itself, words with their space before, contractions apart.
    assert tokenizer.tokenize("It's 1984, isn't it?") == [
        "It", "'s", "Ġ", "1", "9", "8", "4", ",", "Ġisn", "'t", "Ġit", "?"
    ]  # fmt: skip
    text = "def f(x):\n    return x ** 2  # naïve, 3.14 — “quoted”\n"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


@pytest.mark.thorough
def test_two_blocks_are_quantized(host):
    recipe = Recipe(
        model="smollm2-135m-instruct", bits=3, group_size=64, method="sarqc-gbs", lam=0.1, gamma=0.1, blocks=(0, 29),
        calibration="tiny-llama-calibration", samples=2, length=128, test="tiny-llama-test", test_tokens=256,
        window=128, baseline=False,
    )  # fmt: skip
    (finished,) = (event for event in execute(recipe, host) if isinstance(event, Finished))
    summary = finished.summary
    assert summary["quantized_layers"] == 14
    assert summary["perplexity"] is not None
    assert summary["perplexity_float"] is not None
    assert 1 < summary["perplexity_float"] < 5000
    assert abs(math.log(summary["perplexity"] / summary["perplexity_float"])) < 1
    assert "Q4_1" in summary["protocol"]["weights"]
