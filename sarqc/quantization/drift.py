"""Pictures of ΔW = Ŵ - W small enough to draw: a pooled surface, and the drift by channel saliency.

Axes: O out_features, I in_features.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.functional import adaptive_max_pool2d

from sarqc.quantization.objective import column_means, floored

SURFACE_SIZE = 40
DECILES = 10


def drift_surface(delta: Tensor, size: int = SURFACE_SIZE) -> Tensor:
    """|ΔW| max-pooled to size × size cells: (O, I) -> (size, size). A cell shows the largest drift beneath it.

    A matrix with fewer rows or columns than that repeats them, so that all layers' pictures have one shape.
    """
    return adaptive_max_pool2d(delta.abs().float().unsqueeze(0), (size, size)).squeeze(0)


def drift_by_saliency(delta: Tensor, abs_mean: Tensor, weight: Tensor, parts: int = DECILES) -> Tensor:
    """Root-mean-square ΔW of the channels in each tenth of saliency, least salient first: (O, I) -> (parts,).

    Channels are ranked by abs_mean/mean|W|, whatever the method's own saliency is, so that methods can be compared.
    A layer with fewer channels than parts repeats the nearest channel's value.
    """
    order = (floored(abs_mean) / floored(column_means(weight))).argsort()  # (I,)
    by_channel = delta.float().square().mean(dim=0)[order]  # (I,)
    bounds = torch.linspace(0, len(order), parts + 1).round().long().tolist()
    means = []
    for first, last in pairwise(bounds):
        first = min(first, len(order) - 1)
        means.append(by_channel[first : max(last, first + 1)].mean())
    return torch.stack(means).sqrt()
