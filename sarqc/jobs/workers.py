"""Workers: the processes that own a device and do the work. One run, one process; one process at a time per device.

A process is a plain ``python -m sarqc.jobs.child`` and not a ``multiprocessing`` one, because that would import the
app's own main module again in each child, with all of Gradio. It has a session of its own, so that Ctrl-C in the
terminal does not reach it and SIGKILL reaches whatever it started. Job and events are JSON lines: nothing that could
be executed crosses the boundary.
"""

import itertools
import json
import logging
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

from sarqc.errors import Refused
from sarqc.events import Event, Failed, Warned, from_json
from sarqc.jobs.exports import checkpoint_name
from sarqc.jobs.process import IN_ORDER, STEP_ASIDE, Process
from sarqc.jobs.run import Run
from sarqc.settings import Settings

EXECUTE = "sarqc.engine.execute:execute"
EVENT_BYTES = 16 << 20  # the longest line of a worker
RUN_BYTES = 128 << 20  # of all that a worker says in an attempt
WARM_SECONDS = 600.0  # how long a process waits, imports done, for a run that doesn't come

CHILD = "sarqc.jobs.child"  # what a worker process runs

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Device:
    """A device for workers: ``id`` in PyTorch's words, ``name`` for people."""

    id: str
    name: str


@dataclass(frozen=True)
class Said:
    """A worker yielded an event. ``token`` is what ``start`` returned."""

    token: int
    event: Event


@dataclass(frozen=True)
class Gone:
    """The last message of a worker: its process has ended."""

    token: int
    returncode: int

    def words(self) -> str:
        if self.returncode >= 0:
            return f"exit code {self.returncode}"
        with suppress(ValueError):
            return f"signal {-self.returncode} ({signal.Signals(-self.returncode).name})"
        return f"signal {-self.returncode}"


Message = Said | Gone


class Workers(Protocol):
    """Needs of the supervisor of workers, wherever they are.

    ``deliver`` is called from any thread, for each worker in the order of its events, whose values are plain JSON (see
    ``sarqc.plain``); ``Gone`` comes exactly once, after everything else, and only then is the device free.
    """

    @property
    def devices(self) -> tuple[Device, ...]:
        """Devices that there are now: they may come and go."""

    def start(self, run: Run, device: str, *, helps: bool = False) -> tuple[int, int]:
        """Begin a run on a free device; returns its token and its process id. Raise ``OSError``.

        ``helps``: another worker does the run. This one does a share of the same work, and its last word ends nothing.
        """

    def ask_to_stop(self, token: int) -> None:
        """SIGTERM: the run ends with ``Cancelled`` as soon as Python gets a word in. Harmless on one that is gone."""

    def step_aside(self, token: int, aside: bool) -> None:
        """Ask that the run end with ``Yielded`` where nothing is lost by that, see ``sarqc.jobs.preemption``; perhaps
        it never comes there. ``aside``: False takes the wish back. Harmless on one that is gone.
        """

    def kill(self, token: int) -> None:
        """SIGKILL for the process and everything it started. Harmless on one that is gone."""

    def silent_seconds(self, token: int) -> float:
        """Return the seconds without a sign of life; 0 for a worker that is gone, or whose words nobody has taken."""

    def end_leftover(self, pid: int) -> None:
        """End a worker of an earlier app, if that is what the process is: one that is stopped did not see its end."""

    def warm_up(self) -> None:
        """Prepare for a run that is likely to come soon."""

    def cool_down(self) -> None:
        """End warm processes that stayed unused; called now and then."""

    def close(self) -> None:
        """Kill remaining processes and wait for their end."""


