"""Statistics of one draw with the weights that they belong to, in one file: tuned by the errors of layers elsewhere.

The file is collected where the model is and opened where it is not: at any bits, λ, γ or method that works on single
layers. What whole models do can't be measured from it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from sarqc.calibration.block import BlockStatistics
from sarqc.calibration.capture import Statistics
from sarqc.calibration.float_statistics import SUFFIX, packed, unpacked
from sarqc.calibration.job import calibration_job, grids_of
from sarqc.calibration.pipeline import layers_by_block
from sarqc.engine.costs import sweep_bytes
from sarqc.engine.keys import describe
from sarqc.engine.measure import Workbench
from sarqc.engine.plan import indivisible_layers, prepare
from sarqc.engine.result import summary_of
from sarqc.engine.run import RunContext
from sarqc.engine.trials import Draw, draw_of, errors_of_layers, ground_of
from sarqc.errors import NotFound, Refused
from sarqc.events import Event, Saved, Stage
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.architecture import first_problem
from sarqc.models.families import LayerInfo
from sarqc.models.loading import choose_device, load
from sarqc.quantization.solving import Context
from sarqc.recipe import Recipe
from sarqc.settings import Settings

FORMAT = 1
MOST_BYTES = 16 << 20  # of the document; that of a mixture with thousands of experts has some MiB
_UNREADABLE = (safetensors.SafetensorError, LookupError, ValueError, TypeError, AttributeError, RecursionError)
_FLOATS = ("F16", "BF16", "F32", "F64")  # of weights
_REMEDY = "Write it again with “python -m sarqc statistics”."


def write_bundle(draw: Draw, path: Path) -> None:
    """Write the statistics of a draw, on its own sequences and on unseen ones, and the float weights."""
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
    """Write the same as the one file of a new folder, which appears whole or not at all; return the file's path."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".partial-") as partial:
        written = Path(partial) / folder.name
        written.mkdir()
        write_bundle(draw, written / f"{folder.name}{SUFFIX}")
        written.rename(folder)
    return folder / f"{folder.name}{SUFFIX}"


def save_statistics(run: RunContext) -> Iterator[Event]:
    """Write the statistics of the first draw to a file; collect them again if they have been removed."""
    assert run.output.checkpoint_dir is not None
    yield Stage("saving", "statistics")
    ground = ground_of(run.bench, run.prepared, run.job.grids)
    yield Saved("statistics", str(save_bundle(draw_of(run.recipe, ground, 0), run.output.checkpoint_dir)))
    run.summary = summary_of(run.prepared, run.original, run.device)


def first_draw(recipe: Recipe, settings: Settings) -> Draw:
    """Return the first draw of a recipe that tunes, with the model loaded. Raises as ``prepare``."""
    prepared = prepare(recipe, settings, download=True)
    scratch = settings.scratch_dir() if prepared.streamed else None
    device, begins_with_bos = choose_device(settings.device), prepared.recipe.begin == "bos"
    loaded = load(prepared.checkpoint, device, scratch=scratch, begins_with_bos=begins_with_bos)
    job = calibration_job(recipe, prepared.checkpoint, prepared.sequences, prepared.per_channel)
    bench = Workbench(loaded, describe(loaded), ArtefactStore(settings.artefacts_root()), settings)
    return Draw.of(ground_of(bench, prepared, job.grids), prepared.sequences)


class _Document(BaseModel):
    """The description in a file of statistics."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str
    calibration: str
    test: str | None
    blocks: str
    protocol: dict[str, Any]
    layers: list[LayerInfo] = Field(min_length=1)


@dataclass(frozen=True)
class Bundle:
    """An opened file of statistics; its tensors are read block by block."""

    path: Path
    document: dict[str, Any]

    @classmethod
    def open(cls, path: Path) -> Bundle:
        """Return an opened file. Raises ``NotFound``, or ``Refused`` for a file that is none or damaged."""
        if not path.is_file():
            raise NotFound("no such file", str(path), "Give a file that “python -m sarqc statistics” wrote.")
        try:
            with safetensors.safe_open(path, "pt") as file:
                text = (file.metadata() or {})["sarqc"]
                names = file.keys()
                slices = {name: file.get_slice(name) for name in names}
                shapes = {name: tuple(part.get_shape()) for name, part in slices.items() if part.get_dtype() in _FLOATS}
            if len(text) > MOST_BYTES:
                raise ValueError("its description is too long")
            document = json.loads(text)
            version = document.get("format")
        except (safetensors.SafetensorError, KeyError, ValueError, AttributeError, RecursionError):
            raise Refused("the file holds no statistics", str(path), _REMEDY) from None
        if version != FORMAT:
            what = f"the statistics have format {str(version)[:40]}, this sarqc reads {FORMAT}"
            raise Refused(what, str(path), "Update sarqc, or write them again.")
        try:
            layers = _Document.model_validate(document).layers
        except ValidationError as error:
            raise _damaged(path, first_problem(error)) from None
        for layer in layers:
            if (shape := shapes.get(f"{layer.name}.weight")) != layer.shape:
                raise _damaged(path, f"the weight of {layer.name} has the shape {shape} and not {layer.shape}")
        if len({layer.name for layer in layers}) < len(layers):
            raise _damaged(path, "a layer is there twice")
        return cls(path, document)

    @property
    def layers(self) -> list[LayerInfo]:
        return [LayerInfo(**layer) for layer in self.document["layers"]]

    def blocks(self, device: torch.device) -> Iterator[BlockStatistics]:
        """Yield block by block, on the device. Raises ``Refused`` where a block's statistics are damaged."""
        with safetensors.safe_open(self.path, "pt") as file:
            for index, infos in layers_by_block(self.layers).items():
                layers = {layer.path_in_block(self.document["blocks"]): layer for layer in infos}
                weights = {path: file.get_tensor(f"{layer.name}.weight").to(device) for path, layer in layers.items()}
                own, unseen = (self._statistics(file, f"{index}.{part}", layers, device) for part in ("own", "unseen"))
                yield BlockStatistics(layers, weights, own, unseen)

    def _statistics(self, file: Any, name: str, layers: Mapping[str, LayerInfo], device: torch.device) -> Statistics:
        try:
            statistics = unpacked(file.get_tensor(name).numpy().tobytes(), device)
        except _UNREADABLE as error:
            raise _damaged(self.path, f"{name}: {type(error).__name__}") from None
        widths = {path: len(layer_statistics.abs_sum) for path, layer_statistics in statistics.items()}
        if widths != {path: layer.shape[1] for path, layer in layers.items()}:
            raise _damaged(self.path, f"{name} has not one entry of the right width for each layer of the block")
        return statistics


def _damaged(path: Path, how: str) -> Refused:
    return Refused(f"the statistics are damaged: {how[:300]}", str(path), _REMEDY)


def screen_bundle(bundle: Bundle, recipe: Recipe, settings: Settings) -> np.ndarray:
    """Return the relative errors of all layers on unseen text at every γ and λ that the recipe compares, (L, G, M), as
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
