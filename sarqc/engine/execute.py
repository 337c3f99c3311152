"""One run from recipe to study, as a generator of events, without database or web; results do not depend on the clock.

The model is prepared and loaded here; the stages that follow are those of the kind of run, see ``stages.kinds``.
"""

import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

import torch

from sarqc.calibration.job import calibration_job
from sarqc.checkpoints.formats import ExportFormat, check_export
from sarqc.engine.device_check import require_sound_device
from sarqc.engine.device_memory import out_of_memory
from sarqc.engine.devices import solving_devices, spread_over
from sarqc.engine.feeding import check_feeding
from sarqc.engine.imported_model import ImportedModel
from sarqc.engine.keys import describe
from sarqc.engine.measure import Workbench, device_warnings
from sarqc.engine.plan import Prepared, check_output_is_free, prepare
from sarqc.engine.rotating import check_rotation
from sarqc.engine.run import Output, RunContext
from sarqc.engine.stages.kinds import stages_of
from sarqc.engine.throughput import keep_pace
from sarqc.events import Event, Finished, Stage, Warned
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.admission import admit
from sarqc.models.hub import NotCached
from sarqc.models.loading import choose_device, load
from sarqc.recipe import Recipe
from sarqc.settings import Settings


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
    """Run a recipe and yield its events; the last event is ``Finished`` with the summary.

    Finished layers and measurements are kept under ``settings.artefacts_root()``: the same recipe again costs nothing,
    and a run that was stopped anywhere continues to bit-identical weights. The time of each part is kept for the plans
    of this host, unless the run is shared by a crew.

    Args:
        recipe: The recipe.
        settings: Settings of the host; None for those of the environment.
        prepared: The result of ``plan.prepare`` for this recipe, if it is at hand.
        study_dir: Folder for the study; None writes none.
        study_id: Name of the study; None for the recipe's fingerprint.
        checkpoint_dir: New folder for the quantized model, which is then read again and compared, see ``saved_model``.
        checkpoint_format: ``plain`` for dequantized weights; ``packed``, ``gptq`` or ``mlx`` for codes; ``as-found``
            for a repaired checkpoint in the format of its original files (only after an improvement).
        crew: Number of processes that execute a recipe that compares models at once, with the same artefacts. Each does
            a share of the work, all come to the same end, and one of them is given a ``study_dir``.

    Yields:
        Events in the order of the work.

    Raises:
        Refused: Before any work, as by ``plan.prepare``.
        OutOfMemory: If the device has too little memory, on a GPU in the first seconds.
        SarqcError: Every other error.
    """
    settings = settings or Settings()
    if checkpoint_dir is not None:
        check_export(recipe, checkpoint_format)
        check_output_is_free(checkpoint_dir)
    started = time.perf_counter()
    if prepared is None:
        prepared = yield from _prepare(recipe, settings)
    if checkpoint_dir is not None:
        check_export(recipe, checkpoint_format, prepared.checkpoint.layers)
    durations: dict[tuple[str, str], float] = {}
    phase, since = ("", ""), time.perf_counter()
    output = Output(study_dir, study_id or prepared.recipe.fingerprint(), checkpoint_dir, checkpoint_format)
    try:
        for event in _run_stages(recipe, settings, prepared, started, output, crew):
            yield event
            if isinstance(event, Stage | Finished):
                now = time.perf_counter()
                durations[phase] = durations.get(phase, 0.0) + now - since
                if isinstance(event, Stage):
                    covers_stage = any(
                        planned["stage"] == event.name and not planned["detail"] for planned in prepared.phases
                    )
                    phase, since = (event.name, "" if covers_stage else event.detail), now
    except torch.OutOfMemoryError as error:
        raise out_of_memory(error, prepared, settings, choose_device(settings.device), phase[0]) from error
    if crew == 1:
        keep_pace(settings, prepared.checkpoint.name, prepared.phases, durations)


def _run_stages(
    recipe: Recipe, settings: Settings, prepared: Prepared, started: float, output: Output, crew: int
) -> Iterator[Event]:
    for warning in prepared.shown.warnings:
        yield Warned(warning, "plan")
    device = choose_device(settings.device)
    yield from device_warnings(device)
    if device.type == "cuda":
        for solving_device in solving_devices(settings, device):
            yield from require_sound_device(solving_device, settings.model_copy(update={"device": str(solving_device)}))
    rotation = yield from check_rotation(prepared, device, settings)
    yield Stage("loading", recipe.model)
    scratch = settings.scratch_dir() if prepared.streamed else None
    imported = None
    if prepared.opened is not None:
        imported = ImportedModel(prepared.opened, prepared.checkpoint)
        for line in imported.words():
            yield Warned(line, "quantized checkpoint")
    loaded = load(
        prepared.checkpoint,
        device,
        scratch=scratch,
        holding=[] if imported is None else [imported.dtype],
        begins_with_bos=recipe.begin == "bos",
    )
    if prepared.checkpoint.decoder is not None:
        admit(loaded, learns=prepared.recipe.to_method().unit == "block")
    with spread_over(settings, device) as spread:
        bench = Workbench(loaded, describe(loaded), ArtefactStore(settings.artefacts_root(), crew), settings, spread)
        job = calibration_job(prepared.recipe, prepared.checkpoint, prepared.sequences, prepared.per_channel, imported)
        feeding = yield from check_feeding(
            bench, recipe.calibration, prepared.recipe.begin, prepared.test or prepared.calibration, prepared.window
        )
        prepared = replace(prepared, feeding=feeding)
        run = RunContext(bench, prepared, job, output, imported, started, rotation)
        for stage in stages_of(run):
            for event in stage(run):
                yield from _damage_warnings(bench.store)
                yield event
        yield from _damage_warnings(bench.store)
        bench.store.trim(int(settings.cache_gib * 2**30))
        yield Finished(run.summary, time.perf_counter() - started)


def _damage_warnings(store: ArtefactStore) -> Iterator[Warned]:
    """Yield a warning for each stored file that turned out to be damaged."""
    while store.damaged:
        what = f"a kept file was damaged (checksum mismatch) and is made again: {store.damaged.pop()}"
        yield Warned(what, "kept files")


def warm_up() -> None:
    """Import the libraries of every run ahead of time, in a process that waits for work."""
    import transformers

    # transformers imports its parts when they are touched; that of all models takes the longest, two seconds.
    for name in ("AutoModelForCausalLM", "AutoTokenizer", "PreTrainedModel", "modeling_layers"):
        getattr(transformers, name)


def _prepare(recipe: Recipe, settings: Settings) -> Generator[Event, None, Prepared]:
    """Return the prepared recipe, after a download or unpacking if the model is not ready on this host."""
    try:
        return prepare(recipe, settings)
    except NotCached as missing:
        yield Stage(missing.stage, str(missing))
        return prepare(recipe, settings, download=True)
