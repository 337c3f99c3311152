"""Pictures of ΔW = Ŵ - W small enough to draw: a pooled surface, and the drift by channel saliency.

Axes: O out_features, I in_features.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, adaptive_max_pool2d

from sarqc.quantization.grid import Grid, split_groups
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.objective import column_energies, column_means, floored
from sarqc.quantization.quantized_layer import LayerReport, QuantizedLayer

SURFACE_SIZE = 40
FURTHER_SIZE = 28  # of the other pictures, so that all together stay small
DECILES = 10


def surfaces(delta: Tensor, order: Tensor) -> dict[str, Tensor]:
    """Return ΔW pooled to square pictures, by name.

    surface, of 40 × 40 cells, is the largest absolute ΔW; of 28 × 28 cells, surface_mean is the mean absolute ΔW,
    surface_sorted and surface_mean_sorted are the largest and the mean with the channels in the given order, and
    surface_signed is the mean of ΔW in that order, where opposite changes cancel. A matrix with fewer rows or columns
    than cells repeats them, so that all layers' pictures have one shape.

    Args:
        delta: ΔW (O, I).
        order: (I,), order of the input channels.
    """
    by_channel = delta.mT.contiguous()  # (I, O)
    magnitude = by_channel.abs()
    # One axis after the other, rows first: the channels' order then costs nothing, and a GPU, which gives each cell a
    # single thread, has as many cells as channels.
    signed, mean = (_pooled(values, FURTHER_SIZE, adaptive_avg_pool2d).mT for values in (by_channel, magnitude))
    largest, finer = (_pooled(magnitude, size, adaptive_max_pool2d).mT for size in (FURTHER_SIZE, SURFACE_SIZE))
    return {
        "surface": _pooled(finer, SURFACE_SIZE, adaptive_max_pool2d),
        "surface_mean": _pooled(mean, FURTHER_SIZE, adaptive_avg_pool2d),
        "surface_sorted": _pooled(largest[:, order], FURTHER_SIZE, adaptive_max_pool2d),
        "surface_mean_sorted": _pooled(mean[:, order], FURTHER_SIZE, adaptive_avg_pool2d),
        "surface_signed": _pooled(signed[:, order], FURTHER_SIZE, adaptive_avg_pool2d),
    }


def _pooled(values: Tensor, size: int, pool: Callable[[Tensor, tuple[int, int]], Tensor]) -> Tensor:
    """Return the last axis in ``size`` cells: (N, M) -> (N, size)."""
    return pool(values.unsqueeze(1), (1, size)).squeeze(1)


def saliency_order(abs_mean: Tensor, weight: Tensor) -> Tensor:
    """Return the input channels (I,) by abs_mean/mean|W|, least salient first, whatever the method's saliency."""
    return (floored(abs_mean) / floored(column_means(weight))).argsort()


def drift_by_saliency(delta: Tensor, order: Tensor) -> Tensor:
    """Return the root-mean-square ΔW (10,) of the channels in each tenth of saliency, least salient first.

    ``order`` (I,) is that of ``saliency_order``. A layer with fewer channels than tenths repeats the nearest channel's
    value.
    """
    by_channel = column_energies(delta)[order] / len(delta)  # (I,)
    bounds = torch.linspace(0, len(order), DECILES + 1).round().long().tolist()
    means = []
    for first, last in pairwise(bounds):
        first = min(first, len(order) - 1)
        means.append(by_channel[first : max(last, first + 1)].mean())
    return torch.stack(means).sqrt()


def _scalar(value: float) -> np.ndarray:
    return np.array(value, dtype=np.float32)


_UNKNOWN = partial(_scalar, math.nan)


@dataclass(frozen=True)
class LayerNumbers:
    """Numbers of one layer at every λ of a curve, at the method's own γ; arrays are float32, L values of λ."""

    lams: tuple[float, ...]
    tokens: int  # calibration tokens that reached the layer
    recon: np.ndarray  # (L,) relative_recon
    held_out: np.ndarray  # (L,) relative_held_out, NaN without held-out text
    sar: np.ndarray  # (L,) relative_sar
    drift: np.ndarray  # (L,) relative_drift
    weight_norm: np.ndarray  # (), ‖W‖_F; these four turn relative quantities into those of Theorem 1
    token_norm: np.ndarray  # (), the largest ‖x‖₂ of a token of the calibration and the held-out text
    output_energy: np.ndarray  # (), mean of ‖W x‖² over calibration tokens
    held_out_energy: np.ndarray  # (), the same over held-out tokens, NaN without any


@dataclass(frozen=True)
class LayerCurve(LayerNumbers):
    """One layer at every λ of a curve: its numbers and the pictures of its weights; arrays are float32."""

    surface: np.ndarray  # (L, 40, 40) pooled |ΔW|
    surface_mean: np.ndarray  # (L, 28, 28), these four as in ``surfaces``
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


RELATIVE = ("recon", "held_out", "sar", "drift")
ALONG_LAMBDA = (*RELATIVE, *SURFACES, "deciles", "group_codes", "group_zero", "group_step")


SCALARS = ("weight_norm", "token_norm", "output_energy", "held_out_energy")
CURVE_ARRAYS = (*ALONG_LAMBDA, *SCALARS, "group_place", "group_weight")


