"""Text side by side against float64 loops without a cache, and a model against itself."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from sarqc import Recipe, execute
from sarqc.engine.plan import plan
from sarqc.errors import NumericalError, Refused
from sarqc.evaluation import TEMPERATURE, TOP_P
from sarqc.evaluation import side_by_side as generation
from sarqc.evaluation.side_by_side import (
    compare_texts,
    continuation,
    continue_float,
    divergence,
    log_probabilities,
    pieces,
)
from sarqc.events import TextsCompared
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import LoadedModel, load
from sarqc.study.document import Study

IDS = np.array([0, 17, 300, 4, 99])


@pytest.fixture
def loaded(random_model: LoadedModel) -> LoadedModel:
    return random_model


@pytest.fixture
def worse(random_llama: Path) -> LoadedModel:
    """Return the same model with one layer disturbed, as quantization in place would leave it."""
    model = load(read_checkpoint(random_llama), torch.device("cpu"))
    weight = model.weight("model.layers.1.mlp.down_proj")
    weight += 0.15 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1))
    return model


def next_probabilities(model: LoadedModel, ids: list[int], temperature: float = 1.0) -> np.ndarray:
    """softmax(logits / temperature) of the token after ``ids``, in float64, from the whole text at once."""
    copy = AutoModelForCausalLM.from_config(model.model.config, dtype=torch.float64).eval()
    copy.load_state_dict(model.model.state_dict())
    with torch.no_grad():
        logits = copy(torch.tensor([ids]), use_cache=False).logits[0, -1].numpy()
    weights = np.exp((logits - logits.max()) / temperature)
    return weights / weights.sum()


def sampled_by_hand(model: LoadedModel, ids: np.ndarray, count: int, seed: int) -> list[int]:
    """Token by token: sort, keep the nucleus, walk the tokens in order of id until the number is used up."""
    noise = np.random.default_rng([seed, *ids.tolist()]).random(count)
    text = ids.tolist()
    for number in noise:
        p = next_probabilities(model, text, TEMPERATURE)
        kept, held = set(), 0.0
        for token in sorted(range(len(p)), key=lambda token: (-p[token], token)):
            if held >= TOP_P:
                break
            kept.add(token)
            held += p[token]
        left = number * sum(p[token] for token in kept)
        for token in sorted(kept):
            left -= p[token]
            if left < 0:
                break
        text.append(token)
    return text[len(ids) :]


def test_greedy_is_what_transformers_generates(loaded):
    expected = loaded.model.generate(torch.from_numpy(IDS)[None], max_new_tokens=12, do_sample=False)[0, len(IDS) :]
    assert continuation(loaded, IDS, 12, "greedy", seed=0) == expected.tolist()


def test_sampled_is_the_walk_by_hand(loaded):
    found = continuation(loaded, IDS, 8, "sampled", seed=5)
    assert found == sampled_by_hand(loaded, IDS, 8, 5)
    assert found != continuation(loaded, IDS, 8, "sampled", seed=6)
    assert continuation(loaded, IDS, 4, "sampled", seed=5) == found[:4]  # how far it goes changes no token


def test_kl_is_that_of_every_place_apart(loaded, worse):
    document = compare_texts(worse, IDS, 6, 3, continue_float(loaded, IDS, 6, 3))
    for mode in ("greedy", "sampled"):
        original = document[mode]["float"]["ids"]
        assert len(document[mode]["kl"]) == len(original) == 6
        for place, kl in enumerate(document[mode]["kl"]):
            p, q = (next_probabilities(model, [*IDS.tolist(), *original[:place]]) for model in (loaded, worse))
            assert kl == pytest.approx(sum(a * (np.log(a) - np.log(b)) for a, b in zip(p, q, strict=True)), abs=2e-5)
            assert kl > 1e-3  # of the size that the check above can tell
        assert document[mode]["quantized"]["ids"] == continuation(worse, IDS, 6, mode, 3)
    json.dumps(document, allow_nan=False)


def test_a_model_is_no_different_from_itself(loaded):
    document = compare_texts(loaded, IDS, 10, 0, continue_float(loaded, IDS, 10, 0))
    for mode in ("greedy", "sampled"):
        assert document[mode]["kl"] == [0.0] * 10
        assert document[mode]["divergence"] is None
        assert document[mode]["float"] == document[mode]["quantized"]


@pytest.mark.parametrize(
    ("one", "other", "at"),
    [([1, 2, 3], [1, 2, 3], None), ([1, 2, 3], [1, 9, 3], 1), ([4, 2], [1, 2], 0), ([1, 2, 7], [1, 2, 8], 2)],
)
def test_the_first_divergent_token(one, other, at):
    assert divergence(one, other) == at


def test_pieces_are_the_text(tiny_llama):
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama)
    text = " and so, they said “naïve” → 日本\nat the end."
    continued = tokenizer(text, add_special_tokens=False)["input_ids"]
    found = pieces(tokenizer, IDS, continued)
    assert "".join(found) == text
    assert len(found) == len(continued)
    assert "\N{REPLACEMENT CHARACTER}" not in "".join(found)


def test_the_end_of_a_text_is_its_last_token(loaded, monkeypatch):
    free = continuation(loaded, IDS, 8, "sampled", seed=0)
    end = free[3]
    monkeypatch.setattr(loaded.model.generation_config, "eos_token_id", [7, end])
    assert continuation(loaded, IDS, 8, "sampled", seed=0) == free[: free.index(end) + 1]


def test_predictions_that_are_no_numbers(loaded):
    loaded.weight("model.layers.0.mlp.down_proj")[0, 0] = float("nan")
    for work in (lambda: continuation(loaded, IDS, 2, "greedy", 0), lambda: log_probabilities(loaded, IDS, IDS)):
        with pytest.raises(NumericalError, match="not finite"):
            work()


@pytest.fixture
def document(random_llama: Path, text_file: Path) -> dict[str, object]:
    return {
        "model": str(random_llama), "bits": 2, "group_size": 16, "method": "rtn", "calibration": str(text_file),
        "samples": 1, "length": 16,
    }  # fmt: skip


@pytest.mark.thorough
def test_nothing_is_made_twice(document, fresh_settings, monkeypatch):
    document |= {"prompts": "one\ntwo", "new_tokens": 3}

    def compared(seed: int = 0) -> list[TextsCompared]:
        recipe = Recipe.parse(document | {"seed": seed})
        return [event for event in execute(recipe, fresh_settings) if isinstance(event, TextsCompared)]

    first = compared()
    assert [(event.prompt, event.index, event.total) for event in first] == [("one", 0, 2), ("two", 1, 2)]
    monkeypatch.setattr(generation, "continuation", None)  # anyone who calls it now fails
    assert compared() == first
    with pytest.raises(TypeError):
        compared(seed=1)


def test_a_run_compares_before_and_after(document, loaded, random_llama, fresh_settings):
    recipe = Recipe.parse(document | {"prompts": "The king, my lord\nShe", "new_tokens": 5})
    folder = fresh_settings.studies_dir()
    *events, finished = execute(recipe, fresh_settings, study_dir=folder, study_id="one")
    told = [event for event in events if event.type == "texts_compared"]
    assert [text["prompt"] for text in finished.summary["texts"]] == ["The king, my lord", "She"]
    assert finished.summary["texts"] == [event.comparison() for event in told]
    assert list(Study.open(folder / "one").lines[0].texts) == finished.summary["texts"]
    assert finished.summary["speed"] is None
    ids = np.array(AutoTokenizer.from_pretrained(random_llama)("She")["input_ids"])
    assert told[1].greedy["float"]["ids"] == continuation(loaded, ids, 5, "greedy", 0)
    assert max(told[1].greedy["kl"]) > 0


def test_prompts_are_refused_before_any_work(document, settings):
    for change, words in (
        ({"prompts": ["a", "king " * 100]}, "number 2.*Use a prompt of 80 tokens or less"),
        ({"prompts": ["a"], "new_tokens": 128}, "Use fewer than 128 new tokens"),
    ):
        with pytest.raises(Refused, match=words):
            plan(Recipe.parse(document | change), settings)
    assert plan(Recipe.parse(document | {"prompts": ["a"]}), settings).minutes > 0
