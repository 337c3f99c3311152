"""The trackers that runs can be reported to, by the names that people choose them with."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import NamedTuple

from sarqc.errors import Refused
from sarqc.reports.reporting import Destination
from sarqc.reports.tracker import Tracker


class _Entry(NamedTuple):
    """A tracker: the library that it needs, and the module and class of ours that speaks with it."""

    library: str
    module: str
    kind: str


TRACKERS = {
    "mlflow": _Entry("mlflow", "sarqc.reports.mlflow", "MlflowRun"),
    "trackio": _Entry("trackio", "sarqc.reports.trackio", "TrackioRun"),
}


def destination(name: str, asked_by: str, project: str) -> Destination:
    """Where a tracker of this name keeps a project; its library is loaded. Raises ``Refused`` for ``asked_by``, the
    flag that names it.
    """
    if name not in TRACKERS:
        raise Refused(f"unknown tracker “{name}”", asked_by, f"There are {', '.join(TRACKERS)}.")
    entry, place = TRACKERS[name], f"{asked_by} {name}"
    if importlib.util.find_spec(entry.library) is None:
        raise Refused(f"{entry.library} is not installed here", place, f"pip install 'sarqc[{name}]'")
    try:
        make: Callable[[], Tracker] = getattr(importlib.import_module(entry.module), entry.kind)
    except ImportError as error:
        raise Refused(f"{name} can't be loaded: {error}", place, f"pip install 'sarqc[{name}]'") from None
    return Destination(make, place, project)
