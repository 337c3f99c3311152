"""“auto” for one layer: the candidate that reproduces inputs it was not solved on best, solved again on all of them.

Axes: C candidates, O out_features, I in_features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

import torch
from torch import Tensor

from sarqc.errors import Refused
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import Method
from sarqc.quantization.objective import recon_loss
from sarqc.quantization.quantized_layer import QuantizedLayer
from sarqc.quantization.solve import BUDGET_BYTES, quantize_layer, quantize_points


def quantize_selected(
    weight: Tensor,
    train: LayerStatistics,
    validation: LayerStatistics,
    grid: Grid,
    points: Sequence[Method],
    *,
    channel_fraction: float = 1.0,
    held_out: LayerStatistics | None = None,
    budget_bytes: int = BUDGET_BYTES,
) -> QuantizedLayer:
    """The layer at the best of some points, which differ in λ and γ.

    Every point is solved on ``train`` and judged on ``validation``, by tr(ΔW gram ΔWᵀ); a method that aims at the float
    model's inputs by its own aim, ‖Ŵ X - W X_float‖² but for a constant of the layer. The best, the first of equals, is
    solved again on the sum of both. ``channel_fraction`` below 1 compares the points on part of the input channels:
    evenly spaced whole groups, at least one. The report's ``candidates`` keeps all that was compared; its flag
    ``not_judged`` says that no validation token came, in which case the first point is taken. Other arguments and
    errors as for ``quantize_points``.
    """
    if not points:
        raise Refused("there is no candidate", "selection", "Give at least one point.")
    if not 0 < channel_fraction <= 1:
        raise Refused(f"the channel fraction is {channel_fraction}", "selection", "Give a number above 0, at most 1.")
    channels = kept_channels(weight.shape[-1], grid.group_size_for(weight.shape[-1]), channel_fraction)
    part = weight[:, channels.to(weight.device)]  # (O, kept)
    seen, unseen = _restricted(train, channels), _restricted(validation, channels)
    compared = quantize_points(part, seen, grid, points, held_out=unseen, budget_bytes=budget_bytes)
    solved = list(compared)
    scores = [_score(layer, part, unseen, point) for layer, point in zip(solved, points, strict=True)]
    best = scores.index(min(scores))
    energy = float(recon_loss(part.detach().to(seen.gram.dtype), unseen.gram)) or 1.0  # nothing came: all are 0
    candidates = tuple(
        {
            "lam": getattr(point, "lam", None),
            "gamma": getattr(point, "gamma", None),
            "train": layer.report.relative_recon,
            "validation": score / energy,
            "relative_drift": layer.report.relative_drift,
        }
        for point, layer, score in zip(points, solved, scores, strict=True)
    )
    chosen = quantize_layer(weight, train + validation, grid, points[best], held_out=held_out)
    flags = (*chosen.report.flags, "not_judged") if validation.n_tokens == 0 else chosen.report.flags
    return replace(chosen, report=replace(chosen.report, candidates=candidates, flags=flags))


def kept_channels(width: int, group_size: int, fraction: float) -> Tensor:
    """Input channels of evenly spaced whole groups, ⌈fraction · groups⌉ of them, in order (kept,)."""
    groups = width // group_size
    kept = ceil(Fraction(str(fraction)) * groups)
    first = torch.arange(kept) * groups // kept  # (kept groups,), distinct since kept ≤ groups
    return (first.unsqueeze(-1) * group_size + torch.arange(group_size)).flatten()


def _restricted(statistics: LayerStatistics, channels: Tensor) -> LayerStatistics:
    """The statistics of some of the channels."""
    if len(channels) == statistics.gram.shape[-1]:
        return statistics
    at = channels.to(statistics.gram.device)
    cross = None if statistics.cross is None else statistics.cross[at][:, at]
    return LayerStatistics(statistics.gram[at][:, at], statistics.abs_sum[at], statistics.n_tokens, cross)


def _score(layer: QuantizedLayer, weight: Tensor, validation: LayerStatistics, point: Method) -> float:
    """What the candidate is judged by: Σ ‖ΔW x‖², and with a shift Σ ‖ΔW x - W d‖² - Σ ‖W d‖², d = x_float - x."""
    loss = layer.report.held_out_loss
    assert loss is not None
    if getattr(point, "shift", "none") == "none" or validation.cross is None:
        return loss
    dtype = torch.promote_types(weight.dtype, torch.float32)
    wide = weight.detach().to(dtype)
    delta = layer.dequantized.to(dtype) - wide  # (O, I)
    return loss - 2 * float((delta * (wide @ validation.cross.to(wide.device, dtype))).sum())
