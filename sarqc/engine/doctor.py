"""Whether this host's device does what it is asked to: every solver on the embedded model, on it and on the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from sarqc.calibration.block import BlockData, solve_block
from sarqc.calibration.capture import Statistics, collect
from sarqc.calibration.job import CalibrationJob, SolvedLayer, calibration_job
from sarqc.calibration.pipeline import layers_by_block
from sarqc.engine.costs import gpu_of
from sarqc.engine.execute import execute
from sarqc.engine.measure import device_warnings
from sarqc.engine.plan import Prepared, prepare
from sarqc.engine.rates import GpuSpeed, keep
from sarqc.errors import SarqcError
from sarqc.evaluation.speed import TOLERANCE
from sarqc.events import Event, Measured, SpeedMeasured
from sarqc.models.loading import LoadedModel, choose_device, load
from sarqc.models.walk import BlockWalk
from sarqc.quantization.methods import METHODS
from sarqc.quantization.solving import BUDGET_BYTES, Context
from sarqc.recipe import Recipe
from sarqc.settings import Settings

MODEL = "tiny-llama"
CODES, OBJECTIVE = 0.98, 0.01  # least share of equal codes, and largest relative difference of a layer's objective
LEARNED_OBJECTIVE = 0.1  # a learned one goes through the block in the device's own precision
FLOAT, QUANTIZED = 0.005, 0.05  # largest relative differences of perplexities
_RECIPE = {
    "model": MODEL, "bits": 3, "group_size": 128, "calibration": f"{MODEL}-calibration", "samples": 8, "length": 128,
    "epochs": 2, "steps": 8, "inputs_from": "quantized",
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """A sentence about the host, and whether it is as it should be."""

    is_sound: bool
    words: str


def examine(settings: Settings, home: Settings) -> Iterator[Finding]:
    """One finding after the other. The state folder should be a new one: what is kept there is not done again. ``home``
    has the folder for a GPU's rates, which plans read.
    """
    try:
        device = choose_device(settings.device)
    except SarqcError as error:
        yield Finding(False, f"{error.what} ({error.where}). {error.remedy}")
        return
    yield Finding(True, f"Runs compute on {_name(device)}.")
    yield from _rates(device, home)
    if device.type == "cuda":
        for warned in device_warnings(device):
            yield Finding(False, f"{warned.what}.")
        yield from _solvers(settings, device)
    yield from _whole_run(settings, device)
    yield from _kernel(settings)


def _name(device: torch.device) -> str:
    if device.type != "cuda":
        return f"the CPU, with {torch.get_num_threads()} threads (PyTorch {torch.__version__})"
    about = torch.cuda.get_device_properties(device)
    free, total = torch.cuda.mem_get_info(device)
    return (
        f"{about.name} ({device}, compute capability {about.major}.{about.minor}, {free / 2**30:.1f} of "
        f"{total / 2**30:.1f} GiB free, PyTorch {torch.__version__}, CUDA {torch.version.cuda})"
    )


def _rates(device: torch.device, home: Settings) -> Iterator[Finding]:
    """What the device does in a second, roughly: the best of four tries."""
    size = 4096 if device.type == "cuda" else 1024
    reached: dict[torch.dtype, float] = {}
    for dtype in (torch.float32, torch.float16, torch.float64) if device.type == "cuda" else (torch.float32,):
        matrix = torch.ones(size, size, device=device, dtype=dtype)
        seconds = min(_seconds(device, partial(torch.matmul, matrix, matrix)) for _ in range(4))
        reached[dtype] = 2 * size**3 / seconds
        yield Finding(True, f"Matrix products in {dtype}: {reached[dtype] / 1e12:.3g} TFLOP/s.")
    long = torch.ones(64 << 20, device=device)
    seconds = min(_seconds(device, lambda: long.mul_(1.0)) for _ in range(4))
    memory = 2 * 4 * len(long) / seconds
    yield Finding(True, f"Memory: {memory / 1e9:.3g} GB/s read and written.")
    short = torch.ones(1, device=device)
    seconds = min(_seconds(device, lambda: [short.mul_(1.0) for _ in range(1000)]) for _ in range(4))
    yield Finding(True, f"An operation on nothing: {seconds * 1e3:.3g} µs.")
    if device.type == "cuda" and (gpu := gpu_of(home)) is not None:
        keep(home, gpu.uuid, GpuSpeed(reached[torch.float16], reached[torch.float32], memory, 1000 / seconds))
        yield Finding(True, "Plans take their minutes from these rates.")


def _seconds(device: torch.device, work: Callable[[], object]) -> float:
    _wait(device)
    started = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _solvers(settings: Settings, device: torch.device) -> Iterator[Finding]:
    """The first block by every method, on the device and on the CPU, from the same statistics."""
    first = prepare(Recipe.parse(_RECIPE | {"method": "rtn"}), settings)
    host, guest = load(first.checkpoint, torch.device("cpu")), load(first.checkpoint, device)
    data = _data(host, first)
    for method in METHODS:
        prepared = prepare(Recipe.parse(_RECIPE | {"method": method}), settings)
        job = calibration_job(prepared.recipe, prepared.checkpoint, prepared.sequences, prepared.per_channel)
        try:
            expected, found = _solved(host, job, data), _solved(guest, job, _moved(data, guest))
        except Exception as error:  # whatever the device's libraries raise is the finding
            yield Finding(False, f"{method}: {type(error).__name__}: {str(error)[:300]}")
            continue
        yield compared(method, expected, found)


def compared(method: str, expected: list[SolvedLayer], found: list[SolvedLayer]) -> Finding:
    """A method's layers on two devices: equal but for ties, and where one code more or less was rounded otherwise."""
    pairs = [(one.quantized, other.quantized) for one, other in zip(expected, found, strict=True)]
    equal = sum(int((one.codes.cpu() == other.codes.cpu()).sum()) for one, other in pairs)
    share = equal / sum(one.codes.numel() for one, _ in pairs)
    worst = max(abs(other.report.recon_loss / one.report.recon_loss - 1) for one, other in pairs)
    learned = METHODS[method].make.unit == "block"
    is_sound = worst <= (LEARNED_OBJECTIVE if learned else OBJECTIVE) and (learned or share >= CODES)
    return Finding(is_sound, f"{method}: {share:.3%} of the codes are the CPU's, errors within {worst:.2%} of its.")


