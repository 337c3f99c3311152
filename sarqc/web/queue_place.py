"""Place of a waiting run: its number, the run before it, and when it may begin."""

import heapq
import time
from collections.abc import Callable, Iterable
from typing import TypedDict

from sarqc.jobs.run import Run, State
from sarqc.jobs.schedule import Waiting, decide
from sarqc.jobs.store import Store


class QueuePlace(TypedDict):
    """Place of a run that waits for a device."""

    number: int  # 1: next
    at_work: int  # runs that have a device now, of whomever
    worked: float | None  # seconds for which the first of them to end has worked; None where none is at work
    behind: str | None  # id of the run before it, or of the one that has the device; None where nobody may know
    seconds: float | None  # until it may begin, by the plans of those before it; None where one of them has none


def queue_place(run: Run, store: Store, sees: Callable[[Run], bool]) -> QueuePlace:
    """Return the place of a queued run, by the very rule that starts runs. ``sees``: whether the visitor sees a run."""
    queued, now = store.in_state(State.QUEUED), time.time()
    waiting = [Waiting.of(entry) for entry in queued]
    held = store.last_held(entry.owner for entry in queued)
    turns = decide(waiting, [""] * len(waiting), now, held, store.last_lane())
    order = [start.run_id for start in turns]
    number = order.index(run.id) + 1 if run.id in order else 1  # it may begin in this moment
    at_work = store.in_state(State.RUNNING, State.CANCELLING)
    left = {busy.id: _seconds_left(busy, now) for busy in at_work}
    first = min(at_work, key=lambda busy: left[busy.id] or 0.0, default=None)
    by_id = {entry.id: entry for entry in queued}
    ahead = [by_id[run_id] for run_id in order[: number - 1]]
    before = ahead[-1] if ahead else first
    return {
        "number": number,
        "at_work": len(at_work),
        "worked": None if first is None or first.started is None else max(0.0, now - first.started),
        "behind": before.id if before is not None and sees(before) else None,
        "seconds": _seconds_until_free(left.values(), map(_seconds_planned, ahead)),
    }


def _seconds_planned(run: Run) -> float | None:
    """Return the seconds that a waiting run is planned to take, without its finished layers."""
    return None if run.seconds is None else run.seconds * (1 - run.done / max(1, run.total))


def _seconds_until_free(left: Iterable[float | None], ahead: Iterable[float | None]) -> float | None:
    """Return the seconds until a device is free for a run: each device has a run with some time ``left``, then takes
    the next of those ``ahead``. None where one of these times is not known, or nothing is at work."""
    times, before = list(left), list(ahead)
    free, needed = ([seconds for seconds in each if seconds is not None] for each in (times, before))
    if not free or len(free) < len(times) or len(needed) < len(before):
        return None
    heapq.heapify(free)
    for seconds in needed:
        heapq.heapreplace(free, free[0] + seconds)
    return free[0]


def _seconds_left(run: Run, now: float) -> float | None:
    """Return the seconds that a run may still take by its plan; None without one, or where it takes longer."""
    left = None if run.seconds is None or run.started is None else run.seconds - (now - run.started)
    return left if left is not None and left > 0 else None
