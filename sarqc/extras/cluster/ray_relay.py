"""A run on a Ray cluster as a process of the app's host.

``python -m sarqc.extras.cluster.ray_relay FD MODULE:FUNCTION ADDRESS``

It is to its app what ``sarqc.jobs.child`` is: the same job on its standard input, the same lines on FD, the same end.
An actor on a node (``sarqc.extras.cluster.ray_node``) does the work, and this process is the driver that owns it: when
it ends, however it went, Ray ends the actor. It gives a sign of life for each that the worker gives, and while it waits
for a place; where a node is silent it is silent too. A lost node is said as ``Interrupted``.
"""

import json
import os
import secrets
import signal
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any, BinaryIO

from sarqc.errors import SarqcError, WorkerLost
from sarqc.events import Cancelled, Event, Failed, Finished, Interrupted
from sarqc.extras.cluster.ray_cluster import connect
from sarqc.extras.cluster.ray_node import NodeWorker, Part
from sarqc.extras.cluster.transit import Transit
from sarqc.jobs.child import lines_of_the_app, write_log_to
from sarqc.settings import Settings

WAIT_SECONDS = 0.5


class _Withdrawn(Exception):
    """The run was asked to stop before it had a worker."""


class Relay:
    """One run on the cluster: its actor, its output, a request to stop, and ``lines`` from the app."""

    def __init__(self, channel: BinaryIO, execute: str, lines: SimpleQueue[bytes]) -> None:
        self._channel, self._execute, self._lines = channel, execute, lines
        self._telling: Any = None  # the line that is on its way
        self._stop = threading.Event()
        self._is_asked = False
        self._worker: Any = None
        self._place = ""  # the host that the worker is on
        self._transit: Transit | None = None
        self._results: Path | None = None  # the folder that is brought back

    def ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal."""
        self._stop.set()

    def say(self, event: Event) -> None:
        self._channel.write(json.dumps(event.to_json(), ensure_ascii=False).encode() + b"\n")

    def run(self) -> int:
        """Do the job of the first line on the cluster; return the exit code of the worker's process."""
        import ray
        from ray.exceptions import RayActorError

        job = json.loads(self._lines.get())
        write_log_to(Path(job["log"]), Settings(**job["settings"]))
        name = _name(job)
        try:
            if job["transit"] is not None:
                job["way"] = name
                self._transit = Transit(job["settings"]["storage"], name)
                self._transit.send_texts(map(Path, job["texts"]))
                self._results = None if job["helps"] else Path(job["results"])
            self._worker = _actor(job, name, self._execute)
            begun = self._answer(self._worker.begin, job, idle=b"\n")
            if begun.refused is not None:
                self.say(Failed(**begun.refused))
                return 0
            self._place = begun.host
            print(f"the worker is on {self._place}", flush=True)
            return self._relay()
        except _Withdrawn:
            self.say(Cancelled())
        except RayActorError as error:
            print(f"the actor has ended: {error}", flush=True)
            self.say(self._loss(error))
        finally:
            if self._worker is not None:
                ray.kill(self._worker)
            if self._transit is not None:
                with suppress(SarqcError):  # what stays there harms nobody
                    self._transit.close()
        return 0

    def _relay(self) -> int:
        number = 0
        while True:
            number += 1
            part: Part = self._answer(self._worker.listen, number)
            if self._transit is not None and self._results is not None and _says_finished(part.lines):
                self._bring(self._transit, self._results)
            self._channel.write(part.lines)
            sys.stdout.buffer.write(part.log)
            sys.stdout.flush()
            if part.returncode is not None:
                return part.returncode

    def _bring(self, transit: Transit, folder: Path) -> None:
        """Fetch what the run has left, with signs of life meanwhile."""
        with ThreadPoolExecutor(1) as thread:
            arrival = thread.submit(transit.take_results, folder)
            while not wait([arrival], WAIT_SECONDS).done:
                self._channel.write(b"\n")
            arrival.result()

    def _answer(self, method: Any, *arguments: Any, idle: bytes = b"") -> Any:
        """Return the answer of a method of the actor, asked again where the way to it was cut for a while."""
        import ray
        from ray.exceptions import ActorUnavailableError, GetTimeoutError

        reference = method.remote(*arguments)
        while True:
            if self._stop.is_set() and not self._is_asked:
                if not self._place:
                    raise _Withdrawn
                self._is_asked = True
                self._worker.ask_to_stop.remote()
            self._pass_on()
            try:
                return ray.get(reference, timeout=WAIT_SECONDS)
            except GetTimeoutError:
                self._channel.write(idle)
            except ActorUnavailableError:
                time.sleep(WAIT_SECONDS)
                reference = method.remote(*arguments)

    def _pass_on(self) -> None:
        """Send the next line to the worker, one after the other."""
        import ray

        has_arrived = self._telling is None or ray.wait([self._telling], timeout=0)[0]
        if self._place and has_arrived and not self._lines.empty():
            self._telling = self._worker.tell.remote(self._lines.get())

    def _loss(self, error: Exception) -> Event:
        if self._place:
            return Interrupted(f"The worker on {self._place}, a host of the Ray cluster, was lost.")
        if "creation task" in str(error):
            what = f"no worker could be started on the Ray cluster: {str(error).strip().splitlines()[-1]}"
            remedy = "Install the same sarqc and Ray on all hosts of the cluster; the log has the details."
            return Failed(**WorkerLost(what, "Ray cluster", remedy).parts())
        return Interrupted("The Ray cluster lost the worker before it had begun.")


