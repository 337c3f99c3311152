"""Statistics of one draw with the weights that they belong to, in one file: tuned by the errors of layers elsewhere.

The file is collected where the model is and opened where it is not: at any bits, λ, γ or method that works on single
layers. What whole models do can't be measured from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from sarqc.calibration.block import solve_points
from sarqc.calibration.capture import Statistics
from sarqc.calibration.float_statistics import packed, unpacked
from sarqc.engine.costs import sweep_bytes
from sarqc.engine.draws import Draw, Screened
from sarqc.errors import NotFound, Refused
from sarqc.models.families import LayerInfo
from sarqc.models.loading import choose_device
from sarqc.quantization.grid import Grid
from sarqc.quantization.solving import Context
from sarqc.recipe import Recipe
from sarqc.settings import Settings

OfBlock = tuple[dict[str, LayerInfo], dict[str, Tensor], list[Statistics]]

FORMAT = 1
_REMEDY = "Write it again with “python -m sarqc statistics”."


def write_bundle(draw: Draw, path: Path) -> None:
    """Writes the statistics of a draw, on its own sequences and on unseen ones, and the float weights."""
    ground = draw.ground
    loaded, recipe = ground.bench.loaded, ground.prepared.recipe
    tensors: dict[str, Tensor] = {}
    for layers, own, unseen in draw.blocks():
        block = next(iter(layers.values())).block
        for part, statistics in (("own", own), ("unseen", unseen)):
            payload = packed({path: statistics[path] for path in layers})
            tensors[f"{block}.{part}"] = torch.frombuffer(bytearray(payload), dtype=torch.uint8)
        with loaded.at(loaded.blocks()[block]):
            for layer in layers.values():
                weight = loaded.weight(layer.name).detach().to(loaded.stored_as(f"{layer.name}.weight"), copy=True)
                tensors[f"{layer.name}.weight"] = weight.cpu().contiguous()
    document = {
        "format": FORMAT,
        "model": recipe.model,
        "calibration": recipe.calibration,
        "test": recipe.test,
        "blocks": loaded.family.blocks,
        "protocol": draw.sequences.protocol,
        "layers": [layer.model_dump(mode="json") for layer in ground.layers],
    }
    safetensors.torch.save_file(tensors, path, {"sarqc": json.dumps(document)})


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

    def blocks(self, device: torch.device) -> Iterator[OfBlock]:
        """Of each block: linears, weights in their own dtypes and both statistics, all by path."""
        by_block: dict[int, dict[str, LayerInfo]] = {}
        for layer in self.layers:
            prefix = f"{self.document['blocks']}.{layer.block}."
            by_block.setdefault(layer.block, {})[layer.name.removeprefix(prefix)] = layer
        with safetensors.safe_open(self.path, "pt") as file:
            for block, layers in by_block.items():
                weights = {path: file.get_tensor(f"{layer.name}.weight").to(device) for path, layer in layers.items()}
                parts = [
                    unpacked(file.get_tensor(f"{block}.{part}").numpy().tobytes(), device) for part in ("own", "unseen")
                ]
                yield layers, weights, parts


def screen_bundle(bundle: Bundle, recipe: Recipe, settings: Settings) -> Screened:
    """All layers at every λ and γ that the recipe compares, as ``draws.screen`` does where the model is.

    Raises ``Refused`` where groups do not fit.
    """
    lams, gammas = recipe.compared()
    points, device = recipe.to_method().points(lams, gammas), choose_device(settings.device)
    rows = []
    for layers, weights, (own, unseen) in bundle.blocks(device):
        grids = {layer.name: _grid(recipe, layer) for layer in layers.values()}
        context = Context.on(device, sweep_bytes(settings))
        for _, solved in solve_points(layers, weights, own, unseen, grids, points, context):
            rows.append([one.report.relative_held_out for one in solved])
    errors = np.array(rows, dtype=np.float64)  # NaN for None
    return Screened(errors.reshape(len(errors), len(gammas), len(lams)), 0.0)


def _grid(recipe: Recipe, layer: LayerInfo) -> Grid:
    """As in a run, where ``indivisible`` allows it per channel. Raises ``Refused``."""
    width, size = layer.shape[1], recipe.group_size
    if size is None or width % size == 0:
        return Grid(recipe.bits, size, recipe.grid)
    if recipe.indivisible == "refuse":
        raise Refused(
            f"groups of {size} do not divide the {width} input channels of {layer.name}", "group size",
            "Take another size, or set indivisible to per_channel.",
        )  # fmt: skip
    return Grid(recipe.bits, None, recipe.grid)
