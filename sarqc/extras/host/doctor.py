"""A check of this host's device: every solver on the embedded model, on it and on the CPU."""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import torch

from sarqc.engine.costs import gpu_of
from sarqc.engine.device_check import MODEL, RECIPE, Finding, compare_with_cpu
from sarqc.engine.execute import execute
from sarqc.engine.measure import device_warnings
from sarqc.engine.plan import prepare
from sarqc.engine.throughput import GpuSpeed, keep
from sarqc.errors import SarqcError
from sarqc.evaluation.speed import TOLERANCE
from sarqc.events import Event, Measured, SpeedMeasured
from sarqc.files.places import place_at
from sarqc.models.loading import choose_device
from sarqc.quantization.methods import METHODS
from sarqc.recipe import Recipe
from sarqc.settings import Settings

FLOAT, QUANTIZED = 0.005, 0.05  # largest relative differences of perplexities


def examine(settings: Settings, home: Settings) -> Iterator[Finding]:
    """Yield one finding after the other. The state folder should be a new one: nothing stored there is done again.
    ``home`` has the folder for a GPU's rates, which plans read, and the storage of the host's runs.
    """
    yield from _host(home)
    try:
        device = choose_device(settings.device)
    except SarqcError as error:
        yield _refusal(error)
        return
    yield Finding(True, f"Runs compute on {_name(device)}.")
    yield from _rates(device, home)
    if device.type == "cuda":
        for warned in device_warnings(device):
            yield Finding(False, f"{warned.what}.")
        yield from compare_with_cpu(settings, device, METHODS)
    yield from _whole_run(settings, device)
    yield from _kernel(settings)


def _host(home: Settings) -> Iterator[Finding]:
    if home.is_object_storage():
        try:
            place_at(home.storage_root()).mark()
        except SarqcError as error:
            yield _refusal(error)
        else:
            yield Finding(True, f"{home.storage} can be written and read.")


def _refusal(error: SarqcError) -> Finding:
    return Finding(False, f"{error.what} ({error.where}). {error.remedy}")


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
    """Yield the device's rates, which are stored for the plans of this host if it is a GPU."""
    speed = measure_rates(device)
    if device.type == "cuda":
        yield Finding(True, f"Matrix products in 16 bits: {speed.half / 1e12:.3g} TFLOP/s.")
    yield Finding(True, f"Matrix products in float32: {speed.single / 1e12:.3g} TFLOP/s.")
    yield Finding(True, f"Memory: {speed.memory / 1e9:.3g} GB/s read and written.")
    yield Finding(True, f"An operation on nothing: {1e6 / speed.started:.3g} µs.")
    if device.type == "cuda" and (gpu := gpu_of(home)) is not None:
        keep(home, gpu.uuid, speed)
        yield Finding(True, "Plans take their minutes from these rates.")


def measure_rates(device: torch.device) -> GpuSpeed:
    """Return rough rates of the device: the best of some tries. A CPU computes in float32 alone."""
    size, half = (8192, torch.float16) if device.type == "cuda" else (1024, torch.float32)

    def products(dtype: torch.dtype) -> float:
        matrix = torch.randn(size, size, device=device).to(dtype)  # equal numbers would be multiplied faster
        return 2 * size**3 / _least_seconds(device, partial(torch.matmul, matrix, matrix))

    long, short = torch.ones(64 << 20, device=device), torch.ones(1, device=device)
    memory = 2 * 4 * len(long) / _least_seconds(device, partial(long.mul_, 1.0))
    started = 1000 / _least_seconds(device, lambda: [short.mul_(1.0) for _ in range(1000)])
    return GpuSpeed(products(half), products(torch.float32), memory, started)


def _least_seconds(device: torch.device, work: Callable[[], object]) -> float:
    return min(_seconds(device, work) for _ in range(4))


def _seconds(device: torch.device, work: Callable[[], object]) -> float:
    _wait(device)
    started = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - started


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _whole_run(settings: Settings, device: torch.device) -> Iterator[Finding]:
    """Compare a run with perplexity on the device with one on the CPU, and its memory with the plan's."""
    recipe = Recipe.parse(
        RECIPE | {"method": "sarqc-gbs", "test": f"{MODEL}-test", "test_tokens": 4096, "baseline": False}
    )
    planned = prepare(recipe, settings).shown.memory_bytes or 0
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    try:
        measured = _perplexities(execute(recipe, settings))
    except Exception as error:
        yield Finding(False, f"A whole run ended: {type(error).__name__}: {str(error)[:300]}")
        return
    if device.type != "cuda":
        words = f"A whole run: perplexity {measured['quantized']:.2f}, the float model's {measured['float']:.2f}."
        yield Finding(True, words)
        return
    expected = _perplexities(execute(recipe, settings.model_copy(update={"device": "cpu"})))
    yield _compare_perplexities("float", FLOAT, measured["float"], expected["float"])
    yield _compare_perplexities("quantized", QUANTIZED, measured["quantized"], expected["quantized"])
    peak = torch.cuda.max_memory_reserved(device)
    words = f"Memory on the device: {peak / 2**20:.0f} MiB at the peak, {planned / 2**20:.0f} MiB in the plan."
    yield Finding(planned >= peak, words)


def _compare_perplexities(model: str, bound: float, measured: float, expected: float) -> Finding:
    words = f"Perplexity of the {model} model: {measured:.2f}, on the CPU {expected:.2f}."
    return Finding(abs(measured / expected - 1) <= bound, words)


def _perplexities(events: Iterable[Event]) -> dict[str, float]:
    return {event.which: event.value for event in events if isinstance(event, Measured)}


def _kernel(settings: Settings) -> Iterator[Finding]:
    recipe = Recipe.parse(RECIPE | {"method": "rtn", "bits": 4, "samples": 1, "speed": True})
    measured = next(event for event in execute(recipe, settings) if isinstance(event, SpeedMeasured))
    if measured.kernel is None or measured.quantized is None or measured.float is None:
        yield Finding(False, f"No 4-bit kernel: {measured.reason}.")
        return
    difference = measured.protocol["largest_relative_difference"]
    yield Finding(
        difference <= TOLERANCE,
        f"{measured.kernel}: its outputs differ by {difference:.2g} from our weights'; decoding "
        f"{measured.quantized['decode'] / measured.float['decode']:.2f} × as fast as in {measured.protocol['dtype']}.",
    )
