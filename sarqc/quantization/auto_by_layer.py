"""“auto” for each layer: the candidate with the smallest error on unseen inputs, solved again on all inputs.

Axes: C candidates, O out_features, I in_features.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from math import ceil

import torch
from torch import Tensor

from sarqc.errors import Refused
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import Method
from sarqc.quantization.quantized_layer import CheckedLayer, ImportedCodes, QuantizedLayer
from sarqc.quantization.solve import only_solved, quantize
from sarqc.quantization.solving import LITTLE_MEMORY, Context, LayerJob


@dataclass(frozen=True)
class SelectionJob:
    """A linear for which “auto” chooses a point; ``name`` is for errors."""

    name: str
    weight: Tensor  # (O, I)
    train: LayerStatistics
    validation: LayerStatistics
    held_out: LayerStatistics | None = None
    imported: ImportedCodes | None = None  # of a layer that is repaired


def select_layers(
    jobs: Sequence[SelectionJob],
    grid: Grid,
    points: Sequence[Method],
    *,
    channel_fraction: float = 1.0,
    context: Context | None = None,
) -> list[QuantizedLayer]:
    """Return layers of one shape, each at its own best point.

    Every point is solved on ``train`` and judged on ``validation``, by tr(ΔW gram ΔWᵀ); a method that aims at the float
    model's inputs is judged by its own aim, ‖Ŵ X - W X_float‖² but for a constant of the layer. The best, the first of
    equals, is solved again on the sum of both. The report's ``candidates`` holds the whole comparison. Its flag
    ``not_judged`` marks a layer without validation tokens, for which the first point is taken.

    Args:
        jobs: Linears of one shape.
        grid: Grid of the codes.
        points: Methods to compare, which differ in λ, γ and α.
        channel_fraction: Part of the input channels on which the points are compared: evenly spaced whole groups, at
            least one.
        context: Budget and recorder; None for the defaults.

    Raises:
        Refused: Without points, for a fraction outside (0, 1], and as for ``quantize``.
        NumericalError: If a value is NaN or infinite.
    """
    if not points:
        raise Refused("no candidate", "selection", "Give at least one point.")
    if not 0 < channel_fraction <= 1:
        raise Refused(f"the channel fraction is {channel_fraction}", "selection", "Give a number above 0, at most 1.")
    width = jobs[0].weight.shape[-1]
    channels = channel_subset(width, grid.group_size_for(width), channel_fraction)
    context = context or Context()
    compared, crosses = [], []
    # Statistics are added on the device of the weight.
    jobs = [
        replace(job, train=job.train.to(job.weight.device), validation=job.validation.to(job.weight.device))
        for job in jobs
    ]
    for job in jobs:
        validation = _restricted(job.validation, channels)
        weight = job.weight[:, channels.to(job.weight.device)]
        layer = CheckedLayer(weight, _restricted(job.train, channels), grid, validation, name=job.name)
        compared.append(LayerJob(layer, points))
        crosses.append(validation.cross)
    chosen, tables, flags = [], [], []
    by_job = groupby(only_solved(quantize(compared, context)), key=lambda solved: solved.job)
    for number, of_job in by_job:  # one layer's candidates at a time: all of them together may be many gigabytes
        job, solved = jobs[number], [step.layer for step in of_job]
        part, cross = compared[number].layer, crosses[number]
        scores = [_score(layer, part, cross, point) for layer, point in zip(solved, points, strict=True)]
        rows = zip(points, solved, scores, strict=True)
        tables.append(tuple(candidate_row(point, layer, part, score) for point, layer, score in rows))
        short = any(LITTLE_MEMORY in layer.report.flags for layer in solved)
        flags.append([LITTLE_MEMORY] * short + ["not_judged"] * (job.validation.n_tokens == 0))
        whole = CheckedLayer(job.weight, job.train + job.validation, grid, job.held_out, name=job.name)
        chosen.append(LayerJob(whole, [points[scores.index(min(scores))]]))
    selected = []
    for number, _, best in only_solved(quantize(chosen, context)):
        report = replace(best.report, candidates=tables[number], flags=(*best.report.flags, *flags[number]))
        selected.append(replace(best, report=report))
    return selected


def candidate_row(point: Method, layer: QuantizedLayer, part: CheckedLayer, score: float) -> dict[str, float | None]:
    """Return the row of a point for the report: solved on a part of the inputs and judged on another.

    Args:
        point: The method.
        layer: The layer at this point, solved on a part of the inputs.
        part: The layer with the validation inputs as its held-out part.
        score: Error on the validation inputs.
    """
    energy = part.held_out_energy
    return {
        "lam": point.lam,
        "gamma": point.gamma,
        "train": layer.report.relative_recon,
        "validation": score / energy if energy > 0 else None,  # nothing came to judge by
        "relative_drift": layer.report.relative_drift,
        **({} if point.alpha is None else {"shift_strength": point.alpha}),
    }


def channel_subset(width: int, group_size: int, fraction: float) -> Tensor:
    """Return the input channels of ⌈fraction · groups⌉ evenly spaced whole groups, in order."""
    groups = width // group_size
    count = ceil(Fraction(str(fraction)) * groups)
    first = torch.arange(count) * groups // count  # (count,), distinct since count ≤ groups
    return (first.unsqueeze(-1) * group_size + torch.arange(group_size)).flatten()


def _restricted(statistics: LayerStatistics, channels: Tensor) -> LayerStatistics:
    """Return the statistics of some of the channels."""
    if len(channels) == statistics.gram.shape[-1]:
        return statistics
    at = channels.to(statistics.gram.device)
    cross = None if statistics.cross is None else statistics.cross[at][:, at]
    return LayerStatistics(statistics.gram[at][:, at], statistics.abs_sum[at], statistics.n_tokens, cross)


def _score(layer: QuantizedLayer, part: CheckedLayer, cross: Tensor | None, point: Method) -> float:
    """Return the score of a candidate: Σ ‖ΔW x‖², and with a shift Σ ‖ΔW x - W d‖² - Σ ‖W d‖², d = x_float - x.

    cross (I, I) is of the validation inputs, None if the float model's inputs are not known.
    """
    loss, weight = layer.report.held_out_loss, part.weight
    assert loss is not None
    if "cross" not in point.needs or cross is None:
        return loss
    # ‖ΔW x - W d‖² - ‖W d‖² = ‖ΔW x‖² - 2 ⟨ΔW x, W d⟩, whose sum over tokens needs the cross term alone.
    delta = layer.dequantized.to(weight.dtype) - weight  # (O, I)
    return loss - 2 * float((delta * (weight @ cross.to(weight.device, weight.dtype))).sum())
