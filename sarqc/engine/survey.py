"""Surveys: many methods, widths, λ, γ (or α, or β) and calibration draws of one model, all lines on the same draws.

``inputs_from: float`` explores: statistics come from the float model, one pass for each draw, shared by all lines, and
candidates are solved in batches. ``inputs_from: quantized`` does for each point the work of a run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from torch import Tensor

from sarqc.calibration.block import solve_curve
from sarqc.calibration.capture import collect
from sarqc.calibration.corpora import NOT_BY_CHANCE, Sequences, Text, apart, draw_sequences, in_common, text_of
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
    is_measured,
    measure_point,
    of_weights,
    versions,
)
from sarqc.engine.plan import indivisible_layers
from sarqc.engine.progress import Returning, T
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
from sarqc.files.artefacts import ArtefactStore
from sarqc.files.yaml_document import read_yaml
from sarqc.models.admission import admit
from sarqc.models.catalogue import checkpoint_of
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.loading import LoadedModel, choose_device, load
from sarqc.models.walk import BlockWalk
from sarqc.plain import percent
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import (
    FITTING,
    METHODS,
    MOST_PASSES,
    MOST_ROUNDS,
    ExpertDamping,
    Method,
    Order,
    Range,
    WarmStart,
    method,
    public_method,
)
from sarqc.quantization.quantized_layer import LayerReport
from sarqc.quantization.solve import sweep_layer
from sarqc.quantization.storage import Kind
from sarqc.recipe import Begin, Recipe, public_name, renamed
from sarqc.settings import Settings
from sarqc.study.document import SECOND_SIGNS, ArrayRef, Line, Second, Study, StudyWriter, copied

Auto = Literal["auto"]


class SurveyLine(BaseModel):
    """A method with the values of its axes.

    ``lambda: auto`` leaves λ, and γ unless it is given, to be chosen, and α of a method that has nothing else to
    choose.

    Attributes:
        method: Public name.
        bits: Bit width.
        lams: Values of λ, or “auto”.
        gammas: Values of γ; None for the method's own.
        strengths: Values of α, the strength of GPTAQ's shift, in the place of γ; empty for the method's own.
        betas: Values of β, the weight of FOEM's first-order term, in the place of γ; empty for the method's own.
        sizes: Further numbers of calibration sequences for which every layer is solved.
        draws: Number of the survey's draws, from the first; None for all.
        tasks_at: Values of λ at which the tasks are measured, at the first γ and in the first draw; None for every
            point of every draw.
        range: Range of a group.
        order: Order of columns.
        refine: Passes of refinement.
        refit: Rounds of refitting the scales.
        expert_damping: Damping of experts with few tokens.
        warm_start: Initial codes of learned rounding.
        pictures: Pictures of the line's weights in the study.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    method: Annotated[str, AfterValidator(public_method)]
    bits: int = Field(ge=2, le=4)
    lams: tuple[float, ...] | Auto = Field((0.0,), alias="lambda")
    gammas: tuple[float | None, ...] = Field((None,), alias="gamma")
    strengths: tuple[float, ...] = Field((), alias="shift_strength")
    betas: tuple[float, ...] = Field((), alias="first_order")
    sizes: tuple[int, ...] = ()
    draws: int | None = Field(None, ge=1)
    tasks_at: tuple[float, ...] | None = None
    range: Range = "minmax"
    order: Order = "natural"
    refine: int = Field(0, ge=0, le=MOST_PASSES)
    refit: int = Field(0, ge=0, le=MOST_ROUNDS)
    expert_damping: ExpertDamping = "plain"
    warm_start: WarmStart = "none"
    pictures: Pictures = "all"

    @model_validator(mode="before")
    @classmethod
    def _take_former_names(cls, document: Any) -> Any:
        return renamed(document) if isinstance(document, dict) else document

    @property
    def second(self) -> Second:
        """The value that the second axis holds."""
        return "shift_strength" if self.strengths else "first_order" if self.betas else "gamma"

    def seconds(self) -> tuple[float | None, ...]:
        """Return the values of the second axis; None for the method's own γ."""
        return self.strengths or self.betas or self.gammas

    def fitting(self) -> dict[str, str | int | float]:
        """Return the values of ``FITTING`` that are not plain."""
        plain = {name: info.default for name, info in type(self).model_fields.items() if name in FITTING}
        return {name: getattr(self, name) for name in FITTING if name in plain and getattr(self, name) != plain[name]}

    def to_method(self, second: float | None = None) -> Method:
        """Return the method with its own λ.

        Args:
            second: A value of the second axis; None for the method's own.

        Raises:
            Refused: For a value that the method does not have.
        """
        return method(self.method, **self.fitting(), **({} if second is None else {self.second: second}))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of values on the second axis and of λ."""
        return (1, 1) if self.lams == "auto" else (len(self.seconds()), len(self.lams))

    def points(self) -> tuple[float, ...]:
        """Return the values of λ; empty with “auto”."""
        return () if self.lams == "auto" else self.lams


class Survey(BaseModel):
    """Content of a survey file."""

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
    test_tokens: int | None = Field(None, ge=2)  # the first of the test text; all where it is left out
    window: int = Field(ge=2)
    begin: Begin = "auto"
    tasks: tuple[str, ...] = ()  # for accuracies, of which there are none without
    task_limit: int | None = Field(None, ge=1)  # items of each task, the first
    lines: tuple[SurveyLine, ...] = Field(min_length=1)

    def draws_of(self, line: SurveyLine) -> tuple[int, ...]:
        """Return the seeds of the draws of a line."""
        return self.draws[: line.draws]

    @model_validator(mode="after")
    def _lines_have_names(self) -> Survey:
        names = [
            (line.method, line.bits, line.lams == "auto", line.second, *line.fitting().items()) for line in self.lines
        ]
        for name in names:
            if names.count(name) > 1:
                raise Refused(
                    "the line is there twice", f"survey “{self.title}”, {name[0]} at {name[1]} bits", "Merge the two."
                )
        return self

    @model_validator(mode="after")
    def _lines_are_possible(self) -> Survey:
        for line in self.lines:
            where = f"survey “{self.title}”, {line.method} at {line.bits} bits"
            if "cross" in line.to_method().needs and self.inputs_from == "float":
                raise Refused(
                    f"{line.method} corrects what the quantized blocks before a layer did to its inputs, and this "
                    "survey takes every layer's inputs from the float model, where there is nothing to correct",
                    where,
                    "Set inputs_from to quantized, or leave the line out.",
                )
            if not set(line.tasks_at or ()) <= set(line.points()):
                raise Refused("tasks_at names a λ that the line does not have", where, "Correct tasks_at.")
            if line.lams == "auto" and METHODS[line.method].auto is None:
                raise Refused("there is nothing that “auto” could choose", where, "Leave λ out.")
            if line.lams == "auto" and len(line.gammas) > 1:
                raise Refused(
                    "with “auto” for λ there is one γ, or “auto” chooses it too",
                    where,
                    "Leave γ out, or give one value.",
                )
            _check_second(line, where)
            if line.sizes and (self.inputs_from == "quantized" or line.lams == "auto"):
                raise Refused(
                    "layers at several sizes are solved on the float model's inputs, at given λ",
                    where,
                    "Leave sizes out, or set inputs_from to float.",
                )
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


def _check_second(line: SurveyLine, where: str) -> None:
    """Refuses α or β beside other values of the second axis, and without the 0 that they are compared with."""
    if line.second == "gamma":
        return
    sign = SECOND_SIGNS[line.second]
    beside = [
        name
        for name, is_given in (
            ("gamma", line.gammas != (None,)),
            ("first_order", line.strengths and line.betas),
            ("sizes", line.sizes),
            ("lambda: auto", line.lams == "auto"),
        )
        if is_given
    ]
    if beside:
        raise Refused(
            f"a line over {sign} has nothing else beside λ, and {beside[0]} is given",
            where,
            f"Leave {beside[0]} out, or make two lines.",
        )
    values = line.seconds()
    if values[0] != 0 or len({*values}) < len(values):
        raise Refused(
            f"the values of {sign} are compared with {sign} = 0, which is not the first of them, or one is there twice",
            where,
            f"Begin {line.second} with 0, and give each value once.",
        )
    for value in values:
        line.to_method(value)  # which refuses a method without it


@dataclass
class LineResult:
    """Results of one line of the survey, draw by draw."""

    survey: Survey
    wanted: SurveyLine
    items: int  # of the task; 0 without one
    curves: list[list[list[LayerCurve]]] = field(default_factory=list)  # [draw][layer][gamma]
    reports: list[list[LayerReport]] = field(default_factory=list)  # [draw][layer], of lines with “auto”
    selections: list[ModelSelection | None] = field(default_factory=list)  # [draw], of lines with “auto”
    by_size: list[dict[str, np.ndarray]] = field(default_factory=list)  # [draw], layer × size × γ × λ

    def __post_init__(self) -> None:
        shape = (len(self.survey.draws_of(self.wanted)), *self.wanted.shape)
        self.perplexity, self.kl, self.accuracy = (np.full(shape, np.nan) for _ in range(3))
        self.correct = np.full((*shape, self.items), UNMEASURED, dtype=np.uint8)

    def measured(self, draw: int, point: tuple[int, int], quality: SurveyPoint) -> None:
        at = (draw, *point)
        self.perplexity[at], self.kl[at] = quality.perplexity, quality.kl
        if (accuracy := quality.accuracy()) is not None:
            self.accuracy[at], self.correct[at] = accuracy[0], quality.correct

    def point_text(self, point: tuple[int, int]) -> str:
        if self.wanted.lams == "auto":
            return "auto" if self.selections[-1] is None else f"auto, λ {self.selections[-1].lam}"
        sign = SECOND_SIGNS[self.wanted.second]
        return f"{sign} {self.wanted.seconds()[point[0]]}, λ {self.wanted.lams[point[1]]}"

    def line(self, writer: StudyWriter) -> Line:
        wanted, planned = self.wanted, _planned(self.survey, self.wanted)
        arrays: dict[str, ArrayRef] = curve_arrays(writer, self.curves, wanted.pictures)
        arrays |= {name: writer.add(getattr(self, name), AXES) for name in ("perplexity", "kl", "accuracy")}
        if self.items:
            arrays["correct"] = writer.add(self.correct, (*AXES, "item"))
        if wanted.lams == "auto":
            recipe = recipe_for(self.survey, wanted, self.survey.draws[0])
            arrays |= auto_arrays(writer, recipe, self.reports, self.selections)
        for name in self.by_size[0] if self.by_size else ():
            stacked = np.stack([draw[name] for draw in self.by_size])
            arrays[name] = writer.add(stacked, (*LAYER_AXES[:2], "size", *LAYER_AXES[2:]))
        return planned.model_copy(update={"arrays": arrays})


def recipe_for(
    survey: Survey, line: SurveyLine, seed: int, lam: float | Auto = "auto", second: float | None = None
) -> Recipe:
    """Return the recipe of a run at one point, with λ and the second value as far as the method has them.

    Args:
        survey: The survey.
        line: A line of it.
        seed: Seed of the draw.
        lam: λ; “auto” chooses α of a method that has nothing else to choose.
        second: A value of the second axis; None for the method's own, or for a γ of “auto” beside a λ of “auto”.
    """
    tunes = METHODS[line.method].tunes
    values: dict[str, Any] = {"lambda": lam, line.second: "auto" if lam == "auto" and second is None else second}
    if lam == "auto" and "lam" not in tunes:
        values["shift_strength"] = "auto"
    read = {public_name(name) for name in (*tunes, *METHODS[line.method].options)}
    return Recipe.parse(
        {
            "model": survey.model,
            "bits": line.bits,
            "grid": survey.grid,
            "group_size": "per_channel" if survey.group_size is None else survey.group_size,
            "method": line.method,
            "calibration": survey.calibration,
            "samples": survey.samples,
            "length": survey.length,
            "sampling": "random",
            "seed": seed,
            "inputs_from": survey.inputs_from,
            "begin": survey.begin,
        }
        | line.fitting()
        | {name: value for name, value in values.items() if name in read and value is not None}
    )


def conduct(survey: Survey, settings: Settings, folder: Path, had: Sequence[Study] = ()) -> Iterator[str]:
    """Make the study in ``folder`` and yield a line of progress for each kept line and each point.

    Measurements, solved lines, and under a quantized prefix finished layers are kept as artefacts: a survey that was
    stopped continues where it was.

    Args:
        survey: The survey.
        settings: Settings of the host.
        folder: Folder of the study.
        had: Existing studies; lines of them that the survey asks for are copied as they are.

    Raises:
        Refused: If such a study was made of another model, on other texts or with other libraries.
    """
    shared = _prepared(survey, settings)
    key = survey_model_key(shared.bench.model, shared.bench.loaded)
    original = measure_point(shared.bench, key, shared.original, survey.tasks, survey.task_limit)
    accuracy, items = original.accuracy(), len(original.correct)
    for warned in device_warnings(shared.bench.loaded.device):
        yield f"warning: {warned.what}"
    feeding = check_feeding(shared.bench, survey.calibration, survey.begin, shared.original.test, survey.window)
    for words in returned(feeding).values():
        yield f"warning: {words}"
    of_task = "" if accuracy is None else f", accuracy {accuracy[0]:.4f}"
    yield f"float model: perplexity {original.perplexity:.4f}{of_task}"
    yield from _of_one_text(shared)
    protocol = _protocol(shared, items)
    taken: dict[SurveyLine, tuple[Study, Line]] = {}
    for study in had:
        _fits(study, survey, protocol, original.perplexity)
        for held in study.lines:
            line = next((one for one in survey.lines if _axes(_planned(survey, one)) == _axes(held)), None)
            if line is None:
                asked = "which the survey does not ask for as it was made"
                yield f"not taken over: {held.bits} bits, {held.name}, {asked}"
            elif line not in taken:
                taken[line] = (study, held)
                yield f"kept as it is: {held.bits} bits, {held.name}"
    results = {line: LineResult(survey, line, items) for line in survey.lines if line not in taken}
    started, done = time.perf_counter(), 0
    total = sum(int(np.prod(line.shape)) * len(survey.draws_of(line)) for line in results)
    for draw, seed in enumerate(survey.draws):
        drawn = {line: result for line, result in results.items() if seed in survey.draws_of(line)}
        of_draw = _Draw(shared, seed, tuple(drawn))
        for line, result in drawn.items():
            if _shares(survey, line):
                points = _from_statistics(shared, of_draw, draw, line, result)
            else:
                points = _from_runs(shared, line, draw, result)
            for point, model in points:
                tasks = _tasks(survey, line, draw, point)
                quality = measure_point(shared.bench, model, shared.original, tasks, survey.task_limit)
                result.measured(draw, point, quality)
                done += 1
                where = f"draw {seed}, {line.bits} bits, {line.method}, {result.point_text(point)}"
                seconds = time.perf_counter() - started
                yield f"{done}/{total} {seconds:.0f} s: {where}: perplexity {quality.perplexity:.3f}"
    checkpoint = shared.bench.loaded.checkpoint
    with study_writer(folder) as writer:
        lines = [
            results[line].line(writer) if line in results else copied(*taken[line], writer) for line in survey.lines
        ]
        writer.finish(
            study_of(
                folder.name,
                survey.title,
                survey.inputs_from,
                survey.model,
                checkpoint,
                original.perplexity,
                accuracy,
                protocol,
                lines,
            )
        )
    yield f"study written to {folder}"


def _fits(had: Study, survey: Survey, protocol: dict[str, Any], perplexity: float) -> None:
    now = (survey.inputs_from, survey.model, f"{perplexity:.5g}", json.loads(json.dumps(protocol)))
    then = (had.prefix, had.model.name, f"{had.model.perplexity or 0:.5g}", had.protocol)  # threads change last digits
    if now != then:
        words = ("its inputs", "its model", "the float model's perplexity", "its protocol")
        other = next(word for word, one, another in zip(words, now, then, strict=True) if one != another)
        raise Refused(
            f"its lines can't stand beside new ones: {other} would be another",
            f"study {had.id}",
            "Make all of it anew.",
        )


_axes = attrgetter(
    "name",
    "bits",
    "grid",
    "group_size",
    "lams",
    "gammas",
    "second",
    "draws",
    "sizes",
    "candidate_lams",
    "candidate_gammas",
)


def _planned(survey: Survey, line: SurveyLine) -> Line:
    fields: dict[str, Any] = {"lams": line.lams, "gammas": line.seconds(), "second": line.second, "sizes": line.sizes}
    if line.lams == "auto":
        fields = auto_axes(recipe_for(survey, line, survey.draws[0]))
    return study_line(
        line.method,
        line.fitting(),
        bits=line.bits,
        grid=survey.grid,
        group_size=survey.group_size,
        draws=survey.draws_of(line),
        arrays={},
        **fields,
    )


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
        """Of the held-out sequences, by layer."""
        self.bench.loaded.restore(self.float_weights)
        return _collect(self.bench.loaded, self.held_out.calibration)


def _tasks(survey: Survey, line: SurveyLine, draw: int, point: tuple[int, int]) -> tuple[str, ...]:
    """The tasks that are measured at a point, by positions of draw and of (γ, λ)."""
    if line.tasks_at is None or (
        draw == point[0] == 0 and line.lams != "auto" and line.lams[point[1]] in line.tasks_at
    ):
        return survey.tasks
    return ()


def _prepared(survey: Survey, settings: Settings) -> _Shared:
    checkpoint = checkpoint_of(survey.model, None, settings, download=True)
    assert checkpoint is not None  # fetched where it was not here
    loaded = load(checkpoint, choose_device(settings.device), begins_with_bos=survey.begin == "bos")
    if checkpoint.decoder is not None:
        admit(loaded, learns=any(line.to_method().unit == "block" for line in survey.lines))
    bench = Workbench(loaded, describe(loaded), ArtefactStore(settings.artefacts_root()), settings)
    calibration, held_out_text, test = _texts(survey, checkpoint, settings)
    held_out = draw_sequences(
        held_out_text,
        samples=survey.held_out_samples,
        length=survey.length,
        held_out_samples=0,
        sampling="sequential",
        seed=0,
    )
    original = FloatStates.of(loaded, test.in_windows(survey.window), survey.window)
    return _Shared(survey, bench, calibration, held_out, held_out_text.part, original, loaded.weights())


def _texts(survey: Survey, checkpoint: Checkpoint, settings: Settings) -> tuple[Text, Text, Text]:
    """The calibration, held-out and test texts, in halves where calibration and another are the same text."""
    whole, held_out, test = (
        text_of(name, checkpoint, settings, begin=survey.begin, download=True)
        for name in (survey.calibration, survey.held_out, survey.test)
    )
    (beside_held_out, held_out), (beside_test, test) = apart(whole, held_out), apart(whole, test)
    calibration = beside_held_out if beside_held_out.part else beside_test
    return calibration, held_out, test.limited(survey.test_tokens)


def _of_one_text(shared: _Shared) -> Iterator[str]:
    """Warnings about texts that are measured on and of which calibration has tokens, or would."""
    for word, part in (("held-out", shared.held_out_part), ("test", shared.original.test.part)):
        if part:
            yield f"warning: calibration and {word} text are the same: the first half is calibration, {word} the second"
    share, _ = in_common(shared.held_out.calibration, shared.calibration)
    if share >= NOT_BY_CHANCE:
        yield f"warning: {percent(share)} of the held-out sequences are in the calibration text too"


def _collect(loaded: LoadedModel, sequences: np.ndarray) -> dict[str, LayerStatistics]:
    """Statistics of every linear from the float model, by full name."""
    walk = BlockWalk(loaded, torch.from_numpy(sequences.copy()))
    collected: dict[str, LayerStatistics] = {}
    for index, block in enumerate(loaded.blocks()):
        statistics, outputs = collect(walk, block)
        collected |= {f"{loaded.family.blocks}.{index}.{path}": part for path, part in statistics.items()}
        walk.advance(outputs)
    return collected


@dataclass(frozen=True, eq=False)
class _Draw:
    """One calibration draw, with the statistics that its lines share, made on demand."""

    shared: _Shared
    seed: int
    lines: tuple[SurveyLine, ...]

    @property
    def sizes(self) -> list[int]:
        """All numbers of sequences that a line asks for, in ascending order."""
        lines = (line for line in self.lines if _shares(self.shared.survey, line))
        return sorted({size for line in lines for size in line.sizes})

    def sequences(self, samples: int) -> np.ndarray:
        """Tokens (samples, length); the first of them are those of fewer."""
        return _sequences(self.shared, self.seed, samples).calibration

    @cached_property
    def own(self) -> dict[str, LayerStatistics]:
        """Statistics of the survey's number of sequences, by layer."""
        self.shared.bench.loaded.restore(self.shared.float_weights)
        return _collect(self.shared.bench.loaded, self.sequences(self.shared.survey.samples))

    @cached_property
    def by_size(self) -> list[tuple[int, dict[str, LayerStatistics]]]:
        """Statistics for all ``sizes``, by layer."""
        loaded = self.shared.bench.loaded
        loaded.restore(self.shared.float_weights)
        sequences = self.sequences(self.sizes[-1])
        total: dict[str, LayerStatistics] = {}
        by_size = []
        for first, last in pairwise([0, *self.sizes]):
            part = _collect(loaded, sequences[first:last])
            total = {name: total[name] + more if total else more for name, more in part.items()}
            by_size.append((last, total))
        return by_size


