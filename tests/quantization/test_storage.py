"""Bits of a weight in full, beside the tensors of a solved layer."""

import pytest
import torch

from sarqc import Grid, LayerStatistics, method, quantize_layer
from sarqc.quantization.storage import KINDS, bits_per_weight


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("group_size", [8, 16, None])
def test_bits_are_those_of_the_tensors(kind, group_size):
    random, bits, total, weights = torch.Generator().manual_seed(0), 3, 0, 0
    shapes = [(6, 32), (4, 16)]
    for rows, width in shapes:
        weight = torch.randn(rows, width, generator=random).bfloat16()
        inputs = LayerStatistics.from_inputs(torch.randn(40, width, generator=random))
        layer = quantize_layer(weight, inputs, Grid(bits, group_size, kind), method("rtn"))
        total += bits * layer.codes.numel() + 16 * layer.scales.numel()
        if layer.biases is not None:
            total += 8 * layer.biases.element_size() * layer.biases.numel()
        elif layer.zero_points.any():  # numbers from 0 to 2^bits - 1
            total += bits * layer.zero_points.numel()
        weights += weight.numel()
    assert bits_per_weight(shapes, kind, bits, group_size) == total / weights


def test_groups_that_do_not_divide_a_width_are_whole_rows_there():
    assert bits_per_weight([(4, 48)], "symmetric", 4, 32) == 4 + 16 / 48
    mixed = bits_per_weight([(4, 48), (2, 32)], "affine", 2, 32)
    assert mixed == pytest.approx(2 + 32 * (4 + 2) / (4 * 48 + 2 * 32))
