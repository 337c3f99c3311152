"""The nouns of a calibration: what determines it, and what it leaves for each linear.

Axes: L values of λ, C weights of the inspected group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from torch import Tensor

from sarqc.calibration.corpora import Sequences
from sarqc.events import PointDone
from sarqc.models.structure import LayerInfo
from sarqc.quantization.drift import drift_by_saliency, drift_surface, further_surfaces, saliency_order
from sarqc.quantization.grid import Grid
from sarqc.quantization.inspected_group import inspect_group
from sarqc.quantization.methods import Method, RoundToNearest
from sarqc.quantization.quantized_layer import QuantizedLayer


@dataclass(frozen=True)
class CalibrationPlan:
    """Everything that determines the quantized weights, apart from the float model.

    With ``candidates`` each layer takes the best of them, judged on the last ``validation_samples`` calibration
    sequences; ``method`` then only says what they have in common. With ``tells_points`` each λ of a curve is told as
    soon as it is solved.
    """

    grids: dict[str, Grid]  # by layer name
    method: Method
    inputs_from: Literal["quantized", "float"]
    sequences: Sequences
    sweep: tuple[float, ...] = ()
    candidates: tuple[Method, ...] = ()
    validation_samples: int = 0
    channel_fraction: float = 1.0
    tells_points: bool = False

    def curve_lams(self) -> tuple[float, ...]:
        """λ of the curves: the method's own and those of the sweep, in order; (0,) where there is not one λ."""
        if self.candidates or isinstance(self.method, RoundToNearest):
            return (0.0,)
        return tuple(sorted({*self.sweep, self.method.lam}))

    def own_point(self) -> int:
        """Position in ``curve_lams`` of the point whose weights the model gets."""
        lams = self.curve_lams()
        return lams.index(self.method.lam) if len(lams) > 1 else 0

    def parts(self) -> list[int]:
        """Sizes of the parts of the calibration sequences that are walked apart: all, or train and validation."""
        samples = len(self.sequences.calibration)
        return [samples - self.validation_samples, self.validation_samples] if self.candidates else [samples]

    def choices(self) -> list[Any]:
        """Methods and their values as plain data, for keys."""
        points = [[type(point).__name__, asdict(point)] for point in (self.method, *self.candidates)]
        return [points, self.sweep, self.validation_samples, self.channel_fraction]


@dataclass(frozen=True)
class LayerCurve:
    """One layer at every λ of a curve, at the method's own γ. Arrays are float32, L values of λ."""

    lams: tuple[float, ...]
    tokens: int  # calibration tokens that reached the layer
    recon: np.ndarray  # (L,) relative_recon
    held_out: np.ndarray  # (L,) relative_held_out, NaN without held-out text
    sar: np.ndarray  # (L,) relative_sar
    drift: np.ndarray  # (L,) relative_drift
    surface: np.ndarray  # (L, 40, 40) pooled |ΔW|
    surface_mean: np.ndarray  # (L, 28, 28), these four as in further_surfaces
    surface_sorted: np.ndarray  # (L, 28, 28)
    surface_mean_sorted: np.ndarray  # (L, 28, 28)
    surface_signed: np.ndarray  # (L, 28, 28)
    deciles: np.ndarray  # (L, 10)
    group_place: np.ndarray  # (2,) int64, row and first input channel of the inspected group
    group_weight: np.ndarray  # (C,) its float weights
    group_codes: np.ndarray  # (L, C) uint8, these three as in InspectedGroup
    group_zero: np.ndarray  # (L,)
    group_step: np.ndarray  # (L, C)


SURFACES = ("surface", "surface_mean", "surface_sorted", "surface_mean_sorted", "surface_signed")
ALONG_LAMBDA = (
    "recon", "held_out", "sar", "drift", *SURFACES, "deciles", "group_codes", "group_zero", "group_step",
)  # fmt: skip
CURVE_ARRAYS = (*ALONG_LAMBDA, "group_place", "group_weight")


@dataclass(frozen=True)
class SolvedLayer:
    """What the pipeline yields for each linear, whose weight in the model is by then replaced."""

    info: LayerInfo
    quantized: QuantizedLayer
    curve: LayerCurve
    seconds: float
    from_cache: bool


def told_points(solved: SolvedLayer) -> Iterator[PointDone]:
    """The points of a layer that was found whole."""
    curve = solved.curve
    for index in range(len(curve.lams)):
        yield _point_done(solved.info, curve.lams, index, (getattr(curve, name)[index] for name in _TOLD))


def told_point(layer: LayerInfo, lams: tuple[float, ...], index: int, quantized: QuantizedLayer) -> PointDone:
    """The point of a curve over ``lams`` that was solved just now."""
    values = (getattr(quantized.report, f"relative_{name}") for name in _TOLD)
    return _point_done(layer, lams, index, values)


_TOLD = ("recon", "held_out", "sar", "drift")


def _point_done(layer: LayerInfo, lams: tuple[float, ...], index: int, values: Iterable[float | None]) -> PointDone:
    """In the precision of curves, so that a point says the same whether it was solved or found."""
    numbers = (None if value is None or math.isnan(value) else float(np.float32(value)) for value in values)
    recon, held_out, sar, drift = numbers
    return PointDone(layer.name, index, len(lams), lams[index], recon, held_out, sar, drift)


def curve_of(
    lams: tuple[float, ...], solved: Sequence[QuantizedLayer], weight: Tensor, abs_mean: Tensor, grid: Grid
) -> LayerCurve:
    """What is drawn of one layer: solved on the grid (one for each λ), weight (O, I), abs_mean (I,)."""
    reports = [layer.report for layer in solved]
    deltas = [layer.dequantized.float() - weight.float() for layer in solved]
    inputs = abs_mean.to(weight.device)
    order = saliency_order(inputs, weight.float())
    further = [further_surfaces(delta, order) for delta in deltas]
    group = inspect_group(weight, solved, grid)

    def numbers(name: str) -> np.ndarray:
        values = [getattr(report, name) for report in reports]
        return np.array([np.nan if value is None else value for value in values], dtype=np.float32)

    return LayerCurve(
        lams=lams,
        tokens=reports[0].n_tokens,
        recon=numbers("relative_recon"),
        held_out=numbers("relative_held_out"),
        sar=numbers("relative_sar"),
        drift=numbers("relative_drift"),
        surface=np.stack([drift_surface(delta).cpu().numpy() for delta in deltas]),
        deciles=np.stack([drift_by_saliency(delta, inputs, weight.float()).cpu().numpy() for delta in deltas]),
        group_place=np.array([group.row, group.first]),
        **{f"group_{name}": getattr(group, name).numpy() for name in ("weight", "codes", "zero", "step")},
        **{name: np.stack([one[name].cpu().numpy() for one in further]) for name in further[0]},
    )
