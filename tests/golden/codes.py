"""Codes of every method on every grid, of a layer of each shipped model, with the inputs that its own text gives it."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sarqc.models.catalogue import checkpoint_of
from sarqc.models.loading import load
from sarqc.models.tokenizing import encode
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import METHODS, method
from sarqc.quantization.solve import quantize_layer
from sarqc.settings import Settings
from tests.quantizing import brief, quantize_block

LAYERS = {"tiny-llama": "model.layers.1.self_attn.q_proj", "tiny-moe": "model.layers.1.self_attn.o_proj"}
ROWS, SEQUENCES, LENGTH = 4, 4, 96
TIED_ROWS = 0.1  # share of the rows that may differ: where a rounding tie falls otherwise, so do the columns after it
GRIDS = [
    Grid(bits, group_size, kind)
    for bits in (2, 3, 4)
    for kind in ("symmetric", "full_range", "asymmetric", "affine")
    for group_size in (64, None)
]


def codes_of(model: str, settings: Settings) -> dict[str, np.ndarray]:
    """Return the codes (grid, row, column) of the first rows of a model's layer, by method."""
    weight, inputs = _layer(model, settings)
    tokens = inputs.flatten(0, 1)
    statistics = LayerStatistics.from_inputs(tokens, tokens + 0.05 * tokens.roll(1, 0))
    return {name: np.stack([_codes(name, weight, inputs, statistics, grid) for grid in GRIDS]) for name in METHODS}


def _layer(model: str, settings: Settings) -> tuple[Tensor, Tensor]:
    """The first rows of the layer's weight, and its inputs (sequence, token, channel)."""
    checkpoint = checkpoint_of(model, None, settings)
    loaded = load(checkpoint, torch.device("cpu"))
    text = (Path(checkpoint.folder) / "calibration.txt").read_text(encoding="utf-8")
    ids = encode(text, Path(checkpoint.folder), model, loaded.model.config.vocab_size)[: SEQUENCES * LENGTH]
    seen: list[Tensor] = []
    linear = loaded.model.get_submodule(LAYERS[model])
    hook = linear.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach().double()))
    with torch.no_grad():
        loaded.model(torch.from_numpy(ids).reshape(SEQUENCES, LENGTH))
    hook.remove()
    weight = linear.weight
    return weight[:ROWS].detach().double(), seen[0]


def _codes(name: str, weight: Tensor, inputs: Tensor, statistics: LayerStatistics, grid: Grid) -> np.ndarray:
    if METHODS[name].make.unit == "layer":
        return quantize_layer(weight, statistics, grid, method(name)).codes.numpy()

    def forward(weights: dict[str, Tensor], states: Tensor) -> Tensor:
        made = states @ weights["layer"].T  # a block's outputs are as wide as its inputs
        return torch.nn.functional.pad(made, (0, states.shape[-1] - made.shape[-1]))

    *_, layers = quantize_block(
        {"layer": weight},
        {"layer": statistics},
        {"layer": grid},
        brief(name),
        forward=forward,
        inputs=[inputs],
        targets=[forward({"layer": weight}, inputs)],
    )
    return layers["layer"].codes.numpy()
