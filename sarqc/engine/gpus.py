"""This host's GPUs and their memory, asked of nvidia-smi: no torch, so that asking makes no context on a device."""

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from functools import lru_cache

KNOWN_SECONDS = 5  # asking a GPU takes a good part of a second


@dataclass(frozen=True)
class Gpu:
    """One GPU, its memory in bytes."""

    uuid: str
    name: str
    free: int
    total: int
    driver: str = ""


def visible_gpus() -> list[Gpu]:
    """Return the GPUs that CUDA shows a process, in its order; none without nvidia-smi. Cached for some seconds.

    nvidia-smi lists every card in the order of the bus, which workers keep to (``CUDA_DEVICE_ORDER``).
    ``CUDA_VISIBLE_DEVICES`` says which of them are shown, by number or by the beginning of a uuid.
    """
    program = _nvidia_smi()
    every = [] if program is None else _query(program, int(time.monotonic() // KNOWN_SECONDS))
    selection = os.environ.get("CUDA_VISIBLE_DEVICES")
    if selection is None:
        return list(every)
    visible: list[Gpu] = []
    for name in map(str.strip, selection.split(",")):
        matches = [
            gpu for number, gpu in enumerate(every) if name == str(number) or (name and gpu.uuid.startswith(name))
        ]
        if len(matches) != 1:
            break  # as CUDA does: entries after an unknown name do not count
        visible += matches
    return visible


@lru_cache(maxsize=1)
def _nvidia_smi() -> str | None:
    return shutil.which("nvidia-smi")


@lru_cache(maxsize=1)
def _query(program: str, _when: int) -> tuple[Gpu, ...]:
    fields = "uuid,name,memory.free,memory.total,driver_version"
    question = [program, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(question, capture_output=True, text=True, timeout=10, check=True)
        rows = [map(str.strip, line.split(",")) for line in answer.stdout.splitlines() if line.strip()]
        return tuple(
            Gpu(uuid, name, int(free) * 2**20, int(total) * 2**20, driver) for uuid, name, free, total, driver in rows
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return ()
