"""A linear whose stored weights depend on learned tensors: the ranges of its groups, and further ones.

At every step the block runs on the weights that would be stored: hard codes times scales in the storage dtype, rounded
to the storage dtype. Gradients pass straight through these roundings; the clamping of codes and scales has its true
gradient. They are written out by hand, so that autograd sees nothing but the block's own forward pass.

Axes: O out_features, I in_features, G groups of a row, K channels of a group.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sarqc.quantization.grid import (
    dequantize,
    parameters_of_range,
    scale_limits,
    span_of_range,
    split_groups,
    unbounded_codes,
)
from sarqc.quantization.methods import GAMMA, Saliency
from sarqc.quantization.objective import saliency
from sarqc.quantization.quantized_layer import CheckedLayer


@dataclass(frozen=True)
class Rounded:
    """A linear on the grids of some ranges: codes (O, G, K), scales and zero_points (O, G)."""

    codes: Tensor
    scales: Tensor
    zero_points: Tensor
    stored: Tensor  # (O, I) in the storage dtype: the levels of the codes
    inside: Tensor  # (O, G, K): the rounded values where their codes were not clamped, 0 elsewhere
    clamped: Tensor  # (O, G, K): 1 where the code was clamped, 0 elsewhere


class LearnedLinear(ABC):
    """A linear's weights as a function of learned tensors, with the gradient of that function.

    Args:
        layer: The linear with its statistics and grid.
        weighted_by: S of the drift term: 1, or saliency at γ = ½.
    """

    def __init__(self, layer: CheckedLayer, weighted_by: Saliency) -> None:
        self.layer, self.grid = layer, layer.grid
        self.s = saliency(layer.abs_mean, layer.weight, GAMMA) if weighted_by == "saliency" else None  # (I,)
        # (O, G, K), the values to round: W, unless a subclass begins elsewhere
        self.groups = split_groups(layer.weight, self.grid.group_size_for(layer.weight.shape[-1]))
        self.ends = torch.stack([self.groups.amax(dim=-1), self.groups.amin(dim=-1)])  # (2, O, G)
        if self.grid.kind == "asymmetric":  # the range holds 0 however much of it is clipped
            self.ends[0].clamp_(min=0)
            self.ends[1].clamp_(max=0)

    @abstractmethod
    def first(self) -> list[Tensor]:
        """Return the learned tensors before the first step, as new tensors."""

    @abstractmethod
    def round(self, learned: Sequence[Tensor]) -> Rounded:
        """Return the hard weights."""

    @abstractmethod
    def gradient(self, learned: Sequence[Tensor], rounded: Rounded, slope: Tensor) -> list[Tensor]:
        """Return the gradient with respect to the learned tensors.

        Args:
            learned: The learned tensors.
            rounded: Their hard weights.
            slope: (O, I), the gradient with respect to the stored weight.
        """

    def rounded_in(self, high: Tensor, low: Tensor, offsets: Tensor | None = None) -> Rounded:
        """Return the weights on the grids of these ranges.

        Args:
            high: (O, G), upper ends.
            low: (O, G), lower ends.
            offsets: (O, G, K), added in units of the scale before rounding.
        """
        scales, zero_points = parameters_of_range(low, high, self.grid, self.layer.storage)
        scale, zero_point = scales.unsqueeze(-1), zero_points.unsqueeze(-1)
        unbounded = unbounded_codes(self.groups, scale, zero_point, self.grid.is_affine, offsets)  # (O, G, K)
        codes = unbounded.clamp(self.grid.lowest, self.grid.highest)
        clamped = unbounded.sub_(codes).abs_().clamp_(max=1)  # numbers, as masks are many times slower on a CPU
        stored = dequantize(codes, scale, zero_point, self.grid.is_affine).flatten(-2).to(self.layer.storage)
        return Rounded(codes, scales, zero_points, stored, self.groups - clamped * self.groups, clamped)

    def gradient_of_range(self, high: Tensor, low: Tensor, rounded: Rounded, slope: Tensor) -> Tensor:
        """Return the gradient (2, O, G) with respect to the upper and lower ends of the ranges.

        With q the code, z the zero point, B the value to round and V the offset Ŵ = (q - z) · scale, where q - z is
        B/scale + V as long as it is not clamped; on the affine grid Ŵ = q · scale + bias, where q is (B - bias)/scale +
        V as long as it is not.

        Args:
            high: (O, G), upper ends.
            low: (O, G), lower ends.
            rounded: The hard weights of these ranges.
            slope: (O, G, K), the gradient with respect to the stored weight.
        """
        scales, zero_points = rounded.scales, rounded.zero_points
        levels = dequantize(
            rounded.codes, scales.unsqueeze(-1), zero_points.unsqueeze(-1), self.grid.is_affine
        )  # (O, G, K)
        by_scale = (slope * (levels - rounded.inside)).sum(dim=-1)  # (O, G), times the scale
        by_low = torch.zeros_like(low)
        if self.grid.is_affine:  # a clamped weight moves with the bias, which is the low end as far as it can be stored
            by_bias = (slope * rounded.clamped).sum(dim=-1)
            by_scale -= by_bias * zero_points
            by_low += by_bias * (low.abs() <= scale_limits(self.layer.storage)[1])
        # Until here it is the gradient times the scale.
        by_scale /= scales
        if self.grid.kind == "asymmetric":  # a clamped weight moves with the zero point, round(-low/scale)
            by_zero = -scales * (slope * rounded.clamped).sum(dim=-1)
            # A clamped zero point does not move. Exact equality is meant: both sides are the same rounding.
            by_zero *= torch.round(-low / scales) == zero_points
            by_scale += by_zero * low / scales.square()
            by_low -= by_zero / scales
        scale = span_of_range(low, high, self.grid) / self.grid.steps  # before it is clamped and rounded
        smallest, largest = scale_limits(self.layer.storage)
        by_span = by_scale / self.grid.steps * ((scale >= smallest) & (scale <= largest))
        if self.grid.has_two_ends:
            by_high = by_span
            by_low -= by_span
        else:  # the larger end in absolute value sets the scale; equals share
            share = (torch.sign(high.abs() - low.abs()) + 1) / 2
            by_high = by_span * share * torch.sign(high)
            by_low = by_span * (1 - share) * torch.sign(low)
        return torch.stack([by_high, by_low])

    def drift(self, rounded: Rounded) -> Tensor:
        """Return ΔW (O, I) of the stored weight, in working precision."""
        return rounded.stored.to(self.layer.weight.dtype) - self.layer.weight
