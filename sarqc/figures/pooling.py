"""How a matrix of weight changes becomes a small picture: what a cell says, and in which order its inputs stand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sarqc.facts import LineFacts, layer_slice, read
from sarqc.study import SIGNED_ZERO


@dataclass(frozen=True)
class Pooling:
    """One way of pooling ΔW; the first is what every study with surfaces has."""

    name: str  # as links say it
    array: str
    title: str  # as the page offers it
    words: str  # as sentences say it
    by_saliency: bool = False  # inputs from the least to the most salient
    signed: bool = False  # ΔW and not |ΔW|


POOLINGS = (
    Pooling("max", "surface", "largest", "largest of each cell"),
    Pooling("mean", "surface_mean", "mean", "mean of each cell"),
    Pooling("max-saliency", "surface_sorted", "largest, sorted", "largest of each cell, inputs by saliency", True),
    Pooling("mean-saliency", "surface_mean_sorted", "mean, sorted", "mean of each cell, inputs by saliency", True),
    Pooling("signed", "surface_signed", "signed, sorted", "signed mean of each cell, inputs by saliency", True, True),
)

Arrays = dict[str, dict[str, Any]]


def surface_arrays(facts: LineFacts, folder: Path, layer: int) -> Arrays:
    """Where the browser finds each pooled picture of one layer that the line has: file, the bytes of that layer, shape,
    the value of 255 and what stands for 0. By name; empty where there are none."""
    found: Arrays = {}
    for pooling in POOLINGS:
        name = pooling.array
        ref, scales = facts.line.arrays.get(name), read(folder, facts.line, f"{name}_scale")
        if ref is None or scales is None:
            continue
        offset, length = layer_slice(ref, layer)
        found[name] = {
            "file": ref.file,
            "dtype": ref.dtype,
            "axes": list(ref.axes[1:]),
            "shape": list(ref.shape[1:]),
            "offset": offset,
            "length": length,
            "scale": float(scales[layer]),
            "zero": SIGNED_ZERO if pooling.signed else 0,
        }
    return found


def pooling_choices(arrays: Arrays) -> list[dict[str, Any]]:
    """What a page offers: name, title, and whether the inputs are sorted by saliency."""
    return [
        {"name": one.name, "title": one.title, "by_saliency": one.by_saliency}
        for one in POOLINGS
        if one.array in arrays
    ]
