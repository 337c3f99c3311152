"""Statistics of one draw with the weights that they belong to, in one file: tuned by the errors of layers elsewhere.

The file is collected where the model is and opened where it is not: at any bits, λ, γ or method that works on single
layers. What whole models do can't be measured from it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from sarqc.calibration.block import BlockStatistics
from sarqc.calibration.float_statistics import SUFFIX, packed, unpacked
from sarqc.calibration.job import grids_of
from sarqc.calibration.pipeline import layers_by_block
from sarqc.engine.costs import sweep_bytes
from sarqc.engine.draws import Draw, errors_of_layers
from sarqc.engine.plan import indivisible_layers
from sarqc.errors import NotFound, Refused
from sarqc.models.families import LayerInfo
from sarqc.models.loading import choose_device
from sarqc.quantization.solving import Context
from sarqc.recipe import Recipe
from sarqc.settings import Settings

FORMAT = 1
_REMEDY = "Write it again with “python -m sarqc statistics”."


def write_bundle(draw: Draw, path: Path) -> None:
    """Writes the statistics of a draw, on its own sequences and on unseen ones, and the float weights."""
    ground, tensors = draw.ground, dict[str, Tensor]()
    family, recipe = ground.bench.loaded.family, ground.prepared.recipe
    for block in draw.blocks():
        index = next(iter(block.layers.values())).block
        for part, statistics in (("own", block.own), ("unseen", block.unseen)):
            payload = packed({name: statistics[name] for name in block.layers})
            tensors[f"{index}.{part}"] = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
        for name, weight in block.weights.items():
            tensors[f"{block.layers[name].name}.weight"] = weight.cpu().contiguous()
    document = {
        "format": FORMAT,
        "model": recipe.model,
        "calibration": recipe.calibration,
        "test": recipe.test,
        "blocks": family.blocks,
        "protocol": draw.sequences.protocol,
        "layers": [layer.model_dump(mode="json") for layer in ground.layers],
    }
    safetensors.torch.save_file(tensors, path, {"sarqc": json.dumps(document)})


def save_bundle(draw: Draw, folder: Path) -> Path:
    """Writes the same as the one file of a new folder, which appears whole or not at all; returns the file's path."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".partial-") as partial:
        written = Path(partial) / folder.name
        written.mkdir()
        write_bundle(draw, written / f"{folder.name}{SUFFIX}")
        written.rename(folder)
    return folder / f"{folder.name}{SUFFIX}"


@dataclass(frozen=True)
class Bundle:
    """A file of statistics that was opened; its tensors are read block by block."""

    path: Path
    document: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> Bundle:
        """Raises ``NotFound``, or ``Refused`` for a file that is none."""
        if not path.is_file():
            raise NotFound("there is no such file", str(path), "Give a file that “python -m sarqc statistics” wrote.")
        try:
            with safetensors.safe_open(path, "pt") as file:
                document = json.loads((file.metadata() or {})["sarqc"])
        except (safetensors.SafetensorError, KeyError, ValueError):
            raise Refused("the file holds no statistics", str(path), _REMEDY) from None
        if document.get("format") != FORMAT:
            what = f"the statistics have format {document.get('format')}, this sarqc reads {FORMAT}"
            raise Refused(what, str(path), "Update sarqc, or write them again.")
        return cls(path, document)

    @property
    def layers(self) -> list[LayerInfo]:
        return [LayerInfo(**layer) for layer in self.document["layers"]]

    def blocks(self, device: torch.device) -> Iterator[BlockStatistics]:
        """Block by block, on the device."""
        with safetensors.safe_open(self.path, "pt") as file:
            for index, of_block in layers_by_block(self.layers).items():
                layers = {layer.path_in_block(self.document["blocks"]): layer for layer in of_block}
                weights = {path: file.get_tensor(f"{layer.name}.weight").to(device) for path, layer in layers.items()}
                own, unseen = (
                    unpacked(file.get_tensor(f"{index}.{part}").numpy().tobytes(), device) for part in ("own", "unseen")
                )
                yield BlockStatistics(layers, weights, own, unseen)


def screen_bundle(bundle: Bundle, recipe: Recipe, settings: Settings) -> np.ndarray:
    """Relative errors of all layers on unseen text at every γ and λ that the recipe compares, (L, G, M), as
    ``screening`` finds them where the model is; NaN where no unseen token came.

    Raises ``Refused`` where groups do not fit.
    """
    (lams, gammas), layers = recipe.compared(), bundle.layers
    points, device = recipe.to_method().points(lams, gammas), choose_device(settings.device)
    grids = grids_of(recipe, layers, indivisible_layers(recipe, layers))
    context = Context.on(device, sweep_bytes(settings))
    rows = dict(errors_of_layers(bundle.blocks(device), grids, points, context))
    errors = np.array([rows[layer.name] for layer in layers], dtype=np.float64)
    return errors.reshape(len(errors), len(gammas), len(lams))
