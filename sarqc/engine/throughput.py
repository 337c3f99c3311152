"""Rates of the device of a run: as the doctor measured it there, as published, or as two CPU cores."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from sarqc.documents import Phase
from sarqc.engine.costs import gpu_of, on_processor
from sarqc.quantization.counts import TWO_CORES, Throughput, rates_of_gpu
from sarqc.settings import Settings

# By a part of the name that nvidia-smi gives: dense products in 16 bits and in float32, 1e12 operations a second, and
# 1e9 bytes of memory a second, from NVIDIA's data sheets. The first that fits counts.
PUBLISHED = {
    "H200": (989, 67, 4800),
    "H100 PCIe": (756, 51, 2000),
    "H100": (989, 67, 3350),
    "A100": (312, 19.5, 2039),
    "L40S": (362, 91.6, 864),
    "RTX 4090": (165, 82.6, 1008),
    "L4": (121, 30.3, 300),
}
# What large products and copies reached of these on an H100, and operations on nothing that its host started a second.
_REACHED, _STARTED = 0.75, 1.2e5


@dataclass(frozen=True)
class GpuSpeed:
    """Rates of a GPU, as the doctor measured them."""

    half: float  # floating-point operations a second of large products in 16 bits
    single: float  # in float32
    memory: float  # bytes read and written a second
    started: float  # operations on nothing a second

    def rates(self) -> Throughput:
        return rates_of_gpu(self.half, self.single, self.memory, self.started)


def keep(settings: Settings, uuid: str, measured: GpuSpeed) -> None:
    """Store rates for the plans of this host, until the doctor measures again."""
    path = _file(settings, uuid)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(measured)))


def rates_of_device(settings: Settings) -> tuple[Throughput, str]:
    """Return the rates of the device of a run, and their source in words."""
    gpu = None if on_processor(settings) else gpu_of(settings)
    if gpu is not None:
        if (measured := _read_speed(settings, gpu.uuid)) is not None:
            return measured.rates(), f"this {gpu.name}, by what the doctor measured"
        if (published := published_rates(gpu.name)) is not None:
            return published, f"{gpu.name}, by its published rates"
    return TWO_CORES, "two CPU cores"


@dataclass(frozen=True)
class Pace:
    """The factor by which runs take longer than counted on a device, by its last runs."""

    factor: float
    words: str  # its source; empty without one


_LAST = 5  # runs of a model that say how fast it is
_MODELS = 64
_PARTS_FROM = 0.1  # of what was counted: what took less was on disk from before


def pace_of(settings: Settings, model: str) -> Pace:
    """Return the pace of a model whose runs this host has seen, else that of the other models.

    Other work of a host makes a run slower and never faster, so the fastest of the last runs counts; see
    ``_pace_of_single_run`` for a model of which there is only one.
    """
    by_model = _paces(settings)
    others = [
        min(last) if len(last) > 1 else _pace_of_single_run(last[0], 1.0)
        for name, last in by_model.items()
        if name != model and last
    ]
    elsewhere = statistics.median(others) if others else 1.0
    factors = by_model.get(model, [])
    if len(factors) > 1:
        return Pace(min(factors), "at the speed of the fastest recent run of this model")
    if factors:
        return Pace(_pace_of_single_run(factors[0], elsewhere), "by its one run of this model so far")
    return Pace(elsewhere, "by runs of other models" if others else "")


def _pace_of_single_run(factor: float, usual: float) -> float:
    """Return the pace after a single run where another one was usual: halfway, as it may have been a slow one."""
    return math.sqrt(factor * usual) if factor > usual else factor


def keep_pace(settings: Settings, model: str, planned: Sequence[Phase], taken: Mapping[tuple[str, str], float]) -> None:
    """Note how long the phases of a run took, in seconds by stage and detail, that were ``planned`` at a pace of 1."""
    pairs = [
        (phase["seconds"], seconds)
        for phase in planned
        if (seconds := taken.get((phase["stage"], phase["detail"]), 0.0)) > _PARTS_FROM * phase["seconds"]
        and phase["stage"] != "loading"
    ]
    counted, measured = (math.fsum(part) for part in zip(*pairs, strict=True)) if pairs else (0.0, 0.0)
    if min(counted, measured) < _SHORTEST:
        return
    by_model = _paces(settings)
    last = [*by_model.pop(model, []), measured / counted][-_LAST:]
    paces = dict([*by_model.items(), (model, last)][-_MODELS:])
    path = _pace_file(settings)
    with suppress(OSError):  # a full disk: plans are as good as before
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(paces))


_SHORTEST = 0.2  # seconds: less says nothing


def _pace_file(settings: Settings) -> Path:
    gpu = None if on_processor(settings) else gpu_of(settings)
    return _file(settings, f"pace of {'cpu' if gpu is None else gpu.uuid}")


def _paces(settings: Settings) -> dict[str, list[float]]:
    try:
        paces: dict[str, list[float]] = json.loads(_pace_file(settings).read_text())
        return {str(model): [float(factor) for factor in last] for model, last in paces.items()}
    except (OSError, ValueError, TypeError, AttributeError):  # not there, or damaged
        return {}


def published_rates(name: str) -> Throughput | None:
    """Return the rates of a GPU by its name; None for an unknown one."""
    for part, (half, single, memory) in PUBLISHED.items():
        if part in name:
            reached = _REACHED * 1e12
            return rates_of_gpu(reached * half, reached * single, _REACHED * 1e9 * memory, _STARTED)
    return None


def _file(settings: Settings, uuid: str) -> Path:
    return settings.resolved_state_dir() / "rates" / f"{uuid}.json"


def _read_speed(settings: Settings, uuid: str) -> GpuSpeed | None:
    try:
        return GpuSpeed(**json.loads(_file(settings, uuid).read_text()))
    except (OSError, ValueError, TypeError):  # not there, or damaged: the doctor writes it again
        return None
