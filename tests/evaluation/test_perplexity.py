"""Perplexity against a float64 loop over tokens."""

from __future__ import annotations

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
from sarqc.evaluation.perplexity import measure_perplexity
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import LoadedModel, load


@pytest.fixture
def loaded(random_llama: Path) -> LoadedModel:
    return load(read_checkpoint(random_llama), torch.device("cpu"))


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


@pytest.mark.parametrize(("tokens", "window"), [(200, 50), (209, 50), (64, 64), (64, 2)])
@pytest.mark.parametrize("logit_bytes", [1, 1 << 28])
def test_equals_the_loop(
    loaded: LoadedModel, random_llama: Path, monkeypatch: pytest.MonkeyPatch, tokens: int, window: int, logit_bytes: int
) -> None:
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
def test_a_window_with_more_logits_than_planned_is_measured_in_stretches(
    random_llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weights: str
) -> None:
    """256 positions of 4,096 float32 are 4 MiB."""
    monkeypatch.setattr(perplexity, "LOGIT_BYTES", 1 << 20)
    monkeypatch.setattr(perplexity, "LOSS_BYTES", 1 << 19)
    scratch = tmp_path if weights == "streamed" else None
    loaded = load(read_checkpoint(random_llama), torch.device("cpu"), scratch=scratch)
    ids = np.random.default_rng(0).integers(0, 4096, 300)
    with Largest() as largest:
        found = measure_perplexity(loaded, ids, "noise", 256)
    assert largest.size == 1 << 20
    assert found.value == pytest.approx(oracle(random_llama, ids, 256), rel=1e-5)


def test_a_text_shorter_than_a_window_is_one_window(loaded: LoadedModel, random_llama: Path) -> None:
    ids = np.arange(30)
    found = measure_perplexity(loaded, ids, "short", 100)
    assert found.value == pytest.approx(oracle(random_llama, ids, 30), rel=1e-5)
    assert found.protocol["window"] == 30


def test_one_token_is_refused(loaded: LoadedModel) -> None:
    with pytest.raises(Refused, match="1 tokens"):
        measure_perplexity(loaded, np.arange(1), "short", 100)


def test_nan_is_an_error(loaded: LoadedModel) -> None:
    loaded.model.model.norm.weight.data[0] = float("nan")
    with pytest.raises(NumericalError):
        measure_perplexity(loaded, np.arange(30), "short", 100)
