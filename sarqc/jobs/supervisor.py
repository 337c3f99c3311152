"""The loop that keeps runs going: one thread that starts them, stores what they say, stops them and picks up pieces.

The store is the truth. A request only changes the store and wakes the loop, which then does what the state asks for;
what the loop keeps in memory is no more than which processes are alive. Cancelling is a ladder: SIGTERM, then after
``settings.cancel_seconds`` SIGKILL; either way the run ends as cancelled. The same ladder ends a run whose hours are
over, as failed. A worker without a sign of life for ``settings.lease_seconds`` is killed; its run goes on by itself.
While a preview waits and no device is free, a batch run is asked to step aside, and goes on after it. A run that meets
a full disk says so and waits; it goes on once there is more room than it found.
"""

import logging
import queue
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from sarqc import logs
from sarqc.errors import Conflict, NoRoom, NotFound, SarqcError, Unwritable, WorkerLost, disk_full
from sarqc.events import (
    SHARED_STAGES,
    Cancelled,
    Failed,
    Finished,
    Interrupted,
    LayerDone,
    Stage,
    Warned,
    Yielded,
)
from sarqc.files.artefacts import ArtefactStore
from sarqc.files.places import place_at
from sarqc.files.room import FULL_BYTES, MORE_BYTES, ROOM_SECONDS, WAITS, free_bytes
from sarqc.jobs import exports, schedule
from sarqc.jobs.annotations import Annotations
from sarqc.jobs.audit import HOST, Audit
from sarqc.jobs.bell import ALL_RUNS, Bell
from sarqc.jobs.checkpoint_files import damage
from sarqc.jobs.removal import Removal
from sarqc.jobs.run import Run, State
from sarqc.jobs.store import Store
from sarqc.jobs.workers import EXECUTE, Gone, LocalWorkers, Message, Said, Workers
from sarqc.recipe import Recipe
from sarqc.settings import Settings

STOP_SECONDS = 5.0  # what a worker gets when the app goes down: less than the ten seconds that containers are given
TICK_SECONDS = 30.0
STALLED_SECONDS = 120.0  # without a turn of the loop: a turn waits for a tick at most, and for what it has to do
INBOX = 10_000  # messages; when it is full the workers' pipes fill, and the workers wait
BATCH = 1_000
SILENT_SECONDS = 30.0  # without a sign of life, after which people are told, if the lease is that long
AGAIN_SECONDS = 600.0  # after which a run tries again that found too little room, if the disk is not full
ATTEMPTS = 10  # how often a run is put back by itself: one that takes the host down must not do so for ever

_ENDS = (Finished, Failed, Cancelled, Yielded)  # the last words of a worker

log = logging.getLogger(__name__)


@dataclass
class _Job:
    """A worker process and what it works on."""

    run_id: str
    owner: str
    device: str
    ended: bool = False  # it has said its last word; the process may still be there
    kill_at: float | None = None  # set when it was asked to stop
    began: float = 0.0
    is_silent: bool = False  # for so long that people were told
    is_lost: bool = False  # it was killed because its lease was over
    is_overdue: bool = False  # it was asked to stop because its hours were over
    is_shared: bool = False  # other workers may help with its run
    helps: bool = False  # another worker does the run
    lane: str = "batch"
    solves: bool = False  # layer after layer, between which it may step aside
    is_asked: bool = False  # to step aside
    is_unheard: bool = False  # the disk has no room for what it says
    has_reserve: bool = True  # the disk's, for its last word
    found_no_room: bool = False  # it gave up because of that

    def can_step_aside(self) -> bool:
        return self.lane != "preview" and not self.helps and not self.ended and self.kill_at is None


class _GaveUp(NamedTuple):
    """Findings of a run that gave up for want of room."""

    done: int  # layers solved
    room: int | None  # bytes, of which there have to be more before it tries again; None: it may at once
    at: float


