"""plan(recipe, settings): everything that can be refused or estimated before any work. No torch."""

from __future__ import annotations

import math
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sarqc.calibration.corpora import Sequences, described, draw_sequences, read_corpus, token_ids
from sarqc.errors import Refused
from sarqc.evaluation.tasks import known_task
from sarqc.models.catalogue import checkpoint_of
from sarqc.models.checkpoint import Checkpoint
from sarqc.quantization.methods import METHODS, ColumnSolver, LearnedClipping, ScaleSearch
from sarqc.recipe import Recipe
from sarqc.settings import Settings

DEFAULT_WINDOW = 2048
USUAL_GROUP_SIZES = (256, 128, 64, 32, 16, 8)


class Plan(BaseModel):
    """What a run will do and cost. ``None``: can't be known before the model is on this host."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    family: str | None = None
    parameters: int | None = None
    share_quantized: float | None = None  # 0..1
    layers: int | None = None
    per_channel_layers: tuple[str, ...] = ()  # module names that take per channel where the group size does not fit
    bits_per_weight: float | None = None  # of the quantized linears, scales and zero points included
    bytes_before: int | None = None
    bytes_after: int | None = None
    memory_bytes: int | None = None
    calibration_tokens: int
    test_tokens: int | None = None
    minutes: float | None = None
    warnings: tuple[str, ...] = ()


def plan(recipe: Recipe, settings: Settings) -> Plan:
    """Checks a recipe against this host and says what it will cost.

    Raises ``Refused``, ``NotFound`` or ``Unreachable``: a model, text or task that is not there, a group size that
    does not divide, a text that is too short, a window that is too long.
    """
    checkpoint = checkpoint_of(recipe.model, recipe.revision, settings)
    for task in recipe.tasks:
        known_task(task, settings)
    read_corpus(recipe.calibration, settings)
    test = read_corpus(recipe.test, settings) if recipe.test else None
    if checkpoint is None:
        note = "the model is not on this host yet: it will be downloaded, and sizes are known after that"
        tokens = recipe.samples * recipe.length
        return Plan(model=recipe.model, calibration_tokens=tokens, warnings=(*recipe.ignored(), note))
    if recipe.length > checkpoint.max_positions:
        raise Refused(
            f"sequences of {recipe.length} tokens are longer than the model's {checkpoint.max_positions}",
            "recipe, length",
            f"Take {checkpoint.max_positions} or less.",
        )
    window_for(checkpoint.max_positions, recipe.window)
    per_channel = indivisible_layers(recipe, checkpoint)
    drawn_sequences(recipe, checkpoint, settings)
    test_tokens = None
    if test is not None:
        test_tokens = min(len(token_ids(test, checkpoint.folder)), recipe.test_tokens or math.inf)
        if test_tokens < 2:
            raise Refused("the text has fewer than two tokens", f"test text {recipe.test}", "Give a longer text.")
    return _estimate(recipe, checkpoint, per_channel, test_tokens)


def drawn_sequences(recipe: Recipe, checkpoint: Checkpoint, settings: Settings) -> Sequences:
    """The recipe's calibration and held-out sequences. Raises ``Refused`` for a text that is too short."""
    return draw_sequences(
        token_ids(read_corpus(recipe.calibration, settings), checkpoint.folder),
        described(recipe.calibration, settings),
        samples=recipe.samples,
        length=recipe.length,
        held_out_samples=recipe.held_out_samples,
        sampling=recipe.sampling,
        seed=recipe.seed,
    )


def window_for(max_positions: int, window: int | None) -> int:
    """The tokens a model sees at once: as asked, at most its maximum; else 2048 or its maximum. May raise Refused."""
    if window is not None and window > max_positions:
        raise Refused(
            f"a window of {window} tokens is longer than the model's {max_positions}",
            "window",
            f"Take {max_positions} or less.",
        )
    return window or min(DEFAULT_WINDOW, max_positions)


def indivisible_layers(recipe: Recipe, checkpoint: Checkpoint) -> tuple[str, ...]:
    """Names of the layers whose width the group size does not divide; refuses them unless the recipe allows."""
    if recipe.group_size is None:
        return ()
    odd = [layer for layer in checkpoint.layers if layer.shape[1] % recipe.group_size]
    if odd and recipe.indivisible == "refuse":
        widths = sorted({layer.shape[1] for layer in checkpoint.layers})
        fitting = [str(size) for size in USUAL_GROUP_SIZES if all(width % size == 0 for width in widths)]
        choices = f"Here {', '.join(fitting)} fit every layer. Or" if fitting else "No usual size fits every layer:"
        raise Refused(
            f"groups of {recipe.group_size} do not divide the {odd[0].shape[1]} input channels of {odd[0].name}",
            f"group size, {len(odd)} of {len(checkpoint.layers)} layers",
            f"{choices} set indivisible to per_channel.",
        )
    return tuple(layer.name for layer in odd)


