"""Codes in bytes and back. The other side takes bits apart as text."""

import json
from dataclasses import asdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sarqc.calibration.kept_layers import Packing, packed, unpacked

KINDS = {torch.int8: (-128, 127), torch.uint8: (0, 255)}


@pytest.mark.thorough
@given(st.data())
def test_they_come_back(data):
    dtype = data.draw(st.sampled_from([*KINDS]))
    shape = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 9)))
    lowest, highest = KINDS[dtype]
    first = data.draw(st.integers(lowest, highest))
    last = data.draw(st.integers(first, min(highest, first + data.draw(st.sampled_from([0, 1, 3, 7, 15, 255])))))
    count = shape[0] * shape[1]
    values = data.draw(st.lists(st.integers(first, last), min_size=count, max_size=count))
    codes = torch.tensor(values, dtype=dtype).reshape(shape)
    content, packing = packed(codes)
    again = unpacked(content, Packing(**json.loads(json.dumps(asdict(packing)))))
    assert again.dtype == dtype
    assert torch.equal(again, codes)
    text = "".join(f"{byte:08b}"[::-1] for byte in content.tolist())  # lowest bits first
    pieces = [text[at : at + packing.bits] for at in range(0, len(text), packing.bits)]
    assert [packing.lowest + int(piece[::-1], 2) for piece in pieces[:count]] == values
    assert set("".join(pieces[count:])) <= {"0"}


@pytest.mark.parametrize(("levels", "size"), [(2, 3), (4, 6), (8, 12), (16, 12), (17, 24), (256, 24)])
def test_they_take_what_their_bits_need(levels, size):
    codes = torch.arange(24).remainder(levels).to(torch.uint8)
    codes[-1] = levels - 1
    assert len(packed(codes)[0]) == size
