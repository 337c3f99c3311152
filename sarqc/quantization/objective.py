"""Saliency, the regularised Gram and the two losses of the paper.

Axes: O out_features, I in_features; ... any leading ones (candidates, experts, stacked linears).
"""

import torch
from torch import Tensor

_HALVED_FROM = 1024  # channels; below, one product is as fast as several of half as many operations
_FLOOR = 1e-8  # of a channel's share: dead channels get a small finite saliency, dead columns no infinity


def floored(values: Tensor) -> Tensor:
    """Clamp channel means (I,) to 1e-8 of their own mean over channels; return ones if all of them are 0."""
    mean = values.mean()
    return values.clamp(min=_FLOOR * mean) if mean > 0 else torch.ones_like(values)


def column_means(weight: Tensor) -> Tensor:
    """Return mean|W_·j| (I,) of the columns of a weight (O, I)."""
    return weight.abs().mean(dim=-2)


def saliency(abs_mean: Tensor, weight: Tensor, gamma: float) -> Tensor:
    """Return s_j(γ) = abs_mean_j^γ / mean|W_·j|^(1-γ), positive and finite.

    Args:
        abs_mean: (I,), mean |x| of each input channel.
        weight: (O, I).
        gamma: γ.

    Returns:
        The saliency s (I,).
    """
    return floored(abs_mean) ** gamma / floored(column_means(weight)) ** (1 - gamma)


def drift_weights(gram: Tensor, s_squared: Tensor | None) -> Tensor:
    """Return S² of the column solver, h̄ · s²/mean(s²) with h̄ = mean(diag gram).

    Args:
        gram: (I, I).
        s_squared: (..., I); None for 1.

    Returns:
        S² (..., I).
    """
    diagonal = gram.diagonal()
    if s_squared is None:
        return diagonal.mean().expand(gram.shape[-1])
    return diagonal.mean() * s_squared / s_squared.mean(dim=-1, keepdim=True)


def regularised_gram(gram: Tensor, s_squared: Tensor | None, lam: float) -> Tensor:
    """Return G = gram + λ · h̄ · diag(s²/mean(s²)) as a new tensor.

    Args:
        gram: (I, I), is not changed.
        s_squared: (I,); None for 1.
        lam: λ.
    """
    regularised = gram.clone()
    regularised.diagonal().add_(lam * drift_weights(gram, s_squared))
    return regularised


def recon_loss(delta: Tensor, gram: Tensor) -> Tensor:
    """Return L_recon = tr(ΔW · gram · ΔWᵀ) = ‖ΔW X‖²_F.

    Args:
        delta: ΔW (..., O, I).
        gram: (I, I), symmetric.

    Returns:
        The losses (...).
    """
    width = gram.shape[-1]
    if width < _HALVED_FROM:
        return ((delta @ gram) * delta).sum(dim=(-2, -1))
    # The Gram is symmetric: each stretch of columns with itself once, and with those before it twice.
    step, losses = -(-width // 8), []
    for first in range(0, width, step):
        here = slice(first, first + step)
        product = delta[..., here] @ gram[here, here]  # (..., O, step)
        if first:
            product.add_(delta[..., :first] @ gram[:first, here], alpha=2)
        losses.append((product * delta[..., here]).sum(dim=(-2, -1)))
    return torch.stack(losses).sum(dim=0)


def column_energies(delta: Tensor) -> Tensor:
    """Return ``‖ΔW_·j‖²`` of each column, (..., I) for delta (..., O, I); every drift is a weighted sum of these."""
    energies: Tensor = torch.linalg.vector_norm(delta, dim=-2).square()
    return energies


def sar_loss(delta: Tensor, s: Tensor | None = None) -> Tensor:
    """Return L_sar = ‖ΔW diag(S)‖²_F.

    Args:
        delta: ΔW (..., O, I).
        s: S (..., I); None for 1.

    Returns:
        The losses (...).
    """
    scaled = delta if s is None else delta * s.unsqueeze(-2)
    return scaled.square().sum(dim=(-2, -1))
