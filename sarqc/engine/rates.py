"""What the device of a run does in a second: as the doctor measured it there, as published, or as two CPU cores."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from sarqc.engine.costs import gpu_of, on_processor
from sarqc.quantization.counts import TWO_CORES, Rates, rates_of_gpu
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
    """What a GPU does in a second, as the doctor measured it."""

    half: float  # floating-point operations a second of large products in 16 bits
    single: float  # in float32
    memory: float  # bytes read and written a second
    started: float  # operations on nothing a second

    def rates(self) -> Rates:
        return rates_of_gpu(self.half, self.single, self.memory, self.started)


def keep(settings: Settings, uuid: str, measured: GpuSpeed) -> None:
    """For the plans of this host, until the doctor measures again."""
    path = _file(settings, uuid)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(measured)))


def rates_of_device(settings: Settings) -> tuple[Rates, str]:
    """The rates of the device of a run, and whose they are in words."""
    gpu = None if on_processor(settings) else gpu_of(settings)
    if gpu is not None:
        if (measured := _kept(settings, gpu.uuid)) is not None:
            return measured.rates(), f"this {gpu.name}, by what the doctor measured"
        if (published := published_rates(gpu.name)) is not None:
            return published, f"{gpu.name}, by its published rates"
    return TWO_CORES, "two CPU cores"


def published_rates(name: str) -> Rates | None:
    """Of a GPU by its name; None for one that nobody has written down."""
    for part, (half, single, memory) in PUBLISHED.items():
        if part in name:
            reached = _REACHED * 1e12
            return rates_of_gpu(reached * half, reached * single, _REACHED * 1e9 * memory, _STARTED)
    return None


def _file(settings: Settings, uuid: str) -> Path:
    return settings.resolved_state_dir() / "rates" / f"{uuid}.json"


def _kept(settings: Settings, uuid: str) -> GpuSpeed | None:
    try:
        return GpuSpeed(**json.loads(_file(settings, uuid).read_text()))
    except (OSError, ValueError, TypeError):  # not there, or damaged: the doctor writes it again
        return None
