"""The worker process: ``python -m sarqc.jobs.child FD MODULE:FUNCTION``.

It reads one line of JSON from its standard input, the job, runs it, writes each event as a line of JSON to the file
descriptor FD, and ends. It never opens the database. A thread writes an empty line each second: a sign of life, which
a process that is stopped or stuck does not give and one that computes does. Four things end it early:

* SIGTERM raises ``Stop`` in the main thread, wherever that is: also in the middle of a layer. It is no ``Exception``,
  so no handler on the way takes it for an error; ``finally`` clauses run, and the last line says ``cancelled``.
* Its standard input closes when the app is gone, however it went. A thread waits for that, from the first moment on,
  and ends the whole process group, so that nothing is left behind that nobody listens to.
* SIGKILL, after which there is no last line; the app draws its conclusion from that.
* A further line that asks it to step aside, which it does between layers: see ``sarqc.jobs.preemption``. The last
  line says ``yielded``. Another such line takes the wish back.

On a full disk the last line says ``yielded`` too, and that the run waits for room.
"""

import importlib
import json
import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, BinaryIO

from sarqc import logs
from sarqc.errors import SarqcError, disk_full
from sarqc.events import Cancelled, Event, Failed, Finished, Saved, Started, Warned, Yielded
from sarqc.files.kept_out import without_paths, without_secrets
from sarqc.files.room import WAITS, met_full_disk
from sarqc.jobs.checkpoint_files import note_files
from sarqc.jobs.preemption import Boundaries
from sarqc.jobs.process import STEP_ASIDE
from sarqc.plain import plain
from sarqc.recipe import Recipe
from sarqc.settings import Settings

NICENESS = 5  # the pages answer first: on a small host both share the same two cores
HEARTBEAT_SECONDS = 1.0

log = logging.getLogger("sarqc.worker")

Execute = Callable[..., Generator[Event, None, None]]


class Stop(BaseException):
    """A request to end this run."""


class Switch:
    """Turns the first SIGTERM into ``Stop``; later ones change nothing, so that cleaning up is not interrupted."""

    def __init__(self) -> None:
        self.asked = False
        self._held = False
        signal.signal(signal.SIGTERM, self._handle)

    def _handle(self, number: int, frame: object) -> None:
        first, self.asked = not self.asked, True
        if first and not self._held:
            raise Stop

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay ``Stop``: what is written in here is written whole. ``check`` afterwards catches up."""
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def check(self) -> None:
        """Raise ``Stop`` if it was asked for: while held, or inside a finaliser, where Python drops exceptions."""
        if self.asked:
            raise Stop


class Wish:
    """The app's wish that this run step aside, by its last line about it."""

    def __init__(self, lines: SimpleQueue[bytes]) -> None:
        self._lines, self._is_there = lines, False

    def is_there(self) -> bool:
        while not self._lines.empty():
            self._is_there = bool(json.loads(self._lines.get())[STEP_ASIDE])
        return self._is_there


