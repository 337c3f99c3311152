"""The formats of a quantized checkpoint: what each can carry, and who can load it. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from sarqc.errors import Refused
from sarqc.models.families import Family
from sarqc.recipe import Recipe

Format = Literal["plain", "packed"]
FORMATS: tuple[Format, ...] = get_args(Format)
ExportFormat = Literal["plain", "packed", "statistics"]
STATISTICS: Literal["statistics"] = "statistics"  # what an export of a tuning run is: no checkpoint
LOADS = {True: "yes", False: "no", None: "not tried"}  # what ``Carrier`` says of a reader, in words
PACKED_BITS = (2, 3, 4)
_SERVED_GROUPS = (None, 32, 64, 128)  # of vLLM's kernel for 4 bits


@dataclass(frozen=True)
class Carrier:
    """One row of “who can load it”: does this format carry the run, and who reads it; None: it was not tried."""

    format: ExportFormat
    transformers: bool
    vllm: bool | None
    note: str  # what it needs, or why not


def why_not_packed(recipe: Recipe) -> str | None:
    """Why the pack-quantized format, or its loader in transformers, can't carry a recipe's result; None: it can."""
    if recipe.grid == "asymmetric":
        return "transformers fails to load the packed zero points of the asymmetric grid"
    if recipe.grid == "affine":
        return "the format has no place for the biases of the affine grid"
    if (reason := recipe.to_method().why_not_packed()) is not None:
        return reason
    if recipe.bits not in PACKED_BITS:
        return f"{recipe.bits} bits are packed by nobody here"
    return None


def check_format(recipe: Recipe, checkpoint_format: str) -> Format:
    """The format, when a recipe's result can be written in it; raises ``Refused`` otherwise."""
    known = next((name for name in FORMATS if name == checkpoint_format), None)
    if known is None:
        raise Refused(
            f"there is no checkpoint format “{checkpoint_format}”", "format", f"Choose one of {', '.join(FORMATS)}."
        )
    if recipe.kind == "tune":
        raise Refused(
            "tuning compares models and keeps none of them", f"format {checkpoint_format}",
            "Run the recipe that it ends with, and save that model.",
        )  # fmt: skip
    reason = why_not_packed(recipe) if checkpoint_format == "packed" else None
    if reason is not None:
        raise Refused(reason, "format packed", _remedy(recipe))
    return known


def check_export(recipe: Recipe, wanted: str) -> ExportFormat:
    """A checkpoint format that can carry a recipe's result, or ``STATISTICS`` of one that tunes; raises ``Refused``."""
    if recipe.kind == "tune" and wanted == STATISTICS:
        return STATISTICS
    if wanted == STATISTICS:
        raise Refused(
            "only tuning keeps statistics of the float model", f"format {wanted}",
            f"Export the model as {' or '.join(FORMATS)}, or tune with this recipe.",
        )  # fmt: skip
    return check_format(recipe, wanted)


def exports_of(recipe: Recipe) -> tuple[Carrier, ...]:
    """What a finished run can be exported as, and who reads it."""
    if recipe.kind != "tune":
        return who_can_load(recipe)
    note = (
        "The float model’s statistics of the first draw and its linears’ weights in one file: “python -m sarqc tune "
        "--statistics FILE” compares errors of layers at any λ, γ, bits and method that works on single layers, on a "
        "machine without the model"
    )
    return (Carrier(STATISTICS, False, False, note),)


def who_can_load(recipe: Recipe, family: Family | None = None) -> tuple[Carrier, ...]:
    """Each format with its readers, for a recipe's result on a model of a family; None: family not known yet. Nothing
    for a recipe that tunes, which leaves no model.
    """
    if recipe.kind == "tune":
        return ()
    also = f"; {family.loader_note}" if family is not None and family.loader_note else ""
    needed = also or "; nothing else needed"
    plain = Carrier("plain", True, None, f"An ordinary checkpoint of the same size as the original{needed}")
    reason = why_not_packed(recipe)
    if reason is not None:
        return (plain, Carrier("packed", False, False, reason[0].upper() + reason[1:]))
    note = "Needs compressed-tensors" + (
        " 0.18 or newer: the layout of 3 bits changed there" if recipe.bits == 3 else ""
    )
    if recipe.group_size is not None and recipe.indivisible == "per_channel":
        note += "; where some layers have groups and others whole rows, not with transformers' dequantize=True"
    if recipe.bits != 4:
        note += f"; at {recipe.bits} bits vLLM needs its Humming kernels"
    elif recipe.group_size not in _SERVED_GROUPS:
        note += "; vLLM's kernel for 4 bits takes groups of 32, 64 or 128 channels, or per channel"
    return (plain, Carrier("packed", True, None, note + also))


def _remedy(recipe: Recipe) -> str:
    if recipe.grid in ("asymmetric", "affine"):
        return "Take the grid symmetric or full_range, or the format plain."
    if recipe.bits not in PACKED_BITS:
        return f"Take {', '.join(map(str, PACKED_BITS))} bits, or the format plain."
    return "Set mode to foldable, or take the format plain."
