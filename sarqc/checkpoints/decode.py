"""From the stored tensors of a linear to its levels and its weight, and from codes to stored tensors.

Axes: O out_features, I in_features, G groups of a row, W 32-bit words.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sarqc.checkpoints.checkpoint_reader import CheckpointReader
from sarqc.checkpoints.codes import Levels, pack_bits, unpack_bits
from sarqc.checkpoints.compressed_tensors import levels_in_packed
from sarqc.checkpoints.gptq import levels_in_gptq
from sarqc.checkpoints.mlx import levels_in_mlx
from sarqc.checkpoints.stored_linear import StoredLinear

# AWQ's kernels take the eight numbers of a word in this order of columns.
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
_AWQ_BACK = tuple(AWQ_ORDER.index(column) for column in range(8))


def levels_of(place: StoredLinear, files: CheckpointReader) -> Levels:
    """Return the stored numbers of a linear.

    If its groups are not contiguous and equal, scales and offsets are given for every channel: (O, I).
    """
    module, bits, width = place.module, place.bits, place.shape[1]
    if place.layout == "packed":
        levels = levels_in_packed(files, module, bits, width)
    elif place.layout == "gptq":
        levels = levels_in_gptq(files, module, bits, width, less_one=place.less_one)
    elif place.layout == "mlx":
        levels = levels_in_mlx(files, module, place.expert, bits)
    elif place.layout == "awq":
        levels = _levels_in_awq(place, files)
    else:
        levels = _levels_in_bytes(place, files)
    if place.run is None:
        return levels
    group_of = next((files.read(name) for name in place.tensors if name.endswith("g_idx")), None)
    if group_of is None:
        group_of = torch.arange(width) // place.run
    return levels._replace(scales=levels.scales[:, group_of.long()], offsets=levels.offsets[:, group_of.long()])


def _levels_in_bytes(place: StoredLinear, files: CheckpointReader) -> Levels:
    half, zeros = 1 << (place.bits - 1), f"{place.module}.weight_zero_point"
    scales = files.read(f"{place.module}.weight_scale")
    offsets = torch.full(scales.shape, half)
    if zeros in files:
        offsets = files.read(zeros).to(torch.int16) + half
    return Levels((files.read(f"{place.module}.weight").to(torch.int16) + half).to(torch.uint8), scales, offsets)


def _levels_in_awq(place: StoredLinear, files: CheckpointReader) -> Levels:
    words, zeros, scales = (files.read(f"{place.module}.{part}") for part in ("qweight", "qzeros", "scales"))
    codes, offsets = (
        _reordered(unpack_bits(one, place.bits, place.shape[0]), _AWQ_BACK, place.bits).T for one in (words, zeros)
    )
    return Levels(codes, scales.T, offsets)


def _reordered(numbers: Tensor, order: tuple[int, ...], bits: int) -> Tensor:
    """Return the columns of each word in an order: AWQ has one at 4 bits, and none at the others."""
    return numbers.unflatten(1, (-1, 8))[:, :, list(order)].flatten(1) if bits == 4 else numbers


def as_stored(place: StoredLinear, codes: Tensor) -> Tensor:
    """Return unsigned codes (O, I) uint8 as the place's first tensor stores them; of a stack the expert's slice."""
    bits = place.bits
    if place.layout == "bytes":
        return (codes.to(torch.int16) - (1 << (bits - 1))).to(torch.int8)
    if place.layout == "gptq":
        return pack_bits(codes, bits).T.contiguous()  # (W, O)
    if place.layout == "awq":
        return pack_bits(_reordered(codes.T, AWQ_ORDER, bits).contiguous(), bits)  # (I, W)
    return pack_bits(codes.contiguous(), bits)  # (O, W)
