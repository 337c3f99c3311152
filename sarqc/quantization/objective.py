"""Saliency, the regularised Gram and the two losses of the paper.

Axes: O out_features, I in_features; ... any leading ones (candidates, experts, stacked linears).
"""

from __future__ import annotations

import torch
from torch import Tensor

_FLOOR = 1e-8  # of a channel's share: dead channels get a small finite saliency, dead columns no infinity


def floored(values: Tensor) -> Tensor:
    """Channel means (I,) clamped to 1e-8 of their own mean over channels; ones where all of them are 0."""
    mean = values.mean()
    return values.clamp(min=_FLOOR * mean) if mean > 0 else torch.ones_like(values)


def column_means(weight: Tensor) -> Tensor:
    """mean|W_·j|: weight (O, I) -> (I,)."""
    return weight.abs().mean(dim=-2)


def saliency(abs_mean: Tensor, weight: Tensor, gamma: float) -> Tensor:
    """s_j(γ) = abs_mean_j^γ / mean|W_·j|^(1-γ): abs_mean (I,), weight (O, I) -> (I,), positive and finite."""
    return floored(abs_mean) ** gamma / floored(column_means(weight)) ** (1 - gamma)


def drift_weights(gram: Tensor, s_squared: Tensor | None) -> Tensor:
    """S² of the column solver, h̄ · s²/mean(s²) with h̄ = mean(diag gram).

    gram (I, I), s_squared (..., I) or None for 1 -> (..., I).
    """
    diagonal = gram.diagonal()
    if s_squared is None:
        return diagonal.mean().expand(gram.shape[-1])
    return diagonal.mean() * s_squared / s_squared.mean(dim=-1, keepdim=True)


def regularised_gram(gram: Tensor, s_squared: Tensor | None, lam: float) -> Tensor:
    """G = gram + λ · h̄ · diag(s²/mean(s²)); the argument is not changed. gram (I, I), s_squared (I,) or None."""
    regularised = gram.clone()
    regularised.diagonal().add_(lam * drift_weights(gram, s_squared))
    return regularised


def recon_loss(delta: Tensor, gram: Tensor) -> Tensor:
    """L_recon = tr(ΔW · gram · ΔWᵀ) = ‖ΔW X‖²_F: delta (..., O, I), gram (I, I) -> (...)."""
    return ((delta @ gram) * delta).sum(dim=(-2, -1))


def column_energies(delta: Tensor) -> Tensor:
    """‖ΔW_·j‖² of each column, of which every drift is a weighted sum: delta (..., O, I) -> (..., I)."""
    energies: Tensor = torch.linalg.vector_norm(delta, dim=-2).square()
    return energies


def sar_loss(delta: Tensor, s: Tensor | None = None) -> Tensor:
    """L_sar = ‖ΔW diag(S)‖²_F: delta (..., O, I), S (..., I) or None for 1 -> (...)."""
    scaled = delta if s is None else delta * s.unsqueeze(-2)
    return scaled.square().sum(dim=(-2, -1))
