"""sarqc on one job: codes, scales and zero points of every linear, and what its calibration took."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from sarqc.calibration.corpora import Sequences
from sarqc.calibration.job import CalibrationJob, SolvedLayer
from sarqc.calibration.pipeline import calibrate
from sarqc.engine.execute import warm_up
from sarqc.engine.measure import versions
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import load
from sarqc.quantization.grid import Grid
from sarqc.quantization.methods import method
from tests.benchmarks.quality.engines.engine_job import measured, read_job, write_done


def main(folder: Path) -> None:
    job, tokens = read_job(folder)
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
    kept = folder / "layers"
    kept.mkdir()
    with measured() as costs:
        for step in calibrate(loaded, quantizing, None, dict.fromkeys(names, "")):
            if isinstance(step, SolvedLayer):  # written at once, as in a run
                parts = {
                    f"{step.info.name}.{part}": getattr(step.quantized, part).contiguous()
                    for part in ("codes", "scales", "zero_points")
                }
                save_file(parts, kept / f"{step.info.name}.safetensors")
    tensors = {name: tensor for path in kept.iterdir() for name, tensor in load_file(path).items()}
    (folder / "checkpoint").mkdir()
    save_file(tensors, folder / "checkpoint" / "weights.safetensors")
    write_done(folder, "parts", costs, versions())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
