"""Copies on the host have the bytes of the tensor, in its order."""

import pytest
import torch

from sarqc.models import host_copies
from sarqc.models.host_copies import on_host, parts_on_host

TENSORS = (
    torch.arange(24, dtype=torch.float32).reshape(4, 6).mT,
    torch.arange(15, dtype=torch.int8)[::2],
    torch.linspace(0, 1, 7, dtype=torch.bfloat16),
    torch.empty(0, 3),
)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("tensor", TENSORS)
def test_a_copy_is_the_tensor(monkeypatch, tensor, device):
    monkeypatch.setattr(host_copies, "COPIED_AT_ONCE", 5)  # bytes: parts that end within a number
    given = tensor.to(device)
    copy = on_host(given)
    assert copy.device.type == "cpu"
    assert copy.is_contiguous()
    assert torch.equal(copy, tensor)
    content = b"".join(part.numpy().tobytes() for part in parts_on_host(given))
    assert content == tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
