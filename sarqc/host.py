"""What this host has: memory of the device and of the machine. No torch."""

from __future__ import annotations

import shutil
import subprocess
import time
from functools import lru_cache
from pathlib import Path

import psutil

from sarqc.settings import Settings

KNOWN_SECONDS = 5  # asking a GPU takes a good part of a second
_CGROUP = Path("/sys/fs/cgroup")


def free_bytes(settings: Settings) -> int | None:
    """What a run may take on its device: as the operator says, else what is free; None where that can't be known."""
    if settings.memory_gib is not None:
        return int(settings.memory_gib * 2**30)
    if on_processor(settings):
        return _free_here()
    free = _free_on_gpus()
    number = settings.device.partition(":")[2] or "0"
    return free[int(number)] if number.isdigit() and int(number) < len(free) else None


def on_processor(settings: Settings) -> bool:
    """Whether runs compute on the CPU, so that the device's memory is the machine's."""
    return settings.device == "cpu" or (settings.device == "auto" and not _free_on_gpus())


def _free_here() -> int:
    """Free memory of the machine, or of the container that this is."""
    free = psutil.virtual_memory().available
    try:
        limit, used = ((_CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        cached = next(
            int(line.split()[1])
            for line in (_CGROUP / "memory.stat").read_text().splitlines()
            if line.startswith("inactive_file ")
        )
        return free if limit == "max" else min(free, int(limit) - int(used) + cached)
    except (OSError, ValueError, StopIteration):
        return free


@lru_cache(maxsize=1)
def _nvidia_smi() -> str | None:
    return shutil.which("nvidia-smi")


def _free_on_gpus() -> list[int]:
    """Free memory of each GPU, in its order; none where nobody can be asked. Known for some seconds."""
    return [] if _nvidia_smi() is None else _asked(int(time.monotonic() // KNOWN_SECONDS))


@lru_cache(maxsize=1)
def _asked(_when: int) -> list[int]:
    question = [_nvidia_smi(), "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(question, capture_output=True, text=True, timeout=10, check=True)
        return [int(line) * 2**20 for line in answer.stdout.split()]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
