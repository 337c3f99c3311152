"""Perplexity against a float64 loop over tokens."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM

from sarqc.errors import NumericalError, Refused
from sarqc.evaluation import perplexity
from sarqc.evaluation.perplexity import drain, measure_perplexity, perplexity_steps, states_of
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import LoadedModel, load


@pytest.fixture
def loaded(random_model: LoadedModel) -> LoadedModel:
    return random_model


def oracle(folder: Path, ids: np.ndarray, window: int) -> float:
    """exp of minus the mean log-probability, token by token in float64, each window on its own."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    logs = []
    for start in range(0, len(ids) - window + 1, window):
        part = ids[start : start + window]
        with torch.no_grad():
            probabilities = model(torch.tensor([part.tolist()])).logits[0].softmax(-1).numpy()
        logs += [math.log(probabilities[position, part[position + 1]]) for position in range(window - 1)]
    return math.exp(-sum(logs) / len(logs))


@pytest.mark.thorough
@pytest.mark.parametrize(("tokens", "window"), [(200, 50), (209, 50), (64, 64), (64, 2)])
@pytest.mark.parametrize("logit_bytes", [1, 1 << 28])
def test_equals_the_loop(loaded, random_llama, monkeypatch, tokens, window, logit_bytes):
    monkeypatch.setattr(perplexity, "LOGIT_BYTES", logit_bytes)
    ids = np.random.default_rng(0).integers(0, 4096, tokens)
    found = measure_perplexity(loaded, ids, "noise", window)
    assert found.value == pytest.approx(oracle(random_llama, ids, window), rel=1e-5)
    assert found.protocol["windows"] == tokens // window
    assert found.protocol["predicted_tokens"] == tokens // window * (window - 1)
    assert found.protocol["dtype"] == "float32"


class Largest(TorchDispatchMode):
    """Notes the bytes of the largest tensor that any operation makes."""

    size = 0

    def __torch_dispatch__(self, function: Any, types: Any, given: Any = (), named: Any = None) -> Any:
        made = function(*given, **(named or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor):
                self.size = max(self.size, tensor.nbytes)
        return made


@pytest.mark.parametrize("weights", ["resident", "streamed"])
def test_a_window_with_more_logits_than_planned_is_measured_in_stretches(random_llama, tmp_path, monkeypatch, weights):
    """256 positions of 4,096 float32 are 4 MiB."""
    monkeypatch.setattr(perplexity, "LOGIT_BYTES", 1 << 20)
    monkeypatch.setattr(perplexity, "loss_bytes", lambda on_processor: 1 << 19)
    scratch = tmp_path if weights == "streamed" else None
    loaded = load(read_checkpoint(random_llama), torch.device("cpu"), scratch=scratch)
    ids = np.random.default_rng(0).integers(0, 4096, 300)
    with Largest() as largest:
        found = measure_perplexity(loaded, ids, "noise", 256)
    assert largest.size == 1 << 20
    assert found.value == pytest.approx(oracle(random_llama, ids, 256), rel=1e-5)


def test_a_text_shorter_than_a_window_is_one_window(loaded, random_llama):
    ids = np.arange(30)
    found = measure_perplexity(loaded, ids, "short", 100)
    assert found.value == pytest.approx(oracle(random_llama, ids, 30), rel=1e-5)
    assert found.protocol["window"] == 30


def test_one_token_is_refused(loaded):
    with pytest.raises(Refused, match="1 tokens"):
        measure_perplexity(loaded, np.arange(1), "short", 100)


def test_nan_is_an_error(loaded):
    loaded.model.model.norm.weight.data[0] = float("nan")
    with pytest.raises(NumericalError):
        measure_perplexity(loaded, np.arange(30), "short", 100)


def probabilities(folder: Path, ids: np.ndarray, window: int, change: float) -> np.ndarray:
    """Return the predictions of a float64 model with changed linears: (windows, tokens, vocabulary)."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    scale_layers(model, change)
    with torch.no_grad():
        return model(torch.from_numpy(ids.reshape(-1, window))).logits.softmax(-1).numpy()


def scale_layers(model: torch.nn.Module, change: float) -> None:
    for name, weight in model.named_parameters():
        if "_proj" in name:
            weight.data *= 1 + change


@pytest.mark.thorough
@pytest.mark.parametrize("logit_bytes", [1, 1 << 28])
def test_how_far_from_the_float_model(loaded, random_llama, monkeypatch, logit_bytes):
    monkeypatch.setattr(perplexity, "LOGIT_BYTES", logit_bytes)
    ids = np.random.default_rng(1).integers(0, 4096, 200)
    states = states_of(loaded, ids, "noise", 50)
    value, none = drain(perplexity_steps(loaded, ids, "noise", 50, states))
    assert value == measure_perplexity(loaded, ids, "noise", 50)
    assert (none.kl.mean, none.kl_99, none.log_ratio.mean, none.same_top.mean) == (0, 0, 0, 1)
    scale_layers(loaded.model, 0.5)
    value, found = drain(perplexity_steps(loaded, ids, "noise", 50, states))
    assert value == measure_perplexity(loaded, ids, "noise", 50)

    p, q = (probabilities(random_llama, ids, 50, change)[:, :-1] for change in (0.0, 0.5))
    following = ids.reshape(-1, 50)[:, 1:, None]
    ratio = np.log(np.take_along_axis(p, following, -1) / np.take_along_axis(q, following, -1))[..., 0]
    kl = (p * np.log(p / q)).sum(-1)
    same = p.argmax(-1) == q.argmax(-1)
    assert 0 < same.mean() < 1
    assert kl.mean() > 1e-3
    for estimate, values in ((found.log_ratio, ratio), (found.kl, kl), (found.same_top, same)):
        assert estimate.mean == pytest.approx(values.mean(), rel=1e-4)
        by_window = values.mean(axis=1)
        assert estimate.error == pytest.approx(np.sqrt(by_window.var(ddof=1) / 4), rel=1e-3)
    assert found.kl_99 == pytest.approx(np.percentile(kl, 99), rel=1e-4)
    assert found.log_ratio.mean == pytest.approx(math.log(value.value / oracle(random_llama, ids, 50)), rel=1e-4)


def test_one_window_has_no_standard_error(loaded):
    ids = np.arange(30)
    _, found = drain(perplexity_steps(loaded, ids, "short", 100, states_of(loaded, ids, "short", 100)))
    assert math.isnan(found.kl.error)


def test_a_model_with_another_head_is_compared_with_the_float_models_own(loaded):
    ids = np.random.default_rng(0).integers(0, 4096, 200)
    states = states_of(loaded, ids, "noise", 50)
    original = measure_perplexity(loaded, ids, "noise", 50).value
    name = f"{loaded.family.embedding}.weight"  # which is the head too
    loaded.replace({name: 1.2 * loaded.model.get_parameter(name)})
    changed, found = drain(perplexity_steps(loaded, ids, "noise", 50, states))
    assert changed.value != original
    assert found.log_ratio.mean == pytest.approx(math.log(changed.value / original), rel=1e-4)
    assert found.kl.mean == pytest.approx(np.mean(found.kls))
    loaded.reset()
    assert measure_perplexity(loaded, ids, "noise", 50).value == original
