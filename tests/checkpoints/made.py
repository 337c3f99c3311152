"""Models quantized in place, for the tests of every format, and numbers of few bits read apart from the packers."""

from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from sarqc import Grid, method
from sarqc.calibration.corpora import Text, draw_sequences
from sarqc.calibration.job import CalibrationJob
from sarqc.calibration.pipeline import calibrate
from sarqc.engine.keys import describe, layer_keys
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import LoadedModel, load
from sarqc.quantization.quantized_layer import QuantizedLayer

Layers = dict[str, QuantizedLayer]
IDS = torch.arange(48).reshape(2, 24) * 41 % 4096


def unpacked(words: np.ndarray, bits: int, width: int) -> np.ndarray:
    """Unsigned numbers, written apart from the packer: each bit of each is looked up by its position in the row."""
    codes = np.zeros((len(words), width), dtype=int)
    for row in range(len(words)):
        for column in range(width):
            for bit in range(bits):
                position = column * bits + bit
                word = int(words[row, position // 32]) & 0xFFFFFFFF
                codes[row, column] += ((word >> (position % 32)) & 1) << bit
    return codes


def quantized(folder: Path, grid: Grid, name: str = "gptq", **choices: object) -> tuple[LoadedModel, Layers, dict]:
    """Return a model quantized in place, its layers and their grids; groups that do not divide become whole rows."""
    loaded = load(read_checkpoint(folder), torch.device("cpu"))
    grids = {
        layer.name: Grid(grid.bits, grid.group_size, grid.kind)
        if grid.group_size is None or layer.shape[1] % grid.group_size == 0
        else Grid(grid.bits, None, grid.kind)
        for layer in loaded.checkpoint.layers
    }
    ids = np.random.default_rng(0).integers(0, 4096, 400)
    sequences = draw_sequences(
        Text("random", ids), samples=4, length=32, held_out_samples=0, sampling="sequential", seed=0
    )  # fmt: skip
    plan = CalibrationJob(grids, method(name, **choices), "quantized", sequences)
    solved = calibrate(loaded, plan, None, layer_keys(describe(loaded), plan))
    return loaded, {one.info.name: one.quantized for one in solved}, grids


def logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS).logits


def in_dtype(folder: Path, target: Path, dtype: torch.dtype) -> Path:
    """Return a copy of a checkpoint in another dtype."""
    AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).save_pretrained(target)
    AutoTokenizer.from_pretrained(folder).save_pretrained(target)
    return target
