"""sarqc on one job: codes, scales and zero points of every linear, and what its calibration took.

It is the calibration of a run with its store of finished layers; with distillation, what that needs of the float model
is a part of it.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from benchmarks.quality.engines.engine_job import measured, read_job, write_done
from sarqc.calibration.corpora import Sequences
from sarqc.calibration.job import SolvedLayer, calibration_job
from sarqc.calibration.kept_layers import KeptLayers
from sarqc.engine.distill import ScaleTuning
from sarqc.engine.distill_blocks import tune_scales
from sarqc.engine.execute import warm_up
from sarqc.engine.keys import describe
from sarqc.engine.measure import Workbench, versions
from sarqc.engine.plan import indivisible_layers
from sarqc.evaluation.perplexity import drain
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.checkpoint import Checkpoint, read_checkpoint
from sarqc.models.loading import load
from sarqc.quantization.quantized_layer import QuantizedLayer
from sarqc.recipe import Recipe
from sarqc.settings import read_settings


def main(folder: Path) -> None:
    job, tokens = read_job(folder)
    warm_up()
    checkpoint = read_checkpoint(Path(job["model"]), Path(job["model"]).name)
    recipe = _recipe(job, checkpoint, len(tokens))
    held_out = np.load(folder / "held_out.npy") if recipe.distills else tokens[:0]
    device = job["device"]
    loaded = load(checkpoint, torch.device(device))
    settings = read_settings().model_copy(update={"device": device})
    bench = Workbench(loaded, describe(loaded), ArtefactStore(folder / "kept"), settings)
    quantizing = calibration_job(
        recipe, checkpoint, Sequences(tokens, held_out, protocol={}), indivisible_layers(recipe, checkpoint.layers)
    )
    keys = {layer.name: layer.name for layer in checkpoint.layers}
    with measured(device) as costs:
        tuning = ScaleTuning(bench, recipe, quantizing, keys) if recipe.distills else None
        original = None if tuning is None else drain(tuning.keep_float())
        reports = {
            step.info.name: step.quantized.report
            for step in bench.calibrated(quantizing, keys)
            if isinstance(step, SolvedLayer)
        }
        if tuning is not None:
            drain(tune_scales(tuning, original, reports))
    layers = KeptLayers(bench.store, keys if tuning is None else tuning.keys(), checkpoint.layers)
    tensors = {name: tensor for layer in layers for name, tensor in _parts(layer, layers[layer]).items()}
    (folder / "checkpoint").mkdir()
    save_file(tensors, folder / "checkpoint" / "weights.safetensors")
    write_done(folder, "parts", costs, versions())


def _recipe(job: dict[str, Any], checkpoint: Checkpoint, samples: int) -> Recipe:
    """The recipe of the job, whose tokens are drawn already."""
    is_mixture = any(layer.expert is not None for layer in checkpoint.layers)
    return Recipe.parse({
        "model": job["model"], "calibration": "of the job", "samples": samples, "baseline": False,
        "held_out_samples": max(1, samples // 2), "bits": job["bits"], "group_size": job["group_size"],
        "grid": "asymmetric", "distill_by": "block" if is_mixture else "model",
    } | job["settings"])  # fmt: skip


def _parts(name: str, layer: QuantizedLayer) -> dict[str, Tensor]:
    """Codes, scales and zero points, or biases, by their names in the file."""
    numbers = ("zero_points", layer.zero_points) if layer.biases is None else ("biases", layer.biases)
    parts = dict([("codes", layer.codes), ("scales", layer.scales), numbers])
    return {f"{name}.{part}": tensor.contiguous() for part, tensor in parts.items()}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
