"""The stages of a run that quantizes a model once, or repairs a quantized checkpoint."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import cast

from sarqc import documents
from sarqc.calibration.job import CalibrationJob, SolvedLayer
from sarqc.calibration.kept_layers import SUFFIX, KeptLayers
from sarqc.calibration.pictures import LayerCurve
from sarqc.checkpoints.formats import check_format, is_no_gain
from sarqc.engine.auto_by_model import settle
from sarqc.engine.baseline import baseline_key, compare
from sarqc.engine.device_memory import LITTLE_MEMORY_WORDS, rehearse
from sarqc.engine.distill import ScaleTuning, before_it
from sarqc.engine.distill_blocks import tune_scales
from sarqc.engine.kept_states import KeptStates
from sarqc.engine.keys import layer_keys, quantized_model_key, states_key
from sarqc.engine.measure import (
    Workbench,
    compare_prompts,
    continue_prompts,
    keep_states,
    kept_beside,
    measure,
)
from sarqc.engine.page_codes import keep_codes
from sarqc.engine.plan import window_for
from sarqc.engine.repair import found_key, gain, measure_found
from sarqc.engine.result import RunResult
from sarqc.engine.rotating import rotated_layers, rotation_document
from sarqc.engine.run_context import RunContext
from sarqc.engine.saved_model import save_model, save_repaired
from sarqc.engine.stamp import LayerHashing, stamp_of
from sarqc.engine.study_output import write_run
from sarqc.evaluation.speed import measure_speed
from sarqc.events import BlockRounded, Event, LayerDone, Saved, Stage, Warned
from sarqc.models.families import LayerInfo
from sarqc.quantization.quantized_layer import LayerReport
from sarqc.recipe import method_title

_FALLBACKS = {  # flags of a layer that got something else than was asked for
    "not_foldable": "no operation before it can take up scales: it is rounded without any",
    "little_memory": LITTLE_MEMORY_WORDS,
    "not_recorded": "operations can't be recorded as one on this device: each is started by itself, which takes longer",
    "not_judged": "no token came by which its candidates could be judged: the first one was taken",
}
_STARVED = {  # flags of experts' linears
    "no_tokens": "saw no calibration token: they are rounded to nearest",
    "fewer_tokens_than_channels": "saw fewer calibration tokens than they have input channels",
}
_FOUND_STARVED = _STARVED | {"no_tokens": "saw no calibration token: their codes stay as they were found"}


def quantize_model(run: RunContext) -> Generator[Event, None, documents.Summary]:
    """Measures the float model, settles λ, quantizes layer by layer, measures again, and saves; returns the summary."""
    bench, prepared, recipe, loaded = run.bench, run.prepared, run.recipe, run.bench.loaded
    keys = layer_keys(bench.model, run.job)
    yield run.started_event(keys)
    if not all(bench.store.has(key, SUFFIX) for key in keys.values()):
        yield from rehearse(bench, prepared, run.job)
    states = None  # of the float model on the test text
    if prepared.test is not None:
        states = KeptStates(bench.store, states_key(bench.model, prepared.test, prepared.window))
    original = yield from measure(bench, prepared, "float", bench.model.key, states)
    float_texts = yield from continue_prompts(bench, prepared)
    job, selection = yield from settle(bench, recipe, run.job)
    if selection is not None:
        keys = layer_keys(bench.model, job)
    rounded = run.rotation.rounded(loaded) if run.rotation is not None else None
    quantized_key = quantized_model_key(bench.model, keys)
    tuning = ScaleTuning(bench, recipe, job, keys) if recipe.distills else None
    original_model = None
    if tuning is not None:
        quantized_key = quantized_model_key(bench.model, tuning.keys())
        original_model = yield from tuning.keep_float()
    before = None
    if states is not None:
        yield from _keep_float_states(run, job, states, quantized_key)
        if recipe.repairs:
            before = yield from measure_found(bench, prepared, job, states)
    yield Stage("quantizing", f"{method_title(recipe.method)}, {recipe.bits} bits")
    with LayerHashing(job) as hashing:
        reports, curves = yield from _quantize(bench, job, keys, hashing)
        hashes = hashing.finish()
    distillation, layers = None, KeptLayers(bench.store, keys, prepared.checkpoint.layers)
    if tuning is not None:
        distillation = yield from tune_scales(tuning, original_model, reports)
        layers, reports = KeptLayers(bench.store, tuning.keys(), prepared.checkpoint.layers), before_it(reports)
        with LayerHashing(job) as hashing:
            for name, layer in layers.items():
                hashing.add(name, layer)
            hashes = hashing.finish()
    del original_model
    rotated, rotation = None, None
    if run.rotation is not None and rounded is not None:
        kept = keys if tuning is None else tuning.keys()
        rotated = yield from rotated_layers(bench, run.rotation.checkpoint, job, kept, layers)
        rotation = rotation_document(run.rotation, rounded, rotated)
    stamp = stamp_of(prepared, loaded, job, None if selection is None else selection.lam, hashes)
    quantized = yield from measure(bench, prepared, "quantized", quantized_key, states)
    texts = yield from compare_prompts(bench, prepared, float_texts, quantized_key)
    speed = None
    if recipe.speed:
        yield Stage("measuring speed")  # anew each time: what a clock said once is nothing to keep
        speed = measure_speed(loaded, layers, job.grids, window_for(loaded.checkpoint.max_positions, None))
        yield speed
    baseline, is_float = yield from compare(bench, prepared, job, states, quantized)
    checkpoint = recipe.quantized_checkpoint
    result = RunResult(
        prepared=prepared,
        device=run.device,
        job=job,
        selection=selection,
        reports=reports,
        curves=curves,
        original=original,
        quantized=quantized,
        baseline=baseline,
        texts=texts,
        speed=speed,
        stamp=stamp,
        opened=None if run.imported is None or checkpoint is None else run.imported.facts(checkpoint),
        repair=gain(before, quantized, reports) if recipe.repairs else None,
        distillation=distillation,
        rotated=rotated,
        rotation=rotation,
    )
    if run.output.study is not None:
        yield Stage("saving", "study")
        study = write_run(result, run.output.study, run.output.study_id)
        keep_codes(result, loaded, layers, study, bench.settings)
        yield Saved("study", str(run.output.study))
    if run.output.checkpoint_dir is None:
        return result.summary()
    if is_float:
        for _ in bench.calibrated(job, keys):
            pass  # the run's own layers, from the store: they were told
        if tuning is not None:
            tuning.put()
    return (yield from _save_checkpoint(run, result, layers))


def _keep_float_states(run: RunContext, job: CalibrationJob, states: KeptStates, quantized_key: str) -> Iterator[Event]:
    """Keeps what the float model says of the test text, if a model beside it is still to be measured."""
    bench, prepared, recipe = run.bench, run.prepared, run.recipe
    beside = [quantized_key]
    if recipe.baseline and not recipe.why_no_baseline():
        beside.append(baseline_key(bench.model, job, recipe))
    if recipe.repairs:
        beside.append(found_key(bench.model, job))
    if any(kept_beside(bench, prepared, key) is None for key in beside):
        yield from keep_states(bench, prepared, states)


def _save_checkpoint(
    run: RunContext, result: RunResult, layers: KeptLayers
) -> Generator[Event, None, documents.Summary]:
    """Writes the quantized model, or the repaired checkpoint if that is an improvement; returns the summary with it."""
    folder, summary = run.output.checkpoint_dir, result.summary()
    assert folder is not None
    if result.repair is not None and is_no_gain(result.repair):
        yield Warned("nothing was written: the file as it was found is as good or better", "checkpoint")
        return summary
    if run.imported is not None:
        return (yield from save_repaired(run.bench, run.prepared, run.imported, layers, summary, folder))
    known = check_format(run.recipe, run.output.checkpoint_format)
    return (yield from save_model(run.bench, run.prepared, layers, result.job, summary, folder, known, result.stamp))


def _quantize(
    bench: Workbench, job: CalibrationJob, keys: dict[str, str], hashing: LayerHashing
) -> Generator[Event, None, tuple[dict[str, LayerReport], list[LayerCurve]]]:
    """Quantizes the model in place; returns reports by layer and curves, both in the order of the layers."""
    reports: dict[str, LayerReport] = {}
    curves: list[LayerCurve] = []
    for step in bench.calibrated(job, keys):
        if not isinstance(step, SolvedLayer):
            yield step
            continue
        name, report = step.info.name, step.quantized.report
        yield LayerDone(
            name=name,
            index=len(curves),
            total=len(keys),
            report=cast(documents.LayerReportDocument, report.to_json()),
            seconds=step.seconds,
            from_cache=step.from_cache,
        )
        if report.checks:
            checks = cast(list[documents.RoundingCheck], list(report.checks))
            yield BlockRounded(step.info.block, report.chosen["best_step"], checks)
        reports[name] = report
        curves.append(step.curve)
        hashing.add(name, step.quantized)
        if report.diagonal_floor > 0:
            yield Warned(f"{report.diagonal_floor:.3g} was added to the Gram's diagonal", name)
        for flag in report.flags:
            if flag in _FALLBACKS:
                yield Warned(_FALLBACKS[flag], name)
    kinds = _STARVED if job.found is None else _FOUND_STARVED
    yield from _starved_experts(bench.loaded.checkpoint.layers, reports, kinds)
    return reports, curves


def _starved_experts(
    layers: list[LayerInfo], reports: dict[str, LayerReport], kinds: Mapping[str, str]
) -> Iterator[Warned]:
    """One warning for each kind, because a mixture may have thousands of such layers; reports name them."""
    experts = [layer.name for layer in layers if layer.expert is not None]
    for flag, words in kinds.items():
        starved = [name for name in experts if flag in reports[name].flags]
        if starved:
            yield Warned(f"{len(starved)} of {len(experts)} linears of experts {words}", f"{starved[0]} and others")
