"""sarqc on one job: codes, scales and zero points of every linear, and what its calibration took."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from sarqc.calibration.corpora import Sequences
from sarqc.calibration.job import CalibrationJob, SolvedLayer
from sarqc.calibration.pipeline import calibrate
from sarqc.calibration.whole_model import BesideFloat, FloatModel, float_model
from sarqc.engine.execute import warm_up
from sarqc.engine.measure import versions
from sarqc.engine.survey import returned
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import LoadedModel, load
from sarqc.quantization.grid import Grid
from sarqc.quantization.methods import method
from sarqc.quantization.quantized_layer import QuantizedLayer
from sarqc.quantization.scale_distillation import TunedScales, distilled
from tests.benchmarks.quality.engines.engine_job import measured, read_job, write_done


def main(folder: Path) -> None:
    job, tokens = read_job(folder)
    warm_up()
    checkpoint = read_checkpoint(Path(job["model"]), Path(job["model"]).name)
    loaded = load(checkpoint, torch.device("cpu"))
    settings = dict(job["settings"])
    grid = Grid(job["bits"], job["group_size"], settings.pop("grid", "asymmetric"))
    inputs_from, epochs = settings.pop("inputs_from", "quantized"), settings.pop("distill", 0)
    held_out = np.load(folder / "held_out.npy") if epochs else tokens[:0]
    names = [layer.name for layer in checkpoint.layers]
    quantizing = CalibrationJob(
        dict.fromkeys(names, grid), method(settings.pop("method"), **settings), inputs_from,
        Sequences(tokens, held_out, protocol={}),
    )  # fmt: skip
    kept = folder / "layers"
    kept.mkdir()
    with measured() as costs:
        original = float_model(loaded, quantizing) if epochs else None
        solved: dict[str, QuantizedLayer] = {}
        for step in calibrate(loaded, quantizing, None, dict.fromkeys(names, "")):
            if isinstance(step, SolvedLayer):  # written at once, as in a run
                _write(kept, step.info.name, step.quantized)
                if original is not None:
                    solved[step.info.name] = step.quantized
        if original is not None:
            for name, layer in _distilled(loaded, quantizing, original, solved, epochs).items():
                _write(kept, name, layer)
    tensors = {name: tensor for path in kept.iterdir() for name, tensor in load_file(path).items()}
    (folder / "checkpoint").mkdir()
    save_file(tensors, folder / "checkpoint" / "weights.safetensors")
    write_done(folder, "parts", costs, versions())


def _write(kept: Path, name: str, layer: QuantizedLayer) -> None:
    """Writes codes, scales and zero points, or biases."""
    numbers = ("zero_points", layer.zero_points) if layer.biases is None else ("biases", layer.biases)
    parts = dict([("codes", layer.codes), ("scales", layer.scales), numbers])
    save_file({f"{name}.{part}": tensor.contiguous() for part, tensor in parts.items()}, kept / f"{name}.safetensors")


def _distilled(
    loaded: LoadedModel, job: CalibrationJob, original: FloatModel, solved: dict[str, QuantizedLayer], epochs: int
) -> dict[str, QuantizedLayer]:
    """The layers with tuned scales, at the method's own λ and γ."""
    gamma, lam = getattr(job.method, "gamma", None), float(getattr(job.method, "lam", 0.0))
    linears = {}
    for name, layer in solved.items():
        weight = original.weights[name]
        linears[name] = TunedScales(layer, weight, original.inputs[name].drift_scale(weight.float(), gamma), lam)
    return returned(distilled(linears, BesideFloat(loaded, job, original), epochs=epochs)).layers


if __name__ == "__main__":
    main(Path(sys.argv[1]))