def numbers_of(
    lams: tuple[float, ...],
    reports: Sequence[LayerReport],
    weight: Tensor,
    statistics: LayerStatistics,
    held_out: LayerStatistics | None,
) -> LayerNumbers:
    """Return the numbers of one layer.

    Args:
        lams: Values of λ.
        reports: Report at each λ.
        weight: (O, I), the float weight.
        statistics: Statistics that the layer was solved on.
        held_out: Statistics of unseen text; None without any.
    """

    def numbers(name: str) -> np.ndarray:
        values = [getattr(report, f"relative_{name}") for report in reports]
        return np.array([np.nan if value is None else value for value in values], dtype=np.float32)

    texts = (statistics,) if held_out is None else (statistics, held_out)
    norms = [math.nan if text.max_norm is None else float(text.max_norm) for text in texts]
    return LayerNumbers(
        lams=lams,
        tokens=reports[0].n_tokens,
        **{name: numbers(name) for name in RELATIVE},
        weight_norm=_scalar(float(weight.double().norm())),
        token_norm=_scalar(math.nan if any(map(math.isnan, norms)) else max(norms)),
        output_energy=_scalar(_energy([(r.recon_loss, r.relative_recon) for r in reports], statistics.n_tokens)),
        held_out_energy=_scalar(
            _energy([(r.held_out_loss, r.relative_held_out) for r in reports], held_out.n_tokens if held_out else 0)
        ),
    )


def curve_of(
    lams: tuple[float, ...],
    solved: Sequence[QuantizedLayer],
    weight: Tensor,
    statistics: LayerStatistics,
    held_out: LayerStatistics | None,
    grid: Grid,
) -> LayerCurve:
    """Return the numbers and pictures of one layer, quantized at each λ; see ``numbers_of``."""
    plain = weight.float()
    deltas = [layer.dequantized.float() - plain for layer in solved]
    order = saliency_order(statistics.abs_mean.to(weight.device), plain)
    pictures = [surfaces(delta, order) for delta in deltas]
    group = inspect_group(weight, solved, grid)
    numbers = numbers_of(lams, [layer.report for layer in solved], weight, statistics, held_out)
    arrays: dict[str, Any] = {
        name: np.stack([picture[name].cpu().numpy() for picture in pictures]) for name in SURFACES
    }
    arrays |= {f"group_{name}": getattr(group, name).numpy() for name in ("weight", "codes", "zero", "step")}
    return LayerCurve(
        **vars(numbers),
        **arrays,
        deciles=np.stack([drift_by_saliency(delta, order).cpu().numpy() for delta in deltas]),
        group_place=np.array([group.row, group.first]),
    )


def _energy(losses: Sequence[tuple[float | None, float | None]], n_tokens: int) -> float:
    """Return the mean of ‖W x‖² over tokens, from pairs of a loss and the same loss relative to the sum of ‖W x‖²."""
    sums = [loss / relative for loss, relative in losses if loss is not None and relative is not None and relative > 0]
    return sums[0] / n_tokens if sums and n_tokens else math.nan


MOST_CHANNELS = 128  # of a larger group its first ones


@dataclass(frozen=True)
class InspectedGroup:
    """Float weights of a group, and the levels that each of them could take and takes at every point.

    Level number j of channel k lies at (j - zero) · step[k], j from 0 to 2^bits - 1; ``codes`` are the numbers taken.
    """

    row: int
    first: int  # input channel of the first weight
    weight: Tensor  # (K,) float32
    codes: Tensor  # (L, K) uint8
    zero: Tensor  # (L,) float32, the number of the level 0; between two levels or beyond the last on the affine grid
    step: Tensor  # (L, K) float32; the same for all channels unless a scale search has stretched them


def largest_group(weight: Tensor, group_size: int) -> tuple[int, int]:
    """Return row and group of the largest sum of squared weights of a weight (O, I), the first of equals.

    Only the float weights choose, so that every λ, γ, method and width shows the same weights of a layer.
    """
    energy = split_groups(weight.float(), group_size).square().sum(dim=-1)  # (O, G)
    return divmod(int(energy.argmax()), energy.shape[-1])


def inspect_group(weight: Tensor, solved: Sequence[QuantizedLayer], grid: Grid) -> InspectedGroup:
    """Return the largest group of a weight (O, I) at every point."""
    size = grid.group_size_for(weight.shape[-1])
    row, group = largest_group(weight, size)
    first, last = group * size, group * size + min(size, MOST_CHANNELS)
    return InspectedGroup(
        row=row,
        first=first,
        weight=weight[row, first:last].to("cpu", torch.float32, copy=True),  # the model's own is written over later
        codes=torch.stack(
            [(layer.codes[row, first:last].int() - grid.lowest).to(torch.uint8) for layer in solved]
        ).cpu(),
        zero=torch.stack([_zero(layer, row, group) - grid.lowest for layer in solved]).cpu(),
        step=torch.stack([_steps(layer, row, group, slice(first, last)) for layer in solved]).cpu(),
    )


def _zero(layer: QuantizedLayer, row: int, group: int) -> Tensor:
    """Return the code that would stand for 0."""
    zero = layer.zero_points[row, group].float()
    return zero if layer.biases is None else -layer.biases[row, group].float() / layer.scales[row, group].float()


def _steps(layer: QuantizedLayer, row: int, group: int, channels: slice) -> Tensor:
    """Return the distances of neighbouring levels of each channel, in the unit of the float weight: (K,)."""
    step = layer.scales[row, group].float().repeat(channels.stop - channels.start)  # (K,)
    if layer.row_scale is not None:
        step = step * layer.row_scale[row].float()
    return step if layer.channel_scale is None else step / layer.channel_scale[channels].float()