def _sequences(shared: _Shared, seed: int, samples: int) -> Sequences:
    return draw_sequences(
        shared.calibration,
        samples=samples,
        length=shared.survey.length,
        held_out_samples=0,
        sampling="random",
        seed=seed,
    )


def _shares(survey: Survey, line: SurveyLine) -> bool:
    return survey.inputs_from == "float" and line.lams != "auto" and line.to_method().unit == "layer"


def _from_statistics(
    shared: _Shared, of_draw: _Draw, draw: int, line: SurveyLine, result: LineResult
) -> Iterator[tuple[tuple[int, int], str]]:
    """Puts the line's weights into the model, one point (γ, λ) after the other, each with the key of that model.

    The curves go to ``result``. Points that are solved and measured already are taken from the artefacts, without
    weights.
    """
    bench, survey = shared.bench, shared.survey
    grid = Grid(line.bits, survey.group_size, survey.grid)
    methods = [line.to_method(value) for value in line.seconds()]
    key = survey_line_key(
        bench.model,
        grid,
        methods,
        line.points(),
        of_draw.sequences(survey.samples),
        shared.held_out.calibration,
        [of_draw.sequences(size) for size in line.sizes],
    )
    kept = read_line(bench.store, key)
    if kept is None or not all(
        is_measured(bench, model, shared.original, _tasks(survey, line, draw, point), survey.task_limit)
        for point, model in kept.models.items()
    ):
        loaded = bench.loaded
        weights = _stored_weights(shared)
        by_size = _errors_by_size(shared, of_draw, line, grid, weights) if line.sizes else {}
        stored, curves = _solved(shared, of_draw, line, grid, methods, weights)
        models = {}
        for g, m in np.ndindex(*line.shape):
            for name, by_gamma in zip(weights, stored, strict=True):
                loaded.weight(name).data.copy_(by_gamma[g][m]())
            models[g, m] = survey_model_key(bench.model, loaded)
            yield (g, m), models[g, m]
        kept = SolvedLine(curves, by_size, models)
        write_line(bench.store, key, kept)
    else:
        yield from kept.models.items()
    result.curves.append(kept.curves)
    if line.sizes:
        result.by_size.append(kept.by_size)


