"""What the scripts of all engines share: the job, time and memory of the calibration, and the account of what it left.

It lies beside the scripts and needs numpy alone, and torch where the job is for a GPU, so that it is there in
environments without this repository.
"""

import importlib.metadata
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np


def read_job(folder: Path) -> tuple[dict[str, Any], np.ndarray]:
    """The job that ``jobs.run_job`` wrote into the folder, and its tokens (samples, length)."""
    return json.loads((folder / "job.json").read_text()), np.load(folder / "tokens.npy")


@contextmanager
def measured(device: str = "cpu") -> Iterator[dict[str, float]]:
    """What the block took, filled in at its end: seconds on the wall and of the processor, and the most memory that the
    process has had by then, in bytes, the loaded model included: resident, with libraries, or of a GPU, in tensors.

    The clocks of a GPU's block start once CUDA is there and stop once the GPU has done everything.
    """
    costs: dict[str, float] = {}
    _wait_for(device)
    wall, processor = time.perf_counter(), time.process_time()
    yield costs
    _wait_for(device)
    costs |= {
        "wall": time.perf_counter() - wall, "processor": time.process_time() - processor,
        "peak_bytes": _peak_bytes(device),
    }  # fmt: skip


def _wait_for(device: str) -> None:
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


def _peak_bytes(device: str) -> int:
    """``ru_maxrss`` would not do on a CPU: it begins with the size of the process that started this one."""
    if device != "cpu":
        import torch

        return torch.cuda.max_memory_allocated()
    lines = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) * 1024


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in packages}


def write_done(folder: Path, weights_format: str, costs: Mapping[str, float], versions: Mapping[str, str]) -> None:
    """Says what lies under ``checkpoint`` there: one file of weights, in a format of ``FORMATS``.

    Raises ValueError where there is not one. Some engines leave files of their own beside that folder.
    """
    (weights,) = (folder / "checkpoint").rglob("*.safetensors")
    done = {
        "costs": dict(costs), "format": weights_format, "weights": str(weights.relative_to(folder)),
        "versions": dict(versions),
    }  # fmt: skip
    (folder / "done.json").write_text(json.dumps(done))
