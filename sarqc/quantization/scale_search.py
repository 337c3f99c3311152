"""The search for per-channel scales: AWQ, RQC-GS and SARQC-GS (paper, Algorithm 1).

A search serves a group of linears that read one tensor and share one s̃; a linear by itself is a group of one.

Axes: A candidates for α, O out_features of a linear, R of all linears of a group, I in_features.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sarqc.errors import NumericalError, Refused
from sarqc.quantization.grid import Grid, dequantize_groups, round_to_grid, round_to_storage
from sarqc.quantization.hull import weight_intervals
from sarqc.quantization.methods import ALPHAS, Method, Range, ScaleSearch
from sarqc.quantization.objective import column_means, floored, recon_loss, sar_loss
from sarqc.quantization.quantized_layer import CheckedLayer, QuantizedLayer
from sarqc.quantization.recorded import Recorder, started
from sarqc.quantization.scale_refit import fitted_layer
from sarqc.quantization.solving import NOT_RECORDED, Context, LayerJob, Solved


def solve(jobs: Sequence[LayerJob], context: Context) -> Iterator[Solved]:
    """Solve linears of a group with one s̃, or each with its own; a linear's points share its candidates.

    Args:
        jobs: The linears of a group, or independent ones, with their points.
        context: Ties of the channels of a group, and recorder.
    """
    if jobs[0].points[0].unit == "group":
        together = [job.layer for job in jobs]
        for index, layers in enumerate(search_points(together, jobs[0].points_of(ScaleSearch), context.ties)):
            yield from (Solved(number, index, layer) for number, layer in enumerate(layers))
        return
    # A large linear keeps a GPU busy by itself. Those of experts are small: starting operations takes the time.
    recorder = context.recorder if len(jobs) > 1 else None
    for number, job in enumerate(jobs):
        for index, (layer,) in enumerate(search_points([job.layer], job.points_of(ScaleSearch), recorder=recorder)):
            flags = [NOT_RECORDED] * (recorder is not None and recorder.failed)
            yield Solved(number, index, layer.flagged(*flags))


@dataclass(frozen=True)
class ScaleCandidate:
    """A candidate s̃ of the search; ``alpha`` is None for s̃ = 1, plain rounding."""

    alpha: float | None
    channel_scale: Tensor  # (I,)


@dataclass(frozen=True)
class SearchLosses:
    """Candidates of a search with their two losses, summed over the linears of the group.

    Losses are those before Ŵ is rounded to the dtype of the weight; the method's λ plays no part in them.
    """

    candidates: list[ScaleCandidate]
    drift_scales: list[Tensor | None]  # S (I,) of each linear, None for 1
    recon: Tensor  # (A,) float64 on the CPU
    sar: Tensor  # (A,) float64 on the CPU

    def objective(self, layer: CheckedLayer, drift_scale: Tensor | None, lam: float) -> Tensor:
        """Return G (I, I) with which tr(ΔW G ΔWᵀ) is recon̂ + λ · sar̂ in units of recon, but for a constant.

        Where the candidates do not differ, drift has no known price, and recon counts alone.

        Args:
            layer: The linear.
            drift_scale: S (I,), None for 1.
            lam: λ.
        """
        recon, sar = (float(losses.max() - losses.min()) for losses in (self.recon, self.sar))
        weight = lam * recon / sar if sar > 0 else 0.0
        squares = layer.abs_mean.new_ones(len(layer.gram)) if drift_scale is None else drift_scale.square()
        return layer.gram + torch.diag_embed(weight * squares)

    def intervals(self) -> list[tuple[float, float]]:
        """Return the λ-interval in which each candidate wins, in the plane after min–max, where the search's λ acts."""
        plane = {"drift": min_max(self.sar), "recon": min_max(self.recon)}
        for name, losses in plane.items():
            if not losses.isfinite().all():
                raise NumericalError(f"{name} is not finite", "candidates", "Leave out what was not measured.")
        return weight_intervals(list(zip(*(losses.tolist() for losses in plane.values()), strict=True)))


