"""sarqc on one job: codes, scales and zero points of every linear, and the seconds that its calibration took."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from sarqc.calibration.corpora import Sequences
from sarqc.calibration.job import CalibrationJob, SolvedLayer
from sarqc.calibration.pipeline import calibrate
from sarqc.engine.execute import warm_up
from sarqc.engine.measure import versions
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import load
from sarqc.quantization.grid import Grid
from sarqc.quantization.methods import method


def main(folder: Path) -> None:
    job = json.loads((folder / "job.json").read_text())
    tokens = np.load(folder / "tokens.npy")
    warm_up()
    checkpoint = read_checkpoint(Path(job["model"]), Path(job["model"]).name)
    loaded = load(checkpoint, torch.device("cpu"))
    settings = dict(job["settings"])
    grid = Grid(job["bits"], job["group_size"], settings.pop("grid", "asymmetric"))
    inputs_from = settings.pop("inputs_from", "quantized")
    names = [layer.name for layer in checkpoint.layers]
    quantizing = CalibrationJob(
        dict.fromkeys(names, grid), method(settings.pop("method"), **settings), inputs_from,
        Sequences(tokens, tokens[:0], protocol={}),
    )  # fmt: skip
    wall, processor = time.perf_counter(), time.process_time()
    solved = [step for step in calibrate(loaded, quantizing, None, dict.fromkeys(names, "")) if is_layer(step)]
    seconds = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    tensors = {
        f"{layer.info.name}.{part}": getattr(layer.quantized, part).contiguous()
        for layer in solved
        for part in ("codes", "scales", "zero_points")
    }
    save_file(tensors, folder / "weights.safetensors")
    done = {"seconds": seconds, "format": "parts", "weights": "weights.safetensors", "versions": versions()}
    (folder / "done.json").write_text(json.dumps(done))


def is_layer(step: object) -> bool:
    return isinstance(step, SolvedLayer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
