"""“auto” for one layer: the candidate that reproduces inputs it was not solved on best, solved again on all of them.

Axes: C candidates, O out_features, I in_features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from sarqc.quantization.solve import BUDGET_BYTES, LayerJob, quantize_layers


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
    job = SelectionJob("", weight, train, validation, held_out)
    return select_layers([job], grid, points, channel_fraction=channel_fraction, budget_bytes=budget_bytes)[0]


@dataclass(frozen=True)
class SelectionJob:
    """One of several layers that are chosen for and solved together; ``name`` is for errors."""

    name: str
    weight: Tensor  # (O, I)
    train: LayerStatistics
    validation: LayerStatistics
    held_out: LayerStatistics | None = None


def select_layers(
    jobs: Sequence[SelectionJob],
    grid: Grid,
    points: Sequence[Method],
    *,
    channel_fraction: float = 1.0,
    budget_bytes: int = BUDGET_BYTES,
) -> list[QuantizedLayer]:
    """``quantize_selected`` for several layers of one shape, each of which gets the best point for itself."""
    if not points:
        raise Refused("there is no candidate", "selection", "Give at least one point.")
    if not 0 < channel_fraction <= 1:
        raise Refused(f"the channel fraction is {channel_fraction}", "selection", "Give a number above 0, at most 1.")
    width = jobs[0].weight.shape[-1]
    channels = kept_channels(width, grid.group_size_for(width), channel_fraction)
    compared = [
        LayerJob(
            job.name, job.weight[:, channels.to(job.weight.device)], _restricted(job.train, channels), points,
            _restricted(job.validation, channels),
        )
        for job in jobs
    ]  # fmt: skip
    chosen, candidates = [], []
    for job, part, solved in zip(
        jobs, compared, quantize_layers(compared, grid, budget_bytes=budget_bytes), strict=True
    ):
        scores = [_score(layer, part, point) for layer, point in zip(solved, points, strict=True)]
        best = scores.index(min(scores))
        candidates.append(_table(solved, part, scores))
        chosen.append(LayerJob(job.name, job.weight, job.train + job.validation, [points[best]], job.held_out))
    found = []
    for job, table, (layer,) in zip(
        jobs, candidates, quantize_layers(chosen, grid, budget_bytes=budget_bytes), strict=True
    ):
        flags = (*layer.report.flags, "not_judged") if job.validation.n_tokens == 0 else layer.report.flags
        found.append(replace(layer, report=replace(layer.report, candidates=table, flags=flags)))
    return found


def _table(
    solved: Sequence[QuantizedLayer], part: LayerJob, scores: Sequence[float]
) -> tuple[dict[str, float | None], ...]:
    """What was compared, for the report."""
    gram = part.held_out.gram
    energy = float(recon_loss(part.weight.detach().to(gram.dtype), gram)) or 1.0  # nothing came: all are 0
    return tuple(
        {
            "lam": point.lam,
            "gamma": point.gamma,
            "train": layer.report.relative_recon,
            "validation": score / energy,
            "relative_drift": layer.report.relative_drift,
        }
        for point, layer, score in zip(part.points, solved, scores, strict=True)
    )


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


def _score(layer: QuantizedLayer, part: LayerJob, point: Method) -> float:
    """What the candidate is judged by: Σ ‖ΔW x‖², and with a shift Σ ‖ΔW x - W d‖² - Σ ‖W d‖², d = x_float - x."""
    loss, validation = layer.report.held_out_loss, part.held_out
    assert loss is not None
    if "cross" not in point.needs or validation.cross is None:
        return loss
    dtype = torch.promote_types(part.weight.dtype, torch.float32)
    wide = part.weight.detach().to(dtype)
    delta = layer.dequantized.to(dtype) - wide  # (O, I)
    return loss - 2 * float((delta * (wide @ validation.cross.to(wide.device, dtype))).sum())
