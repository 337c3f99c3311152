"""Names of what pages show, and how the form reads a field of a recipe: shared by pages, scripts and embeds."""

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from sarqc.recipe import field_extra

# Choices of the switches above the figures: name in an address → words on the page.
SHOWN = {
    "perplexity": "Perplexity",
    "accuracy": "Accuracy",
    "error": "Error",
    "drift": "Drift",
}
DOORS = {
    "where": "Where",
    "trade_off": "Trade-off",
    "steps": "Steps",
    "text": "Text",
    "proof": "Proof",
}
DRAWINGS = {"surface": "3-D", "flat": "flat"}
SIZES = {"bits": "Bits per weight", "mib": "MiB"}

# What a link can lock or hide in the Lab, in the order of the page.
CONTROLS = {
    "study": "Study",
    "bits": "Bits",
    "method": "Method",
    "layer": "Layer",
    "show": "Quantity of the main figure",
    "draw": "Calibration draw",
    "drawing": "Drawing of the weights",
    "pool": "What a cell of it says",
    "quantity": "Quantity of the map",
    "steps": "Order of the ladder’s steps",
    "lambda": "λ",
    "gamma": "γ",
    "play": "Play",
    "compute": "Compute here",
    "use": "Use these settings",
    "download": "Download",
    "copy": "Copy as text",
    "share": "Share",
}
# What a link can only hide.
PANELS = {
    "equation": "The equation",
    "sentence": "The sentence",
    "hero": "Curve over λ",
    "band": "The λ that may be the best",
    "surfaces": "|Ŵ − W|",
    "deciles": "Drift by saliency decile",
    "sliders": "Slider",
    "doors": "The parts below",
    "map": "Every layer",
    "curves": "Perplexity, error and drift over λ",
    "ruler": "You already regularise",
    "plane": "Error against drift",
    "gamma_grid": "λ × γ",
    "ladder": "What each step is worth",
    "methods": "Every method",
    "rounding": "Learned rounding, step by step",
    "gap": "Amount of text",
    "theorem": "What the calibration text can’t see",
    "inspector": "Weight by weight",
    "try": "The model on a sentence",
    "measured": "How this was measured",
    "numbers": "The numbers",
}
# Cards of the Lab, which can stand alone in a frame.
CARDS = {
    name: title for name, title in PANELS.items() if name not in ("equation", "sentence", "band", "sliders", "doors")
}
# What a link can hide on every page.
EVERYWHERE = {"bar": "The bar above"}

FieldKind = Literal["truth", "whole", "number", "number or word", "list", "lines", "text"]


def members(annotation: Any) -> list[Any]:
    """Return the types behind Annotated, Optional and unions, with the bounds beside them."""
    if get_origin(annotation) not in (Annotated, Union, types.UnionType):
        return [annotation]
    return [member for part in get_args(annotation) for member in members(part)]


def literals(annotation: Any) -> tuple[str, ...]:
    """Return the words that a type is made of, or that it takes beside other types; empty where there are none."""
    return next((get_args(member) for member in members(annotation) if get_origin(member) is Literal), ())


def words(info: FieldInfo) -> tuple[str, ...]:
    """Return the words that a field of numbers takes too."""
    return literals(info.annotation) if float in members(info.annotation) else ()


def field_kind(info: FieldInfo) -> FieldKind:
    """Return the way in which the form reads a field of the recipe."""
    kinds = members(info.annotation)
    if any(get_origin(member) is tuple for member in kinds):
        return "lines" if field_extra(info).separator == "\n" else "list"
    number: FieldKind = "number or word" if words(info) else "number"
    kinds_by_type: dict[type, FieldKind] = {bool: "truth", int: "whole", float: number}
    return next((kind for type_, kind in kinds_by_type.items() if type_ in kinds), "text")
