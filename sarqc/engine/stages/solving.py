"""The stages of a run that solve its layers, and change or compare them afterwards."""

from collections.abc import Iterator
from typing import cast

from sarqc import documents
from sarqc.calibration.job import SolvedLayer
from sarqc.engine.device_memory import LITTLE_MEMORY_WORDS
from sarqc.engine.distill import with_flag
from sarqc.engine.distill_blocks import tune_scales
from sarqc.engine.rotating import rotated_layers, rotation_document
from sarqc.engine.run import RunContext
from sarqc.engine.stamp import LayerHashing
from sarqc.events import BlockRounded, Event, LayerDone, Stage, Warned
from sarqc.recipe import method_title

_FALLBACKS = {  # flags of a layer that was not solved as requested
    "not_foldable": "no operation before it can take up scales: it is rounded without any",
    "little_memory": LITTLE_MEMORY_WORDS,
    "not_recorded": "operations can't be recorded as one on this device: each is started by itself, which takes longer",
    "not_judged": "no token came by which its candidates could be judged: the first one was taken",
}
_STARVED = {  # flags of experts' linears
    "no_tokens": "saw no calibration token: they are rounded to nearest",
    "fewer_tokens_than_channels": "saw fewer calibration tokens than they have input channels",
}
_STARVED_OF_REPAIR = _STARVED | {"no_tokens": "saw no calibration token: their codes stay as they were found"}


def solve(run: RunContext) -> Iterator[Event]:
    """Quantize the model in place, layer by layer."""
    yield Stage("quantizing", f"{method_title(run.recipe.method)}, {run.recipe.bits} bits")
    with LayerHashing(run.job) as hashing:
        for step in run.bench.calibrated(run.job, run.solved):
            if isinstance(step, SolvedLayer):
                yield from _note_layer(run, step)
                hashing.add(step.info.name, step.quantized)
            else:
                yield step
        # One warning for each kind, because a mixture may have thousands of such layers; reports name them.
        experts = [layer.name for layer in run.bench.loaded.checkpoint.layers if layer.expert is not None]
        for flag, words in (_STARVED if run.job.imported is None else _STARVED_OF_REPAIR).items():
            starved = [name for name in experts if flag in run.reports[name].flags]
            if starved:
                yield Warned(f"{len(starved)} of {len(experts)} linears of experts {words}", f"{starved[0]} and others")
        run.hashes = hashing.finish()


def _note_layer(run: RunContext, layer: SolvedLayer) -> Iterator[Event]:
    name, report = layer.info.name, layer.quantized.report
    yield LayerDone(
        name=name,
        index=len(run.curves),
        total=len(run.solved),
        report=cast(documents.LayerReportDocument, report.to_json()),
        seconds=layer.seconds,
        from_cache=layer.from_cache,
    )
    if report.checks:
        checks = cast(list[documents.RoundingCheck], list(report.checks))
        yield BlockRounded(layer.info.block, report.chosen["best_step"], checks)
    run.reports[name] = report
    run.curves.append(layer.curve)
    if report.diagonal_floor > 0:
        yield Warned(f"{report.diagonal_floor:.3g} was added to the Gram's diagonal", name)
    for flag in report.flags:
        if flag in _FALLBACKS:
            yield Warned(_FALLBACKS[flag], name)


def distill(run: RunContext) -> Iterator[Event]:
    """Tune the scales of the quantized model, whose layers take the place of the solver's."""
    if run.tuning is None:
        return
    run.summary["distillation"] = yield from tune_scales(run.tuning, run.float_model, run.reports)
    run.float_model, run.reports = None, with_flag(run.reports)
    with LayerHashing(run.job) as hashing:
        for name, layer in run.layers.items():
            hashing.add(name, layer)
        run.hashes = hashing.finish()


def compare_rotated(run: RunContext) -> Iterator[Event]:
    """Compare the layers of a rotated model with its rotated and its original weights."""
    if run.rotation is not None:
        run.rotated = yield from rotated_layers(run.bench, run.rotation.checkpoint, run.job, run.keys, run.layers)
        run.summary["rotation"] = rotation_document(run.rotation, run.rounded, run.rotated)
