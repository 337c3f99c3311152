"""Where a waiting run stands: how many are before it, behind which, and when that may be over."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypedDict

from sarqc.events import Started
from sarqc.jobs.run import Run, State
from sarqc.jobs.schedule import Waiting, decide
from sarqc.jobs.store import Store


class QueuePlace(TypedDict):
    """Of a run that waits for a device."""

    number: int  # 1: next
    behind: str | None  # id of the run before it, or of the one that has the device; None where nobody may know
    seconds: float | None  # until a device is free, by the plan of the run that has it; None where more wait before


def queue_place(run: Run, store: Store, sees: Callable[[Run], bool]) -> QueuePlace:
    """Of a queued run, by the very rule that starts runs. ``sees``: whether the asking person sees another run."""
    queued, now = store.in_state(State.QUEUED), time.time()
    waiting = [Waiting(one.id, one.owner, one.queued, one.lane) for one in queued]
    turns = decide(waiting, [""] * len(waiting), now, store.last_held(), store.last_lane())
    order = [start.run_id for start in turns]
    number = order.index(run.id) + 1 if run.id in order else 1  # it may begin in this moment
    at_work = store.in_state(State.RUNNING, State.CANCELLING)
    left = {one.id: _left(one, store, now) for one in at_work}
    first = min(at_work, key=lambda one: left[one.id] or 0.0, default=None)
    before = first if number == 1 else next(one for one in queued if one.id == order[number - 2])
    return {
        "number": number,
        "behind": before.id if before is not None and sees(before) else None,
        "seconds": left[first.id] if number == 1 and first is not None else None,
    }


def _left(run: Run, store: Store, now: float) -> float | None:
    """Seconds that a run may still take; None where it has not said what it does, or takes longer than it thought."""
    said = store.last(run.id, Started.type)
    phases = said.payload.get("phases", []) if said is not None else []
    if not phases or run.started is None:
        return None
    left = sum(phase["seconds"] for phase in phases) - (now - run.started)
    return float(left) if left > 0 else None
