"""Place of a waiting run: its number, the run before it, and when it may begin."""

import heapq
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypedDict

from sarqc.documents import Phase
from sarqc.events import LayerDone, Stage, Started
from sarqc.jobs.run import Run, State, StoredEvent
from sarqc.jobs.schedule import Waiting, decide
from sarqc.jobs.store import Store

RECENT = 8  # layers by which the rest is judged


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
    left = {busy.id: _seconds_left(busy, store, now) for busy in at_work}
    first = min(at_work, key=lambda busy: left[busy.id] or 0.0, default=None)
    by_id = {entry.id: entry for entry in queued}
    ahead = [by_id[run_id] for run_id in order[: number - 1]]
    before = ahead[-1] if ahead else first
    if number == 1 and Waiting.of(run).is_brief:  # runs that solve layers one by one step aside for it
        aside = {busy.id: _seconds_until_aside(busy, store, now) for busy in at_work if busy.lane != "preview"}
        left |= {run_id: seconds for run_id, seconds in aside.items() if seconds is not None}
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


def _seconds_left(run: Run, store: Store, now: float) -> float | None:
    """Return the seconds that a run may still take: layers by the pace of the last ones, everything else by its plan,
    at its start or before; None without a plan, or where it takes longer."""
    started, stage = store.last(run.id, Started.type), store.last(run.id, Stage.type)
    phases: list[Phase] = started.payload.get("phases", []) if started is not None else []
    planned = sum(phase["seconds"] for phase in phases) if phases else run.seconds
    if planned is None or run.started is None:
        return None
    at = _position(phases, stage) if stage is not None and stage.at >= run.started else None
    if stage is None or at is None:
        left = planned - (now - run.started)
    else:
        pace = _seconds_a_layer(run, store)
        own = phases[at]["seconds"] - (now - stage.at) if pace is None else pace * (run.total - run.done)
        left = max(0.0, own) + sum(phase["seconds"] for phase in phases[at + 1 :])
    return float(left) if left > 0 else None


def _position(phases: Sequence[Phase], stage: StoredEvent) -> int | None:
    """Return the position of the phase that a stage begins."""
    name, details = stage.payload["name"], ("", stage.payload["detail"])
    return next((at for at, phase in enumerate(phases) if phase["stage"] == name and phase["detail"] in details), None)


def _seconds_until_aside(run: Run, store: Store, now: float) -> float | None:
    """Return the seconds until a run may step aside, having worked for as long as it loaded; None while it does not
    solve layers."""
    pace, started = _seconds_a_layer(run, store), store.last(run.id, Started.type)
    if pace is None or started is None or run.started is None:
        return None
    loaded, since = started.at - run.started, now - run.started
    return max(pace, 2 * loaded - since)


def _seconds_a_layer(run: Run, store: Store) -> float | None:
    """Return the seconds from one layer to the next, of the last ones solved in this stage; None before two."""
    stage = store.last(run.id, Stage.type)
    times = [
        event.at
        for event in store.latest(run.id, LayerDone.type, RECENT + 1)
        if stage is not None and event.seq > stage.seq and not event.payload["from_cache"]
    ]
    return (times[0] - times[-1]) / (len(times) - 1) if len(times) > 1 else None
