"""Pictures of ΔW = Ŵ - W small enough to draw: a pooled surface, and the drift by channel saliency.

Axes: O out_features, I in_features.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, adaptive_max_pool2d

from sarqc.quantization.objective import column_means, floored

SURFACE_SIZE = 40
FURTHER_SIZE = 28  # of the other pictures, so that all together stay small
DECILES = 10


def drift_surface(delta: Tensor, size: int = SURFACE_SIZE) -> Tensor:
    """|ΔW| max-pooled to size × size cells: (O, I) -> (size, size). A cell shows the largest drift beneath it.

    A matrix with fewer rows or columns than that repeats them, so that all layers' pictures have one shape.
    """
    return adaptive_max_pool2d(delta.abs().float().unsqueeze(0), (size, size)).squeeze(0)


def further_surfaces(delta: Tensor, order: Tensor, size: int = FURTHER_SIZE) -> dict[str, Tensor]:
    """ΔW pooled to size × size cells in other ways, by name: delta (O, I), order (I,) of the input channels.

    surface_mean is the mean of |ΔW|; surface_sorted and surface_mean_sorted are the largest and the mean with the
    channels in that order; surface_signed is the mean of ΔW in that order, where opposite changes cancel.
    """
    plain = delta.float()
    by_order = plain[:, order]

    def mean(values: Tensor) -> Tensor:
        return adaptive_avg_pool2d(values.unsqueeze(0), (size, size)).squeeze(0)

    return {
        "surface_mean": mean(plain.abs()),
        "surface_sorted": drift_surface(by_order, size),
        "surface_mean_sorted": mean(by_order.abs()),
        "surface_signed": mean(by_order),
    }


def saliency_order(abs_mean: Tensor, weight: Tensor) -> Tensor:
    """Input channels by abs_mean/mean|W|, least salient first, whatever the method's own saliency is: (I,)."""
    return (floored(abs_mean) / floored(column_means(weight))).argsort()


def drift_by_saliency(delta: Tensor, abs_mean: Tensor, weight: Tensor, parts: int = DECILES) -> Tensor:
    """Root-mean-square ΔW of the channels in each tenth of saliency, least salient first: (O, I) -> (parts,).

    Channels are ranked as in ``saliency_order``, so that methods can be compared. A layer with fewer channels than
    parts repeats the nearest channel's value.
    """
    order = saliency_order(abs_mean, weight)  # (I,)
    by_channel = delta.float().square().mean(dim=0)[order]  # (I,)
    bounds = torch.linspace(0, len(order), parts + 1).round().long().tolist()
    means = []
    for first, last in pairwise(bounds):
        first = min(first, len(order) - 1)
        means.append(by_channel[first : max(last, first + 1)].mean())
    return torch.stack(means).sqrt()