class Channel:
    """The channel to the app: one JSON line per event, and empty lines in between."""

    def __init__(self, descriptor: int, switch: Switch) -> None:
        os.set_inheritable(descriptor, False)  # a process started by the run must not keep the channel open
        self._file: BinaryIO = os.fdopen(descriptor, "wb")
        self._switch = switch
        self._mutex = threading.Lock()

    def beat(self) -> None:
        """Write signs of life until the app is gone; for a thread of its own."""
        with suppress(BrokenPipeError):
            while True:
                self._write(b"\n")
                time.sleep(HEARTBEAT_SECONDS)

    def send(self, event: Event) -> None:
        line = json.dumps(plain(event.to_json()), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        with self._switch.held():
            self._write(line)

    def _write(self, line: bytes) -> None:
        with self._mutex:
            self._file.write(line)
            self._file.flush()


def main() -> None:
    """Run the process and leave by ``os._exit``: tearing down CUDA may hang, and all is said by then."""
    os.nice(NICENESS)
    os.umask(0o077)
    switch = Switch()
    channel = Channel(int(sys.argv[1]), switch)
    threading.Thread(target=channel.beat, name="heartbeat", daemon=True).start()
    lines, began = lines_of_the_app(), time.monotonic()
    job: dict[str, Any] = {}
    try:
        try:
            function = _load(sys.argv[2])  # heavy imports happen now, perhaps before there is a job
            loaded = time.monotonic() - began
            job = json.loads(lines.get())
            write_log_to(Path(job["log"]), Settings(**job["settings"]))
            with logs.about(run=job["run_id"]):
                _run(function, job, channel, switch, Wish(lines), loaded)
        except Stop:
            channel.send(Cancelled())
        except Exception as error:  # the boundary of the process: the app must hear of any error
            channel.send(_final_event(error, job))
    except BrokenPipeError:
        os._exit(1)  # the app is gone
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _final_event(error: Exception, job: Mapping[str, Any]) -> Event:
    """Return the last event of a run that could not go on. One that met a full disk waits for room, unless it was its
    own files that took it: those of an export, which go with it.
    """
    if met_full_disk(error):
        log.warning("the disk is full")
        if job and job["checkpoint"] is None:
            return Yielded(WAITS, waits_for_room=True)
        return Failed(**disk_full().parts())
    log.error("the run has failed", exc_info=error)
    if not isinstance(error, SarqcError):
        what = without_secrets(without_paths(f"{type(error).__name__}: {error}"[:500], Settings().folders()))
        error = SarqcError(what, "worker", "The log of this run has the details.")
    return Failed(**error.parts())


def _run(
    function: Execute | ImportError,
    job: dict[str, Any],
    channel: Channel,
    switch: Switch,
    wish: Wish,
    start_seconds: float,
) -> None:
    """Relay the generator's events. ``Finished`` must be among them, unless the run steps aside."""
    if isinstance(function, ImportError):
        raise function
    settings, recipe = Settings(**job["settings"]), Recipe.parse(job["recipe"])
    log.info("it begins")
    boundaries = Boundaries(recipe.to_method().unit, start_seconds)
    events = function(recipe, settings, **_output(job, settings))
    finished = aside = False
    try:
        for event in events:
            if isinstance(event, Finished) and job["checkpoint"] is not None:
                note_files(settings.exports_dir() / job["checkpoint"])
            if isinstance(event, Saved):  # pages do not show where on this host
                event = Saved(event.what, Path(event.path).name)
            channel.send(event)
            _note(event)
            finished = finished or isinstance(event, Finished)
            if not finished:
                switch.check()
            if boundaries.is_one(event) and wish.is_there():
                aside = True
                break
    finally:
        events.close()  # after which everything is stored
    if aside:
        log.info("it steps aside")
        channel.send(Yielded("The run stepped aside."))
        return
    if not finished:
        raise RuntimeError("the run ended without a result")


def _note(event: Event) -> None:
    """Log what matters of an event; of most events nothing."""
    match event:
        case Started():
            log.info("it works on %s, %d layers", event.device, len(event.layers))
        case Warned():
            log.warning("%s", event.what)
        case Finished():
            log.info("finished after %.1f s", event.seconds)


def _output(job: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the destinations for ``execute``: of a run its study, of an export its checkpoint, in a clean folder. A
    worker that helps with the run of another one writes nothing."""
    crew = {"crew": job["crew"]} if job["crew"] > 1 else {}
    if job["helps"]:
        return crew
    if job["checkpoint"] is None:
        return crew | {"study_dir": settings.studies_dir(), "study_id": job["study_id"]}
    target = settings.exports_dir() / job["checkpoint"]
    shutil.rmtree(target.parent, ignore_errors=True)  # left by an earlier attempt that was killed
    return {"checkpoint_dir": target, "checkpoint_format": job["format"]}


def _load(path: str) -> Execute | ImportError:
    """Return the function behind “module:name”, after the module's ``warm_up()`` if it has one: imports that it puts
    off.

    A failing import is kept for the job to report: nobody listens yet.
    """
    name, _, function = path.partition(":")
    try:
        module = importlib.import_module(name)
        if hasattr(module, "warm_up"):
            module.warm_up()
        execute: Execute = getattr(module, function)
        return execute
    except ImportError as error:
        log.exception("%s can't be imported", name)
        return error


def lines_of_the_app() -> SimpleQueue[bytes]:
    """Return the lines of the standard input, which is the lifeline too: this process ends when it closes."""
    lifeline = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # nothing in a run may read the lifeline, nor wait for a keyboard
    lines: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_watch, args=(lifeline, lines), name="lifeline", daemon=True).start()
    return lines


def _watch(lifeline: int, lines: SimpleQueue[bytes]) -> None:
    """Pass on the lines that the app writes, of which the first is the job, and end everything when it is gone."""
    with os.fdopen(lifeline, "rb") as app:
        for line in app:
            lines.put(line)
    if os.getpgrp() == os.getpid():  # else it was started by hand, from a shell's group
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def write_log_to(path: Path, settings: Settings) -> None:
    """Send everything printed from here on to the log of the run; a further attempt appends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
    logs.configure(settings)


if __name__ == "__main__":
    main()
