"""Surveys: many methods, widths, λ, γ and calibration draws of one model, all lines on the same draws.

``inputs_from: float`` explores: statistics come from the float model, one pass for each draw, shared by everything, and
candidates are solved as batches. ``inputs_from: quantized`` does for each point what a run would do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sarqc.artefacts import ArtefactStore
from sarqc.calibration.block import solve_curve
from sarqc.calibration.capture import collect
from sarqc.calibration.corpora import Sequences, described, draw_sequences, read_corpus, token_ids
from sarqc.calibration.job import SolvedLayer, calibration_job
from sarqc.calibration.pictures import LayerCurve
from sarqc.calibration.pipeline import calibrate
from sarqc.engine.auto_by_model import ModelSelection, select_for_model
from sarqc.engine.keys import layer_keys, survey_point_key
from sarqc.engine.plan import drawn_sequences, indivisible_layers
from sarqc.engine.study_output import (
    AXES,
    LAYER_AXES,
    UNMEASURED,
    auto_fields,
    curve_arrays,
    joined,
    now,
    study_line,
    versions,
)
from sarqc.errors import Refused
from sarqc.evaluation.perplexity import measure_perplexity
from sarqc.evaluation.tasks import items_key, measure_accuracy
from sarqc.models.catalogue import fetch
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import LoadedModel, choose_device, load
from sarqc.models.walk import BlockWalk
from sarqc.quantization.grid import Grid, Kind
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import METHODS, method
from sarqc.quantization.quantized_layer import LayerReport
from sarqc.quantization.solve import sweep_layer
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from sarqc.study.document import ArrayRef, Line, ModelFacts, Study, StudyWriter

Auto = Literal["auto"]


class SurveyLine(BaseModel):
    """One method with the values of its axes; ``lambda: auto`` leaves λ, and γ unless it is given, to be chosen."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    method: str
    bits: int = Field(ge=2, le=4)
    lams: tuple[float, ...] | Auto = Field((0.0,), alias="lambda")
    gammas: tuple[float | None, ...] = Field((None,), alias="gamma")
    sizes: tuple[int, ...] = ()  # numbers of calibration sequences for which every layer is solved as well

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of γ and of λ."""
        return (1, 1) if self.lams == "auto" else (len(self.gammas), len(self.lams))


class Survey(BaseModel):
    """What a survey file says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    model: str
    grid: Kind
    group_size: int | None
    inputs_from: Literal["float", "quantized"] = "float"
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

    @model_validator(mode="after")
    def _lines_are_possible(self) -> Survey:
        for line in self.lines:
            where = f"survey “{self.title}”, {line.method} at {line.bits} bits"
            if "cross" in method(line.method).needs and self.inputs_from == "float":
                raise Refused(
                    f"{line.method} corrects what the quantized blocks before a layer did to its inputs, and this "
                    "survey takes every layer's inputs from the float model, where there is nothing to correct",
                    where,
                    "Set inputs_from to quantized, or leave the line out.",
                )
            if line.lams == "auto" and METHODS[line.method].auto is None:
                raise Refused("there is nothing that “auto” could choose", where, "Leave λ out.")
            if line.lams == "auto" and len(line.gammas) > 1:
                raise Refused(
                    "with “auto” for λ there is one γ, or “auto” chooses it too",
                    where,
                    "Leave γ out, or give one value.",
                )
            if line.sizes and (self.inputs_from == "quantized" or line.lams == "auto"):
                raise Refused(
                    "layers at several sizes are solved on the float model's inputs, at given λ",
                    where,
                    "Leave sizes out, or set inputs_from to float.",
                )
        return self

    @classmethod
    def from_file(cls, path: Path) -> Survey:
        """A survey from a YAML file. Raises ``Refused``."""
        try:
            return cls.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError, yaml.YAMLError, ValidationError) as error:
            reason = " ".join(str(error).split()[:40])
            raise Refused(f"the survey can't be read: {reason}", str(path), "See assets/studies for one.") from None


