"""The one search for per-channel scales: AWQ, RQC-GS and SARQC-GS (paper, Algorithm 1).

Axes: A candidates for α, O out_features, I in_features.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sarqc.quantization.grid import Grid, dequantize_groups, round_to_grid
from sarqc.quantization.objective import column_means, floored

ALPHAS: tuple[float, ...] = tuple(step / 20 for step in range(21))


@dataclass(frozen=True)
class Candidate:
    """One s̃ of the search; ``alpha`` is None for s̃ = 1, plain rounding."""

    alpha: float | None
    channel_scale: Tensor  # (I,)


def candidates(abs_mean: Tensor, weight: Tensor, storage: torch.dtype, *, include_identity: bool) -> list[Candidate]:
    """s̃(α) = abs_mean^α / mean|W|^(1-α), divided by √(max · min), for α = 0, 1/20, …, 1 (and s̃ = 1 last).

    abs_mean (I,), weight (O, I). Scales are rounded to the ``storage`` dtype, as they would be stored.
    """
    inputs, columns = floored(abs_mean), floored(column_means(weight))  # (I,), (I,)
    found = []
    for alpha in ALPHAS:
        scale = (alpha * inputs.log() - (1 - alpha) * columns.log()).to(weight.dtype)
        scale = (scale - (scale.max() + scale.min()) / 2).exp()  # √(max · min) is the middle of the logarithms
        found.append(Candidate(alpha, _stored(scale, storage)))
    if include_identity:
        found.append(Candidate(None, torch.ones_like(inputs)))
    return found


def quantize_scaled(
    weight: Tensor, channel_scale: Tensor, grid: Grid, storage: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ŵ = Q(W · s̃)/s̃: weight (O, I), channel_scale (I,) -> codes, scales, zero_points, dequantized (O, I)."""
    codes, scales, zero_points = round_to_grid(weight * channel_scale, grid, storage)
    return codes, scales, zero_points, dequantize_groups(codes, scales, zero_points) / channel_scale


def choose(recon: Tensor, sar: Tensor, lam: float) -> int:
    """Position of the smallest recon̂ + λ · sar̂ after min–max over the candidates (0/0 := 0), the first of equals."""
    return int((min_max(recon) + lam * min_max(sar)).argmin())


def min_max(losses: Tensor) -> Tensor:
    """(loss - least) / (largest - least) over the candidates (A,), zeros where all are equal."""
    low, high = losses.min(), losses.max()
    return (losses - low) / (high - low) if high > low else torch.zeros_like(losses)


def _stored(scale: Tensor, storage: torch.dtype) -> Tensor:
    limits = torch.finfo(storage)
    return scale.clamp(limits.tiny, limits.max).to(storage).to(scale.dtype)
