"""From what was solved and measured to the lines of a study: shared by single runs and surveys.

Axes in comments: D calibration draws, L layers, G γ values, M λ values.
"""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np

from sarqc.calibration.plan import CURVE_ARRAYS, LayerCurve
from sarqc.model_selection import ModelSelection
from sarqc.quantization.methods import METHODS, Method
from sarqc.quantization.quantized_layer import LayerReport
from sarqc.study import ArrayRef, Line, StudyWriter

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
    surface = np.array([[curve.surface for curve in layer] for layer in curves[0]])  # layer, gamma, lambda, row, column
    scale = np.maximum(surface.max(axis=(1, 2, 3, 4)), np.finfo(np.float32).tiny)  # layer
    cells = np.rint(surface / scale[:, None, None, None, None] * 255).astype(np.uint8)
    deciles = np.array([[curve.deciles for curve in layer] for layer in curves[0]])
    arrays["surface"] = writer.add(cells, (*LAYER_AXES[1:], "row", "column"))
    arrays["surface_scale"] = writer.add(scale, ("layer",))
    tokens = np.array([[layer[0].tokens for layer in draw] for draw in curves], dtype=np.float32)
    arrays["tokens"] = writer.add(tokens, ("draw", "layer"))
    arrays["deciles"] = writer.add(deciles, (*LAYER_AXES[1:], "decile"))
    return arrays


def joined(curves: Sequence[LayerCurve]) -> LayerCurve:
    """Curves of one layer, made apart, as one along λ."""
    arrays = {name: np.concatenate([getattr(curve, name) for curve in curves]) for name in CURVE_ARRAYS}
    return LayerCurve(tuple(lam for curve in curves for lam in curve.lams), curves[0].tokens, **arrays)


def auto_fields(
    writer: StudyWriter,
    by: Literal["layer", "model"],
    candidates: Sequence[Method],
    reports: list[list[LayerReport]],
    selections: Sequence[ModelSelection | None],
) -> tuple[dict[str, Any], dict[str, ArrayRef]]:
    """Fields and arrays of a line whose λ and γ “auto” chose: reports [draw][layer]; selections [draw], by model."""
    lams = tuple(dict.fromkeys(point.lam for point in candidates))
    gammas = tuple(dict.fromkeys(getattr(point, "gamma", None) for point in candidates))

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
