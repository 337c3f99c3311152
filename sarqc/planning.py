"""From a recipe to what the engine takes."""

from __future__ import annotations

from sarqc.calibration.plan import CalibrationPlan
from sarqc.models.checkpoint import Checkpoint
from sarqc.preflight import drawn_sequences, indivisible_layers
from sarqc.quantization.grid import Grid
from sarqc.quantization.methods import METHODS
from sarqc.recipe import Recipe
from sarqc.settings import Settings


def calibration_plan(recipe: Recipe, checkpoint: Checkpoint, settings: Settings) -> CalibrationPlan:
    """The recipe's sequences, grids and method for one checkpoint."""
    per_channel = set(indivisible_layers(recipe, checkpoint))
    sequences = drawn_sequences(recipe, checkpoint, settings)
    grids = {
        layer.name: Grid(recipe.bits, None if layer.name in per_channel else recipe.group_size, recipe.grid)
        for layer in checkpoint.layers
    }
    auto = METHODS[recipe.method].auto
    candidates = recipe.candidates() if auto is not None and auto.by == "layer" else ()
    return CalibrationPlan(
        grids, recipe.to_method(), recipe.inputs_from, sequences, recipe.sweep, candidates,
        recipe.validation_samples() if candidates else 0, recipe.channel_fraction,
        tells_points=recipe.only is not None and not candidates,
    )  # fmt: skip