def _estimate(recipe: Recipe, checkpoint: Checkpoint, per_channel: tuple[str, ...], test_tokens: float | None) -> Plan:
    quantized = sum(math.prod(layer.shape) for layer in checkpoint.layers)
    groups = 0
    for layer in checkpoint.layers:
        whole_rows = recipe.group_size is None or layer.name in per_channel
        groups += layer.shape[0] * (1 if whole_rows else layer.shape[1] // recipe.group_size)
    per_group = 16 + (recipe.bits if recipe.grid == "asymmetric" else 0)  # a 16-bit scale and a packed zero point
    packed_bits = quantized * recipe.bits + groups * per_group
    stored = checkpoint.size_bytes / checkpoint.parameters  # bytes a float parameter
    tokens = (recipe.samples + recipe.held_out_samples) * recipe.length
    hidden = int(checkpoint.config["hidden_size"])
    widest = max(layer.shape[1] for layer in checkpoint.layers)
    needs = recipe.to_method().needs
    # The float model's states beside the quantized prefix's.
    two_walks = "cross" in needs or ("block" in needs and recipe.inputs_from == "quantized")
    kept = tokens + (recipe.samples * recipe.length if two_walks else 0)  # tokens whose states are held
    return Plan(
        model=recipe.model,
        family=checkpoint.family.title,
        parameters=checkpoint.parameters,
        share_quantized=checkpoint.share_quantized,
        layers=len(checkpoint.layers),
        per_channel_layers=per_channel,
        bits_per_weight=packed_bits / quantized,
        bytes_before=checkpoint.size_bytes,
        bytes_after=round(checkpoint.size_bytes - quantized * stored + packed_bits / 8),
        memory_bytes=4 * checkpoint.parameters
        + 8 * kept * hidden
        + (16 if two_walks else 8) * widest * widest
        + (1 << 29),
        calibration_tokens=recipe.samples * recipe.length,
        test_tokens=None if test_tokens is None else int(test_tokens),
        minutes=_minutes(recipe, checkpoint, quantized, test_tokens or 0, two_walks),
        warnings=tuple(_warnings(recipe, per_channel)),
    )


def _warnings(recipe: Recipe, per_channel: tuple[str, ...]) -> list[str]:
    warnings = recipe.ignored()
    if per_channel:
        warnings.append(f"{len(per_channel)} layers are quantized per channel: the group size does not divide them")
    if recipe.inputs_from == "float":
        warnings.append("float prefix: an exploring run, the final one will differ slightly")
    return warnings


# Sustained operations a second, measured on the embedded model with two server cores: passes through the model and
# Grams are large products, the column solver's are small, a scale search rounds every weight for every candidate and
# learned clipping in every step. A GPU is faster by far.
_PRODUCTS_PER_SECOND = 1.2e11
_SOLVES_PER_SECOND = 2e10
_SEARCHED = 22  # candidates of a scale search: 21 values of α, and none
_ROUNDED_PER_SECOND = 1e8
_CLIPPED_PER_SECOND = 1.5e8


def _minutes(recipe: Recipe, checkpoint: Checkpoint, quantized: int, test_tokens: float, two_walks: bool) -> float:
    """A rough estimate for two CPU cores of all calibrations that the recipe asks for, and of its measurements."""
    calibration = recipe.samples * recipe.length
    seconds = _calibration_seconds(recipe, checkpoint, quantized, calibration, two_walks)
    candidates = recipe.candidates()
    if candidates and METHODS[recipe.method].auto.by == "model":
        judged = recipe.validation_samples() * recipe.length
        once = _calibration_seconds(recipe, checkpoint, quantized, calibration - judged, two_walks)
        seconds += len(candidates) * (once + 2 * checkpoint.parameters * judged / _PRODUCTS_PER_SECOND)
    measuring = 2 * 2 * (quantized + checkpoint.parameters) * test_tokens
    return (seconds + measuring / _PRODUCTS_PER_SECOND) / 60


def _calibration_seconds(
    recipe: Recipe, checkpoint: Checkpoint, quantized: int, calibration: int, two_walks: bool
) -> float:
    """Passes over the text, Grams, and what the method does at each point: one, a curve, or what “auto” compares."""
    chosen, walks = recipe.to_method(), 2 if two_walks else 1
    tokens = calibration + recipe.held_out_samples * recipe.length
    passes = 2 * quantized * (1 + walks) * tokens
    grams = walks * sum(2 * tokens * layer.shape[1] ** 2 for layer in checkpoint.layers) / 2
    seconds = (passes + grams) / _PRODUCTS_PER_SECOND
    points = len({*recipe.sweep, -1.0})
    if recipe.candidates() and METHODS[recipe.method].auto.by == "layer":
        points = len(recipe.candidates()) + 1
    squares = sum(layer.shape[0] * layer.shape[1] ** 2 for layer in checkpoint.layers)
    match chosen:
        case ColumnSolver():
            cubes = sum(layer.shape[1] ** 3 / 3 for layer in checkpoint.layers)
            seconds += points * (cubes + (1 + 2 * walks) * squares) / _SOLVES_PER_SECOND
        case ScaleSearch():
            seconds += _SEARCHED * (2 * squares / _PRODUCTS_PER_SECOND + quantized / _ROUNDED_PER_SECOND)
        case LearnedClipping():
            epochs = points * chosen.epochs_at(recipe.bits)  # each a step forward and back, and a look at the whole
            seconds += epochs * 8 * quantized * calibration / _PRODUCTS_PER_SECOND
            seconds += epochs * quantized * (calibration / recipe.length) / _CLIPPED_PER_SECOND
    return seconds


def output_is_free(folder: Path) -> None:
    """Returns when a folder can be written as a run's output; raises ``Refused`` when it holds something already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Refused("the output folder is not empty", str(folder), "Give a new folder; nothing is overwritten.")
