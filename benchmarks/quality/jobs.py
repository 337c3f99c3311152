"""A job: one calibration by one engine, in a process and an environment of its own, on tokens that it is handed."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from benchmarks.quality.contenders import ENGINES
from benchmarks.quality.dequantize import Tensors
from benchmarks.quality.environment import python_of
from sarqc.calibration.corpora import Sequences, draw_sequences, text_of
from sarqc.models.checkpoint import Checkpoint
from sarqc.settings import read_settings

_SCRIPTS = Path(__file__).parent / "engines"
_ROOT = Path(__file__).resolve().parents[2]


class EngineFailed(Exception):
    """An engine ended without weights; the message is the end of what it said."""


@dataclass(frozen=True)
class Job:
    """``model``: the folder of a checkpoint; ``group_size`` None: the whole row; ``settings``: see the script;
    ``device``: “cpu” or “cuda”."""

    engine: str
    model: Path
    bits: int
    group_size: int | None
    settings: Mapping[str, Any]
    device: str = "cpu"


@dataclass(frozen=True)
class Left:
    """What an engine left. ``format``: of ``FORMATS``; ``seconds`` of the calibration alone: of the processor on a CPU,
    on the wall on a GPU; ``wall``: on the wall anywhere; ``peak_bytes``: the most memory of the process until its end,
    or of the GPU.
    """

    tensors: Tensors
    format: str
    seconds: float
    wall: float
    peak_bytes: int
    versions: dict[str, str]


def drawn(calibration: str, checkpoint: Checkpoint, *, samples: int, length: int, draw: int) -> Sequences:
    """The calibration tokens of a draw, the same for every engine, and half as many others, held out for those that
    judge by them."""
    text = text_of(calibration, checkpoint, read_settings())
    return draw_sequences(
        text, samples=samples, length=length, held_out_samples=max(1, samples // 2), sampling="random", seed=draw
    )  # fmt: skip


def run_job(job: Job, sequences: Sequences, folder: Path, threads: int, *, here: bool = False) -> Left:
    """Runs a job on sequences of a draw; environments and scratch are under ``folder``. May raise EngineFailed.

    ``here``: by this interpreter, whose environment has the packages of the engine.
    """
    folder = folder.resolve()
    python = Path(sys.executable) if here else python_of(job.engine, folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix="job-") as name:
        scratch = Path(name)
        np.save(scratch / "tokens.npy", sequences.calibration)
        np.save(scratch / "held_out.npy", sequences.held_out)
        document = {
            "model": str(job.model.resolve()), "bits": job.bits, "group_size": job.group_size,
            "settings": dict(job.settings), "device": job.device,
        }  # fmt: skip
        (scratch / "job.json").write_text(json.dumps(document))
        command = [python, _SCRIPTS / ENGINES[job.engine].script, scratch]
        environment = _environment(job, threads)
        done = subprocess.run(
            command, env=environment, cwd=scratch, capture_output=True, text=True, check=False
        )  # fmt: skip
        if done.returncode:
            (folder / "failed.log").write_text(f"{job}\n{done.stdout}\n{done.stderr}")
            raise EngineFailed(last_line(done.stderr))
        said = json.loads((scratch / "done.json").read_text())
        tensors = {name: _as_numpy(tensor) for name, tensor in load_file(scratch / said["weights"]).items()}
    costs = said["costs"]
    seconds = costs["processor" if job.device == "cpu" else "wall"]
    return Left(tensors, said["format"], seconds, costs["wall"], costs["peak_bytes"], said["versions"])


def _as_numpy(tensor: torch.Tensor) -> np.ndarray:
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()  # numpy has no bfloat16


def _environment(job: Job, threads: int) -> dict[str, str]:
    """Without a network, with so many threads, and on a CPU without GPUs; only our own script finds this repository."""
    own = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": str(threads)}
    if job.device == "cpu":
        own["CUDA_VISIBLE_DEVICES"] = ""
    if not ENGINES[job.engine].requirements:
        own["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    return os.environ | own


def last_line(said: str) -> str:
    """What an engine's traceback ends with."""
    lines = [line for line in said.strip().splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"