class Supervisor:
    """Owns the workers. ``start`` and ``stop`` belong to the app's lifespan; the rest is for requests, any thread.

    ``workers`` makes the workers from settings and the callback they deliver to; ``clock`` counts seconds and never
    goes back. Raises ``Refused`` where the settings ask for a device that is not there, or for object storage that
    can't be used.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        workers: Callable[[Settings, Callable[[Message | None], None]], Workers] | None = None,
        execute: str = EXECUTE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.store, self.settings, self.bell, self._clock = store, settings, Bell(), clock
        self._trouble: str | None = None
        self._failure: str | None = None  # of the last turn, which is logged once
        self._gave_up: dict[str, _GaveUp] = {}  # by run
        self._waits_for_room = False  # some run does
        self._inbox: queue.Queue[Message | None] = queue.Queue(INBOX)
        self._pending: list[Message] = []
        self._jobs: dict[int, _Job] = {}
        self._stopping = threading.Event()
        self._turned = clock()  # when the loop last began a turn
        self.audit, self.removal = Audit(store), Removal(store, settings)
        # Of extras: done in each turn of the loop; how long a run stays, for its page.
        self.chores: list[Callable[[], None]] = []
        self.stay: Callable[[Run], object] = lambda run: None
        if settings.is_object_storage():
            place_at(settings.storage_root()).mark()
        make = workers or partial(LocalWorkers, execute=execute)
        self.workers: Workers = make(settings, self._inbox.put)
        self._thread = threading.Thread(target=self._loop, name="supervisor", daemon=True)

    # Life.

    def start(self) -> None:
        """Recover what an earlier app left, and begin."""
        ArtefactStore(self.settings.artefacts_root()).remove_partial()
        with suppress(NoRoom):  # the loop tries it again, and says so
            self._reconcile()
        self.wake()
        self._thread.start()

    def stop(self) -> None:
        """End all workers; their runs are queued again and go on at the next start. Returns within seconds."""
        self._stopping.set()
        self.wake()
        self._thread.join()
        self.bell.close()

    def wake(self) -> None:
        """Wake the loop: there may be something to do. Never blocks: a full inbox wakes the loop anyway."""
        with suppress(queue.Full):
            self._inbox.put_nowait(None)

    @property
    def trouble(self) -> str | None:
        """Obstacle that keeps runs from going on, or from being submitted, for people."""
        return self._trouble or self.full_disk()

    def is_going(self) -> bool:
        """Return whether the loop takes its turns."""
        return self._thread.is_alive() and self._clock() - self._turned < STALLED_SECONDS

    def full_disk(self) -> str | None:
        """Return in words that the disk has no room; None: it has."""
        if (free := free_bytes(self.settings.resolved_state_dir())) >= FULL_BYTES:
            return None
        return f"The disk with the state folder is full: {free >> 10} KiB are free. {disk_full().remedy}"

    def _room(self) -> int:
        """Return the bytes on the disk that are free or kept for last words."""
        return free_bytes(self.settings.resolved_state_dir()) + self.store.reserve.size

    def _may_try_again(self, run: Run) -> bool:
        """Return whether a run that gave up for want of room has more than it found then, or has waited for long."""
        _, room, at = self._gave_up.get(run.id, _GaveUp(0, None, 0.0))
        return room is None or self._room() >= room + MORE_BYTES or self._clock() - at >= AGAIN_SECONDS

    # Requests.

    def submit(self, recipe: Recipe, owner: str, lane: str = "batch", seconds: float | None = None) -> Run:
        """Queue a recipe, planned to take ``seconds``. Raises ``QueueFull``."""
        return self.submit_all([recipe], owner, lane, seconds=[seconds])[0]

    def submit_all(
        self,
        recipes: Sequence[Recipe],
        owner: str,
        lane: str,
        batch: str | None = None,
        seconds: Sequence[float | None] | None = None,
    ) -> list[Run]:
        """Queue recipes that belong together, or none of them; ``seconds`` as planned. Raises ``QueueFull``."""
        most = self.settings.max_queued
        runs = self.store.create_all(recipes, owner, lane, batch=batch, seconds=seconds, at_most=most)
        return [self._changed(run) for run in runs]

    def export(self, run_id: str, checkpoint_format: str, size: int, owner: str) -> tuple[Run, bool]:
        """Queue the export of a finished run in a format and return it, and whether this request has queued it (again).

        ``size``: what is expected of its files, in bytes. Raises ``NotFound``, ``Conflict``, ``Refused`` for a format
        that can't carry the run, ``NoRoom`` and ``QueueFull``.
        """
        made = self.store.exports(run_id)
        # Read here, since that takes time, and not in the transaction.
        whole = {export.id for export in made if damage(exports.checkpoint_folder(self.settings, export)) is None}
        with self.store.transaction():
            parent = self.store.get(run_id)
            exports.check_exportable(parent, checkpoint_format)
            former = next((export for export in self.store.exports(run_id) if export.format == checkpoint_format), None)
            if former is not None and (former.id in whole if former.state is State.FINISHED else not former.at_rest):
                return former, False
            if former is not None and former.state is State.FINISHED:
                self.delete(former.id, detail="its files are gone or changed")
                former = None
            if former is None:
                exports.check_room(self.store, self.settings, size)
                most = self.settings.max_queued
                export = self.store.create_export(parent, checkpoint_format, size, owner, at_most=most)
            else:
                export = self._queue_again(former.id)
        self.audit.note(owner, "export", "run", run_id, parent.owner, checkpoint_format)
        return self._changed(export), True

    def cancel(self, run_id: str, by: str = HOST) -> Run:
        """Ask a run to end; returns it as cancelled (it waited) or cancelling. Raises ``NotFound``, ``Conflict``.

        ``by``: who asks, for the audit log.
        """

        def cancelled(_: object) -> Run:
            run = self.store.cancel(run_id)
            self.audit.note(by, "cancel", run.kind, run.id, run.owner)
            return run

        return self._changed(self.store.even_when_full(cancelled))

    def resume(self, run_id: str) -> Run:
        """Queue a run again that was cancelled, interrupted or failed.

        Raises ``NotFound``, ``Conflict``, and for an export ``NoRoom``.
        """
        return self._changed(self._queue_again(run_id))

    def _queue_again(self, run_id: str) -> Run:
        with self.store.transaction():
            run = self.store.get(run_id)
            if run.parent is not None and run.at_rest:
                exports.check_room(self.store, self.settings, run.bytes or 0)
            return self.store.move(run_id, State.QUEUED)

    def annotate(self, run_id: str, written: Annotations) -> Run:
        """Write a name, a note or tags on a run. Raises as ``Store.annotate``."""
        return self._changed(self.store.annotate(run_id, written))

    def tag(self, run_id: str, add: Sequence[str], remove: Sequence[str]) -> Run:
        """Add tags to a run and take tags away. Raises as ``Store.annotate``."""
        return self._changed(self.store.tag(run_id, add, remove))

    def delete(self, run_id: str, by: str = HOST, detail: str = "") -> Run:
        """Remove a run at rest, its study, log and exports; return what it was. Raises ``NotFound``, ``Conflict``.

        ``by`` and ``detail``: who asks and why, for the audit log.
        """
        return self._changed(self.removal.run(run_id, by, detail))

    def expect(self) -> None:
        """Let a worker begin with the slow imports."""
        self.workers.warm_up()

    def devices(self) -> list[dict[str, str | None]]:
        """Return each device with the run that is on it, or None."""
        busy = {job.device: job.run_id for job in list(self._jobs.values())}
        return [{"id": device.id, "name": device.name, "run": busy.get(device.id)} for device in self.workers.devices]

    def _changed(self, run: Run) -> Run:
        """Wake the loop: after the transaction, before whose end the loop would see nothing new, and wait again."""
        self.bell.ring(run.id, ALL_RUNS)
        self.wake()
        return run

    # The loop.

    def _loop(self) -> None:
        deadline = None
        while True:
            self._turned = self._clock()
            self._collect()
            try:
                self._relay()
                if self._stopping.is_set():
                    deadline = deadline or self._clock() + STOP_SECONDS
                    if self._wind_down(deadline):
                        break
                else:
                    self._reconcile()
                    self._start_due()
                    self.workers.cool_down()
                    for run in self.removal.previews(time.time()):
                        self.bell.ring(run.id, ALL_RUNS)
                    for chore in self.chores:
                        chore()
                self.store.reserve.make()
                silence = next((self._silent_words(job) for job in self._jobs.values() if job.is_silent), None)
                unheard = str(disk_full()) if any(job.is_unheard for job in self._jobs.values()) else None
                self._trouble = unheard or silence
                self._note_failure(None)
            except Exception as error:
                # A full disk must not end the loop: it is said on the page, and tried again until it works.
                self._note_failure(error)
                if self._stopping.is_set():
                    break
                time.sleep(1.0)
        self.workers.close()

    def _note_failure(self, error: Exception | None) -> None:
        """Says why a turn failed; the log says it once, until it changes or is over."""
        before, self._failure = self._failure, None
        if error is not None:
            self._failure = str(error) if isinstance(error, SarqcError) else f"{type(error).__name__}: {error}"
            self._trouble = self._failure
        if self._failure == before:
            return
        if error is None:
            log.info("the supervisor can do its work again")
        elif isinstance(error, NoRoom | Unwritable):
            log.warning("the supervisor waits: %s", error)
        else:
            log.error("the supervisor could not do its work", exc_info=error)

    def _collect(self) -> None:
        """Wait for messages, a wake-up or the next deadline, then take what is there, up to a batch."""
        waits = [job.kill_at - self._clock() for job in self._jobs.values() if job.kill_at is not None]
        waits += [self._grace() / 2] if self._jobs else []
        waits += [ROOM_SECONDS] if self._waits_for_room or self._pending else []
        timeout = 0.05 if self._stopping.is_set() else max(0.0, min([TICK_SECONDS, *waits]))
        if len(self._pending) >= BATCH and not self._stopping.is_set():
            time.sleep(timeout)  # what can't be stored waits here, and what comes after it in pipes
            return
        with suppress(queue.Empty):
            message = self._inbox.get(timeout=timeout)
            while True:
                if message is not None:
                    self._pending.append(message)
                if len(self._pending) >= BATCH:
                    break
                message = self._inbox.get_nowait()

    def _relay(self) -> None:
        """Store the pending messages, those of a worker in one transaction; a message leaves when it is stored."""
        groups = [(token, [*group]) for token, group in groupby(self._pending, key=attrgetter("token"))]
        unheard: list[Message] = []
        try:
            while groups:
                token, messages = groups[0]
                if any(message.token == token for message in unheard) or not self._heard(self._jobs[token], messages):
                    unheard += messages
                else:
                    self._note_heard(token, messages)
                del groups[0]
        finally:
            self._pending = unheard + [message for _, messages in groups for message in messages]

    def _heard(self, job: _Job, messages: list[Message]) -> bool:
        """Return whether the words of a worker are stored; the last also on a full disk, where the run says that it
        waits."""
        if job.helps:
            self._note_help(job, messages)
            return True
        if job.ended:
            return True

        is_last = any(isinstance(message, Gone) or isinstance(message.event, _ENDS) for message in messages)
        takes_reserve = is_last and job.has_reserve
        if job.is_unheard and self.full_disk() is not None and not takes_reserve:
            return False
        try:
            if takes_reserve:
                job.has_reserve = False  # tried once: without success it would be spent each second
                job.ended = self.store.even_when_full(lambda _: self._store(job, messages))
            else:
                with self.store.transaction(settled=False):
                    job.ended = self._store(job, messages)
        except NoRoom:
            if not job.is_unheard:
                job.is_unheard = True
                self._note_full_disk(job)
            return False
        if job.is_unheard and not job.ended:
            job.is_unheard = False
            with logs.about(run=job.run_id, owner=job.owner):
                log.info("there is room on the disk again")
        return True

    def _note_full_disk(self, job: _Job) -> None:
        """Let a run that goes on, but can't be heard, say why."""
        with logs.about(run=job.run_id, owner=job.owner):
            log.warning("the run waits for room on the disk")
        warning = Warned(f"{WAITS} What it says is shown when there is some. {disk_full().remedy}", "disk")
        with suppress(NoRoom):  # not even for that: the host says it alone
            self.store.even_when_full(lambda _: self.store.append(job.run_id, [warning], waits_for_room=True))
            self.bell.ring(job.run_id, ALL_RUNS)

    def _note_heard(self, token: int, messages: list[Message]) -> None:
        """Act on stored messages."""
        job = self._jobs[token]
        if isinstance(messages[-1], Gone):
            if not job.helps:
                self._tidy(job.run_id)
            with logs.about(run=job.run_id, owner=job.owner):
                if job.found_no_room:
                    self._note_given_up(job.run_id)
                    if not job.is_unheard:  # else it was said
                        log.warning("the run waits for room on the disk")
                elif not job.helps:
                    self._gave_up.pop(job.run_id, None)
                log.info("the worker on %s has ended with %s", job.device, messages[-1].words())
            del self._jobs[token]
        self.bell.ring(job.run_id, ALL_RUNS)

    def _note_given_up(self, run_id: str) -> None:
        """Note that a run gave up; with new layers since it last did so, it may try again at once.

        Free space after it ended proves nothing: other processes may have freed it, or its own files, now removed.
        """
        with suppress(NotFound):
            run, before = self.store.get(run_id), self._gave_up.get(run_id)
            room = self._room() if before is not None and run.done <= before.done else None
            self._gave_up[run_id] = _GaveUp(run.done, room, self._clock())

    def _store(self, job: _Job, messages: list[Message]) -> bool:
        """Store a worker's events up to its last; return whether the last is among them."""
        events = [message.event for message in messages if isinstance(message, Said)]
        last = next((event for event in events if isinstance(event, _ENDS)), None)
        logged = events[: events.index(last)] if last else events
        if logged:
            self.store.append(job.run_id, logged)
        job.is_shared |= any(isinstance(event, Stage) and event.name in SHARED_STAGES for event in logged)
        for event in logged:
            if isinstance(event, Stage | LayerDone):
                job.solves = isinstance(event, LayerDone)
        run = self.store.get(job.run_id)
        match last or messages[-1]:
            case Finished():
                self.store.move(run.id, State.FINISHED, last)
                if run.parent is not None:
                    self.store.set_size(run.id, exports.size_on_disk(exports.checkpoint_folder(self.settings, run)))
            case Failed():
                self.store.move(run.id, State.FAILED, last)
            case Cancelled() | Yielded() | Gone() if run.state is State.CANCELLING:
                self.store.move(run.id, State.CANCELLED, Cancelled())
            case Cancelled() | Yielded() | Gone() if job.is_overdue:
                what = f"the run took longer than the {self.settings.run_hours:g} hours that one may take here."
                remedy = "Continue it: it goes on from what is kept. Or make it smaller, or raise SARQC_RUN_HOURS."
                failed = Failed("limit", f"{what} {_kept(run)}", f"attempt {run.attempt}", remedy)
                self.store.move(run.id, State.FAILED, failed)
            case Yielded(waits_for_room=True):
                job.found_no_room = True
                why = f"{WAITS} It goes on by itself when there is some. {_kept(run)} {disk_full().remedy}"
                self.store.step_aside(run.id, Yielded(why, waits_for_room=True))
            case Yielded():
                why = "It stepped aside for a run that takes seconds, and goes on after that."
                self.store.step_aside(run.id, Yielded(f"{why} {_kept(run)}"))
            case Cancelled() | Gone() if job.is_lost:
                why = f"The worker gave no sign of life for {self.settings.lease_seconds:g} s and was ended."
                self._put_back(run, why)
            case Cancelled() | Gone() if self._stopping.is_set():
                self._put_back(run)
            case Cancelled():
                self._interrupt(run, "Somebody outside the app ended the worker (SIGTERM).")
            case Gone() as gone:
                self._interrupt(run, f"The worker process ended with {gone.words()} before the run did.")
            case _:
                return False
        return True

    def _note_help(self, job: _Job, messages: list[Message]) -> None:
        """Note the end of a worker that helps with a run: only how it ended says something new."""
        last = next(
            (message.event for message in messages if isinstance(message, Said) and isinstance(message.event, _ENDS)),
            None,
        )
        job.ended = job.ended or last is not None
        if isinstance(last, Cancelled):
            return
        if isinstance(last, Failed):
            log.warning("a worker that helped with run %s failed: %s", job.run_id, last.what)
        if last is not None or (isinstance(messages[-1], Gone) and not job.ended):
            for other in self._jobs.values():
                other.is_shared &= other.run_id != job.run_id  # it is done, or help does not work

    def _tidy(self, run_id: str) -> None:
        """Remove the half-written files of an export whose process is gone."""
        with suppress(NotFound):
            if self.store.get(run_id).state in (State.FINISHED, State.RUNNING, State.CANCELLING):
                return
        shutil.rmtree(exports.export_folder(self.settings, run_id), ignore_errors=True)

    def _interrupt(self, run: Run, why: str) -> None:
        self.store.move(run.id, State.INTERRUPTED, Interrupted(f"{why} {_kept(run)}"))

    def _put_back(self, run: Run, why: str = "The app was stopped.") -> None:
        """Queue a run again that ended through no fault of its own, unless that was tried often enough."""
        if run.attempt < ATTEMPTS:
            self.store.requeue(run.id, Interrupted(f"{why} {_kept(run)} The run goes on by itself."))
        else:
            self._interrupt(run, f"{why} That was attempt {run.attempt}, the last that is made without being asked.")

    def _reconcile(self) -> None:
        """Act on the states: SIGTERM for runs that are cancelling or overdue, SIGKILL after their time is up.

        A run without a worker is one that an earlier app left behind: it goes on, or is cancelled if that was asked.
        """
        now, hours = self._clock(), self.settings.run_hours
        jobs = {job.run_id: (token, job) for token, job in self._jobs.items() if not job.ended and not job.helps}
        for run in self.store.in_state(State.RUNNING, State.CANCELLING):
            token, job = jobs.get(run.id, (0, None))
            if job is None:
                if run.pid is not None:
                    self.workers.end_leftover(run.pid)
                self.store.even_when_full(partial(self._pick_up, run))
                continue
            job.is_overdue = hours is not None and now - job.began >= 3600 * hours
            if run.state is State.CANCELLING or job.is_overdue:
                self._end(token, job)
            else:
                self._listen_for_life(token, job)
        for token, job in self._jobs.items():
            _, helped = jobs.get(job.run_id, (0, None))
            is_needed = helped is not None and helped.kill_at is None and job.kill_at is None
            if job.helps and not job.ended and not is_needed:
                self._end(token, job)
            elif (job.helps or job.ended) and self.workers.silent_seconds(token) > self.settings.lease_seconds:
                self.workers.kill(token)

    def _pick_up(self, run: Run, _: object) -> None:
        """Pick up a run whose worker is gone with an earlier app."""
        if run.state is State.RUNNING:
            self._put_back(run)
        else:
            self.store.move(run.id, State.CANCELLED, Cancelled())

    def _end(self, token: int, job: _Job) -> None:
        """End a worker by a ladder: SIGTERM, and SIGKILL when there was time enough."""
        now = self._clock()
        if job.kill_at is None:
            job.kill_at = now + self.settings.cancel_seconds
            self.workers.ask_to_stop(token)
        elif now >= job.kill_at:
            job.kill_at = now + TICK_SECONDS
            self.workers.kill(token)

    def _listen_for_life(self, token: int, job: _Job) -> None:
        """Tell people of a worker that is silent, and kill it when its lease is over."""
        silent = self.workers.silent_seconds(token)
        if silent > self._grace() and not job.is_silent:
            self.store.append(job.run_id, [Warned(self._silent_words(job), "worker")])
            self.bell.ring(job.run_id, ALL_RUNS)
        job.is_silent = silent > self._grace()
        if silent > self.settings.lease_seconds:
            job.is_lost = True
            self.workers.kill(token)

    def _grace(self) -> float:
        """Return the seconds without a sign of life after which people are told."""
        return min(SILENT_SECONDS, self.settings.lease_seconds / 2)

    def _silent_words(self, job: _Job) -> str:
        return (
            f"The worker on {job.device} has given no sign of life for more than {self._grace():g} s. "
            f"After {self.settings.lease_seconds:g} s it is ended, and its run goes on by itself."
        )

    def _start_due(self) -> None:
        """Start runs on free devices by the schedule; devices that are left help with runs that can be shared. Nothing
        is started on a full disk, on which not even that could be noted.
        """
        is_full = self.full_disk() is not None
        busy = {job.device for job in self._jobs.values()}
        free = [device.id for device in self.workers.devices if device.id not in busy]
        helpers = [token for token, job in self._jobs.items() if job.helps and job.kill_at is None]
        soon_free = sum((job.helps and job.kill_at is not None) or job.ended for job in self._jobs.values())
        is_wanted = bool(free or helpers or self.store.waiting()["preview"][0])
        queued = self.store.in_state(State.QUEUED) if is_wanted else []
        leaving = {job.run_id for job in self._jobs.values() if not job.helps}  # continued before its process was gone
        self._waits_for_room = is_full or any(run.waits_for_room for run in queued)
        if is_full:
            return
        may_start = (run for run in queued if not run.waits_for_room or self._may_try_again(run))
        queued = [run for run in may_start if run.id not in leaving]
        waiting = [schedule.Waiting.of(run) for run in queued]
        if not waiting:
            self._ask_aside(set())
            self._help(free)
            return
        for token in helpers[: max(0, len(waiting) - len(free) - soon_free)]:  # their devices are wanted
            self._end(token, self._jobs[token])
        now = time.time()
        held = self.store.last_held(run.owner for run in waiting) | {job.owner: now for job in self._jobs.values()}
        lane, soon = self.store.last_lane(), len(free) + len(helpers) + soon_free
        jobs = [job for job in self._jobs.values() if job.can_step_aside()]
        jobs.sort(key=lambda job: (not job.solves, job.began))  # who is between layers soonest, then who began first
        running = [schedule.Waiting(job.run_id, job.owner, now, goes_on=True) for job in jobs]
        self._ask_aside(schedule.steps_aside(waiting, soon, running, now, held, lane))
        for start in schedule.decide(waiting, free, now, held, lane):
            self._start(start)

    def _ask_aside(self, run_ids: set[str]) -> None:
        """Ask these runs to step aside, and take the wish back from all others."""
        for token, job in self._jobs.items():
            if job.can_step_aside() and job.is_asked != (job.run_id in run_ids):
                job.is_asked = not job.is_asked
                self.workers.step_aside(token, job.is_asked)

    def _help(self, free: Sequence[str]) -> None:
        """Let free devices help, each with the run that has the fewest workers of those that can be shared."""
        workers = Counter(job.run_id for job in self._jobs.values())
        shared = [job for job in self._jobs.values() if job.is_shared and not job.ended and job.kill_at is None]
        for device in free if shared else ():
            job = min(shared, key=lambda one: workers[one.run_id])
            try:
                token, _ = self.workers.start(self.store.get(job.run_id), device, helps=True)
            except (NotFound, OSError, RuntimeError):
                log.warning("nothing helps with run %s on %s", job.run_id, device, exc_info=True)
                return
            self._jobs[token] = _Job(job.run_id, job.owner, device, began=self._clock(), helps=True)
            workers[job.run_id] += 1

    def _start(self, start: schedule.Start) -> None:
        try:
            run = self.store.move(start.run_id, State.RUNNING, device=start.device)
        except (NotFound, Conflict):  # cancelled, perhaps deleted, since the question was asked
            return
        try:
            token, pid = self.workers.start(run, start.device)
        except (OSError, RuntimeError) as error:  # no memory, no process, no thread left
            with logs.about(run=run.id, owner=run.owner):
                log.exception("no worker could be started")
            lost = WorkerLost(f"no worker process could be started: {error}", start.device, "Try again.")
            self.store.move(run.id, State.FAILED, Failed(**lost.parts()))
        else:
            self._jobs[token] = _Job(run.id, run.owner, start.device, began=self._clock(), lane=run.lane)
            self.store.set_process(run.id, pid)
            with logs.about(run=run.id, owner=run.owner):
                log.info("attempt %d begins on %s", run.attempt, start.device)
        self.bell.ring(run.id, ALL_RUNS)

    def _wind_down(self, deadline: float) -> bool:
        """Ask all workers to stop, kill the slow ones at the deadline; return whether none is left."""
        now = self._clock()
        for token, job in self._jobs.items():
            if job.kill_at is None:
                job.kill_at = deadline
                if not job.ended:
                    self.workers.ask_to_stop(token)
            elif now >= deadline:
                self.workers.kill(token)
        unheard = {message.token for message in self._pending if isinstance(message, Gone)}  # on a full disk
        return self._jobs.keys() <= unheard


def _kept(run: Run) -> str:
    """Return the kept results, in words."""
    if not run.total:
        return "It had not solved a layer yet."
    return f"{run.done} of {run.total} layers are kept."
