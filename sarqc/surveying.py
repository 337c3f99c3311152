"""Conducting a survey: every point as a whole model, all lines on the same draws, so that differences can be paired."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from sarqc.artefacts import ArtefactStore, chain_key
from sarqc.calibration.capture import collect
from sarqc.calibration.corpora import Sequences, described, draw_sequences, read_corpus, token_ids
from sarqc.calibration.pipeline import calibrate, layer_keys, model_fingerprint
from sarqc.calibration.plan import LayerCurve, SolvedLayer
from sarqc.calibration.solving import solve_curve
from sarqc.evaluation.perplexity import measure_perplexity
from sarqc.evaluation.tasks import items_key, measure_accuracy
from sarqc.execution import MEASUREMENT_FORMAT
from sarqc.model_selection import select_for_model
from sarqc.models.catalogue import fetch
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import LoadedModel, choose_device, load
from sarqc.models.walk import BlockWalk
from sarqc.planning import calibration_plan
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import METHODS, method
from sarqc.quantization.solve import sweep_layer
from sarqc.settings import Settings
from sarqc.study import Line, ModelFacts, Study, StudyWriter
from sarqc.study_lines import (
    joined,
    now,
    versions,
)
from sarqc.survey import LineResult, Survey, SurveyLine, recipe_for


def conduct(survey: Survey, settings: Settings, folder: Path) -> Iterator[str]:
    """Makes the study in ``folder`` and yields a line of progress for each point.

    Measurements, and under a quantized prefix finished layers too, are kept as artefacts: a survey that was stopped
    continues where it was.
    """
    work = _Work(survey, settings)
    yield f"float model: perplexity {work.float_perplexity:.4f}, accuracy {work.float_accuracy:.4f}"
    results = [LineResult(survey, line, work.items) for line in survey.lines]
    started, done = time.perf_counter(), 0
    total = sum(int(np.prod(line.shape)) for line in survey.lines) * len(survey.draws)
    for draw, seed in enumerate(survey.draws):
        work.draw(seed)
        for line, result in zip(survey.lines, results, strict=True):
            for point in work.quantized_models(line, seed, result):
                perplexity, correct = work.evaluate()
                result.measured(draw, point, perplexity, correct)
                done += 1
                where = f"draw {seed}, {line.bits} bits, {line.method}, {result.point_text(point)}"
                yield f"{done}/{total} {time.perf_counter() - started:.0f} s: {where}: perplexity {perplexity:.3f}"
    writer = StudyWriter(folder)
    try:
        writer.finish(work.study(folder.name, [result.line(writer) for result in results]))
    finally:
        writer.discard()
    yield f"study written to {folder}"


class _Work:
    """The loaded model with what every point of the survey shares."""

    def __init__(self, survey: Survey, settings: Settings) -> None:
        self.survey, self.settings = survey, settings
        self.checkpoint = read_checkpoint(fetch(survey.model, None, settings, download=True))
        self.loaded: LoadedModel = load(self.checkpoint, choose_device(settings.device))
        self.store = ArtefactStore(settings.artefacts_dir())
        self.calibration_ids = self._ids(survey.calibration)
        self.test_ids = self._ids(survey.test)
        self.held_out = draw_sequences(
            self._ids(survey.held_out), described(survey.held_out, settings), samples=survey.held_out_samples,
            length=survey.length, held_out_samples=0, sampling="sequential", seed=0,
        )  # fmt: skip
        self.unseen = self._collect(self.held_out.calibration)
        self.state = self.loaded.weights()
        self.statistics: dict[str, LayerStatistics] = {}
        self.sized: list[tuple[int, dict[str, LayerStatistics]]] = []
        self.float_perplexity, self.float_correct = self.evaluate()
        self.float_accuracy, self.items = float(np.mean(self.float_correct)), len(self.float_correct)

    def _ids(self, corpus: str) -> np.ndarray:
        return token_ids(read_corpus(corpus, self.settings), self.checkpoint.folder)

    def _collect(self, sequences: np.ndarray) -> dict[str, LayerStatistics]:
        """Statistics of every linear from the float model, by full name."""
        walk = BlockWalk(self.loaded, torch.from_numpy(sequences.copy()))
        collected: dict[str, LayerStatistics] = {}
        for index, block in enumerate(self.loaded.blocks()):
            found, outputs = collect(walk, block)
            collected |= {f"{self.loaded.family.blocks}.{index}.{path}": part for path, part in found.items()}
            walk.advance(outputs)
        return collected

    def draw(self, seed: int) -> None:
        """Another calibration draw: statistics for the lines that share them, at the survey's size and all others."""
        shared = [line for line in self.survey.lines if self._shares(line)]
        if not shared:
            return
        self.loaded.restore(self.state)
        self.statistics = self._collect(self._sequences(seed, self.survey.samples).calibration)
        sizes = sorted({size for line in shared for size in line.sizes})
        if not sizes:
            return
        sequences = self._sequences(seed, sizes[-1]).calibration  # the first of them are those of fewer
        total: dict[str, LayerStatistics] = {}
        self.sized = []
        for first, last in zip([0, *sizes], sizes, strict=False):
            part = self._collect(sequences[first:last])
            total = {name: total[name] + one if total else one for name, one in part.items()}
            self.sized.append((last, total))

    def _sequences(self, seed: int, samples: int) -> Sequences:
        survey = self.survey
        return draw_sequences(
            self.calibration_ids, described(survey.calibration, self.settings), samples=samples, length=survey.length,
            held_out_samples=0, sampling="random", seed=seed,
        )  # fmt: skip

    def _shares(self, line: SurveyLine) -> bool:
        """Whether a line can be solved as batches from the float model's statistics alone."""
        return self.survey.inputs_from == "float" and line.lams != "auto" and method(line.method).unit == "layer"

    def quantized_models(self, line: SurveyLine, seed: int, result: LineResult) -> Iterator[tuple[int, int]]:
        """Puts the line's weights into the model, one point (γ, λ) after the other, and notes its curves in result."""
        if self._shares(line):
            return self._from_statistics(line, result)
        return self._from_runs(line, seed, result)

    def _from_statistics(self, line: SurveyLine, result: LineResult) -> Iterator[tuple[int, int]]:
        grid = Grid(line.bits, self.survey.group_size, self.survey.grid)
        budget = self.settings.sweep_bytes()
        self.loaded.restore(self.state)
        weights = {  # copies, because the model gets others below
            layer.name: self.loaded.weight(layer.name).detach().to(self.loaded.storage_dtype, copy=True)
            for layer in self.checkpoint.layers
        }
        methods = [method(line.method, **({} if gamma is None else {"gamma": gamma})) for gamma in line.gammas]
        solved = [
            [
                solve_curve(weight, self.statistics[name], self.unseen[name], grid, chosen, line.lams, budget)
                for chosen in methods
            ]
            for name, weight in weights.items()
        ]
        result.curves.append([[curve for _, curve in by_gamma] for by_gamma in solved])
        if line.sizes:
            result.by_size.append(self._by_size(line, grid, weights, budget))
        for g, m in np.ndindex(*line.shape):
            for name, by_gamma in zip(weights, solved, strict=True):
                self.loaded.weight(name).data.copy_(by_gamma[g][0][m].dequantized)
            yield g, m

    def _by_size(
        self, line: SurveyLine, grid: Grid, weights: dict[str, torch.Tensor], budget: int
    ) -> dict[str, np.ndarray]:
        """Relative errors (layer, size, γ, λ) of layers solved on more or fewer sequences, on those and on unseen."""
        wanted = [statistics for size, statistics in self.sized if size in line.sizes]
        sweeps = [
            [
                sweep_layer(
                    weight, statistics[name], grid, method(line.method), lams=line.lams, gammas=line.gammas,
                    held_out=self.unseen[name], budget_bytes=budget,
                )
                for statistics in wanted
            ]
            for name, weight in weights.items()
        ]  # fmt: skip
        return {
            f"{name}_by_size": np.array([[getattr(one, f"relative_{name}").numpy() for one in row] for row in sweeps])
            for name in ("recon", "held_out")
        }

    def _from_runs(self, line: SurveyLine, seed: int, result: LineResult) -> Iterator[tuple[int, int]]:
        budget = self.settings.sweep_bytes()
        by_gamma: list[list[list[LayerCurve]]] = []  # [gamma][lambda][layer]
        for g, gamma in enumerate(line.gammas):
            by_gamma.append([])
            for m, lam in enumerate(("auto",) if line.lams == "auto" else line.lams):
                self.loaded.restore(self.state)
                recipe = recipe_for(self.survey, line, seed, lam, gamma)
                plan = calibration_plan(recipe, self.checkpoint, self.settings)
                protocol = plan.sequences.protocol | {"unseen": self.held_out.protocol}
                sequences = Sequences(plan.sequences.calibration, self.held_out.calibration, protocol)
                plan = replace(plan, sequences=sequences)
                selection = None
                if lam == "auto" and METHODS[line.method].auto.by == "model":
                    *_, selection = select_for_model(
                        self.loaded, plan, recipe.candidates(), recipe.validation_samples(), self.store,
                        budget_bytes=budget,
                    )  # fmt: skip
                    plan = replace(plan, method=recipe.candidates()[selection.best])
                keys = layer_keys(self.loaded, plan)
                steps = list(calibrate(self.loaded, plan, self.store, keys, budget_bytes=budget))
                solved = [step for step in steps if isinstance(step, SolvedLayer)]
                by_gamma[-1].append([one.curve for one in solved])
                if lam == "auto":
                    result.reports.append([one.quantized.report for one in solved])
                    result.selections.append(selection)
                yield g, m
        layers = range(len(self.checkpoint.layers))
        result.curves.append([[joined([at[layer] for at in lams]) for lams in by_gamma] for layer in layers])

    def evaluate(self) -> tuple[float, np.ndarray]:
        """Perplexity, and 0 or 1 for each item of the task, of the model as it is now."""
        key = chain_key(
            "survey point", MEASUREMENT_FORMAT, model_fingerprint(self.loaded), str(self.loaded.device),
            self.test_ids.tobytes(), self.survey.window, self.survey.task, *items_key(self.survey.task, self.settings),
        )  # fmt: skip
        payload = self.store.read(key, ".json")
        if payload is None:
            perplexity = measure_perplexity(self.loaded, self.test_ids, self.survey.test, self.survey.window)
            accuracy = measure_accuracy(self.loaded, self.survey.task, self.settings)
            payload = json.dumps({"perplexity": perplexity.value, "correct": accuracy.correct}).encode()
            self.store.write(key, ".json", payload)
        document = json.loads(payload)
        return document["perplexity"], np.array(document["correct"], dtype=np.uint8)

    def study(self, study_id: str, lines: list[Line]) -> Study:
        survey, items = self.survey, self.items
        error = float(np.sqrt(self.float_accuracy * (1 - self.float_accuracy) / max(items - 1, 1)))
        protocol = {
            "calibration": {
                "corpus": described(survey.calibration, self.settings),
                "samples": survey.samples, "length": survey.length,
                "tokens": survey.samples * survey.length, "sampling": "random",
            },
            "held_out": {
                "corpus": described(survey.held_out, self.settings),
                "samples": survey.held_out_samples, "length": survey.length,
                "tokens": survey.held_out_samples * survey.length,
            },
            "test": {
                "corpus": described(survey.test, self.settings),
                "window": survey.window, "windows": len(self.test_ids) // survey.window,
                "predicted_tokens": len(self.test_ids) // survey.window * (survey.window - 1),
                "dtype": str(self.loaded.compute_dtype).removeprefix("torch."),
            },
            "tasks": [survey.task],
            "items": items,
            "device": str(self.loaded.device),
            "versions": versions(),
        }  # fmt: skip
        return Study(
            id=study_id,
            title=survey.title,
            created=now(),
            prefix=survey.inputs_from,
            model=ModelFacts(
                name=survey.model, parameters=self.checkpoint.parameters,
                share_quantized=self.checkpoint.share_quantized, perplexity=self.float_perplexity,
                accuracy=self.float_accuracy, accuracy_standard_error=error,
            ),
            protocol=protocol,
            layers=tuple(self.checkpoint.layers),
            lines=tuple(lines),
        )  # fmt: skip
