"""Accuracy through the real lm-eval against log-likelihoods summed by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from sarqc.errors import Refused
from sarqc.evaluation.tasks import embedded_tasks, known_task, measure_accuracy
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import load
from sarqc.settings import Settings

TASK = "tiny-llama-continuations"


def test_equals_the_most_likely_choice(settings: Settings, tiny_llama: Path) -> None:
    limit = 24
    items = [json.loads(line) for line in embedded_tasks(settings)[TASK].read_text(encoding="utf-8").splitlines()]
    model, tokenizer = AutoModelForCausalLM.from_pretrained(tiny_llama), AutoTokenizer.from_pretrained(tiny_llama)
    expected = []
    for item in items[:limit]:
        scores = []
        for choice in item["choices"]:
            whole = tokenizer(item["context"] + choice)["input_ids"]
            given = len(tokenizer(item["context"])["input_ids"])
            with torch.no_grad():
                logs = model(torch.tensor([whole])).logits[0].double().log_softmax(-1)
            scores.append(sum(float(logs[i - 1, whole[i]]) for i in range(given, len(whole))))
        expected.append(int(scores.index(max(scores)) == item["answer"]))
    found = measure_accuracy(load(read_checkpoint(tiny_llama), torch.device("cpu")), TASK, settings, limit=limit)
    assert list(found.correct) == expected
    assert found.value == sum(expected) / limit
    assert found.standard_error == pytest.approx(math.sqrt(found.value * (1 - found.value) / (limit - 1)))
    assert found.protocol["limit"] == limit


def test_items_are_sound(settings: Settings) -> None:
    items = [json.loads(line) for line in embedded_tasks(settings)[TASK].read_text(encoding="utf-8").splitlines()]
    assert len(items) == 120
    assert all(len(set(item["choices"])) == 4 and 0 <= item["answer"] < 4 for item in items)
    assert all(sum(item["answer"] == place for item in items) > 15 for place in range(4))


def test_an_unknown_task_names_ours(settings: Settings) -> None:
    known_task(TASK, settings)
    known_task("piqa", settings)
    for name in ("no-such-task", "mmlu"):  # the latter is a group of tasks
        with pytest.raises(Refused, match=TASK):
            known_task(name, settings)
