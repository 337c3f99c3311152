"""execute(recipe): one run from recipe to study, as a generator of events. No database, no web, no clock in results."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, cast

from sarqc import documents
from sarqc.calibration.job import CalibrationJob, SolvedLayer, calibration_job
from sarqc.calibration.kept_layers import SUFFIX, KeptLayers
from sarqc.calibration.pictures import LayerCurve
from sarqc.checkpoints.formats import ExportFormat, check_export, check_format, is_no_gain
from sarqc.engine.auto_by_model import settle
from sarqc.engine.baseline import baseline_key, compare
from sarqc.engine.budget import Budget
from sarqc.engine.bundle import save_bundle
from sarqc.engine.device_check import require_sound_device
from sarqc.engine.devices import solving_devices, spread_over
from sarqc.engine.imported_model import ImportedModel
from sarqc.engine.kept_states import KeptStates
from sarqc.engine.keys import Weights, float_model_key, layer_keys, quantized_model_key, states_key, weights_of
from sarqc.engine.measure import (
    NOTHING_MEASURED,
    Workbench,
    compare_prompts,
    continue_prompts,
    device_warnings,
    keep_states,
    kept_beside,
    measure,
)
from sarqc.engine.plan import Prepared, output_is_free, prepare, window_for
from sarqc.engine.repair import found_key, gain, measure_found
from sarqc.engine.result import RunResult
from sarqc.engine.saved_model import save_model, save_repaired
from sarqc.engine.stamp import LayerHashing, stamp_of
from sarqc.engine.study_output import write_run
from sarqc.engine.throughput import keep_pace, pace_of
from sarqc.engine.trials import ground_of
from sarqc.engine.tuning import draw_of, tune
from sarqc.engine.tuning_output import has_study, tuning_summary, write_tuning
from sarqc.evaluation.speed import measure_speed
from sarqc.events import Event, Finished, LayerDone, Saved, SpeedMeasured, Stage, Started, Warned
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.families import LayerInfo
from sarqc.models.hub import NotCached
from sarqc.models.loading import LoadedModel, choose_device, load
from sarqc.quantization.quantized_layer import LayerReport
from sarqc.recipe import Recipe, method_title
from sarqc.settings import Settings

_FALLBACKS = {  # flags of a layer that got something else than was asked for
    "not_foldable": "no operation before it can take up scales: it is rounded without any",
    "little_memory": "the device ran out of memory: fewer candidates were solved at once, which takes longer",
    "not_recorded": "operations can't be recorded as one on this device: each is started by itself, which takes longer",
    "not_judged": "no token came by which its candidates could be judged: the first one was taken",
}
_STARVED = {  # flags of experts' linears
    "no_tokens": "saw no calibration token: they are rounded to nearest",
    "fewer_tokens_than_channels": "saw fewer calibration tokens than they have input channels",
}
_FOUND_STARVED = _STARVED | {"no_tokens": "saw no calibration token: their codes stay as they were found"}


def execute(
    recipe: Recipe,
    settings: Settings | None = None,
    *,
    prepared: Prepared | None = None,
    study_dir: Path | None = None,
    study_id: str | None = None,
    checkpoint_dir: Path | None = None,
    checkpoint_format: ExportFormat = "plain",
    crew: int = 1,
) -> Generator[Event]:
    """Runs a recipe and yields what happens; the last event is ``Finished`` with the summary.

    Refusals of ``plan.prepare`` are raised before any work, other errors as ``SarqcError``; ``prepared`` is what it
    returned for this recipe, if that is at hand. Finished layers and measurements are kept under
    ``settings.artefacts_root()``: the same recipe again costs nothing, and one that was stopped anywhere continues
    to bit-identical weights. With ``study_dir`` a study named ``study_id`` is written there; with
    ``checkpoint_dir`` (a new folder) the quantized model, with its weights dequantized (``plain``) or its codes
    (``packed``, ``gptq``, ``mlx``), or a repaired checkpoint in the files that it was found in (``as-found``; not
    without an improvement), which is then read again and compared, see ``save_model``; of a recipe that tunes
    the statistics of its first draw (``statistics``), and nothing else is done. A recipe that tunes may be executed
    by a ``crew`` of processes at once, with the same artefacts: each does a share of the work, all come to the same
    end, and one of them is given a ``study_dir``. Without ``settings`` those of the environment count. How long the
    parts took is kept for the plans of this host.
    """
    settings = settings or Settings()
    if checkpoint_dir is not None:
        check_export(recipe, checkpoint_format)
        output_is_free(checkpoint_dir)
    started = time.perf_counter()
    if prepared is None:
        prepared = yield from _prepared(recipe, settings)
    if checkpoint_dir is not None:
        check_export(recipe, checkpoint_format, prepared.checkpoint.layers)
    taken: dict[tuple[str, str], float] = {}
    phase, since = ("", ""), time.perf_counter()
    output = _Output(study_dir, study_id or prepared.recipe.fingerprint(), checkpoint_dir, checkpoint_format)
    for event in _executed(recipe, settings, prepared, started, output, crew):
        yield event
        if isinstance(event, Stage | Finished):
            now = time.perf_counter()
            taken[phase] = taken.get(phase, 0.0) + now - since
            if isinstance(event, Stage):
                alone = any(one["stage"] == event.name and not one["detail"] for one in prepared.phases)
                phase, since = (event.name, "" if alone else event.detail), now
    if crew == 1:
        keep_pace(settings, prepared.checkpoint.name, prepared.phases, taken)


class _Output(NamedTuple):
    """What a run leaves: a study, a quantized model, or nothing."""

    study_dir: Path | None
    study_id: str
    checkpoint_dir: Path | None
    checkpoint_format: ExportFormat


def _executed(
    recipe: Recipe, settings: Settings, prepared: Prepared, started: float, output: _Output, crew: int
) -> Iterator[Event]:
    """The events of a run that is prepared; ``started``: when, by the clock of ``Finished``."""
    for warning in prepared.shown.warnings:
        yield Warned(warning, "plan")
    device = choose_device(settings.device)
    yield from device_warnings(device)
    if device.type == "cuda":
        for one in solving_devices(settings, device):
            yield from require_sound_device(one, settings.model_copy(update={"device": str(one)}))
    yield Stage("loading", recipe.model)
    scratch = settings.scratch_dir() if prepared.streamed else None
    found = None
    if prepared.opened is not None:
        found = ImportedModel(prepared.opened, prepared.checkpoint)
        for line in found.words():
            yield Warned(line, "quantized checkpoint")
    loaded = load(prepared.checkpoint, device, scratch=scratch, holding=[] if found is None else [found.dtype])
    with spread_over(settings, device) as spread:
        bench = Workbench(loaded, ArtefactStore(settings.artefacts_root(), crew), settings, spread)
        for event in _worked(bench, prepared, started, output, found):
            while bench.store.damaged:
                what = f"a kept file was damaged (checksum mismatch) and is made again: {bench.store.damaged.pop()}"
                yield Warned(what, "kept files")
            yield event


def _worked(
    bench: Workbench, prepared: Prepared, started: float, output: _Output, found: ImportedModel | None
) -> Iterator[Event]:
    """The events of a run whose model is loaded."""
    recipe, settings, loaded = prepared.recipe, bench.settings, bench.loaded
    job = calibration_job(recipe, prepared.checkpoint, prepared.sequences, prepared.per_channel, found)
    weights = weights_of(loaded)
    if recipe.kind == "tune":
        if output.checkpoint_dir is not None:
            summary = yield from _statistics(bench, prepared, job, weights, output.checkpoint_dir)
        else:
            summary = yield from _tuned(bench, prepared, job, weights, output.study_dir, output.study_id, started)
        bench.store.trim(int(settings.cache_gib * 2**30))
        yield Finished(summary, time.perf_counter() - started)
        return
    keys, float_key = layer_keys(loaded, job, weights), float_model_key(loaded, weights)
    yield _started(bench, prepared, keys)
    states = _states(bench, prepared, float_key)
    original = yield from measure(bench, prepared, "float", float_key, states)
    float_texts = yield from continue_prompts(bench, prepared, float_key)
    job, selection = yield from settle(bench, recipe, job, weights)
    if selection is not None:
        keys = layer_keys(loaded, job, weights)
    quantized_key = quantized_model_key(float_key, keys)
    if states is not None:
        wanted = [quantized_key]
        if recipe.baseline and not recipe.why_no_baseline():
            wanted.append(baseline_key(loaded, job, recipe, weights, float_key))
        if recipe.repairs:
            wanted.append(found_key(loaded, job, weights, float_key))
        if any(kept_beside(bench, prepared, key) is None for key in wanted):
            yield from keep_states(bench, prepared, states)
    before = None
    if recipe.repairs and states is not None:
        before = yield from measure_found(bench, prepared, job, weights, float_key, states)
    yield Stage("quantizing", f"{method_title(recipe.method)}, {recipe.bits} bits")
    with LayerHashing(job) as hashing:
        reports, curves = yield from _layers(bench, job, keys, hashing)
        hashes = hashing.finish()
    stamp = stamp_of(prepared, loaded, job, None if selection is None else selection.lam, hashes)
    quantized = yield from measure(bench, prepared, "quantized", quantized_key, states)
    texts = yield from compare_prompts(bench, prepared, float_texts, quantized_key)
    speed = None
    layers = KeptLayers(bench.store, keys, prepared.checkpoint.layers)
    if recipe.speed:
        yield Stage("measuring speed")
        speed = _speed(loaded, layers, job)
        yield speed
    baseline, is_float = yield from compare(bench, prepared, job, weights, float_key, states, quantized)
    outcome = RunResult(
        prepared, str(loaded.device), job, selection, reports, curves, original, quantized, baseline, texts, speed,
        stamp,
        None if found is None or recipe.quantized_checkpoint is None else found.facts(recipe.quantized_checkpoint),
        gain(before, quantized, reports) if recipe.repairs else None,
    )  # fmt: skip
    if output.study_dir is not None:
        yield Stage("saving", "study")
        write_run(outcome, output.study_dir / output.study_id, output.study_id)
        yield Saved("study", str(output.study_dir / output.study_id))
    summary = outcome.summary()
    if output.checkpoint_dir is not None:
        if is_float:
            for _ in bench.calibrated(job, keys):
                pass  # the run's own layers, from the store: they were told
        if outcome.repair is not None and is_no_gain(outcome.repair):
            yield Warned("nothing was written: the file as it was found is as good or better", "checkpoint")
        elif found is not None:
            summary = yield from save_repaired(bench, prepared, found, layers, summary, output.checkpoint_dir)
        else:
            known = check_format(recipe, output.checkpoint_format)
            summary = yield from save_model(bench, prepared, layers, job, summary, output.checkpoint_dir, known, stamp)
    bench.store.trim(int(settings.cache_gib * 2**30))
    yield Finished(summary, time.perf_counter() - started)


def _tuned(
    bench: Workbench,
    prepared: Prepared,
    job: CalibrationJob,
    weights: Weights,
    study_dir: Path | None,
    study_id: str,
    started: float,
) -> Generator[Event, None, documents.Summary]:
    """Compares values of λ instead of quantizing the model once; returns the summary."""
    device = str(bench.loaded.device)
    yield _started(bench, prepared, {})
    ground = ground_of(bench, prepared, job.grids, weights)
    minutes = prepared.recipe.minutes
    budget = Budget(None if minutes is None else 60 * minutes, bench.store.claims.crew, started)
    state, tuning = yield from tune(prepared.recipe, ground, budget)
    original = state.original or NOTHING_MEASURED
    if study_dir is not None and has_study(state):
        yield Stage("saving", "study")
        write_tuning(prepared, state, original, device, study_dir / study_id, study_id)
        yield Saved("study", str(study_dir / study_id))
    return tuning_summary(prepared, original, tuning, device)


def _statistics(
    bench: Workbench, prepared: Prepared, job: CalibrationJob, weights: Weights, folder: Path
) -> Generator[Event, None, documents.Summary]:
    """Statistics of the first draw as a file, collected again where they are not kept any more."""
    yield Stage("saving", "statistics")
    ground = ground_of(bench, prepared, job.grids, weights)
    file = save_bundle(draw_of(prepared.recipe, ground, 0), folder)
    yield Saved("statistics", str(file))
    return tuning_summary(prepared, NOTHING_MEASURED, None, str(bench.loaded.device))


def warm_up() -> None:
    """Imports what every run needs, so that a process that waits for work has done so before the work comes."""
    import transformers

    # transformers imports its parts when they are touched; that of all models takes the longest, two seconds.
    for name in ("AutoModelForCausalLM", "AutoTokenizer", "PreTrainedModel", "modeling_layers"):
        getattr(transformers, name)


def _prepared(recipe: Recipe, settings: Settings) -> Generator[Event, None, Prepared]:
    """The recipe, prepared; after a download, or after unpacking, where the model is not ready on this host."""
    try:
        return prepare(recipe, settings)
    except NotCached as missing:
        yield Stage(missing.stage, str(missing))
        return prepare(recipe, settings, download=True)


def _states(bench: Workbench, prepared: Prepared, float_key: str) -> KeptStates | None:
    """Where the float model's states of the test text are kept; None without one."""
    test = prepared.test
    return None if test is None else KeptStates(bench.store, states_key(float_key, test.ids, prepared.window))


