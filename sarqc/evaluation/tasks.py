"""Zero-shot accuracy through lm-eval: its own tasks by name, and the multiple-choice tasks of embedded models.

lm-eval is imported where it is used: it is heavy, and an extra.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sarqc.errors import Refused
from sarqc.models.catalogue import embedded_models
from sarqc.settings import Settings

if TYPE_CHECKING:  # a plan asks for tasks without loading torch
    from sarqc.models.loading import LoadedModel


@dataclass(frozen=True)
class Accuracy:
    """One task's accuracy with its standard error over items; ``correct`` is 0 or 1 for each item, in order."""

    task: str
    value: float
    standard_error: float
    correct: tuple[int, ...]
    protocol: dict[str, Any]


def embedded_tasks(settings: Settings) -> dict[str, Path]:
    """Files of the multiple-choice tasks that ship with embedded models, by task name."""
    return {
        name: folder / task["file"]
        for folder, model in embedded_models(settings).values()
        for name, task in model.tasks.items()
    }


def known_task(name: str, settings: Settings) -> None:
    """Returns when it is a single task that exists; raises ``Refused`` naming the embedded ones when it is not."""
    if name in embedded_tasks(settings):
        return
    if name not in _published_tasks():
        raise Refused(
            f"there is no single task “{name}”",
            "tasks",
            f"Give one of {', '.join(embedded_tasks(settings))}, or a task of lm-eval such as piqa.",
        )


def measure_accuracy(
    loaded: LoadedModel, name: str, settings: Settings, *, limit: int | None = None, batch_size: int = 32
) -> Accuracy:
    """Accuracy of the model as it is now on one task, zero-shot, with lm-eval's ``acc``.

    The standard error is the binomial one over items. A ``limit`` is marked in the protocol.
    """
    from lm_eval import __version__, simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    files = embedded_tasks(settings)

    class Quiet(HFLM):
        """lm-eval's model without its own progress bar: progress is ours to tell, in events."""

        def loglikelihood(self, requests: list[Any], disable_tqdm: bool = True) -> list[Any]:
            return super().loglikelihood(requests, disable_tqdm=True)

    wrapped = Quiet(
        pretrained=loaded.model,
        tokenizer=loaded.tokenizer,
        batch_size=batch_size,
        max_length=loaded.checkpoint.max_positions,
    )
    results = simple_evaluate(
        model=wrapped,
        tasks=[_task_config(name, files[name]) if name in files else name],
        num_fewshot=0,
        limit=limit,
        bootstrap_iters=0,
        log_samples=True,
        task_manager=_Shared.get(TaskManager),
    )
    samples = sorted(results["samples"][name], key=lambda sample: sample["doc_id"])
    if not samples or "acc" not in samples[0]:
        raise Refused(f"the task “{name}” has no accuracy for single items", "tasks", "Take a multiple-choice task.")
    correct = tuple(int(sample["acc"]) for sample in samples)
    value = sum(correct) / len(correct)
    return Accuracy(
        task=name,
        value=value,
        standard_error=math.sqrt(value * (1 - value) / max(len(correct) - 1, 1)),
        correct=correct,
        protocol={"task": name, "items": len(correct), "limit": limit, "metric": "acc", "few_shot": 0,
                  "lm_eval": __version__},
    )  # fmt: skip


class _Shared:
    """lm-eval's task index takes seconds to build and does not change while the process lives."""

    _manager: Any = None

    @classmethod
    def get(cls, make: Callable[[], Any]) -> Any:
        if cls._manager is None:
            cls._manager = make()
        return cls._manager


def _published_tasks() -> set[str]:
    from lm_eval.tasks import TaskManager

    return set(_Shared.get(TaskManager).all_subtasks)  # single tasks; groups have no items of their own


def _task_config(name: str, file: Path) -> dict[str, Any]:
    """lm-eval's configuration of a task whose items are lines {"context", "choices", "answer"} of a file."""

    def dataset(**_: Any) -> dict[str, Any]:
        from datasets import Dataset

        lines = file.read_text(encoding="utf-8").splitlines()
        return {"test": Dataset.from_list([json.loads(line) for line in lines])}

    return {
        "task": name,
        "custom_dataset": dataset,
        "output_type": "multiple_choice",
        "test_split": "test",
        "doc_to_text": "{{context}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{answer}}",
        "target_delimiter": "",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