def _name(job: dict[str, Any]) -> str:
    """Return the name of a job's actor in Ray's lists and on its way through the storage."""
    return f"{job['run_id']}-{job['attempt']}{f'-{secrets.token_hex(4)}' if job['helps'] else ''}"


def _says_finished(lines: bytes) -> bool:
    """Return whether one of these lines of a worker says that its run is finished."""
    likely = [line for line in lines.splitlines(keepends=True) if b'"finished"' in line]  # the others may be long
    return any(line.endswith(b"\n") and json.loads(line)["type"] == Finished.type for line in likely)


def _actor(job: dict[str, Any], name: str, execute: str) -> Any:
    """Return the actor of a job, which waits in the cluster for its share of a node."""
    import ray

    settings = job["settings"]
    return (
        ray.remote(NodeWorker)
        .options(
            name=name,
            num_cpus=settings["ray_cpus"],
            num_gpus=0 if settings["device"] == "cpu" else settings["span"],
            max_restarts=0,
            max_concurrency=4,
        )
        .remote(execute)
    )


def main() -> None:
    """Run the process, which ends as the worker's did."""
    os.umask(0o077)
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    channel = os.fdopen(descriptor, "wb", buffering=0)
    relay = Relay(channel, sys.argv[2], lines_of_the_app())
    signal.signal(signal.SIGTERM, relay.ask_to_stop)
    returncode = 0
    try:
        try:
            connect(sys.argv[3])
            signal.signal(signal.SIGTERM, relay.ask_to_stop)  # Ray has a handler of its own
            returncode = relay.run()
        except SarqcError as error:
            traceback.print_exc()
            relay.say(Failed(**error.parts()))
        except ConnectionError as error:
            relay.say(Interrupted(f"The Ray cluster does not answer: {error}."))
        except Exception as error:  # the boundary of the process: the app must hear of any error
            traceback.print_exc()
            what, remedy = f"{type(error).__name__}: {str(error)[:500]}", "The log of this run has the details."
            relay.say(Failed(**WorkerLost(what, "Ray cluster", remedy).parts()))
    except BrokenPipeError:
        os._exit(1)  # the app is gone
    sys.stdout.flush()
    sys.stderr.flush()
    if returncode < 0:
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-returncode, signal.SIG_DFL)
        os.kill(os.getpid(), -returncode)
    os._exit(returncode)


if __name__ == "__main__":
    main()
