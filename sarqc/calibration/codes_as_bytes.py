"""Small integers, several in a byte, so that what is kept of a layer takes the room that its bits need."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Packing:
    """How the integers of a tensor lie in bytes: those of one byte from its lowest bits up, each above ``lowest``."""

    shape: tuple[int, ...]
    dtype: str  # of the integers, as torch spells it
    lowest: int
    bits: int  # 1, 2, 4 or 8


def packed(integers: Tensor) -> tuple[Tensor, Packing]:
    """Integers of any shape, at least one and all within 255 of each other -> uint8 (n,) on the same device."""
    lowest, highest = (int(end) for end in integers.aminmax())
    bits = next(bits for bits in (1, 2, 4, 8) if highest - lowest < 1 << bits)
    in_a_byte = 8 // bits
    above = (integers.flatten().to(torch.int16) - lowest).to(torch.uint8)
    above = torch.nn.functional.pad(above, (0, -len(above) % in_a_byte)).unflatten(0, (-1, in_a_byte))
    content = torch.zeros_like(above[:, 0])
    for place in range(in_a_byte):
        content |= above[:, place] << place * bits
    return content, Packing(tuple(integers.shape), str(integers.dtype).removeprefix("torch."), lowest, bits)


def unpacked(content: Tensor, packing: Packing) -> Tensor:
    """What ``packed`` was given."""
    places = torch.arange(0, 8, packing.bits, dtype=torch.uint8, device=content.device)
    above = (content.unsqueeze(-1) >> places) & ((1 << packing.bits) - 1)
    integers = above.flatten()[: math.prod(packing.shape)].to(torch.int16) + packing.lowest
    return integers.to(getattr(torch, packing.dtype)).reshape(packing.shape)
