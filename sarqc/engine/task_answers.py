"""Answers of quantized models on tasks: for the λ that a tuning run can't tell apart by perplexity."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sarqc.engine.keys import tuning_key
from sarqc.engine.trials import Check, Draw, Solution, grids_as_values, judge_points, quantized_by
from sarqc.evaluation.tasks import items_key, measure_accuracy
from sarqc.quantization.methods import Method
from sarqc.study.paired import Difference, mean_of, paired_items

_ANSWERS = ".answers"


@dataclass(frozen=True)
class TaskAnswers:
    """A model's answers: 0 or 1 for each item of each task, with the seconds that quantizing and asking took."""

    correct: tuple[tuple[int, ...], ...]
    seconds: float

    def accuracy(self) -> float:
        """Return the mean over the tasks."""
        return float(np.mean([np.mean(items) for items in self.correct]))


def answers_of(draw: Draw, points: Sequence[Method], check: Check = bool) -> Iterator[tuple[int, TaskAnswers]]:
    """Quantize the model at each point, which are of one family, and ask it the recipe's tasks; yield positions with
    answers, stored ones first. The model is float before and after each. ``check`` is called between parts of
    the work; an error of it ends them.
    """
    ground = draw.ground
    bench, recipe = ground.bench, ground.prepared.recipe
    items = [items_key(task, bench.settings) for task in recipe.tasks]
    keys = [
        tuning_key(
            "answers",
            draw.keys(),
            grids_as_values(ground),
            [point],
            recipe.tasks,
            recipe.task_limit,
            items,
            bench.model.key,
            bench.model.text_key,
        )
        for point in points
    ]

    def judge(solution: Solution) -> bytes:
        began = time.perf_counter()
        with quantized_by(ground, solution) as loaded:
            correct = tuple(
                measure_accuracy(
                    loaded, task, bench.settings, limit=recipe.task_limit, tell=lambda _done, _total: check()
                ).correct
                for task in recipe.tasks
            )
        document = {"correct": correct, "seconds": solution.seconds + time.perf_counter() - began}
        return json.dumps(document).encode()

    for index, payload in judge_points(draw, points, keys, _ANSWERS, judge, check=check):
        answers = json.loads(payload)
        yield index, TaskAnswers(tuple(map(tuple, answers["correct"])), answers["seconds"])


def difference(answers: Sequence[TaskAnswers], reference: Sequence[TaskAnswers] | None) -> Difference:
    """Return accuracy, or how much higher it is than a reference's in the same draws: the mean over tasks, with its
    error over items and draws.
    """
    differences = []
    for task in range(len(answers[0].correct)):
        correct = np.array([answer.correct[task] for answer in answers])  # draws, items
        baseline = (
            np.zeros_like(correct) if reference is None else np.array([answer.correct[task] for answer in reference])
        )
        differences.append(paired_items(correct, baseline))
    return mean_of(differences)
