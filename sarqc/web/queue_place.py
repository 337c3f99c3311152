"""Where a waiting run stands: how many are before it, behind which, and when it may begin."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable
from typing import TypedDict

from sarqc.events import Started
from sarqc.jobs.run import Run, State
from sarqc.jobs.schedule import Waiting, decide
from sarqc.jobs.store import Store


class QueuePlace(TypedDict):
    """Of a run that waits for a device."""

    number: int  # 1: next
    behind: str | None  # id of the run before it, or of the one that has the device; None where nobody may know
    seconds: float | None  # until it may begin, by the plans of those before it; None where one of them has none


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
    by_id = {one.id: one for one in queued}
    ahead = [by_id[one] for one in order[: number - 1]]
    before = ahead[-1] if ahead else first
    return {
        "number": number,
        "behind": before.id if before is not None and sees(before) else None,
        "seconds": _begins_in(left.values(), [one.seconds for one in ahead]),
    }


def _begins_in(left: Iterable[float | None], ahead: Iterable[float | None]) -> float | None:
    """Seconds until a device is free for a run: each device has a run with some time ``left``, and takes the next of
    those ``ahead`` when that is over. None where one of these times is not known, or nothing is at work."""
    times, before = list(left), list(ahead)
    free, needed = ([one for one in each if one is not None] for each in (times, before))
    if not free or len(free) < len(times) or len(needed) < len(before):
        return None
    heapq.heapify(free)
    for seconds in needed:
        heapq.heapreplace(free, free[0] + seconds)
    return free[0]


def _left(run: Run, store: Store, now: float) -> float | None:
    """Seconds that a run may still take, by what it said when it began, else by its plan; None where there is neither,
    or it takes longer than it thought."""
    said = store.last(run.id, Started.type)
    phases = said.payload.get("phases", []) if said is not None else []
    planned = sum(phase["seconds"] for phase in phases) if phases else run.seconds
    if planned is None or run.started is None:
        return None
    left = planned - (now - run.started)
    return float(left) if left > 0 else None
