"""The devices of a run: the one of its passes, and those that its linears are solved on."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from sarqc.calibration.multi_device import MultiDevice
from sarqc.engine.costs import sweep_bytes
from sarqc.settings import Settings


def solving_devices(settings: Settings, device: torch.device) -> list[torch.device]:
    """Return the GPUs from the run's own on, or as many processes on the CPU; the run's own alone where it spans no
    more.
    """
    if device.type == "cpu":
        return [device] * settings.span
    first = device.index or 0
    last = min(first + settings.span, torch.cuda.device_count())
    return [torch.device(device.type, index) for index in range(first, max(first + 1, last))]


@contextmanager
def spread_over(settings: Settings, device: torch.device) -> Iterator[MultiDevice | None]:
    """Yield processes that solve the linears of a run on ``device``; None for a single device."""
    devices = solving_devices(settings, device)
    if len(devices) == 1:
        yield None
        return
    with MultiDevice(devices, sweep_bytes(settings)) as spread:
        yield spread
