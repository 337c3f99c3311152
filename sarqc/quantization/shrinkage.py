"""Shrinkage of a layer's second moments in closed form: a λ of the identity penalty without a sweep.

Both estimators shrink S = gram / n towards a multiple of the identity, (1 − ρ) S + ρ μ I with μ = tr S / p. The column
solver's G = gram + λ μ n I is a multiple of that at λ = ρ / (1 − ρ), and its codes do not depend on the multiple.

They assume independent tokens. Tokens of one text are not, so that ρ is rather too small. The mean is not subtracted:
S holds second moments, not covariances, because the reconstruction error does.

Axes: p input channels, n tokens.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Shrinkage(NamedTuple):
    """ρ by both estimators, from 0 to 1; NaN where it is not known."""

    oas: float
    ledoit_wolf: float


def shrinkage_of(gram: Tensor, n_tokens: int, fourth_moment: Tensor | None) -> Shrinkage:
    """Return ρ from sums over tokens.

    OAS is ρ = (tr S² + tr² S) / ((n + 1) (tr S² − tr² S / p)), at most 1: Chen, Wiesel, Eldar and Hero, “Shrinkage
    algorithms for MMSE covariance estimation” (2010), equation 23 without its terms in 2/p, as in scikit-learn.
    Ledoit–Wolf is ρ = (Σ‖x‖⁴ / n − tr S²) / (n (tr S² − tr² S / p)), within 0 and 1: “A well-conditioned estimator for
    large-dimensional covariance matrices” (2004).

    Args:
        gram: (p, p), Σ x xᵀ.
        n_tokens: n.
        fourth_moment: (), Σ‖x‖⁴; None if it was not summed, which leaves Ledoit–Wolf unknown.

    Returns:
        Both ρ; NaN without any token, and for inputs of zeros.
    """
    trace = float(gram.diagonal().sum(dtype=torch.float64)) / max(n_tokens, 1)  # tr S
    if not (n_tokens and trace > 0):
        return Shrinkage(math.nan, math.nan)
    square = (float(torch.linalg.vector_norm(gram, dtype=torch.float64)) / n_tokens) ** 2  # tr S²
    spread = square - trace**2 / len(gram)  # ‖S − μ I‖²
    if spread <= 0:  # S is its own target
        return Shrinkage(1.0, 1.0)
    oas = min(1.0, (square + trace**2) / ((n_tokens + 1) * spread))
    if fourth_moment is None:
        return Shrinkage(oas, math.nan)
    noise = float(fourth_moment) / n_tokens - square
    return Shrinkage(oas, min(1.0, max(0.0, noise / (n_tokens * spread))))