def _started(bench: Workbench, prepared: Prepared, keys: Mapping[str, str]) -> Started:
    checkpoint = bench.loaded.checkpoint
    pace = pace_of(bench.settings, checkpoint.name).factor
    return Started(
        model=prepared.recipe.model,
        device=str(bench.loaded.device),
        layers=[cast(documents.LayerEntry, layer.model_dump(mode="json")) for layer in checkpoint.layers],
        share_quantized=checkpoint.share_quantized,
        finished_layers=sum(bench.store.has(key, SUFFIX) for key in keys.values()),
        phases=[{**phase, "seconds": pace * phase["seconds"]} for phase in prepared.phases],
    )


def _layers(
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
        reports[name] = report
        curves.append(step.curve)
        hashing.add(name, step.quantized)
        if report.diagonal_floor > 0:
            yield Warned(f"{report.diagonal_floor:.3g} was added to the Gram's diagonal", name)
        for flag in report.flags:
            if flag in _FALLBACKS:
                yield Warned(_FALLBACKS[flag], name)
    found = job.found is not None
    yield from _starved_experts(bench.loaded.checkpoint.layers, reports, _FOUND_STARVED if found else _STARVED)
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


def _speed(loaded: LoadedModel, layers: KeptLayers, job: CalibrationJob) -> SpeedMeasured:
    """Measured anew each time: what a clock said once is nothing to keep."""
    return measure_speed(loaded, layers, job.grids, window_for(loaded.checkpoint.max_positions, None))
