"""Surveys: many methods, widths, λ, γ (or α, or β) and calibration draws of one model, all lines on the same draws.

``inputs_from: float`` explores: statistics come from the float model, one pass for each draw, shared by all lines, and
candidates are solved in batches. ``inputs_from: quantized`` does for each point the work of a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from torch import Tensor

from sarqc.calibration.block import solve_curve
from sarqc.calibration.capture import collect
from sarqc.calibration.corpora import (
    NOTABLE_OVERLAP,
    Sequences,
    Text,
    draw_sequences,
    overlap_shares,
    separate_texts,
    text_of,
)
from sarqc.calibration.job import SolvedLayer, calibration_job
from sarqc.calibration.layer_batch import method_for
from sarqc.calibration.pictures import LayerCurve
from sarqc.engine.auto_by_model import ModelSelection, settle
from sarqc.engine.costs import sweep_bytes
from sarqc.engine.feeding import check_feeding
from sarqc.engine.kept_lines import SolvedLine, read_line, write_line
from sarqc.engine.keys import (
    describe,
    layer_keys,
    survey_line_key,
    survey_model_key,
)
from sarqc.engine.measure import (
    FloatStates,
    SurveyPoint,
    Workbench,
    device_warnings,
    versions,
    weights_protocol,
)
from sarqc.engine.plan import indivisible_layers
from sarqc.engine.study_output import (
    AXES,
    LAYER_AXES,
    UNMEASURED,
    Pictures,
    auto_arrays,
    auto_axes,
    curve_arrays,
    joined,
    study_line,
    study_of,
    study_writer,
)
from sarqc.errors import Refused
from sarqc.evaluation.perplexity import drain
from sarqc.files.artefacts import ArtefactStore
from sarqc.files.yaml_document import read_yaml
from sarqc.models.admission import admit
from sarqc.models.catalogue import checkpoint_of
from sarqc.models.loading import choose_device, load
from sarqc.models.walk import BlockWalk
from sarqc.plain import percent
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import (
    METHODS,
    Method,
    method,
)
from sarqc.quantization.quantized_layer import LayerReport
from sarqc.quantization.solve import sweep_layer
from sarqc.recipe import FITTING, Recipe, public_name, renamed
from sarqc.settings import Settings
from sarqc.study.document import SECOND_SIGNS, ArrayRef, Line, Second, StudyWriter

Auto = Literal["auto"]

_LINE_FIELDS = ("method", "bits", "range", "order", "refine", "refit", "expert_damping", "warm_start")
_IN_COMMON = (
    "model",
    "grid",
    "group_size",
    "inputs_from",
    "calibration",
    "samples",
    "length",
    "test_tokens",
    "begin",
    "tasks",
    "task_limit",
)


class SurveyLine(BaseModel):
    """A method with the values of its axes.

    ``lambda: auto`` leaves λ, and γ unless it is given, to be chosen, and α of a method that has nothing else to
    choose.

    Attributes:
        recipe: Its fields that are a recipe's, with those of the survey.
        lams: Values of λ, or “auto”.
        gammas: Values of γ; None for the method's own.
        strengths: Values of α, the strength of GPTAQ's shift, in the place of γ; empty for the method's own.
        betas: Values of β, the weight of FOEM's first-order term, in the place of γ; empty for the method's own.
        sizes: Further numbers of calibration sequences for which every layer is solved.
        draws: Number of the survey's draws, from the first; None for all.
        tasks_at: Values of λ at which the tasks are measured, at the first γ and in the first draw; None for every
            point of every draw.
        pictures: Pictures of the line's weights in the study.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    recipe: Recipe
    lams: tuple[float, ...] | Auto = Field((0.0,), alias="lambda")
    gammas: tuple[float | None, ...] = Field((None,), alias="gamma")
    strengths: tuple[float, ...] = Field((), alias="shift_strength")
    betas: tuple[float, ...] = Field((), alias="first_order")
    sizes: tuple[int, ...] = ()
    draws: int | None = Field(None, ge=1)
    tasks_at: tuple[float, ...] | None = None
    pictures: Pictures = "all"

    @property
    def second(self) -> Second:
        """The value that the second axis holds."""
        return "shift_strength" if self.strengths else "first_order" if self.betas else "gamma"

    def seconds(self) -> tuple[float | None, ...]:
        """Return the values of the second axis; None for the method's own γ."""
        return self.strengths or self.betas or self.gammas

    def fitting(self) -> dict[str, str | int | float]:
        """Return the values of ``FITTING`` that are not plain."""
        differences = self.recipe.differences()
        return {name: differences[name] for name in FITTING if name in _LINE_FIELDS and name in differences}

    def to_method(self, second: float | None = None) -> Method:
        """Return the method with its own λ.

        Args:
            second: A value of the second axis; None for the method's own.

        Raises:
            Refused: For a value that the method does not have.
        """
        return method(self.recipe.method, **self.fitting(), **({} if second is None else {self.second: second}))

    def run_at(self, seed: int, lam: float | Auto = "auto", second: float | None = None) -> Recipe:
        """Return the recipe of a run at one point, with λ and the second value as far as the method has them.

        Args:
            seed: Seed of the draw.
            lam: λ; “auto” chooses α of a method that has nothing else to choose.
            second: A value of the second axis; None for the method's own, or for a γ of “auto” beside a λ of “auto”.
        """
        entry = METHODS[self.recipe.method]
        values: dict[str, Any] = {"lambda": lam, self.second: "auto" if lam == "auto" and second is None else second}
        if lam == "auto" and "lam" not in entry.tunes:
            values["shift_strength"] = "auto"
        read = {public_name(name) for name in (*entry.tunes, *entry.options)}
        return Recipe.parse(
            self.recipe.differences()
            | {"sampling": "random", "seed": seed}
            | {name: value for name, value in values.items() if name in read and value is not None}
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of values on the second axis and of λ."""
        return (1, 1) if self.lams == "auto" else (len(self.seconds()), len(self.lams))

    def points(self) -> tuple[float, ...]:
        """Return the values of λ; empty with “auto”."""
        return () if self.lams == "auto" else self.lams


class Survey(BaseModel):
    """Content of a survey file; its lines have the fields that are a recipe's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    draws: tuple[int, ...] = Field(min_length=1)
    held_out: str
    held_out_samples: int = Field(ge=1)
    test: str
    window: int = Field(ge=2)
    lines: tuple[SurveyLine, ...] = Field(min_length=1)

    @property
    def recipe(self) -> Recipe:
        """A recipe with all that the lines have in common."""
        return self.lines[0].recipe

    def draws_of(self, line: SurveyLine) -> tuple[int, ...]:
        """Return the seeds of the draws of a line."""
        return self.draws[: line.draws]

    @model_validator(mode="before")
    @classmethod
    def _lines_have_recipes(cls, document: Any) -> Any:
        given_lines = document.get("lines") if isinstance(document, dict) else None
        if not isinstance(given_lines, list) or not all(isinstance(line, dict) for line in given_lines):
            return document  # which is refused
        common = {"inputs_from": "float"} | {name: document[name] for name in _IN_COMMON if name in document}
        lines = []
        for line in map(renamed, given_lines):
            own = {name: value for name, value in line.items() if name in _LINE_FIELDS}
            lines.append({name: value for name, value in line.items() if name not in own})
            lines[-1]["recipe"] = Recipe.parse(common | own)
        return {name: value for name, value in document.items() if name not in _IN_COMMON} | {"lines": lines}

    @model_validator(mode="after")
    def _lines_are_possible(self) -> Survey:
        names = set()
        for line in self.lines:
            recipe = line.recipe
            where = f"survey “{self.title}”, {recipe.method} at {recipe.bits} bits"
            name = (recipe.method, recipe.bits, line.lams == "auto", line.second, *line.fitting().items())
            for is_wrong, what, remedy in (
                (name in names, "the line is there twice", "Merge the two."),
                (
                    not set(line.tasks_at or ()) <= set(line.points()),
                    "tasks_at names a λ that the line does not have",
                    "Correct tasks_at.",
                ),
                (
                    line.lams == "auto" and METHODS[recipe.method].auto is None,
                    "there is nothing that “auto” could choose",
                    "Leave λ out.",
                ),
                (
                    line.lams == "auto" and len(line.gammas) > 1,
                    "with “auto” for λ there is one γ, or “auto” chooses it too",
                    "Leave γ out, or give one value.",
                ),
                *_problems_of_second(line),
                (
                    line.sizes and (recipe.inputs_from == "quantized" or line.lams == "auto"),
                    "layers at several sizes are solved on the float model's inputs, at given λ",
                    "Leave sizes out, or set inputs_from to float.",
                ),
            ):
                if is_wrong:
                    raise Refused(what, where, remedy)
            names.add(name)
            for value in line.seconds():
                line.to_method(value)  # which refuses a method without it
        return self

    @classmethod
    def from_file(cls, path: Path) -> Survey:
        """Return a survey from a YAML file.

        Raises:
            Refused: If the file can't be read or is not a survey.
        """
        document = read_yaml(path, "survey")
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            reason = " ".join(str(error).split()[:40])
            raise Refused(f"the survey can't be read: {reason}", str(path), "See assets/studies for one.") from None


def _problems_of_second(line: SurveyLine) -> Iterator[tuple[bool, str, str]]:
    """Yield problems of α or β: other values beside them, or no 0 to compare them with."""
    if line.second == "gamma":
        return
    sign, values = SECOND_SIGNS[line.second], line.seconds()
    for name, is_given in (
        ("gamma", line.gammas != (None,)),
        ("first_order", bool(line.strengths and line.betas)),
        ("sizes", bool(line.sizes)),
        ("lambda: auto", line.lams == "auto"),
    ):
        what = f"a line over {sign} has nothing else beside λ, and {name} is given"
        yield is_given, what, f"Leave {name} out, or make two lines."
    yield (
        values[0] != 0 or len({*values}) < len(values),
        f"the values of {sign} are compared with {sign} = 0, which is not the first of them, or one is there twice",
        f"Begin {line.second} with 0, and give each value once.",
    )


@dataclass
class LineResult:
    """Results of one line of the survey, draw by draw."""

    survey: Survey
    spec: SurveyLine
    items: int  # of the task; 0 without one
    curves: list[list[list[LayerCurve]]] = field(default_factory=list)  # [draw][layer][gamma]
    reports: list[list[LayerReport]] = field(default_factory=list)  # [draw][layer], of lines with “auto”
    selections: list[ModelSelection | None] = field(default_factory=list)  # [draw], of lines with “auto”
    by_size: list[dict[str, np.ndarray]] = field(default_factory=list)  # [draw], layer × size × γ × λ

    def __post_init__(self) -> None:
        shape = (len(self.survey.draws_of(self.spec)), *self.spec.shape)
        self.perplexity, self.kl, self.accuracy = (np.full(shape, np.nan) for _ in range(3))
        self.correct = np.full((*shape, self.items), UNMEASURED, dtype=np.uint8)

    def note(self, draw: int, point: tuple[int, int], quality: SurveyPoint) -> None:
        """Take the measurements at a point of a draw."""
        at = (draw, *point)
        self.perplexity[at], self.kl[at] = quality.perplexity, quality.kl
        if (accuracy := quality.accuracy()) is not None:
            self.accuracy[at], self.correct[at] = accuracy[0], quality.correct

    def point_text(self, point: tuple[int, int]) -> str:
        """Return the name of a point in words."""
        if self.spec.lams == "auto":
            return "auto" if self.selections[-1] is None else f"auto, λ {self.selections[-1].lam}"
        sign = SECOND_SIGNS[self.spec.second]
        return f"{sign} {self.spec.seconds()[point[0]]}, λ {self.spec.lams[point[1]]}"

    def line(self, writer: StudyWriter) -> Line:
        """Return the line of the study."""
        arrays: dict[str, ArrayRef] = curve_arrays(writer, self.curves, self.spec.pictures)
        arrays |= {name: writer.add(getattr(self, name), AXES) for name in ("perplexity", "kl", "accuracy")}
        if self.items:
            arrays["correct"] = writer.add(self.correct, (*AXES, "item"))
        if self.spec.lams == "auto":
            recipe = self.spec.run_at(self.survey.draws[0])
            arrays |= auto_arrays(writer, recipe, self.reports, self.selections)
        for name in self.by_size[0] if self.by_size else ():
            stacked = np.stack([draw[name] for draw in self.by_size])
            arrays[name] = writer.add(stacked, (*LAYER_AXES[:2], "size", *LAYER_AXES[2:]))
        line, recipe = self.spec, self.spec.recipe
        fields: dict[str, Any] = {
            "lams": line.lams,
            "gammas": line.seconds(),
            "second": line.second,
            "sizes": line.sizes,
        }
        if line.lams == "auto":
            fields = auto_axes(line.run_at(self.survey.draws[0]))
        return study_line(
            recipe.method,
            line.fitting(),
            bits=recipe.bits,
            grid=recipe.grid,
            group_size=recipe.group_size,
            draws=self.survey.draws_of(line),
            arrays=arrays,
            **fields,
        )


def conduct(survey: Survey, settings: Settings, folder: Path) -> Iterator[str]:
    """Make the study in ``folder`` and yield a line of progress for each point.

    Measurements, solved lines, and under a quantized prefix finished layers are stored as artefacts: a survey that was
    stopped continues where it was.

    Args:
        survey: The survey.
        settings: Settings of the host.
        folder: Folder of the study.
    """
    shared, recipe = _prepare(survey, settings), survey.recipe
    bench, test = shared.bench, shared.original.test
    original = shared.original.point(survey_model_key(bench.model, bench.loaded), recipe.tasks)
    accuracy, items = original.accuracy(), len(original.correct)
    for warned in device_warnings(bench.loaded.device):
        yield f"warning: {warned.what}"
    for words in drain(check_feeding(bench, recipe.calibration, recipe.begin, test, survey.window)).values():
        yield f"warning: {words}"
    accuracy_words = "" if accuracy is None else f", accuracy {accuracy[0]:.4f}"
    yield f"float model: perplexity {original.perplexity:.4f}{accuracy_words}"
    yield from _warn_of_shared_text(shared)
    results = [LineResult(survey, line, items) for line in survey.lines]
    started, done = time.perf_counter(), 0
    total = sum(int(np.prod(line.shape)) * len(survey.draws_of(line)) for line in survey.lines)
    for number, seed in enumerate(survey.draws):
        drawn = [result for result in results if seed in survey.draws_of(result.spec)]
        draw = _Draw(shared, number, tuple(result.spec for result in drawn))
        for result in drawn:
            line = result.spec
            for point, model in (_solve_from_statistics if _shares_statistics(line) else _solve_by_runs)(draw, result):
                quality = shared.original.point(model, draw.tasks(line, point))
                result.note(number, point, quality)
                done += 1
                where = f"draw {seed}, {line.recipe.bits} bits, {line.recipe.method}, {result.point_text(point)}"
                seconds = time.perf_counter() - started
                yield f"{done}/{total} {seconds:.0f} s: {where}: perplexity {quality.perplexity:.3f}"
    with study_writer(folder) as writer:
        writer.finish(
            study_of(
                folder.name,
                survey.title,
                recipe.inputs_from,
                recipe.model,
                bench.loaded.checkpoint,
                original.perplexity,
                accuracy,
                _protocol(shared, items),
                [result.line(writer) for result in results],
            )
        )
    yield f"study written to {folder}"


@dataclass(frozen=True, eq=False)
class _Shared:
    """Data that all points of a survey share."""

    survey: Survey
    bench: Workbench
    calibration: Text
    held_out: Sequences  # all of them in ``calibration``: nothing is fitted on them
    held_out_part: str  # of its text, see ``Text``
    original: FloatStates  # on the test text
    float_weights: dict[str, Tensor]

    @cached_property
    def unseen(self) -> dict[str, LayerStatistics]:
        """Statistics of the held-out sequences, by layer."""
        return self.collected(self.held_out.calibration)

    def collected(self, sequences: np.ndarray) -> dict[str, LayerStatistics]:
        """Return statistics of every linear from the float model, by full name."""
        loaded = self.bench.loaded
        loaded.restore(self.float_weights)
        walk = BlockWalk(loaded, torch.from_numpy(sequences.copy()))
        collected: dict[str, LayerStatistics] = {}
        for index, block in enumerate(loaded.blocks()):
            statistics, outputs = collect(walk, block)
            collected |= {f"{loaded.family.blocks}.{index}.{path}": part for path, part in statistics.items()}
            walk.advance(outputs)
        return collected


def _prepare(survey: Survey, settings: Settings) -> _Shared:
    recipe = survey.recipe
    checkpoint = checkpoint_of(recipe.model, None, settings, download=True)
    assert checkpoint is not None  # fetched where it was not here
    loaded = load(checkpoint, choose_device(settings.device), begins_with_bos=recipe.begin == "bos")
    if checkpoint.decoder is not None:
        admit(loaded, learns=any(line.to_method().unit == "block" for line in survey.lines))
    bench = Workbench(loaded, describe(loaded), ArtefactStore(settings.artefacts_root()), settings)
    # In halves where calibration and another are the same text.
    whole, held_out, test = (
        text_of(name, checkpoint, settings, begin=recipe.begin, download=True)
        for name in (recipe.calibration, survey.held_out, survey.test)
    )
    (beside_held_out, held_out), (beside_test, test) = separate_texts(whole, held_out), separate_texts(whole, test)
    unseen = draw_sequences(
        held_out,
        samples=survey.held_out_samples,
        length=recipe.length,
        held_out_samples=0,
        sampling="sequential",
        seed=0,
    )
    return _Shared(
        survey,
        bench,
        beside_held_out if beside_held_out.part else beside_test,
        unseen,
        held_out.part,
        FloatStates.of(bench, test.limited(recipe.test_tokens).in_windows(survey.window), survey.window, recipe),
        loaded.weights(),
    )


def _warn_of_shared_text(shared: _Shared) -> Iterator[str]:
    """Yield warnings about texts that are measured on and of which calibration has tokens, or would."""
    for word, part in (("held-out", shared.held_out_part), ("test", shared.original.test.part)):
        if part:
            yield f"warning: calibration and {word} text are the same: the first half is calibration, {word} the second"
    share, _ = overlap_shares(shared.held_out.calibration, shared.calibration)
    if share >= NOTABLE_OVERLAP:
        yield f"warning: {percent(share)} of the held-out sequences are in the calibration text too"


@dataclass(frozen=True, eq=False)
class _Draw:
    """One calibration draw, with the statistics that its lines share, made on demand."""

    shared: _Shared
    number: int  # from 0
    lines: tuple[SurveyLine, ...]

    def drawn(self, samples: int) -> Sequences:
        """Return ``samples`` sequences, which begin with those of smaller numbers."""
        return draw_sequences(
            self.shared.calibration,
            samples=samples,
            length=self.shared.survey.recipe.length,
            held_out_samples=0,
            sampling="random",
            seed=self.shared.survey.draws[self.number],
        )

    def tasks(self, line: SurveyLine, point: tuple[int, int]) -> tuple[str, ...]:
        """Return the tasks that are measured at a point, by positions of (γ, λ)."""
        if line.tasks_at is None or (
            self.number == point[0] == 0 and line.lams != "auto" and line.lams[point[1]] in line.tasks_at
        ):
            return line.recipe.tasks
        return ()

    @cached_property
    def own(self) -> dict[str, LayerStatistics]:
        """Statistics of the survey's number of sequences, by layer."""
        return self.shared.collected(self.drawn(self.shared.survey.recipe.samples).calibration)

    @cached_property
    def by_size(self) -> list[tuple[int, dict[str, LayerStatistics]]]:
        """Statistics by layer for all numbers of sequences that a line asks for, in ascending order."""
        sizes = sorted({size for line in self.lines if _shares_statistics(line) for size in line.sizes})
        sequences = self.drawn(sizes[-1]).calibration
        total: dict[str, LayerStatistics] = {}
        by_size = []
        for first, last in pairwise([0, *sizes]):
            part = self.shared.collected(sequences[first:last])
            total = {name: total[name] + more if total else more for name, more in part.items()}
            by_size.append((last, total))
        return by_size


def _shares_statistics(line: SurveyLine) -> bool:
    return line.recipe.inputs_from == "float" and line.lams != "auto" and line.to_method().unit == "layer"


def _solve_from_statistics(draw: _Draw, result: LineResult) -> Iterator[tuple[tuple[int, int], str]]:
    """Put a line's weights into the model, one point (γ, λ) after the other, each with the key of that model.

    The curves go to ``result``. Points that are solved and measured already are taken from the artefacts, without
    weights.
    """
    shared, line, bench = draw.shared, result.spec, draw.shared.bench
    grid = Grid(line.recipe.bits, line.recipe.group_size, line.recipe.grid)
    methods = [line.to_method(value) for value in line.seconds()]
    key = survey_line_key(
        bench.model,
        grid,
        methods,
        line.points(),
        draw.drawn(line.recipe.samples).calibration,
        shared.held_out.calibration,
        [draw.drawn(size).calibration for size in line.sizes],
    )
    solution = read_line(bench.store, key)
    if solution is None or not all(
        shared.original.is_measured(model, draw.tasks(line, point)) for point, model in solution.models.items()
    ):
        loaded = bench.loaded
        loaded.restore(shared.float_weights)
        weights = {  # as the checkpoint stores them: the model gets others
            layer.name: loaded.weight(layer.name).detach().to(loaded.stored_as(f"{layer.name}.weight"), copy=True)
            for layer in loaded.checkpoint.layers
        }
        by_size = _errors_by_size(draw, line, grid, weights) if line.sizes else {}
        stored, curves = _solve(draw, line, grid, methods, weights)
        models = {}
        for g, m in np.ndindex(*line.shape):
            for name, by_gamma in zip(weights, stored, strict=True):
                loaded.weight(name).data.copy_(by_gamma[g][m]())
            models[g, m] = survey_model_key(bench.model, loaded)
            yield (g, m), models[g, m]
        solution = SolvedLine(curves, by_size, models)
        write_line(bench.store, key, solution)
    else:
        yield from solution.models.items()
    result.curves.append(solution.curves)
    if line.sizes:
        result.by_size.append(solution.by_size)


def _solve(
    draw: _Draw, line: SurveyLine, grid: Grid, methods: list[Method], weights: dict[str, Tensor]
) -> tuple[list[list[list[Callable[[], Tensor]]]], list[list[LayerCurve]]]:
    """Return makers of the weights of every layer at every point, [layer][gamma][lambda], and its curves,
    [layer][gamma].

    Of the results codes and scales are held, a quarter of the weights or less.
    """
    budget = sweep_bytes(draw.shared.bench.settings)
    stored: list[list[list[Callable[[], Tensor]]]] = []
    curves: list[list[LayerCurve]] = []
    for layer in draw.shared.bench.loaded.checkpoint.layers:
        weight, own, unseen = weights[layer.name], draw.own[layer.name], draw.shared.unseen[layer.name]
        points = (method_for(layer, chosen) for chosen in methods)
        solved = [solve_curve(weight, own, unseen, grid, point, line.points(), budget) for point in points]
        stored.append([[solution.without_dequantized() for solution in at_lams] for at_lams, _ in solved])
        curves.append([curve for _, curve in solved])
    return stored, curves


def _errors_by_size(draw: _Draw, line: SurveyLine, grid: Grid, weights: dict[str, Tensor]) -> dict[str, np.ndarray]:
    """Return the relative errors (layer, size, γ, λ) of layers solved on other numbers of sequences, on these and on
    unseen.
    """
    sweeps = [
        [
            sweep_layer(
                weights[layer.name],
                statistics[layer.name],
                grid,
                method_for(layer, line.to_method()),
                lams=line.points(),
                gammas=line.gammas,
                held_out=draw.shared.unseen[layer.name],
                budget_bytes=sweep_bytes(draw.shared.bench.settings),
            )
            for size, statistics in draw.by_size
            if size in line.sizes
        ]
        for layer in draw.shared.bench.loaded.checkpoint.layers
    ]
    return {
        f"{name}_by_size": np.array([[getattr(sweep, f"relative_{name}").numpy() for sweep in row] for row in sweeps])
        for name in ("recon", "held_out")
    }


def _solve_by_runs(draw: _Draw, result: LineResult) -> Iterator[tuple[tuple[int, int], str]]:
    """Quantize the model as a run of each point (γ, λ) would, one after the other, and note curves in ``result``."""
    shared, line, bench = draw.shared, result.spec, draw.shared.bench
    checkpoint, unseen = bench.loaded.checkpoint, shared.held_out
    by_gamma: list[list[list[LayerCurve]]] = []  # [gamma][lambda][layer]
    lams: tuple[float | Auto, ...] = ("auto",) if line.lams == "auto" else line.lams
    for g, second in enumerate(line.seconds()):
        by_gamma.append([])
        for m, lam in enumerate(lams):
            bench.loaded.restore(shared.float_weights)
            recipe = line.run_at(shared.survey.draws[draw.number], lam, second)
            own = draw.drawn(recipe.samples)
            sequences = Sequences(own.calibration, unseen.calibration, {**own.protocol, "unseen": unseen.protocol})
            job = calibration_job(recipe, checkpoint, sequences, indivisible_layers(recipe, checkpoint.layers))
            job, selection = drain(settle(bench, recipe, job))
            steps = bench.calibrated(job, layer_keys(bench.model, job))
            solved = [step for step in steps if isinstance(step, SolvedLayer)]
            by_gamma[-1].append([layer.curve for layer in solved])
            if lam == "auto":
                result.reports.append([layer.quantized.report for layer in solved])
                result.selections.append(selection)
            yield (g, m), survey_model_key(bench.model, bench.loaded)
    layers = range(len(checkpoint.layers))
    result.curves.append([[joined([at[layer] for at in by_lam]) for by_lam in by_gamma] for layer in layers])


def _protocol(shared: _Shared, items: int) -> dict[str, Any]:
    survey, recipe, loaded, test = shared.survey, shared.survey.recipe, shared.bench.loaded, shared.original.test
    windows, unpredicted = len(test.ids) // survey.window, max(1, len(test.begin))

    def text(name: str, corpus: str, part: str, samples: int = 0) -> dict[str, Any]:
        """Return facts of a text, with the recipe's name for it where that is another."""
        facts: dict[str, Any] = {"corpus": corpus} if name == corpus else {"corpus": corpus, "text": name}
        if part:
            facts["part"] = part
        # Without it, a run of the study's settings begins its sequences as the model's tokenizer does.
        if test.begin or recipe.begin == "none":
            facts["begin"] = test.begin.text or "none"
        if samples:
            facts |= {"samples": samples, "length": recipe.length, "tokens": samples * recipe.length}
        return facts

    return {
        "calibration": text(recipe.calibration, shared.calibration.corpus, shared.calibration.part, recipe.samples)
        | {"sampling": "random"}
        | ({"begin_rule": "bos"} if recipe.begin == "bos" else {}),
        "held_out": text(
            survey.held_out, shared.held_out.protocol["corpus"], shared.held_out_part, survey.held_out_samples
        ),
        "test": text(survey.test, test.corpus, test.part)
        | {
            "window": survey.window,
            "windows": windows,
            "predicted_tokens": windows * (survey.window - unpredicted),
            "dtype": str(loaded.compute_dtype).removeprefix("torch."),
        }
        | ({} if test.first is None else {"only_the_first_tokens": test.first}),
        "tasks": [*recipe.tasks],
        **({} if recipe.task_limit is None else {"task_limit": recipe.task_limit}),
        "items": items,
        "device": str(loaded.device),
        "versions": versions(),
        **weights_protocol(loaded.checkpoint),
    }