def candidates(
    abs_mean: Tensor, weight: Tensor, storage: torch.dtype, *, include_identity: bool, ties: Tensor | None = None
) -> list[ScaleCandidate]:
    """Return s̃(α) = abs_mean^α / mean|W|^(1-α), divided by √(max · min), for α = 0, 1/20, …, 1 (and s̃ = 1 last).

    Scales are rounded to the storage dtype, as they would be stored. If all channels are tied, s̃ = 1 is the only
    candidate.

    Args:
        abs_mean: (I,), mean |x| of each input channel.
        weight: (R, I), rows of all linears of the group.
        storage: Dtype in which scales are stored.
        include_identity: Add s̃ = 1.
        ties: (I,), channels with equal numbers get the geometric mean of their s̃ before the division; None for no
            ties.
    """
    identity = ScaleCandidate(None, torch.ones_like(abs_mean))
    if ties is not None and bool((ties == ties[0]).all()):
        return [identity]
    # The mean of logarithms is linear, so tying the two factors ties s̃(α) for every α.
    inputs, columns = (_tied(floored(means).log(), ties) for means in (abs_mean, column_means(weight)))  # (I,), (I,)
    scaled = []
    for alpha in ALPHAS:
        scale = (alpha * inputs - (1 - alpha) * columns).to(weight.dtype)
        scale = (scale - (scale.max() + scale.min()) / 2).exp()  # √(max · min) is the middle of the logarithms
        scaled.append(ScaleCandidate(alpha, round_to_storage(scale, storage, torch.finfo(storage).tiny)))
    return [*scaled, identity] if include_identity else scaled