class _Worker:
    """A process of this host and the thread that reads what it says."""

    def __init__(self, process: Process, device: str, clock: Callable[[], float]) -> None:
        self.process, self.device, self._clock = process, device, clock
        self.born = self._heard = clock()
        self._is_delivering = False

    @property
    def pid(self) -> int:
        return self.process.pid

    def run(self, token: int, job: dict[str, Any], deliver: Callable[[Message], None]) -> None:
        """Hand over the job and begin to listen."""
        self._heard = self._clock()
        threading.Thread(target=self._listen, args=(token, deliver), name=f"worker-{token}", daemon=True).start()
        self.process.give(job)  # where it died while it waited, the listener says so

    def silent_seconds(self) -> float:
        return 0.0 if self._is_delivering else self._clock() - self._heard

    def _listen(self, token: int, deliver: Callable[[Message], None]) -> None:
        size = 0
        while line := self.process.channel.readline(EVENT_BYTES):
            self._heard = self._clock()
            size += len(line)
            if len(line) >= EVENT_BYTES or size > RUN_BYTES:
                deliver(Said(token, _TOO_MUCH))
                self.process.kill()
                break
            if line == b"\n":
                continue
            try:
                event = from_json(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:  # half a line from a killed process, or a strange event
                log.warning("worker %s: unreadable line %r (%r)", token, line[:200], error)
                event = Warned(f"the worker said something unreadable: {type(error).__name__}", "worker")
            # This may take long; meanwhile the worker waits for the app and not the other way round.
            self._is_delivering = True
            deliver(Said(token, event))
            self._heard, self._is_delivering = self._clock(), False
        returncode = self.process.end()
        self.process.close()
        deliver(Gone(token, returncode))


_TOO_MUCH = Failed(
    "limit",
    f"the run said more than is kept: {EVENT_BYTES >> 20} MiB in one event, or {RUN_BYTES >> 20} MiB in all",
    "worker",
    "Ask for fewer or shorter texts, or for fewer layers.",
)


class LocalWorkers:
    """Workers on this host: one device, one process. See ``Workers`` for the contract.

    ``execute`` names the function that does the work as “module:name”; tests put a short one there. ``clock`` counts
    seconds and never goes back. Raises ``Refused`` as ``find_devices``.
    """

    def __init__(
        self,
        settings: Settings,
        deliver: Callable[[Message], None],
        *,
        execute: str = EXECUTE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._deliver, self._execute, self._clock = settings, deliver, execute, clock
        self._tokens = itertools.count(1)
        self._running: dict[int, _Worker] = {}
        self._warm: dict[str, _Worker] = {}
        self._mutex = threading.Lock()
        self.devices = find_devices(settings)

    def _spawn(self) -> Process:
        """Start a process without a job. Raises ``OSError``."""
        return Process(CHILD, [self._execute])

    def start(self, run: Run, device: str, *, helps: bool = False) -> tuple[int, int]:
        with self._mutex:
            worker = self._warm.pop(device, None)
            if worker is None or not worker.process.alive():
                worker = _Worker(self._spawn(), device, self._clock)
            token = next(self._tokens)
            self._running[token] = worker
        worker.run(token, self._job(run, device, helps), self._on_message)
        return token, worker.pid

    def _job(self, run: Run, device: str, helps: bool) -> dict[str, Any]:
        """Return what a worker is given, as JSON."""
        together = run.format is None and run.recipe.get("kind", "run") != "run"  # by as many as there may be
        return {
            "run_id": run.id,
            "study_id": run.id,
            "attempt": run.attempt,
            "recipe": run.recipe,
            "settings": self._settings.model_copy(update={"device": device}).model_dump(mode="json"),
            "log": str(log_path(self._settings, run.id)),
            "checkpoint": None if run.format is None else checkpoint_name(run),
            "format": run.format,
            "crew": max(1, len(self.devices)) if together else 1,
            "helps": helps,
        }

    def ask_to_stop(self, token: int) -> None:
        if worker := self._running.get(token):
            worker.process.ask_to_stop()

    def step_aside(self, token: int, aside: bool) -> None:
        if worker := self._running.get(token):
            worker.process.give({STEP_ASIDE: aside})

    def kill(self, token: int) -> None:
        if worker := self._running.get(token):
            worker.process.kill()

    def silent_seconds(self, token: int) -> float:
        worker = self._running.get(token)
        return worker.silent_seconds() if worker else 0.0

    def end_leftover(self, pid: int) -> None:
        with self._mutex:
            if any(pid == worker.pid for worker in (*self._running.values(), *self._warm.values())):
                return  # the number has come round to a worker of this app
        with suppress(psutil.Error, ProcessLookupError, PermissionError):
            is_ours = any(word.startswith("sarqc.") for word in psutil.Process(pid).cmdline())  # python -m sarqc.…
            if is_ours and os.getpgid(pid) == pid:
                os.killpg(pid, signal.SIGKILL)

    def warm_up(self) -> None:
        """Start a process with the slow imports on the first device without one."""
        with self._mutex:
            busy = {worker.device for worker in self._running.values()} | self._warm.keys()
            for device in self.devices:
                if device.id not in busy:
                    self._warm[device.id] = _Worker(self._spawn(), device.id, self._clock)
                    return

    def cool_down(self) -> None:
        with self._mutex:
            old = [key for key, worker in self._warm.items() if self._clock() - worker.born > WARM_SECONDS]
            workers = [self._warm.pop(key) for key in old]
        for worker in workers:
            worker.process.dismiss()

    def close(self) -> None:
        with self._mutex:
            warm, self._warm = list(self._warm.values()), {}
            running = list(self._running.values())
        for worker in warm:
            worker.process.dismiss()
        for worker in running:
            worker.process.kill()
        for worker in running:
            worker.process.end()

    def _on_message(self, message: Message) -> None:
        if isinstance(message, Gone):
            with self._mutex:
                self._running.pop(message.token, None)
        self._deliver(message)


def log_path(settings: Settings, run_id: str) -> Path:
    """Return the log file of a run's worker."""
    return settings.resolved_state_dir() / "logs" / f"{run_id}.log"


def find_devices(settings: Settings) -> tuple[Device, ...]:
    """Return the devices that ``settings.device`` means on this host, without importing torch in this process.

    Raises ``Refused`` when it asks for CUDA and there is none.
    """
    requested = settings.device
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", requested):
        raise Refused(f"no device “{requested}”", "SARQC_DEVICE", "Set it to auto, cpu, cuda or cuda:N.")
    has_none = requested == "cpu" or (requested == "auto" and not _may_have_cuda())
    devices = () if has_none else tuple(device for device in _ask_torch() if requested in ("auto", "cuda", device.id))
    if requested in ("auto", "cuda"):  # a run takes the GPUs that follow its own
        groups = [devices[first : first + settings.span] for first in range(0, len(devices), settings.span)]
        devices = tuple(Device(group[0].id, _together(group)) for group in groups)
    if devices:
        return devices
    if requested in ("auto", "cpu"):
        return (Device("cpu", _processor()),)
    remedy = "Set it to auto or cpu, or install a driver and a PyTorch with CUDA."
    raise Refused(f"PyTorch sees no {requested} device", "SARQC_DEVICE", remedy)


def _together(group: Sequence[Device]) -> str:
    return group[0].name if len(group) == 1 else f"{len(group)} × {group[0].name}"


def _may_have_cuda() -> bool:
    """Return whether it is worth seconds to ask: drivers leave one of these behind (NVIDIA, WSL, AMD)."""
    nodes = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
    return any(map(os.path.exists, nodes)) or shutil.which("nvidia-smi") is not None


_QUESTION = (
    "import json, torch; c = torch.cuda;"
    "print(json.dumps([c.get_device_name(i) for i in range(c.device_count())] if c.is_available() else []))"
)


def _ask_torch() -> tuple[Device, ...]:
    """Return the CUDA devices, asked in a process of its own: this one never gets a CUDA context."""
    try:
        answer = subprocess.run(
            [sys.executable, "-c", _QUESTION],
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            env=IN_ORDER | os.environ,
        )
        names = json.loads(answer.stdout.strip().splitlines()[-1]) if answer.returncode == 0 else []
        if answer.returncode:
            log.warning("asking PyTorch for devices failed: %s", answer.stderr.strip()[-500:])
    except (subprocess.TimeoutExpired, OSError, ValueError, IndexError) as error:
        log.warning("asking PyTorch for devices failed: %r", error)
        names = []
    return tuple(Device(f"cuda:{index}", name) for index, name in enumerate(names))


def _processor() -> str:
    """Return what the CPU calls itself."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
