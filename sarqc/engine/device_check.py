"""Whether a GPU is trusted with runs: it is compared with the CPU once, and again with another driver or PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

import torch

import sarqc
from sarqc.engine.comparison import solvers
from sarqc.engine.costs import gpu_of
from sarqc.errors import SarqcError
from sarqc.events import Event, Stage
from sarqc.files.artefacts import ArtefactStore, chain_key
from sarqc.settings import Settings

_METHODS = ("rtn", "sarqc-gs", "sarqc-gbs")  # one of each family that solves single layers
_SUFFIX = ".device"  # of a file that says that a device was found sound


def require_sound_device(device: torch.device, settings: Settings) -> Iterator[Event]:
    """Raises ``SarqcError`` where the device computes something else than the CPU.

    That it does not is kept, so that it is asked once; a device that fails is looked at again before each run, as the
    reason may pass. ``SARQC_CHECK_DEVICE=0`` leaves it out. The doctor looks at more.
    """
    store, key = ArtefactStore(settings.artefacts_root()), _key(device, settings)
    if not settings.check_device or store.has(key, _SUFFIX):
        return
    yield Stage("checking the device", "three solvers, beside the CPU's; once for each card and driver")
    wrong = [finding.words for finding in solvers(settings, device, _METHODS) if not finding.is_sound]
    if wrong:
        raise SarqcError(
            f"it does not compute what the CPU does: {' '.join(wrong)}",
            f"device {device}",
            "Run “python -m sarqc doctor”. SARQC_DEVICE=cpu takes the processor; SARQC_CHECK_DEVICE=0 trusts the "
            "device all the same.",
        )
    store.write(key, _SUFFIX, b"sound")


def _key(device: torch.device, settings: Settings) -> str:
    gpu = gpu_of(settings)
    card = str(device) if gpu is None else (gpu.uuid, gpu.driver)
    return chain_key("device 1", card, torch.__version__, sarqc.__version__)
