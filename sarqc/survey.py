"""Survey: many methods, widths, λ, γ and calibration draws of one model, as one study with error bars.

Statistics come from the float model (one pass for each draw, shared by everything), candidates are solved as batches,
and every point is evaluated as a whole model. All lines see the same draws, so that differences can be paired.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from sarqc.artefacts import ArtefactStore, chain_key
from sarqc.calibration.capture import BlockWalk
from sarqc.calibration.corpora import draw_sequences, read_corpus, token_ids
from sarqc.calibration.pipeline import LayerCurve, fingerprint, solve_curve
from sarqc.errors import Refused
from sarqc.evaluation.perplexity import measure_perplexity
from sarqc.evaluation.tasks import measure_accuracy
from sarqc.execution import MEASUREMENT_FORMAT, curve_arrays, now, versions
from sarqc.models.catalogue import fetch
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import LoadedModel, choose_device, load
from sarqc.quantization.grid import Grid, Kind
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import METHODS, method
from sarqc.settings import Settings
from sarqc.study import Line, ModelFacts, Study, StudyWriter

_AXES = ("draw", "gamma", "lambda")


class SurveyLine(BaseModel):
    """One method with the values of its axes."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    method: str
    bits: int = Field(ge=2, le=4)
    lams: tuple[float, ...] = Field((0.0,), alias="lambda")
    gammas: tuple[float | None, ...] = Field((None,), alias="gamma")


