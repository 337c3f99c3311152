"""Surveys: all lines of one model on the same draws.

``inputs_from: float`` explores: statistics come from the float model, one pass for each draw, shared by all lines, and
candidates are solved in batches. ``inputs_from: quantized`` does for each point the work of a run.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sarqc.calibration.corpora import NOTABLE_OVERLAP, Sequences, draw_sequences, overlap_shares
from sarqc.calibration.job import SolvedLayer, calibration_job
from sarqc.calibration.layer_batch import method_for
from sarqc.calibration.pictures import LayerCurve, curve_of
from sarqc.engine.auto_by_model import settle
from sarqc.engine.costs import sweep_bytes
from sarqc.engine.feeding import check_feeding
from sarqc.engine.keys import layer_keys, methods_as_values
from sarqc.engine.measure import device_warnings
from sarqc.engine.plan import indivisible_layers
from sarqc.engine.study_output import joined, study_of, study_writer
from sarqc.evaluation.perplexity import drain
from sarqc.extras.survey.kept_lines import SolvedLine, read_line, write_line
from sarqc.extras.survey.output import LineResult, protocol
from sarqc.extras.survey.schema import Auto, Survey, SurveyLine
from sarqc.extras.survey.shared import SharedData, prepare
from sarqc.files.artefacts import chain_key
from sarqc.plain import percent
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import Method
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer
from sarqc.quantization.solve import only_solved, quantize, sweep_layer
from sarqc.quantization.solving import Context, LayerJob
from sarqc.settings import Settings

_FORMAT = 1  # of solved lines, see ``engine.keys``


def conduct(survey: Survey, settings: Settings, folder: Path) -> Iterator[str]:
    """Make the study in ``folder`` and yield a line of progress for each point.

    Measurements, solved lines, and under a quantized prefix finished layers are stored as artefacts: a survey that was
    stopped continues where it was.

    Args:
        survey: The survey.
        settings: Settings of the host.
        folder: Folder of the study.
    """
    shared, recipe = prepare(survey, settings), survey.recipe
    bench, test = shared.bench, shared.test
    original = shared.point(shared.model_key(), recipe.tasks)
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
        draw = SurveyDraw(shared, number, tuple(result.spec for result in drawn))
        for result in drawn:
            line = result.spec
            for point, model in (_solve_from_statistics if _shares_statistics(line) else _solve_by_runs)(draw, result):
                quality = shared.point(model, draw.tasks(line, point))
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
                protocol(shared, items),
                [result.line(writer) for result in results],
            )
        )
    yield f"study written to {folder}"


def _warn_of_shared_text(shared: SharedData) -> Iterator[str]:
    """Yield warnings about texts that are measured on and of which calibration has tokens, or would."""
    for word, part in (("held-out", shared.held_out_part), ("test", shared.test.part)):
        if part:
            yield f"warning: calibration and {word} text are the same: the first half is calibration, {word} the second"
    share, _ = overlap_shares(shared.held_out.calibration, shared.calibration)
    if share >= NOTABLE_OVERLAP:
        yield f"warning: {percent(share)} of the held-out sequences are in the calibration text too"


@dataclass(frozen=True, eq=False)
class SurveyDraw:
    """One calibration draw, with the statistics that its lines share, made on demand."""

    shared: SharedData
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


def _solve_from_statistics(draw: SurveyDraw, result: LineResult) -> Iterator[tuple[tuple[int, int], str]]:
    """Put a line's weights into the model, one point (γ, λ) after the other, each with the key of that model.

    The curves go to ``result``. Points that are solved and measured already are taken from the artefacts, without
    weights.
    """
    shared, line, bench = draw.shared, result.spec, draw.shared.bench
    grid = Grid(line.recipe.bits, line.recipe.group_size, line.recipe.grid)
    methods = [line.to_method(value) for value in line.seconds()]
    sequences = [draw.drawn(line.recipe.samples), shared.held_out, *map(draw.drawn, line.sizes)]
    key = chain_key(
        "survey line",
        _FORMAT,
        bench.model.key,
        asdict(grid),
        methods_as_values(methods),
        [*line.points()],
        *(np.ascontiguousarray(part.calibration).tobytes() for part in sequences),
    )
    solution = read_line(bench.store, key)
    if solution is None or not all(
        shared.is_measured(model, draw.tasks(line, point)) for point, model in solution.models.items()
    ):
        loaded = bench.loaded
        loaded.restore(shared.float_weights)
        weights = {  # as the checkpoint stores them: the model gets others
            layer.name: loaded.weight(layer.name).detach().to(loaded.stored_as(f"{layer.name}.weight"), copy=True)
            for layer in loaded.checkpoint.layers
        }
        by_size = _errors_by_size(draw, line, grid, weights) if line.sizes else {}
        stored, curves = solve_line(draw, line, grid, methods, weights)
        models = {}
        for g, m in np.ndindex(*line.shape):
            for name, by_gamma in zip(weights, stored, strict=True):
                loaded.weight(name).data.copy_(by_gamma[g][m]())
            models[g, m] = shared.model_key()
            yield (g, m), models[g, m]
        solution = SolvedLine(curves, by_size, models)
        write_line(bench.store, key, solution)
    else:
        yield from solution.models.items()
    result.curves.append(solution.curves)
    if line.sizes:
        result.by_size.append(solution.by_size)


def solve_line(
    draw: SurveyDraw, line: SurveyLine, grid: Grid, methods: list[Method], weights: dict[str, Tensor]
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
        stored.append([[_weight_maker(solution) for solution in at_lams] for at_lams, _ in solved])
        curves.append([curve for _, curve in solved])
    return stored, curves


def solve_curve(
    weight: Tensor,
    statistics: LayerStatistics,
    held_out: LayerStatistics,
    grid: Grid,
    method: Method,
    lams: tuple[float, ...],
    budget_bytes: int,
) -> tuple[list[QuantizedLayer], LayerCurve]:
    """Solve one layer at every λ, and return the quantized layers and their curve."""
    solving = LayerJob(CheckedLayer(weight, statistics, grid, held_out), method.points(lams))
    solved = [step.layer for step in only_solved(quantize([solving], Context(budget_bytes)))]
    return solved, curve_of(lams, solved, weight, statistics, held_out, grid)


def _weight_maker(layer: QuantizedLayer) -> Callable[[], Tensor]:
    """Return a function that makes ``dequantized`` again.

    It holds codes and scales only, if these determine the weight; with channel or row scales it holds a copy of
    ``dequantized``.
    """
    if not torch.equal(layer.stored(), layer.dequantized):  # both scales of channels are missing there
        return partial(torch.clone, layer.dequantized)
    return replace(layer, dequantized=layer.codes[:0]).stored


def _errors_by_size(
    draw: SurveyDraw, line: SurveyLine, grid: Grid, weights: dict[str, Tensor]
) -> dict[str, np.ndarray]:
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


def _solve_by_runs(draw: SurveyDraw, result: LineResult) -> Iterator[tuple[tuple[int, int], str]]:
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
            yield (g, m), shared.model_key()
    layers = range(len(checkpoint.layers))
    result.curves.append([[joined([at[layer] for at in by_lam]) for by_lam in by_gamma] for layer in layers])