def quantize_scaled(
    weight: Tensor,
    channel_scale: Tensor,
    row_scale: Tensor | None,
    grid: Grid,
    storage: torch.dtype,
    *,
    objective: Tensor | None = None,
    source: Range = "minmax",
    passes: int = 0,
    rounds: int = 0,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Quantize Ŵ = Q(W · s̃ / t) · t/s̃ with s̃ for the columns and t for the rows.

    Args:
        weight: (O, I).
        channel_scale: s̃ (I,).
        row_scale: t (O,), None for 1.
        grid: Grid of the codes.
        storage: Dtype in which scales and biases are stored.
        objective: G (I, I), with which the grid is fitted by tr(ΔW G ΔWᵀ); t only multiplies a row of that. None for
            the plain grid.
        source: Source of a group's range, see ``scales_and_zero_points``.
        passes: Passes of refinement.
        rounds: Rounds of refitting the scales.

    Returns:
        codes: (O, I).
        scales: (O, G).
        zero_points: (O, G), biases on the affine grid.
        dequantized: Ŵ (O, I) in working precision.
    """
    scaled = weight * channel_scale
    if row_scale is not None:
        scaled = scaled / row_scale.unsqueeze(-1)
    if objective is not None:
        objective = objective / channel_scale / channel_scale.unsqueeze(-1)  # of the errors of W · s̃
    codes, scales, zero_points = round_to_grid(
        scaled, grid, storage, source, None if objective is None else objective.diagonal()
    )
    if objective is not None and (passes or rounds):
        codes, scales, zero_points = fitted_layer(
            scaled, codes, scales, zero_points, objective, grid=grid, storage=storage, passes=passes, rounds=rounds
        )
    dequantized = dequantize_groups(codes, scales, zero_points, grid.is_affine)
    if row_scale is not None:
        dequantized = dequantized * row_scale.unsqueeze(-1)
    return codes, scales, zero_points, dequantized / channel_scale


def search_losses(
    layers: Sequence[CheckedLayer], method: Method, ties: Tensor | None = None, *, recorder: Recorder | None = None
) -> SearchLosses:
    """Compute both losses of every candidate for linears that read the same tensor.

    Without tokens to judge by, s̃ = 1 is the only candidate.

    Args:
        layers: The linears of the group.
        method: A scale search; its λ plays no part.
        ties: (I,), see ``candidates``.
        recorder: Recorder of repeated operations on a GPU.

    Raises:
        Refused: If the method is not a scale search.
    """
    if not isinstance(method, ScaleSearch):
        raise Refused(f"{type(method).__name__} has no candidates", "method", "Use awq, rqc-gs or sarqc-gs.")
    first = layers[0]
    abs_mean = _mean_over_tokens(layers)
    # All losses would be 0 and any α as good as another: no scaling is the choice.
    if all(layer.n_tokens == 0 for layer in layers):
        ties = torch.zeros_like(abs_mean)
    scale_candidates = candidates(
        abs_mean,
        torch.cat([layer.weight for layer in layers]),  # (R, I)
        first.storage,
        include_identity=method.include_identity,
        ties=ties,
    )
    drift_scales: list[Tensor | None] = [None] * len(layers)
    if method.saliency == "saliency":
        drift_scales = [floored(layer.abs_mean) / floored(column_means(layer.weight)) for layer in layers]  # (I,) each
    scales = torch.stack([candidate.channel_scale for candidate in scale_candidates])  # (A, I)
    losses = []
    for layer, drift_scale in zip(layers, drift_scales, strict=True):
        tensors = {"weight": layer.weight, "gram": layer.gram, "scales": scales}
        tensors |= {} if drift_scale is None else {"drift_scale": drift_scale}
        tensors |= {} if layer.row_scale is None else {"row_scale": layer.row_scale}
        losses.append((recorder or started)(candidate_losses, tensors, grid=layer.grid, storage=layer.storage))
    # Added up and chosen among in float64, so that only the losses are rounded and not their comparison.
    recon_sums, sar_sums = (torch.stack(each, dim=1).cpu().double().sum(dim=1) for each in zip(*losses, strict=True))
    return SearchLosses(scale_candidates, drift_scales, recon_sums, sar_sums)


def candidate_losses(
    weight: Tensor,
    gram: Tensor,
    scales: Tensor,
    drift_scale: Tensor | None = None,
    row_scale: Tensor | None = None,
    *,
    grid: Grid,
    storage: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Return both losses of a linear with each candidate, without requesting a value from the device.

    Args:
        weight: (O, I).
        gram: (I, I).
        scales: s̃ (A, I) of the candidates.
        drift_scale: S (I,), None for 1.
        row_scale: (O,), None for 1.
        grid: Grid of the codes.
        storage: Dtype in which scales and biases are stored.

    Returns:
        recon: (A,).
        sar: (A,).
    """
    recon, sar = [], []
    for scale in scales:
        delta = quantize_scaled(weight, scale, row_scale, grid, storage)[-1] - weight
        recon.append(recon_loss(delta, gram))
        sar.append(sar_loss(delta, drift_scale))
    return torch.stack(recon), torch.stack(sar)


def _mean_over_tokens(layers: Sequence[CheckedLayer]) -> Tensor:
    """Return mean |x| (I,) of the tensor that the linears read: all of them the same tokens, or each some of them."""
    first = layers[0]
    if all(torch.equal(layer.abs_mean, first.abs_mean) for layer in layers):
        return first.abs_mean
    total = sum(layer.n_tokens for layer in layers)
    mean = torch.zeros_like(first.abs_mean)
    for layer in layers:
        mean = mean + layer.abs_mean * (layer.n_tokens / total)
    return mean


def search_points(
    layers: Sequence[CheckedLayer],
    points: Sequence[ScaleSearch],
    ties: Tensor | None = None,
    *,
    recorder: Recorder | None = None,
) -> Iterator[list[QuantizedLayer]]:
    """Yield the linears of a group with the winning s̃ at each point, in order; points differ in λ only.

    All other arguments are those of ``search_losses``.
    """
    losses = search_losses(layers, points[0], ties, recorder=recorder)
    intervals = losses.intervals()
    for point in points:
        position = choose(losses.recon, losses.sar, point.lam)
        best, (lowest, highest) = losses.candidates[position], intervals[position]
        # Between neighbours that are equal up to the last bit the choice may lie that bit outside its exact interval.
        lowest, highest = min(lowest, point.lam), max(highest, point.lam)
        chosen = point.settled() | {
            "alpha": best.alpha,
            "lam_interval": [lowest, None if math.isinf(highest) else highest],
        }
        solved = []
        for layer, drift_scale in zip(layers, losses.drift_scales, strict=True):
            objective = losses.objective(layer, drift_scale, point.lam) if point.fitting() else None
            codes, scales, zero_points, dequantized = quantize_scaled(
                layer.weight,
                best.channel_scale,
                layer.row_scale,
                layer.grid,
                layer.storage,
                objective=objective,
                source=point.range,
                passes=point.refine,
                rounds=point.refit,
            )
            solved.append(
                layer.quantized(
                    codes,
                    scales,
                    zero_points,
                    dequantized.to(layer.storage),
                    channel_scale=None if best.alpha is None else best.channel_scale,
                    drift_scale=drift_scale,
                    chosen=chosen,
                )
            )
        yield solved


def choose(recon: Tensor, sar: Tensor, lam: float) -> int:
    """Return the position of the smallest recon̂ + λ · sar̂ after min–max (0/0 := 0), the first of equals."""
    return int((min_max(recon) + lam * min_max(sar)).argmin())


def min_max(losses: Tensor) -> Tensor:
    """Return (loss - least) / (largest - least) over the candidates (A,), zeros if all are equal."""
    low, high = losses.min(), losses.max()
    return (losses - low) / (high - low) if high > low else torch.zeros_like(losses)


def _tied(values: Tensor, ties: Tensor | None) -> Tensor:
    """Return each value's mean over those with the same number: values (I,), ties (I,) or None for themselves -> (I,).

    On the CPU, where a sum has one order, and in float64.
    """
    if ties is None:
        return values
    _, classes = ties.cpu().unique(return_inverse=True)  # (I,)
    counts = classes.bincount()
    sums = torch.zeros(len(counts), dtype=torch.float64).index_add_(0, classes, values.cpu().double())
    means: Tensor = (sums / counts)[classes].to(values)
    return means
