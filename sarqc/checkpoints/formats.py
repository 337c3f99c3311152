"""Formats of a quantized checkpoint: the models that each can carry, and the programs that load it; no torch.

Loading is tested: ``make loaders`` gives checkpoints of every kind to every available reader and writes the results to
loaders.json beside this file.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from sarqc.documents import Repair
from sarqc.errors import Fix, Refused
from sarqc.models.families import LayerInfo
from sarqc.recipe import Recipe

Format = Literal["plain", "packed", "gptq", "mlx"]
FORMATS: tuple[Format, ...] = get_args(Format)
ExportFormat = Literal["plain", "packed", "gptq", "mlx", "as-found"]
ORIGINAL_FILES: Literal["as-found"] = "as-found"  # the files of a quantized checkpoint, with repaired codes
PACKED_BITS = (2, 3, 4)
MLX_GROUP = 32  # the smallest group of MLX, which divides the others
GPTQ_SIDE = 32  # divisor of both sides of a linear in GPTQ's format, so that its words are whole
TABLE = Path(__file__).with_name("loaders.json")
Loads = Literal["yes", "parts", "no", "not_run"]
IN_WORDS: dict[Loads, str] = {
    "yes": "loads, same tokens",
    "parts": "loads, other tokens",
    "no": "does not load",
    "not_run": "not run here",
}


@dataclass(frozen=True)
class Answer:
    """The result of one reader with a small checkpoint of this kind; ``words``: where tokens part, its complaint, or
    why it was not run.
    """

    reader: str
    version: str  # empty where it was not run
    loads: Loads
    words: str


@dataclass(frozen=True)
class Carrier:
    """One row of “who can load it”: whether this format carries the run, and what its readers made of its kind."""

    format: ExportFormat
    possible: bool
    readers: tuple[Answer, ...]
    note: str  # what it is and needs, or why not
    tried: str = ""  # when and with what the readers were; empty without readers
    fixes: tuple[Fix, ...] = ()  # changes of the grid with which it would carry the run; none where it does


def why_not(recipe: Recipe, checkpoint_format: Format, layers: Sequence[LayerInfo] = ()) -> Refused | None:
    """Return the reason why a format can't carry a recipe's result; None if it can.

    ``layers`` are those of the model, if they are known.
    """
    if checkpoint_format == "plain":
        return None
    where = f"format {checkpoint_format}"
    if (reason := recipe.to_method().why_not_packed()) is not None:
        return Refused(reason, where, "Set mode to foldable, or use the format plain.")
    if recipe.bits not in PACKED_BITS:
        remedy = f"Use {', '.join(map(str, PACKED_BITS))} bits, or the format plain."
        return Refused(f"{recipe.bits}-bit weights can't be packed here", where, remedy)
    parts = [layer for layer in layers if not layer.has_own_tensor]
    if parts and (checkpoint_format != "packed" or len(parts) == len(layers)):
        return Refused(
            f"{parts[0].name} is not a tensor of its own in checkpoints, but part of one or transposed, and no "
            "reader is known for its codes",
            where,
            "Use the format plain." if len(parts) == len(layers) else "Use the format packed or plain.",
        )
    misfit = _misfit(recipe, checkpoint_format, layers)
    return None if misfit is None else Refused(misfit[0], where, f"{misfit[1]}, or use the format plain.")


def _misfit(recipe: Recipe, checkpoint_format: Format, layers: Sequence[LayerInfo]) -> tuple[str, str] | None:
    """Return the property of a grid or linear that a format has no place for, and the remedy beside format plain."""
    is_mlx = checkpoint_format == "mlx"
    if recipe.grid == "affine" and not is_mlx:
        return "the format has no place for the biases of the affine grid", "Use another grid or the format mlx"
    if recipe.grid == "asymmetric" and is_mlx:
        return (
            "the format has no place for zero points, only for biases, to which they would have to be rounded",
            "Use the grid symmetric, full_range or affine, or the format packed or gptq",
        )
    if recipe.grid == "asymmetric" and checkpoint_format == "packed" and recipe.bits != 4:
        return (
            f"no reader takes the format’s zero points at {recipe.bits} bits",
            "Use 4 bits, a grid without zero points or the format gptq",
        )
    if is_mlx and (recipe.group_size or 0) % MLX_GROUP:
        return f"its groups are multiples of {MLX_GROUP} channels", "Use groups of 32, 64 or 128"
    for layer in layers:
        rows, columns = layer.shape
        if is_mlx and columns % MLX_GROUP:
            what = f"{MLX_GROUP} does not divide the {columns} input channels of {layer.name}"
            return what, "Use the format packed"
        if checkpoint_format == "gptq" and (rows % GPTQ_SIDE or columns % GPTQ_SIDE):
            what = f"{GPTQ_SIDE} does not divide both sides of {layer.name}, {rows} × {columns}"
            return what, "Use the format packed"
    return None


def check_format(recipe: Recipe, checkpoint_format: str, layers: Sequence[LayerInfo] = ()) -> Format:
    """Return the format if a recipe's result can be written in it.

    Raises:
        Refused: For an unknown format, a recipe that tunes, or a result that the format can't carry.
    """
    known = next((name for name in FORMATS if name == checkpoint_format), None)
    if known is None:
        what = f"unknown checkpoint format “{checkpoint_format}”"
        raise Refused(what, "format", f"Choose one of {', '.join(FORMATS)}.")
    if recipe.compares_models:
        what = f"{'tuning' if recipe.kind == 'tune' else 'a ladder'} compares models and keeps none of them"
        raise Refused(what, f"format {known}", "Run the recipe that it ends with, and save that model.")
    if (refused := why_not(recipe, known, layers)) is not None:
        raise refused
    return known


def check_export(recipe: Recipe, export_format: str, layers: Sequence[LayerInfo] = ()) -> ExportFormat:
    """Return a checkpoint format that can carry a recipe's result.

    Raises:
        Refused: If the result can't be exported in this format.
    """
    where = f"format {export_format}"
    if recipe.quantized_checkpoint is None:
        if export_format == ORIGINAL_FILES:
            raise Refused("the recipe has no quantized checkpoint", where, f"Use one of {', '.join(FORMATS)}.")
        return check_format(recipe, export_format, layers)
    if not recipe.repairs:
        raise Refused("the checkpoint was only measured, not changed", where, "Repair it first.")
    if export_format != ORIGINAL_FILES:
        what = "a repaired checkpoint keeps the format of the original files"
        raise Refused(what, where, f"Use the format {ORIGINAL_FILES}.")
    return ORIGINAL_FILES


def is_no_gain(repair: Repair) -> bool:
    """Return True if a repair was measured and does not clearly lower KL, so that its files are not useful."""
    return repair["kl_difference"] is not None and repair["verdict"] != -1


def who_can_load(recipe: Recipe, *, is_mixture: bool | None, layers: Sequence[LayerInfo] = ()) -> tuple[Carrier, ...]:
    """Return each format with its readers, for a recipe's result; empty for one that compares models and keeps none.

    Args:
        recipe: The recipe.
        is_mixture: True for a mixture of experts; None if no reader was tried with such a model, or if the model is
            not known yet.
        layers: Layers of the model, if they are known.
    """
    if recipe.compares_models or (recipe.quantized_checkpoint is not None and not recipe.repairs):
        return ()
    if recipe.quantized_checkpoint is not None:
        note = "The files as they were found, byte for byte but for the codes: who reads the one reads the other"
        return (Carrier(ORIGINAL_FILES, True, (), note),)
    carriers = []
    for name in FORMATS:
        refused = why_not(recipe, name, layers)
        if refused is not None:
            what = refused.what[0].upper() + refused.what[1:]
            carriers.append(Carrier(name, False, (), what, fixes=_fixes(recipe, name, layers)))
            continue
        note = "; ".join(filter(None, (_note(recipe, name), _note_on_parts(name, layers))))
        given = () if is_mixture is None else answers(name, recipe.bits, recipe.grid, is_mixture=is_mixture)
        carriers.append(Carrier(name, True, given, note, tried() if given else ""))
    return tuple(carriers)


def _fixes(recipe: Recipe, checkpoint_format: Format, layers: Sequence[LayerInfo]) -> tuple[Fix, ...]:
    """Return the grid without zero points, if a format that can't carry a recipe's result carries it on that grid."""
    changed = recipe.model_copy(update={"grid": "symmetric"})
    if recipe.grid == "symmetric" or why_not(changed, checkpoint_format, layers) is not None:
        return ()
    return (Fix("Use symmetric", {"grid": "symmetric"}),)


def _note_on_parts(checkpoint_format: Format, layers: Sequence[LayerInfo]) -> str:
    """Return words on the linears that a format with codes stores as dequantized values."""
    parts = [layer for layer in layers if not layer.has_own_tensor]
    if checkpoint_format == "plain" or not parts:
        return ""
    size, whole = (sum(math.prod(layer.shape) for layer in group) for group in (parts, layers))
    return (
        f"{len(parts):,} of its {len(layers):,} linears, {100 * size / whole:.0f}% of the quantized weights, are "
        "parts of other tensors in checkpoints, or transposed there, and are stored dequantized: the file is larger "
        "than planned"
    )


def _note(recipe: Recipe, checkpoint_format: Format) -> str:
    if checkpoint_format == "plain":
        return "An ordinary checkpoint of the same size as the original; nothing else needed"
    if checkpoint_format == "mlx":
        note = "Codes with scales and biases as MLX has them, for Apple’s and other processors"
        if recipe.group_size in (32, 64, 128):
            return note
        return f"{note}; a group here is several there with one scale, so it is larger than the plan says"
    if checkpoint_format == "gptq":
        if recipe.grid != "asymmetric":
            return "Codes in GPTQ’s format, in its first convention, with one zero point throughout"
        return "Codes and zero points in GPTQ’s format; in its second convention, gptq_v2, which alone has room for all"
    note = "Codes in the pack-quantized format of compressed-tensors"
    if recipe.grid == "asymmetric":
        return f"{note}, with packed zero points, which SGLang and OpenVINO’s frontend say that they read"
    if recipe.bits == 3:
        note += ", 0.18 or newer: the layout of 3 bits changed there"
    if recipe.group_size is None or recipe.indivisible != "per_channel":
        return note
    return f"{note}; where some layers have groups and others whole rows, not with transformers' dequantize=True"


@cache
def table() -> dict[str, Any]:
    """Return the results of ``make loaders``: day, host, small models, readers and their answers by kind."""
    document: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return document


def tried() -> str:
    """Return a sentence on the day and the conditions of the tests of the readers."""
    results = table()
    return (
        f"Tried on {results['date']} on {results['host']}, with small models of this format, width, grid and kind: "
        f"{results['tokens']} greedy tokens beside those of the model that was exported"
    )


def kind_of(checkpoint_format: str, bits: int, grid: str, *, is_mixture: bool) -> str:
    """Return the name of a kind of checkpoint in that table; plain checkpoints have no width and grid."""
    grid_parts = () if checkpoint_format == "plain" else (str(bits), grid)
    return "/".join((checkpoint_format, *grid_parts, "mixture" if is_mixture else "dense"))


def answers(checkpoint_format: Format, bits: int, grid: str, *, is_mixture: bool) -> tuple[Answer, ...]:
    """Return the result of every reader with a checkpoint of this kind, without readers for other formats."""
    given = table()["answers"].get(kind_of(checkpoint_format, bits, grid, is_mixture=is_mixture), {})
    answered = []
    for reader in table()["readers"]:
        if reader["formats"] and checkpoint_format not in reader["formats"]:
            continue
        not_run = {"loads": "not_run", "words": reader["not_run"] or "this kind was not given to it"}
        answered.append(Answer(reader["name"], reader["version"], **given.get(reader["name"], not_run)))
    return tuple(answered)


def describe_answers(answers: Sequence[Answer]) -> str:
    """Return the results as one line: readers that load it, that do not, and that were not tested."""
    parts = []
    for loads, words in IN_WORDS.items():
        named = [f"{answer.reader} {answer.version}".strip() for answer in answers if answer.loads == loads]
        if named:
            parts.append(f"{words}: {', '.join(named)}")
    return "; ".join(parts)