def _stored_weights(shared: _Shared) -> dict[str, Tensor]:
    """Copies of the float weights as the checkpoint stores them, by layer: the model gets others."""
    loaded = shared.bench.loaded
    loaded.restore(shared.float_weights)
    return {
        layer.name: loaded.weight(layer.name).detach().to(loaded.stored_as(f"{layer.name}.weight"), copy=True)
        for layer in loaded.checkpoint.layers
    }


def _solved(
    shared: _Shared, of_draw: _Draw, line: SurveyLine, grid: Grid, methods: list[Method], weights: dict[str, Tensor]
) -> tuple[list[list[list[Callable[[], Tensor]]]], list[list[LayerCurve]]]:
    """Makers of the weights of every layer at every point, [layer][gamma][lambda], and its curves, [layer][gamma].

    Of the results codes and scales are held, a quarter of the weights or less.
    """
    budget = sweep_bytes(shared.bench.settings)
    stored: list[list[list[Callable[[], Tensor]]]] = []
    curves: list[list[LayerCurve]] = []
    for layer in shared.bench.loaded.checkpoint.layers:
        weight, own, unseen = weights[layer.name], of_draw.own[layer.name], shared.unseen[layer.name]
        points = (method_for(layer, chosen) for chosen in methods)
        solved = [solve_curve(weight, own, unseen, grid, one, line.points(), budget) for one in points]
        stored.append([[one.without_dequantized() for one in at_lams] for at_lams, _ in solved])
        curves.append([curve for _, curve in solved])
    return stored, curves


