"""The fit of a run on its device: a dry run of its largest parts before any work, and the error if it fails."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch

from sarqc.calibration.dry_run import dry_run, largest_block, largest_linear
from sarqc.calibration.job import CalibrationJob
from sarqc.engine.baseline import baseline_job
from sarqc.engine.costs import sweep_bytes, work_of
from sarqc.engine.measure import Workbench
from sarqc.engine.plan import Prepared
from sarqc.errors import OutOfMemory, SarqcError
from sarqc.events import DryRun, Event, Stage, Warned
from sarqc.plain import gib
from sarqc.quantization.methods import Method
from sarqc.quantization.solving import LITTLE_MEMORY
from sarqc.settings import Settings

LITTLE_MEMORY_WORDS = "the device ran out of memory: fewer candidates were solved at once, which takes longer"
_LEAST_BUDGET = 1 << 28  # bytes; a smaller budget for candidates is not worth suggesting
_ASKED = re.compile(r"Tried to allocate ([\d.]+ \w+)")  # in PyTorch's words


def rehearse(
    bench: Workbench, prepared: Prepared, job: CalibrationJob, points: Sequence[Method] = ()
) -> Iterator[Event]:
    """Run the largest block and the largest linear once, so that a lack of memory shows before hours of work.

    On a GPU alone: a CPU's memory is the machine's, where a plan counts it, and the largest linear takes minutes there.
    With a baseline the method that takes more memory is tried; with ``points`` those that tuning compares on each
    linear. Raises ``torch.OutOfMemoryError`` where the device has too little memory, see ``out_of_memory``.
    """
    if bench.loaded.device.type == "cuda":
        yield from rehearse_on_any_device(bench, prepared, job, points)


def rehearse_on_any_device(
    bench: Workbench, prepared: Prepared, job: CalibrationJob, points: Sequence[Method] = ()
) -> Iterator[Event]:
    """Do the same on any device."""
    loaded, settings = bench.loaded, bench.settings
    block = f"{loaded.family.blocks}.{largest_block(loaded)}"
    layer = largest_linear(loaded.checkpoint.layers).name
    yield Stage("trying the largest layer", f"{block} and {layer}, on random numbers")
    began = time.perf_counter()
    memory = _PeakMemory(loaded.device)
    try:
        job = job if points else _pick_costlier(prepared, job, sweep_bytes(settings))
        solutions = dry_run(loaded, job, budget_bytes=sweep_bytes(settings), spread=bench.spread, points=points)
        flags = {flag for solved in solutions for flag in solved.report.flags}
        del solutions  # before the memory is given back
    except SarqcError as error:  # of random numbers, which says nothing of the model's
        yield Warned(f"the trial of the largest layer ended early, and the run goes on: {error}", layer)
        return
    finally:
        peak, total = memory.taken()
    if LITTLE_MEMORY in flags:
        yield Warned(LITTLE_MEMORY_WORDS, layer)
    yield DryRun(block, layer, peak, total, time.perf_counter() - began)


class _PeakMemory:
    """Memory of a GPU from now on; of other devices it is not known."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._counts = device, device.type == "cuda"
        if self._counts:
            torch.cuda.reset_peak_memory_stats(device)

    def taken(self) -> tuple[int | None, int | None]:
        """Return the bytes of tensors at the peak and those of the device, and release the free ones."""
        if not self._counts:
            return None, None
        peak = torch.cuda.max_memory_allocated(self._device)
        torch.cuda.empty_cache()
        return peak, torch.cuda.mem_get_info(self._device)[1]


def _pick_costlier(prepared: Prepared, job: CalibrationJob, budget: int) -> CalibrationJob:
    """Return the run's calibration or that of its baseline, whichever solver takes more memory."""
    recipe = prepared.recipe
    tokens = 0 if prepared.test is None else len(prepared.test.ids)
    work = work_of(recipe, prepared.checkpoint, prepared.per_channel, test_tokens=tokens)
    baseline = work.baseline()
    if baseline is None:
        return job
    own, other = (each.method.working_bytes(replace(each.task, budget_bytes=budget)) for each in (work, baseline))
    return baseline_job(job, recipe) if other > own else job


def out_of_memory(
    error: torch.OutOfMemoryError, prepared: Prepared, settings: Settings, device: torch.device, stage: str
) -> OutOfMemory:
    """Return the error of a run whose device had too little memory at a ``stage``, with remedies and their savings."""
    recipe, checkpoint, budget = prepared.recipe, prepared.checkpoint, sweep_bytes(settings)
    match = _ASKED.search(str(error))
    more = f", {match[1]} more did not fit" if match else ""
    remedies = []
    if not prepared.streamed:
        blocks = [checkpoint.parameters_of(index) for index in range(checkpoint.n_blocks)]
        whole, saved = checkpoint.parameters, sum(blocks) - max(blocks)
        size = checkpoint.parameter_bytes
        remedies.append(
            f"Set SARQC_WEIGHTS=streamed: the weights take {gib(round(size * (whole - saved)))} instead of "
            f"{gib(round(size * whole))}."
        )
    if budget // 2 >= _LEAST_BUDGET:
        remedies.append(f"Set SARQC_SWEEP_GIB={budget / 2**31:g}: candidates solved at once take up to {gib(budget)}.")
    tokens = recipe.samples * recipe.length
    states = round(2 * tokens * checkpoint.architecture.hidden_size * checkpoint.parameter_bytes)
    remedies.append(
        f"Use fewer or shorter sequences: {recipe.samples:,} of {recipe.length:,} tokens take {gib(states)}."
    )
    if device.type != "cpu":
        remedies.append("Or compute on the processor: SARQC_DEVICE=cpu.")
    return OutOfMemory(
        f"the device has too little memory{more}", f"device {device}, {stage or 'loading'}", " ".join(remedies)
    )