def _data(loaded: LoadedModel, prepared: Prepared) -> BlockData:
    """The first block's statistics on the CPU, with float inputs that are not quite the same, as for a later block."""
    sequences = torch.from_numpy(prepared.sequences.calibration.copy())
    walk, others, block = BlockWalk(loaded, sequences), BlockWalk(loaded, sequences), loaded.blocks()[0]
    noise = torch.Generator().manual_seed(0)
    others.hidden = [states * (1 + 0.02 * torch.randn(states.shape, generator=noise)) for states in others.hidden]
    statistics, targets = collect(walk, block, others)
    return BlockData((statistics,), None, walk.forward(block), walk.hidden, targets)


def _moved(data: BlockData, loaded: LoadedModel) -> BlockData:
    def there(states: list[Tensor]) -> list[Tensor]:
        return [part.to(loaded.device, loaded.compute_dtype) for part in states]

    statistics: Statistics = {path: part.to(loaded.device) for path, part in data.parts[0].items()}
    walk = BlockWalk(loaded, torch.zeros(1, data.inputs[0].shape[1], dtype=torch.int64))  # for its masks and positions
    return replace(
        data,
        parts=(statistics,),
        forward=walk.forward(loaded.blocks()[0]),
        inputs=there(data.inputs),
        targets=there(data.targets),
    )


def _solved(loaded: LoadedModel, job: CalibrationJob, data: BlockData) -> list[SolvedLayer]:
    prefix = f"{loaded.family.blocks}.0."
    layers = {layer.name.removeprefix(prefix): layer for layer in layers_by_block(loaded.checkpoint.layers)[0]}
    steps = solve_block(loaded, job, layers, data, Context.on(loaded.device, BUDGET_BYTES))
    return [step for step in steps if isinstance(step, SolvedLayer)]


def _whole_run(settings: Settings, device: torch.device) -> Iterator[Finding]:
    """A run with perplexity on the device, against one on the CPU, and its memory against the plan's."""
    recipe = Recipe.parse(_RECIPE | {"method": "sarqc-gbs", "test": f"{MODEL}-test", "test_tokens": 4096})
    planned = prepare(recipe, settings).shown.memory_bytes or 0
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    try:
        found = _events(recipe, settings)
    except Exception as error:
        yield Finding(False, f"A whole run ended: {type(error).__name__}: {str(error)[:300]}")
        return
    measured = _perplexities(found)
    if device.type != "cuda":
        words = f"A whole run: perplexity {measured['quantized']:.2f}, the float model's {measured['float']:.2f}."
        yield Finding(True, words)
        return
    expected = _perplexities(_events(recipe, settings.model_copy(update={"device": "cpu"})))
    yield _alike("float", FLOAT, measured["float"], expected["float"])
    yield _alike("quantized", QUANTIZED, measured["quantized"], expected["quantized"])
    peak = torch.cuda.max_memory_reserved(device)
    words = f"Memory on the device: {peak / 2**20:.0f} MiB at the peak, {planned / 2**20:.0f} MiB in the plan."
    yield Finding(planned >= peak, words)


def _alike(model: str, bound: float, here: float, there: float) -> Finding:
    words = f"Perplexity of the {model} model: {here:.2f}, on the CPU {there:.2f}."
    return Finding(abs(here / there - 1) <= bound, words)


def _perplexities(events: list[Event]) -> dict[str, float]:
    return {event.which: event.value for event in events if isinstance(event, Measured)}


def _events(recipe: Recipe, settings: Settings) -> list[Event]:
    return list(execute(recipe, settings))


def _kernel(settings: Settings) -> Iterator[Finding]:
    """The 4-bit kernel, by a run that measures speed."""
    recipe = Recipe.parse(_RECIPE | {"method": "rtn", "bits": 4, "samples": 1, "speed": True})
    measured = next(event for event in _events(recipe, settings) if isinstance(event, SpeedMeasured))
    if measured.kernel is None or measured.quantized is None or measured.float is None:
        yield Finding(False, f"No 4-bit kernel: {measured.reason}.")
        return
    difference = measured.protocol["largest_relative_difference"]
    yield Finding(
        difference <= TOLERANCE,
        f"{measured.kernel}: its outputs differ by {difference:.2g} from our weights'; decoding "
        f"{measured.quantized['decode'] / measured.float['decode']:.2f} × as fast as in {measured.protocol['dtype']}.",
    )
