"""One group of one row of a layer, small enough to look at weight by weight.

Axes: O out_features, I in_features, G groups of a row, K channels that are shown of a group, L solved points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sarqc.quantization.grid import Grid, split_groups
from sarqc.quantization.quantized_layer import QuantizedLayer

MOST_CHANNELS = 128  # of a larger group its first ones


@dataclass(frozen=True)
class InspectedGroup:
    """Float weights of a group, and the levels that each of them could take and takes at every point.

    Level number j of channel k lies at (j - zero) · step[k], j from 0 to 2^bits - 1; ``codes`` are the numbers taken.
    """

    row: int
    first: int  # input channel of the first weight
    weight: Tensor  # (K,) float32
    codes: Tensor  # (L, K) uint8
    zero: Tensor  # (L,) float32, the number of the level 0
    step: Tensor  # (L, K) float32; the same for all channels unless a scale search has stretched them


def largest_group(weight: Tensor, group_size: int) -> tuple[int, int]:
    """Row and group of the largest sum of squared weights, the first of equals: weight (O, I).

    Only the float weights choose, so that every λ, γ, method and width shows the same weights of a layer.
    """
    energy = split_groups(weight.float(), group_size).square().sum(dim=-1)  # (O, G)
    return divmod(int(energy.argmax()), energy.shape[-1])


def inspect_group(weight: Tensor, solved: Sequence[QuantizedLayer], grid: Grid) -> InspectedGroup:
    """The layer's largest group at every point: weight (O, I), solved on that grid. Nothing is changed."""
    size = grid.group_size_for(weight.shape[-1])
    row, group = largest_group(weight, size)
    first, last = group * size, group * size + min(size, MOST_CHANNELS)
    return InspectedGroup(
        row=row,
        first=first,
        weight=weight[row, first:last].to("cpu", torch.float32, copy=True),  # the model's own is written over later
        codes=torch.stack([(one.codes[row, first:last].int() - grid.lowest).to(torch.uint8) for one in solved]).cpu(),
        zero=torch.stack([one.zero_points[row, group].float() - grid.lowest for one in solved]).cpu(),
        step=torch.stack([_steps(one, row, group, first, last) for one in solved]).cpu(),
    )


def _steps(layer: QuantizedLayer, row: int, group: int, first: int, last: int) -> Tensor:
    """How far apart the levels of each channel lie, in the unit of the float weight: (K,)."""
    step = layer.scales[row, group].float().repeat(last - first)  # (K,)
    if layer.row_scale is not None:
        step = step * layer.row_scale[row].float()
    return step if layer.channel_scale is None else step / layer.channel_scale[first:last].float()