def _errors_by_size(
    shared: _Shared, of_draw: _Draw, line: SurveyLine, grid: Grid, weights: dict[str, Tensor]
) -> dict[str, np.ndarray]:
    """Relative errors (layer, size, γ, λ) of layers solved on other numbers of sequences, on these and on unseen."""
    budget = sweep_bytes(shared.bench.settings)
    sweeps = [
        [
            sweep_layer(
                weights[layer.name],
                of_size[layer.name],
                grid,
                method_for(layer, line.to_method()),
                lams=line.points(),
                gammas=line.gammas,
                held_out=shared.unseen[layer.name],
                budget_bytes=budget,
            )
            for size, of_size in of_draw.by_size
            if size in line.sizes
        ]
        for layer in shared.bench.loaded.checkpoint.layers
    ]
    return {
        f"{name}_by_size": np.array([[getattr(sweep, f"relative_{name}").numpy() for sweep in row] for row in sweeps])
        for name in ("recon", "held_out")
    }


def _from_runs(
    shared: _Shared, line: SurveyLine, draw: int, result: LineResult
) -> Iterator[tuple[tuple[int, int], str]]:
    """Quantizes the model as a run of each point (γ, λ) would, one after the other, and notes curves in ``result``."""
    bench, loaded, seed = shared.bench, shared.bench.loaded, shared.survey.draws[draw]
    checkpoint, unseen = loaded.checkpoint, shared.held_out
    by_gamma: list[list[list[LayerCurve]]] = []  # [gamma][lambda][layer]
    lams: tuple[float | Auto, ...] = ("auto",) if line.lams == "auto" else line.lams
    for g, second in enumerate(line.seconds()):
        by_gamma.append([])
        for m, lam in enumerate(lams):
            loaded.restore(shared.float_weights)
            recipe = recipe_for(shared.survey, line, seed, lam, second)
            drawn = _sequences(shared, seed, recipe.samples)
            sequences = Sequences(drawn.calibration, unseen.calibration, {**drawn.protocol, "unseen": unseen.protocol})
            job = calibration_job(recipe, checkpoint, sequences, indivisible_layers(recipe, checkpoint.layers))
            job, selection = returned(settle(bench, recipe, job))
            steps = bench.calibrated(job, layer_keys(bench.model, job))
            solved = [step for step in steps if isinstance(step, SolvedLayer)]
            by_gamma[-1].append([layer.curve for layer in solved])
            if lam == "auto":
                result.reports.append([layer.quantized.report for layer in solved])
                result.selections.append(selection)
            yield (g, m), survey_model_key(bench.model, loaded)
    layers = range(len(checkpoint.layers))
    result.curves.append([[joined([at[layer] for at in of_gamma]) for of_gamma in by_gamma] for layer in layers])


