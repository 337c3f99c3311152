"""Whether a GPU is trusted with runs: it is compared with the CPU once, and again with another driver or PyTorch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import torch

import sarqc
from sarqc.engine.comparison import solvers
from sarqc.engine.costs import gpu_of
from sarqc.errors import SarqcError
from sarqc.events import Event, Stage
from sarqc.files.artefacts import chain_key
from sarqc.settings import Settings

_METHODS = ("rtn", "sarqc-gs", "sarqc-gbs")  # one of each family that solves single layers


def check(device: torch.device, settings: Settings) -> Iterator[Event]:
    """Raises ``SarqcError`` where the device computes something else than the CPU; what is found is kept.

    ``SARQC_CHECK_DEVICE=0`` leaves it out. The doctor looks at more.
    """
    if not settings.check_device:
        return
    file = _file(device, settings)
    wrong = _kept(file)
    if wrong is None:
        yield Stage("checking the device", "three solvers, beside the CPU's; once for each card and driver")
        wrong = [finding.words for finding in solvers(settings, device, _METHODS) if not finding.is_sound]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(wrong), encoding="utf-8")
    if wrong:
        raise SarqcError(
            f"it does not compute what the CPU does: {' '.join(wrong)}",
            f"device {device}",
            "Run “python -m sarqc doctor”. SARQC_DEVICE=cpu takes the processor; after a repair delete the folder "
            "“devices” in the state folder; SARQC_CHECK_DEVICE=0 trusts the device all the same.",
        )


def _file(device: torch.device, settings: Settings) -> Path:
    gpu = gpu_of(settings)
    card = str(device) if gpu is None else (gpu.uuid, gpu.driver)
    return settings.resolved_state_dir() / "devices" / f"{chain_key(card, torch.__version__, sarqc.__version__)}.json"


def _kept(file: Path) -> list[str] | None:
    """What was wrong; None where nobody has looked yet, or what was found is damaged."""
    try:
        return [str(words) for words in json.loads(file.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return None
