"""A calibration as data: its inputs, and its result for each linear.

Axes: L values of λ, C weights of the inspected group.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np

from sarqc.calibration.corpora import Sequences
from sarqc.calibration.pictures import RELATIVE, LayerCurve
from sarqc.events import PointDone
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.families import LayerInfo
from sarqc.models.loading import LoadedModel
from sarqc.quantization.grid import Grid
from sarqc.quantization.methods import Method
from sarqc.quantization.quantized_layer import ImportedCodes, QuantizedLayer
from sarqc.recipe import Recipe


@dataclass(frozen=True)
class Curves:
    """Curves and events of a calibration beside the weights, which these do not change."""

    lams: tuple[float, ...] = ()  # further values of λ at which every layer is solved
    yields_points: bool = False  # yield each λ as soon as it is solved


class ImportedQuantization(Protocol):
    """A quantization of this model by another tool: codes of its linears, and the values of its other tensors."""

    @property
    def grids(self) -> dict[str, Grid]:
        """Grids by layer name."""

    @property
    def fingerprint(self) -> str:
        """Hash that changes with any part of it."""

    def layer(self, info: LayerInfo) -> ImportedCodes:
        """Return the codes of a linear."""

    def put_outside(self, loaded: LoadedModel) -> None:
        """Give embedding, last norm and head their values from the checkpoint."""

    def put_into(self, loaded: LoadedModel, index: int) -> None:
        """Give a block, whose weights are loaded, its values from the checkpoint.

        Linears with codes are left out; they are multiplied by the channel scales that the block's norms have taken up.
        """


@dataclass(frozen=True)
class LaterMethod:
    """Another method of the same family, from a block on."""

    block: int
    method: Method


@dataclass(frozen=True)
class CalibrationJob:
    """Everything that determines the quantized weights apart from the float model, and the curves beside them.

    Attributes:
        grids: Grids by layer name.
        method: Method of all layers; with ``candidates`` only their common values count.
        inputs_from: Prefix whose outputs the layers read.
        sequences: Calibration and held-out sequences.
        candidates: Methods of which each layer takes the best.
        validation_samples: Number of calibration sequences, the last ones, that judge candidates.
        channel_fraction: Part of the input channels on which candidates are compared.
        curves: Curves beside the weights.
        imported: A quantized checkpoint of the model: its linears keep their scales, or their codes too, and the model
            gets its other values.
        later: Method from a block on, if that is not ``method``.
    """

    grids: dict[str, Grid]
    method: Method
    inputs_from: Literal["quantized", "float"]
    sequences: Sequences
    candidates: tuple[Method, ...] = ()
    validation_samples: int = 0
    channel_fraction: float = 1.0
    curves: Curves = field(default_factory=Curves)
    imported: ImportedQuantization | None = None
    later: LaterMethod | None = None

    def in_block(self, index: int) -> CalibrationJob:
        """Return the job with the method of a block, by its number."""
        if self.later is None or index < self.later.block:
            return self
        return replace(self, method=self.later.method, later=None)

    def curve_lams(self) -> tuple[float, ...]:
        """Return the λ of the curves, the method's own and the further ones, in order; (0,) without a single λ."""
        if self.imported is not None and len(self.candidates) == 1 and self.method.lam is not None:
            return (self.method.lam,)  # one λ, beside the imported codes
        if self.candidates or self.method.lam is None:
            return (0.0,)
        return tuple(sorted({*self.curves.lams, self.method.lam}))

    def own_point(self) -> int:
        """Return the position in ``curve_lams`` of the point whose weights the model gets."""
        lams = self.curve_lams()
        return lams.index(self.method.lam) if len(lams) > 1 else 0

    def parts(self) -> list[int]:
        """Return the sizes of the calibration sequences' separately walked parts: all, or train and validation."""
        samples = len(self.sequences.calibration)
        return [samples - self.validation_samples, self.validation_samples] if self.candidates else [samples]


def grids_of(recipe: Recipe, layers: Iterable[LayerInfo], per_channel: Collection[str]) -> dict[str, Grid]:
    """Return the grid of each layer by name; ``per_channel`` names those without groups."""
    return {
        layer.name: Grid(recipe.bits, None if layer.name in per_channel else recipe.group_size, recipe.grid)
        for layer in layers
    }


def calibration_job(
    recipe: Recipe,
    checkpoint: Checkpoint,
    sequences: Sequences,
    per_channel: tuple[str, ...],
    imported: ImportedQuantization | None = None,
) -> CalibrationJob:
    """Return the calibration of a recipe for a checkpoint; ``per_channel`` names linears without groups."""
    grids = grids_of(recipe, checkpoint.layers, per_channel) if imported is None else imported.grids
    candidates = recipe.candidates() if recipe.auto_by() == "layer" else ()
    if recipe.repairs:
        candidates = candidates or (recipe.to_method(),)
    later = recipe.later_method()
    return CalibrationJob(
        grids,
        recipe.to_method(),
        recipe.inputs_from,
        sequences,
        candidates,
        recipe.validation_samples() if candidates else 0,
        recipe.channel_fraction,
        Curves(recipe.sweep, yields_points=recipe.layer is not None and not candidates),
        imported,
        None if later is None or recipe.from_block is None else LaterMethod(recipe.from_block, later),
    )


@dataclass(frozen=True)
class SolvedLayer:
    """Result of the pipeline for one linear, whose weight in the model is by then replaced."""

    info: LayerInfo
    quantized: QuantizedLayer
    curve: LayerCurve
    seconds: float
    from_cache: bool


def point_events(solved: SolvedLayer) -> Iterator[PointDone]:
    """Yield the points of a layer that was read from the store."""
    curve = solved.curve
    for index in range(len(curve.lams)):
        yield _point_done(solved.info, curve.lams, index, (getattr(curve, name)[index] for name in RELATIVE))


def point_event(layer: LayerInfo, lams: tuple[float, ...], index: int, quantized: QuantizedLayer) -> PointDone:
    """Return the point of a curve over ``lams`` that was just solved."""
    return _point_done(layer, lams, index, (getattr(quantized.report, f"relative_{name}") for name in RELATIVE))


def _point_done(layer: LayerInfo, lams: tuple[float, ...], index: int, values: Iterable[float | None]) -> PointDone:
    """Return the point in the precision of curves, so that solved and stored layers have the same."""
    numbers = (None if value is None or math.isnan(value) else float(np.float32(value)) for value in values)
    return PointDone(layer.name, index, len(lams), lams[index], *numbers)
