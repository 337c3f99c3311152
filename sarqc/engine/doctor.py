"""Whether this host's device does what it is asked to, and what is to be said of it in a run."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from sarqc.events import Warned
from sarqc.quantization.turns import why_no_kernels


def device_warnings(device: torch.device) -> Iterator[Warned]:
    """What a run does otherwise on this device than it should; results are not touched by it."""
    if reason := why_no_kernels(device):
        yield Warned(f"columns are solved one by one, which is slow on a GPU: {reason}", str(device))
