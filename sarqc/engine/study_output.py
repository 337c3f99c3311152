"""From what was solved and measured to the lines of a study: shared by single runs and surveys.

Axes in comments: D calibration draws, L layers, G γ values, M λ values.
"""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np

from sarqc.calibration.pictures import ALONG_LAMBDA, SCALARS, SURFACES, LayerCurve
from sarqc.engine.auto_by_model import ModelSelection
from sarqc.quantization.methods import METHODS, Method
from sarqc.quantization.quantized_layer import LayerReport
from sarqc.study.document import SIGNED_ZERO, ArrayRef, Line, StudyWriter

AXES = ("draw", "gamma", "lambda")
LAYER_AXES = ("draw", "layer", "gamma", "lambda")
UNMEASURED = 255  # in ``correct``


def study_line(method: str, **fields: Any) -> Line:
    """A line with the title and the baseline of its method."""
    entry = METHODS[method]
    return Line(method=method, title=entry.title, baseline=entry.baseline, **fields)


def curve_arrays(writer: StudyWriter, curves: list[list[list[LayerCurve]]]) -> dict[str, ArrayRef]:
    """The layer arrays of a line from its curves, indexed [draw][layer][gamma]; pictures are of the first draw."""
    arrays = {
        name: writer.add(
            np.array([[[getattr(curve, name) for curve in layer] for layer in draw] for draw in curves]), LAYER_AXES
        )
        for name in ("recon", "held_out", "sar", "drift")
    }
    for name in SURFACES:
        values = np.array([[getattr(curve, name) for curve in layer] for layer in curves[0]])  # L G M row column
        cells, scale = eight_bits(values, SIGNED_ZERO if name == "surface_signed" else 0)
        arrays[name] = writer.add(cells, (*LAYER_AXES[1:], "row", "column"))
        arrays[f"{name}_scale"] = writer.add(scale, ("layer",))
    deciles = np.array([[curve.deciles for curve in layer] for layer in curves[0]])
    tokens = np.array([[layer[0].tokens for layer in draw] for draw in curves], dtype=np.float32)
    for name in SCALARS:
        values = np.array([[getattr(layer[0], name) for layer in draw] for draw in curves])
        arrays[name] = writer.add(values, ("draw", "layer"))
    arrays["tokens"] = writer.add(tokens, ("draw", "layer"))
    arrays["deciles"] = writer.add(deciles, (*LAYER_AXES[1:], "decile"))
    return arrays | _group_arrays(writer, curves[0])


def eight_bits(values: np.ndarray, zero: int) -> tuple[np.ndarray, np.ndarray]:
    """Values (layer, …) as uint8 with one scale for a layer, (layer,): the value of 255.

    ``zero`` stands for 0: with 128 a -scale is 1; with 0 no value may be negative.
    """
    layers = np.abs(values).reshape(len(values), -1).max(axis=1)
    scale = np.maximum(layers, np.finfo(np.float32).tiny)
    steps = values / scale.reshape(-1, *[1] * (values.ndim - 1)) * (255 - zero)
    return np.rint(steps + zero).astype(np.uint8), scale


def _group_arrays(writer: StudyWriter, curves: list[list[LayerCurve]]) -> dict[str, ArrayRef]:
    """The inspected groups of a draw, [layer][gamma]; layers with fewer weights are filled up with NaN."""
    widest = max(layer[0].group_weight.size for layer in curves)
    shape = (len(curves), len(curves[0]), len(curves[0][0].lams), widest)  # L G M C
    weight = np.full((shape[0], widest), np.nan, dtype=np.float32)
    codes, step = np.zeros(shape, dtype=np.uint8), np.full(shape, np.nan, dtype=np.float32)
    for index, layer in enumerate(curves):
        count = layer[0].group_weight.size
        weight[index, :count] = layer[0].group_weight
        for g, curve in enumerate(layer):
            codes[index, g, :, :count], step[index, g, :, :count] = curve.group_codes, curve.group_step
    first = step[..., :1]
    if np.array_equal(np.where(np.isnan(step), first, step), np.broadcast_to(first, shape)):
        step = first  # one for all channels, as everywhere but in a scale search
    axes = LAYER_AXES[1:]
    return {
        "group_place": writer.add(np.array([layer[0].group_place for layer in curves]), ("layer", "place")),
        "group_weight": writer.add(weight, ("layer", "channel")),
        "group_codes": writer.add(codes, (*axes, "channel")),
        "group_zero": writer.add(np.array([[curve.group_zero for curve in layer] for layer in curves]), axes),
        "group_step": writer.add(step, (*axes, "channel")),
    }


def joined(curves: Sequence[LayerCurve]) -> LayerCurve:
    """Curves of one layer, made apart, as one along λ."""
    arrays = {name: np.concatenate([getattr(curve, name) for curve in curves]) for name in ALONG_LAMBDA}
    return replace(curves[0], lams=tuple(lam for curve in curves for lam in curve.lams), **arrays)


def auto_fields(
    writer: StudyWriter,
    by: Literal["layer", "model"],
    candidates: Sequence[Method],
    reports: list[list[LayerReport]],
    selections: Sequence[ModelSelection | None],
) -> tuple[dict[str, Any], dict[str, ArrayRef]]:
    """Fields and arrays of a line whose λ and γ “auto” chose: reports [draw][layer]; selections [draw], by model."""
    lams = tuple(dict.fromkeys(point.lam for point in candidates))
    gammas = tuple(dict.fromkeys(point.gamma for point in candidates))

    def chosen(name: str) -> np.ndarray:  # (D, L)
        values = [[report.chosen.get(name) for report in draw] for draw in reports]
        return np.array([[math.nan if value is None else value for value in draw] for draw in values], dtype=np.float64)

    arrays = {
        "selected_lambda": writer.add(chosen("lam"), ("draw", "layer")),
        "selected_gamma": writer.add(chosen("gamma"), ("draw", "layer")),
    }
    if by == "layer":
        shape = (len(reports), len(reports[0]), len(gammas), len(lams))
        for name in ("train", "validation"):
            table = np.array([[[row[name] for row in report.candidates] for report in draw] for draw in reports])
            arrays[f"candidate_{name}"] = writer.add(
                table.reshape(shape), ("draw", "layer", "candidate_gamma", "candidate_lambda")
            )
    else:
        table = np.array([selection.perplexities for selection in selections if selection is not None])  # (D, M)
        arrays["candidate_perplexity"] = writer.add(table, ("draw", "candidate_lambda"))
    fields = {
        "lams": (0.0,), "gammas": (None,), "chosen": (0, 0), "selected": by,
        "candidate_lams": lams, "candidate_gammas": gammas,
    }  # fmt: skip
    return fields, arrays


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """The libraries that a number depends on."""
    return {name: importlib.metadata.version(name) for name in ("torch", "transformers", "tokenizers", "numpy")}