@dataclass
class LineResult:
    """All that one line of the survey leaves, draw by draw."""

    survey: Survey
    wanted: SurveyLine
    items: int
    curves: list[list[list[LayerCurve]]] = field(default_factory=list)  # [draw][layer][gamma]
    reports: list[list[LayerReport]] = field(default_factory=list)  # [draw][layer], of lines with “auto”
    selections: list[ModelSelection | None] = field(default_factory=list)  # [draw], of lines with “auto”
    by_size: list[dict[str, np.ndarray]] = field(default_factory=list)  # [draw], layer × size × γ × λ

    def __post_init__(self) -> None:
        shape = (len(self.survey.draws), *self.wanted.shape)
        self.perplexity, self.accuracy = np.full(shape, np.nan), np.full(shape, np.nan)
        self.correct = np.full((*shape, self.items), UNMEASURED, dtype=np.uint8)

    def measured(self, draw: int, point: tuple[int, int], perplexity: float, correct: np.ndarray) -> None:
        self.perplexity[(draw, *point)] = perplexity
        self.accuracy[(draw, *point)] = np.mean(correct)
        self.correct[(draw, *point)] = correct

    def point_text(self, point: tuple[int, int]) -> str:
        if self.wanted.lams == "auto":
            return "auto" if self.selections[-1] is None else f"auto, λ {self.selections[-1].lam}"
        return f"γ {self.wanted.gammas[point[0]]}, λ {self.wanted.lams[point[1]]}"

    def line(self, writer: StudyWriter) -> Line:
        survey, wanted = self.survey, self.wanted
        arrays: dict[str, ArrayRef] = curve_arrays(writer, self.curves)
        arrays |= {name: writer.add(getattr(self, name), AXES) for name in ("perplexity", "accuracy")}
        arrays["correct"] = writer.add(self.correct, (*AXES, "item"))
        fields: dict[str, Any] = {"lams": wanted.lams, "gammas": wanted.gammas, "sizes": wanted.sizes}
        if wanted.lams == "auto":
            by = METHODS[wanted.method].auto.by
            recipe = recipe_for(survey, wanted, survey.draws[0])
            fields, chosen = auto_fields(writer, by, recipe.candidates(), self.reports, self.selections)
            arrays |= chosen
        for name in self.by_size[0] if self.by_size else ():
            stacked = np.stack([draw[name] for draw in self.by_size])
            arrays[name] = writer.add(stacked, (*LAYER_AXES[:2], "size", *LAYER_AXES[2:]))
        return study_line(
            wanted.method, bits=wanted.bits, grid=survey.grid, group_size=survey.group_size, draws=survey.draws,
            arrays=arrays, **fields,
        )  # fmt: skip


def recipe_for(
    survey: Survey, line: SurveyLine, seed: int, lam: float | Auto = "auto", gamma: float | None = None
) -> Recipe:
    """What a run of one point would be asked; λ and γ as far as the method has them."""
    tunes = METHODS[line.method].tunes
    values: dict[str, Any] = {"lambda": lam, "gamma": "auto" if lam == "auto" and gamma is None else gamma}
    names = {"lambda": "lam", "gamma": "gamma"}
    return Recipe.parse(
        {
            "model": survey.model, "bits": line.bits, "grid": survey.grid,
            "group_size": "per_channel" if survey.group_size is None else survey.group_size, "method": line.method,
            "calibration": survey.calibration, "samples": survey.samples, "length": survey.length,
            "sampling": "random", "seed": seed, "inputs_from": survey.inputs_from,
        }
        | {name: value for name, value in values.items() if names[name] in tunes and value is not None}
    )  # fmt: skip


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
                job = calibration_job(
                    recipe,
                    self.checkpoint,
                    drawn_sequences(recipe, self.checkpoint, self.settings),
                    indivisible_layers(recipe, self.checkpoint),
                )
                protocol = job.sequences.protocol | {"unseen": self.held_out.protocol}
                sequences = Sequences(job.sequences.calibration, self.held_out.calibration, protocol)
                job = replace(job, sequences=sequences)
                selection = None
                if lam == "auto" and METHODS[line.method].auto.by == "model":
                    *_, selection = select_for_model(
                        self.loaded, job, recipe.candidates(), recipe.validation_samples(), self.store,
                        budget_bytes=budget,
                    )  # fmt: skip
                    job = replace(job, method=recipe.candidates()[selection.best])
                keys = layer_keys(self.loaded, job)
                steps = list(calibrate(self.loaded, job, self.store, keys, budget_bytes=budget))
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
        task = self.survey.task
        key = survey_point_key(self.loaded, self.test_ids, self.survey.window, task, items_key(task, self.settings))
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
