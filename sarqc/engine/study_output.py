"""Studies from solved layers and measurements: lines, arrays and the document, for single runs and for surveys.

Axes in comments: D calibration draws, L layers, G γ values, M λ values.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from sarqc.calibration.pictures import ALONG_LAMBDA, RELATIVE, SCALARS, SURFACES, LayerCurve, LayerNumbers
from sarqc.engine.auto_by_model import ModelSelection
from sarqc.engine.page_codes import keep_codes
from sarqc.engine.result import value
from sarqc.engine.run import RunContext
from sarqc.events import Event, Saved, Stage
from sarqc.models.checkpoint import Checkpoint
from sarqc.quantization.methods import entry_of
from sarqc.quantization.quantized_layer import LayerReport
from sarqc.recipe import Recipe, method_title
from sarqc.study.document import (
    ROTATED,
    SIGNED_ZERO,
    ArrayRef,
    LaterBlocks,
    Line,
    ModelFacts,
    Study,
    StudyWriter,
    common_scale,
    eight_bits,
)
from sarqc.study.stamp import Stamp

AXES = ("draw", "gamma", "lambda")
LAYER_AXES = ("draw", "layer", "gamma", "lambda")
UNMEASURED = 255  # in ``correct``
Pictures = Literal["all", "surface", "none"]  # of a line's weights: every pooling and the group, one surface, or none


def study_line(method: str, fitting: Mapping[str, str | int | float] = MappingProxyType({}), **fields: Any) -> Line:
    """Return a line with title and baseline of its method; ``fitting``: how its grid is fitted, see ``Method``."""
    entry = entry_of(method)
    title, baseline = method_title(method, fitting), method if entry is None else entry.baseline
    return Line(method=method, title=title, baseline=baseline, fitting=dict(fitting), **fields)


def curve_arrays(
    writer: StudyWriter,
    curves: list[list[list[LayerCurve]]],
    pictures: Pictures = "all",
    further: Sequence[Sequence[Sequence[LayerNumbers]]] = (),
) -> dict[str, ArrayRef]:
    """Return the layer arrays of a line from its curves, indexed [draw][layer][gamma]; pictures are of the first draw.

    ``further``: draws after those, of which there are numbers alone.
    """
    draws = [*curves, *further]
    arrays = {
        name: writer.add(
            np.array([[[getattr(curve, name) for curve in layer] for layer in draw] for draw in draws]), LAYER_AXES
        )
        for name in RELATIVE
    }
    for name in {"all": SURFACES, "surface": SURFACES[:1], "none": ()}[pictures]:
        values = np.array([[getattr(curve, name) for curve in layer] for layer in curves[0]])  # L G M row column
        most = np.abs(values).max(axis=(-2, -1))  # L G M
        scale = common_scale(most)
        cells = eight_bits(values, scale, SIGNED_ZERO if name == "surface_signed" else 0)
        arrays[name] = writer.add(cells, (*LAYER_AXES[1:], "row", "column"))
        arrays[f"{name}_scale"] = writer.add(scale, ("layer",))
        arrays[f"{name}_most"] = writer.add(most, LAYER_AXES[1:])
    deciles = np.array([[curve.deciles for curve in layer] for layer in curves[0]])
    tokens = np.array([[layer[0].tokens for layer in draw] for draw in draws], dtype=np.float32)
    for name in SCALARS:
        values = np.array([[getattr(layer[0], name) for layer in draw] for draw in draws])
        arrays[name] = writer.add(values, ("draw", "layer"))
    arrays["tokens"] = writer.add(tokens, ("draw", "layer"))
    arrays["deciles"] = writer.add(deciles, (*LAYER_AXES[1:], "decile"))
    return arrays if pictures == "none" else arrays | _group_arrays(writer, curves[0])


def _group_arrays(writer: StudyWriter, curves: list[list[LayerCurve]]) -> dict[str, ArrayRef]:
    """Return the inspected groups of a draw, [layer][gamma]; layers with fewer weights are filled up with NaN."""
    widest = max(layer[0].group_weight.size for layer in curves)
    shape = (len(curves), len(curves[0]), len(curves[0][0].lams), widest)  # L G M C
    weight = np.full((shape[0], widest), np.nan, dtype=np.float32)
    codes, step = np.zeros(shape, dtype=np.uint8), np.full(shape, np.nan, dtype=np.float32)
    for index, layer in enumerate(curves):
        count = layer[0].group_weight.size
        weight[index, :count] = layer[0].group_weight
        for g, curve in enumerate(layer):
            codes[index, g, :, :count], step[index, g, :, :count] = curve.group_codes, curve.group_step
    first = step[..., :1]
    if np.array_equal(np.where(np.isnan(step), first, step), np.broadcast_to(first, shape)):
        step = first  # one for all channels, as everywhere but in a scale search
    axes = LAYER_AXES[1:]
    return {
        "group_place": writer.add(np.array([layer[0].group_place for layer in curves]), ("layer", "place")),
        "group_weight": writer.add(weight, ("layer", "channel")),
        "group_codes": writer.add(codes, (*axes, "channel")),
        "group_zero": writer.add(np.array([[curve.group_zero for curve in layer] for layer in curves]), axes),
        "group_step": writer.add(step, (*axes, "channel")),
    }


def joined(curves: Sequence[LayerCurve]) -> LayerCurve:
    """Return curves of one layer, made apart, as one along λ."""
    arrays: dict[str, Any] = {name: np.concatenate([getattr(curve, name) for curve in curves]) for name in ALONG_LAMBDA}
    return replace(curves[0], lams=tuple(lam for curve in curves for lam in curve.lams), **arrays)


def auto_axes(recipe: Recipe) -> dict[str, Any]:
    """Return the fields of a line whose λ and γ “auto” chooses."""
    candidates = recipe.candidates()
    return {
        "lams": (0.0,),
        "gammas": (None,),
        "chosen": (0, 0),
        "selected": recipe.auto_by(),
        "candidate_lams": tuple(dict.fromkeys(point.lam for point in candidates)),
        "candidate_gammas": tuple(dict.fromkeys(point.gamma for point in candidates)),
    }


def auto_arrays(
    writer: StudyWriter,
    recipe: Recipe,
    reports: list[list[LayerReport]],
    selections: Sequence[ModelSelection | None],
) -> dict[str, ArrayRef]:
    """Return the arrays of a line whose λ and γ “auto” chose: reports [draw][layer]; selections [draw], by model."""
    axes = auto_axes(recipe)
    lams, gammas = axes["candidate_lams"], axes["candidate_gammas"]

    def chosen(name: str) -> np.ndarray:  # (D, L)
        values = [[report.chosen.get(name) for report in draw] for draw in reports]
        return np.array([[math.nan if value is None else value for value in draw] for draw in values], dtype=np.float64)

    arrays = {
        "selected_lambda": writer.add(chosen("lam"), ("draw", "layer")),
        "selected_gamma": writer.add(chosen("gamma"), ("draw", "layer")),
    }
    if len({point.alpha for point in recipe.candidates()}) > 1:
        arrays["selected_strength"] = writer.add(chosen("shift_strength"), ("draw", "layer"))
    if axes["selected"] == "layer":
        shape = (len(reports), len(reports[0]), len(gammas), len(lams), -1)  # at last α
        tables = {
            name: np.array(
                [[[row[name] for row in report.candidates] for report in draw] for draw in reports], dtype=np.float64
            ).reshape(shape)  # NaN for None
            for name in ("train", "validation")
        }
        best = np.nan_to_num(tables["validation"], nan=np.inf).argmin(axis=-1, keepdims=True)
        for name, table in tables.items():
            best_values = np.take_along_axis(table, best, axis=-1)[..., 0]
            arrays[f"candidate_{name}"] = writer.add(
                best_values, ("draw", "layer", "candidate_gamma", "candidate_lambda")
            )
    else:
        table = np.array([selection.perplexities for selection in selections if selection is not None])  # (D, M)
        arrays["candidate_perplexity"] = writer.add(table, ("draw", "candidate_lambda"))
    return arrays


@contextmanager
def study_writer(folder: Path) -> Iterator[StudyWriter]:
    """Yield a writer of the study in ``folder``; whatever it was given and did not finish is gone afterwards."""
    writer = StudyWriter(folder)
    try:
        yield writer
    finally:
        writer.discard()


def study_of(
    study_id: str,
    title: str,
    prefix: Literal["quantized", "float"],
    name: str,
    checkpoint: Checkpoint,
    perplexity: float | None,
    accuracy: tuple[float, float] | None,
    protocol: Mapping[str, Any],
    lines: Sequence[Line],
    recipe: Recipe | None = None,
    reports: Mapping[str, LayerReport] | None = None,
    stamp: Stamp | None = None,
) -> Study:
    """Return the document, made now.

    ``name``, ``perplexity`` and ``accuracy``, with its standard error, are the float model's; ``recipe``, ``reports``
    by layer and ``stamp`` those of a single run.
    """
    reports, (share, error) = reports or {}, accuracy or (None, None)
    return Study(
        id=study_id,
        title=title,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        prefix=prefix,
        model=ModelFacts(
            name=name,
            parameters=checkpoint.parameters,
            share_quantized=checkpoint.share_quantized,
            perplexity=perplexity,
            accuracy=share,
            accuracy_standard_error=error,
        ),
        protocol=dict(protocol),
        recipe=None if recipe is None else recipe.to_json(),
        layers=tuple(checkpoint.layers),
        lines=tuple(lines),
        layer_reports={name: report.to_json() for name, report in reports.items()},
        flags=tuple(
            sorted({flag for report in reports.values() for flag in report.flags}.union(protocol.get("feeding", ())))
        ),
        stamp=stamp,
    )


def save_study(run: RunContext) -> Iterator[Event]:
    """Write the study, and beside it the codes for pages."""
    if run.output.study is not None:
        yield Stage("saving", "study")
        study = write_run(run, run.output.study)
        keep_codes(run, run.bench.loaded, run.layers, study, run.bench.settings)
        yield Saved("study", str(run.output.study))


def write_run(run: RunContext, folder: Path) -> Study:
    """Write the study of one run: one line with one draw, measured at the chosen point only."""
    recipe, summary = run.recipe, run.summary
    with study_writer(folder) as writer:
        line = _run_line(run, writer)
        protocol = {**summary["protocol"], "device": run.device, "tasks": list(recipe.tasks)}
        protocol |= {name: facts for name in ("opened", "distillation", "rotation") if (facts := summary.get(name))}
        name = Path(recipe.quantized_checkpoint or recipe.model).name + (" repaired" if recipe.repairs else "")
        title = f"{name}, {recipe.bits} bits, {line.label if line.later is not None else line.title}"
        return writer.finish(
            study_of(
                run.output.study_id,
                title,
                recipe.inputs_from,
                recipe.model,
                run.prepared.checkpoint,
                value(run.original.perplexity),
                run.original.mean_accuracy(),
                protocol,
                (line,),
                recipe,
                run.reports,
                run.stamp,
            )
        )


def _run_line(run: RunContext, writer: StudyWriter) -> Line:
    recipe, job, measured = run.recipe, run.job, run.quantized
    lams, own = job.curve_lams(), job.own_point()
    shape = (1, 1, len(lams))
    arrays = curve_arrays(writer, [[[curve] for curve in run.curves]])
    perplexity, accuracy = np.full(shape, np.nan), np.full(shape, np.nan)
    if measured.perplexity is not None:
        perplexity[0, 0, own] = measured.perplexity.value
    if measured.divergence is not None:
        kl = np.full(shape, np.nan)
        kl[0, 0, own] = measured.divergence.kl.mean
        arrays["kl"] = writer.add(kl, AXES)
        windows = np.full((*shape, len(measured.divergence.log_ratios)), np.nan)
        windows[0, 0, own] = measured.divergence.log_ratios
        arrays["log_ratios"] = writer.add(windows, (*AXES, "window"))
    if (mean := measured.mean_accuracy()) is not None:
        accuracy[0, 0, own] = mean[0]
        correct = np.full((*shape, len(measured.correct)), UNMEASURED, dtype=np.uint8)
        correct[0, 0, own] = measured.correct
        arrays["correct"] = writer.add(correct, (*AXES, "item"))
    arrays |= {"perplexity": writer.add(perplexity, AXES), "accuracy": writer.add(accuracy, AXES)}
    fields: dict[str, Any] = {"lams": lams, "gammas": (job.method.gamma,), "chosen": (0, own)}
    if recipe.from_block is not None:
        fields["later"] = LaterBlocks(from_block=recipe.from_block, lam=recipe.then_lam, gamma=recipe.then_gamma)
    fitting = recipe.to_method().fitting() | recipe.distilling()
    if run.rotated is not None:
        fitting["rotate"] = recipe.rotate
        for name in ROTATED:
            values = np.array([[getattr(layer, name) for layer in run.rotated.values()]])
            arrays[name] = writer.add(values, ("draw", "layer"))
    if recipe.auto_by() is not None:
        fields = auto_axes(recipe)
        arrays |= auto_arrays(writer, recipe, [list(run.reports.values())], [run.selection])
    entry, baseline = entry_of(recipe.method), run.summary["baseline"]
    if baseline is not None and entry is not None and entry.baseline == baseline["method"]:
        fields["baseline_perplexity"] = baseline["perplexity"]
    return study_line(
        recipe.method,
        fitting,
        bits=recipe.bits,
        grid=recipe.grid,
        group_size=recipe.group_size,
        draws=(recipe.seed,),
        arrays=arrays,
        texts=tuple(run.summary["texts"]),
        speed=run.summary["speed"],
        **fields,
    )
