"""Supported candidates of a finite set and their exact λ-intervals (Corollary 1).

Axes: K candidates of a finite set.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from sarqc.errors import NumericalError, Refused
from sarqc.quantization.hull import weight_intervals


@dataclass(frozen=True)
class Interval:
    """A closed interval lowest ≤ λ ≤ highest.

    It is empty if lowest > highest, and has no end if highest is inf.
    """

    lowest: float
    highest: float

    @property
    def is_empty(self) -> bool:
        return self.lowest > self.highest

    def __contains__(self, lam: float) -> bool:
        return self.lowest <= lam <= self.highest


@dataclass(frozen=True)
class LambdaIntervals:
    """Intervals of λ ≥ 0 on which each candidate minimises recon + λ · drift.

    Tensors have the shape of the set, in float64. An unsupported candidate, which no λ selects, has the empty interval
    from inf to -inf.
    """

    lowest: Tensor
    highest: Tensor

    @property
    def supported(self) -> Tensor:
        """True for the candidates that some λ ≥ 0 selects."""
        return self.lowest <= self.highest

    def interval(self, *position: int) -> Interval:
        """Return the interval of one candidate."""
        return Interval(float(self.lowest[position]), float(self.highest[position]))


def lambda_intervals(drift: Tensor, recon: Tensor) -> LambdaIntervals:
    """Return the closed λ-interval on which each candidate of a finite set minimises recon + λ · drift over λ ≥ 0.

    The supported candidates lie on the falling part of the lower convex hull of the points (drift, recon); the ends of
    an interval are the steepnesses of the two edges beside its vertex. The hull is computed in rational arithmetic, so
    an end is the exact value rounded once. Ties belong to all candidates that take part, see ``hull.weight_intervals``.
    A λ beyond the largest double is given as the largest double.

    Args:
        drift: Any shape.
        recon: The same shape, which is also that of the result.

    Raises:
        Refused: For an empty set or different shapes.
        NumericalError: For NaN or infinity.
    """
    ends = torch.tensor(weight_intervals(_exact(drift, recon)), dtype=torch.float64)
    return LambdaIntervals(ends[:, 0].reshape(drift.shape), ends[:, 1].reshape(drift.shape))


def _exact(drift: Tensor, recon: Tensor) -> list[tuple[Fraction, Fraction]]:
    drifts, recons = (part.detach().cpu().double() for part in (drift, recon))
    if drifts.shape != recons.shape or drifts.numel() == 0:
        raise Refused(
            f"drift is {tuple(drifts.shape)} and recon {tuple(recons.shape)}",
            "candidates",
            "Give one drift and one reconstruction error for each of at least one candidate.",
        )
    for name, part in (("drift", drifts), ("recon", recons)):
        if not torch.isfinite(part).all():
            raise NumericalError(f"{name} is not finite", "candidates", "Leave out what was not measured.")
    pairs = zip(drifts.flatten().tolist(), recons.flatten().tolist(), strict=True)
    return [(Fraction(one), Fraction(other)) for one, other in pairs]
