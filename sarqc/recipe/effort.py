"""Efforts: how much time goes into fitting the grid of a model, as presets of recipe fields.

``effort`` is an input of a recipe, not a part of it: the fields below take its place while the recipe is parsed.

Perplexity and processor seconds of calibration beside plain GPTQ 1 % at 2 bits (“Effort” in docs/algorithms.md):

| effort | tiny-llama | tiny-moe |
|---|---|---|
| quick | −9.0 %, 1.3 × | −10.3 %, 1.3 × |
| balanced | −10.1 %, 1.6 × | −11.8 %, 1.6 × |
| best | −14.4 %, 13.1 × | −14.6 %, 12.5 × |

Activation order is part of ``balanced`` for pretrained models: on SmolLM2 at 3 bits it is significantly better with all
other steps on, and on tiny-llama at 2 bits it costs 1 %.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, get_args

from sarqc.quantization.methods import MethodEntry, entry_of, public_method

Effort = Literal["quick", "balanced", "best"]
EFFORT_NAMES: tuple[Effort, ...] = get_args(Effort)
Fitting = dict[str, str | int | bool]

# Fields of an effort that a model may not have, as they are without distillation.
UNDISTILLED: Mapping[str, Any] = MappingProxyType({"distill": 0, "distill_codes": False})
EFFORTS: Mapping[Effort, Fitting] = MappingProxyType(
    {
        "quick": {"range": "search", "order": "natural", "refine": 0, "refit": 0, **UNDISTILLED},
        "balanced": {"range": "search", "order": "activation", "refine": 1, "refit": 0, **UNDISTILLED},
        "best": {"range": "joint", "order": "activation", "refine": 3, "refit": 3, "distill": 5, "distill_codes": True},
    }
)
# The part of a fitting where the rest has no meaning: learned rounding begins at a searched range, and learns the
# rest; a quantized checkpoint keeps its scales.
_LEARNING_FIELDS: Fitting = {"range": "search"}
_REPAIR_FIELDS = ("order", "refine")


def fitting_of(effort: Effort, document: Mapping[str, Any]) -> Fitting:
    """Return the fields that an effort sets in a recipe: those that mean something to its method and kind.

    Invalid values of the document, which has today's names, set nothing.
    """
    name = document.get("method")
    entry = entry_of(public_method(name)) if isinstance(name, str) else None
    kind = document.get("kind", "run")
    if entry is None or kind == "ladder":
        return {}
    fitting = _of_method(effort, entry)
    if document.get("quantized_checkpoint") is not None:
        return {field: value for field, value in fitting.items() if field in _REPAIR_FIELDS}
    if kind != "run" or document.get("layer") is not None:
        fitting = {field: value for field, value in fitting.items() if field not in UNDISTILLED}
    return fitting


def _of_method(effort: Effort, entry: MethodEntry) -> Fitting:
    if entry.make.unit == "block":
        return {field: value for field, value in _LEARNING_FIELDS.items() if field in entry.options}
    return {
        field: value
        for field, value in EFFORTS[effort].items()
        if field in entry.options or (field in UNDISTILLED and entry.make.has_free_scales)
    }


def fill_in_effort(document: dict[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a recipe with the fields of its effort; fields that are given stay as they are.

    Distillation is judged on held-out sequences: where their number is not given, they are half as many as samples.
    ``defaults``: method and number of samples of a recipe that does not give them.
    """
    effort = document.get("effort")
    if effort not in EFFORT_NAMES:
        return document  # none, or refused later
    filled = fitting_of(effort, {**defaults, **document}) | document
    if str(filled.get("distill")) == "0" and "distill_codes" not in document:
        filled.pop("distill_codes", None)
    if filled.get("distill") and "distill" not in document and "held_out_samples" not in document:
        samples = str(document.get("samples", defaults["samples"]))
        filled["held_out_samples"] = max(1, int(samples) // 2) if samples.isdecimal() else 1
    return filled