def returned(steps: Generator[object, None, T]) -> T:
    """Return the return value of a generator, whatever it yields before."""
    for _ in (every := Returning(steps)):
        pass
    return every.value


def _protocol(shared: _Shared, items: int) -> dict[str, Any]:
    survey, loaded = shared.survey, shared.bench.loaded
    test = shared.original.test
    windows, given = len(test.ids) // survey.window, max(1, len(test.begin))
    # Without it, a run of the study's settings begins its sequences as the model's tokenizer does.
    begin = {"begin": test.begin.text or "none"} if test.begin or survey.begin == "none" else {}

    def asked(name: str, corpus: str) -> dict[str, str]:
        """A text by the name that a recipe gives it, where that is not what it is called."""
        return {"corpus": corpus} if name == corpus else {"corpus": corpus, "text": name}

    return {
        "calibration": {
            **asked(survey.calibration, shared.calibration.corpus),
            **({"part": shared.calibration.part} if shared.calibration.part else {}),
            "samples": survey.samples,
            "length": survey.length,
            "tokens": survey.samples * survey.length,
            "sampling": "random",
            **begin,
            **({"begin_rule": "bos"} if survey.begin == "bos" else {}),
        },
        "held_out": {
            **asked(survey.held_out, shared.held_out.protocol["corpus"]),
            **({"part": shared.held_out_part} if shared.held_out_part else {}),
            "samples": survey.held_out_samples,
            "length": survey.length,
            "tokens": survey.held_out_samples * survey.length,
            **begin,
        },
        "test": {
            **asked(survey.test, test.corpus),
            **({"part": test.part} if test.part else {}),
            "window": survey.window,
            "windows": windows,
            "predicted_tokens": windows * (survey.window - given),
            **begin,
            "dtype": str(loaded.compute_dtype).removeprefix("torch."),
            **({} if test.first is None else {"only_the_first_tokens": test.first}),
        },
        "tasks": [*survey.tasks],
        **({} if survey.task_limit is None else {"task_limit": survey.task_limit}),
        "items": items,
        "device": str(loaded.device),
        "versions": versions(),
        **of_weights(loaded.checkpoint),
    }