class Survey(BaseModel):
    """What a survey file says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    model: str
    grid: Kind
    group_size: int | None
    calibration: str
    samples: int = Field(ge=1)
    length: int = Field(ge=2)
    draws: tuple[int, ...] = Field(min_length=1)
    held_out: str
    held_out_samples: int = Field(ge=1)
    test: str
    window: int = Field(ge=2)
    task: str
    lines: tuple[SurveyLine, ...] = Field(min_length=1)

    @classmethod
    def from_file(cls, path: Path) -> Survey:
        """A survey from a YAML file. Raises ``Refused``."""
        try:
            return cls.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
            reason = " ".join(str(error).split()[:40])
            raise Refused(f"the survey can't be read: {reason}", str(path), "See assets/studies for one.") from None


def conduct(survey: Survey, settings: Settings, folder: Path) -> Iterator[str]:
    """Makes the study in ``folder`` and yields a line of progress for each point.

    Measurements are kept as artefacts: a survey that was stopped continues where it was. Raises ``Refused`` for methods
    that the float model's statistics can't serve.
    """
    for line in survey.lines:
        if "cross" in method(line.method).needs:
            raise Refused(
                f"{line.method} corrects what the quantized blocks before a layer did to its inputs, but a survey "
                "takes every layer's inputs from the float model, where there is nothing to correct",
                f"survey “{survey.title}”",
                "Leave the line out, and run a recipe for this method.",
            )
    work = _Work(survey, settings)
    yield f"float model: perplexity {work.float_perplexity:.4f}, accuracy {work.float_accuracy:.4f}"
    measured = [work.empty(line) for line in survey.lines]
    curves: list[list[list[list[LayerCurve]]]] = [[] for _ in survey.lines]  # [line][draw][layer][gamma]
    started, done = time.perf_counter(), 0
    total = sum(len(line.lams) * len(line.gammas) for line in survey.lines) * len(survey.draws)
    for draw, seed in enumerate(survey.draws):
        statistics = work.statistics(seed)
        for number, line in enumerate(survey.lines):
            line_curves, weights = work.solve(line, statistics)
            curves[number].append(line_curves)
            for point in np.ndindex(len(line.gammas), len(line.lams)):
                perplexity, correct = work.evaluate([layer[point[0]][point[1]] for layer in weights])
                measured[number]["perplexity"][(draw, *point)] = perplexity
                measured[number]["accuracy"][(draw, *point)] = np.mean(correct)
                measured[number]["correct"][(draw, *point)] = correct
                done += 1
                values = f"γ {line.gammas[point[0]]}, λ {line.lams[point[1]]}"
                where = f"draw {seed}, {line.bits} bits, {line.method}, {values}"
                yield f"{done}/{total} {time.perf_counter() - started:.0f} s: {where}: perplexity {perplexity:.3f}"
    writer = StudyWriter(folder)
    try:
        lines = []
        for line, numbers, line_curves in zip(survey.lines, measured, curves, strict=True):
            arrays = curve_arrays(writer, line_curves)
            arrays |= {name: writer.add(numbers[name], _AXES) for name in ("perplexity", "accuracy")}
            arrays["correct"] = writer.add(numbers["correct"], (*_AXES, "item"))
            entry = METHODS[line.method]
            lines.append(
                Line(
                    method=line.method, title=entry.title, baseline=entry.baseline, bits=line.bits, grid=survey.grid,
                    group_size=survey.group_size, lams=line.lams, gammas=line.gammas, draws=survey.draws,
                    arrays=arrays,
                )
            )  # fmt: skip
        writer.finish(work.study(folder.name, lines))
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
        self.float_weights = {
            layer.name: self.loaded.linear(layer.name).weight.detach().clone() for layer in self.checkpoint.layers
        }
        self.calibration_ids = self._ids(survey.calibration)
        self.test_ids = self._ids(survey.test)
        self.held_out = draw_sequences(
            self._ids(survey.held_out), survey.held_out, samples=survey.held_out_samples, length=survey.length,
            held_out_samples=0, sampling="sequential", seed=0,
        )  # fmt: skip
        self.unseen = self._collect(self.held_out.calibration)
        float_weights = [self.float_weights[layer.name] for layer in self.checkpoint.layers]
        self.float_perplexity, self.float_correct = self.evaluate(float_weights)
        self.float_accuracy = float(np.mean(self.float_correct))

    def _ids(self, corpus: str) -> np.ndarray:
        return token_ids(read_corpus(corpus, self.settings), self.checkpoint.folder)

    def _collect(self, sequences: np.ndarray) -> dict[str, LayerStatistics]:
        """Statistics of every linear from the float model, by full name."""
        walk = BlockWalk(self.loaded, torch.from_numpy(sequences.copy()))
        collected: dict[str, LayerStatistics] = {}
        for index, block in enumerate(self.loaded.blocks()):
            found, outputs = walk.collect(block)
            collected |= {f"{self.loaded.family.blocks}.{index}.{path}": part for path, part in found.items()}
            walk.advance(outputs)
        return collected

    def statistics(self, seed: int) -> dict[str, LayerStatistics]:
        """Statistics of one calibration draw."""
        survey = self.survey
        drawn = draw_sequences(
            self.calibration_ids, survey.calibration, samples=survey.samples, length=survey.length,
            held_out_samples=0, sampling="random", seed=seed,
        )  # fmt: skip
        self._write_float_weights()
        return self._collect(drawn.calibration)

    def _write_float_weights(self) -> None:
        self._write([self.float_weights[layer.name] for layer in self.checkpoint.layers])

    def _write(self, weights: list[Tensor]) -> None:
        for layer, weight in zip(self.checkpoint.layers, weights, strict=True):
            self.loaded.linear(layer.name).weight.data.copy_(weight)

    def solve(
        self, line: SurveyLine, statistics: dict[str, LayerStatistics]
    ) -> tuple[list[list[LayerCurve]], list[list[list[Tensor]]]]:
        """Curves [layer][gamma] and dequantized weights [layer][gamma][lambda] of a line for one draw."""
        grid = Grid(line.bits, self.survey.group_size, self.survey.grid)
        curves, weights = [], []
        for layer in self.checkpoint.layers:
            weight = self.float_weights[layer.name].to(self.loaded.storage_dtype)
            by_gamma = []
            for gamma in line.gammas:
                chosen = method(line.method, **({} if gamma is None else {"gamma": gamma}))
                by_gamma.append(
                    solve_curve(weight, statistics[layer.name], self.unseen[layer.name], grid, chosen, line.lams)
                )
            curves.append([curve for _, curve in by_gamma])
            weights.append([[quantized.dequantized for quantized in solved] for solved, _ in by_gamma])
        return curves, weights

    def evaluate(self, weights: list[Tensor]) -> tuple[float, np.ndarray]:
        """Perplexity, and 0 or 1 for each item of the task, of the model with these weights."""
        self._write(weights)
        key = chain_key(
            "survey point", MEASUREMENT_FORMAT, fingerprint(self.loaded.model), str(self.loaded.device),
            self.test_ids.tobytes(), self.survey.window, self.survey.task,
        )  # fmt: skip
        payload = self.store.read(key, ".json")
        if payload is None:
            perplexity = measure_perplexity(self.loaded, self.test_ids, self.survey.test, self.survey.window)
            accuracy = measure_accuracy(self.loaded, self.survey.task, self.settings)
            payload = json.dumps({"perplexity": perplexity.value, "correct": accuracy.correct}).encode()
            self.store.write(key, ".json", payload)
        document = json.loads(payload)
        return document["perplexity"], np.array(document["correct"], dtype=np.uint8)

    def empty(self, line: SurveyLine) -> dict[str, np.ndarray]:
        shape = (len(self.survey.draws), len(line.gammas), len(line.lams))
        return {
            "perplexity": np.full(shape, np.nan),
            "accuracy": np.full(shape, np.nan),
            "correct": np.full((*shape, len(self.float_correct)), 255, dtype=np.uint8),
        }

    def study(self, study_id: str, lines: list[Line]) -> Study:
        survey, items = self.survey, len(self.float_correct)
        error = float(np.sqrt(self.float_accuracy * (1 - self.float_accuracy) / max(items - 1, 1)))
        protocol = {
            "calibration": {
                "corpus": survey.calibration, "samples": survey.samples, "length": survey.length,
                "tokens": survey.samples * survey.length, "sampling": "random",
            },
            "held_out": {
                "corpus": survey.held_out, "samples": survey.held_out_samples, "length": survey.length,
                "tokens": survey.held_out_samples * survey.length,
            },
            "test": {
                "corpus": survey.test, "window": survey.window, "windows": len(self.test_ids) // survey.window,
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
            prefix="float",
            model=ModelFacts(
                name=survey.model, parameters=self.checkpoint.parameters,
                share_quantized=self.checkpoint.share_quantized, perplexity=self.float_perplexity,
                accuracy=self.float_accuracy, accuracy_standard_error=error,
            ),
            protocol=protocol,
            layers=tuple(self.checkpoint.layers),
            lines=tuple(lines),
        )  # fmt: skip
