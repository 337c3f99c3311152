"""A worker on a node of a Ray cluster: an actor that has a device of the node, and a worker process on it.

The process is the same as on the app's own host, so that it stops, is killed and dies in the same ways. Its events and
its log are fetched by its relay (``sarqc.extras.cluster.ray_relay``), in order, and each part again until it has
arrived.
"""

import json
import queue
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sarqc.errors import Refused
from sarqc.files.places import MARK, place_at
from sarqc.jobs.process import Process

WAIT_SECONDS = 0.5  # for the next line
PART_BYTES = 1 << 20
WAITING = 1000  # lines; when there are more the process waits


@dataclass(frozen=True)
class Part:
    """A part of a process's output. ``returncode``: its exit code, with the last part."""

    lines: bytes
    log: bytes
    returncode: int | None


@dataclass(frozen=True)
class Begun:
    """Where a worker is, and the parts of a refusal."""

    host: str
    refused: dict[str, str] | None


class NodeWorker:
    """The actor. Several of its methods may run at once; ``listen`` is called by one caller, one call at a time."""

    def __init__(self, execute: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="sarqc-worker-")
        self._log = Path(self._folder.name) / "log"
        self._log_read = 0
        self._lines: queue.Queue[bytes | None] = queue.Queue(WAITING)
        self._number, self._part = 0, Part(b"", b"", None)
        self._process = Process("sarqc.jobs.child", [execute])
        self._guard = _Guard(self._process.pid)
        self._has_begun = False
        threading.Thread(target=self._read, name="reader", daemon=True).start()

    def begin(self, job: dict[str, Any]) -> Begun:
        """Hand over the job, unless this host does not see the app's storage. Harmless when it is called again."""
        if refused := _check_storage(job["settings"]["storage"], job["mark"]):
            return Begun(_host(), refused.parts())
        if not self._has_begun:
            self._has_begun = True
            texts = self._log.with_name("texts")
            self._process.give(job | {"log": str(self._log), "texts_dir": str(texts)})
        return Begun(_host(), None)

    def listen(self, number: int) -> Part:
        """Return the part of this number, which is the last one again or the one after it."""
        if number > self._number:
            self._number, self._part = number, self._next()
        return self._part

    def tell(self, line: bytes) -> None:
        """Pass on a line of the app that follows the job."""
        self._process.give(json.loads(line))

    def ask_to_stop(self) -> None:
        self._process.ask_to_stop()

    def kill(self) -> None:
        self._process.kill()

    def _read(self) -> None:
        for line in self._process.channel:
            self._lines.put(line)
        self._lines.put(None)

    def _next(self) -> Part:
        lines, size, returncode = [], 0, None
        try:
            line = self._lines.get(timeout=WAIT_SECONDS)
            while True:
                if line is None:
                    self._guard.dismiss()  # while the number is still that of the process
                    returncode = self._process.end()
                    break
                lines.append(line)
                size += len(line)
                if size >= PART_BYTES:
                    break
                line = self._lines.get_nowait()
        except queue.Empty:
            pass
        printed = self._read_log(PART_BYTES if returncode is None else -1)
        if returncode is not None:
            self._folder.cleanup()
        return Part(b"".join(lines), printed, returncode)

    def _read_log(self, limit: int) -> bytes:
        """Return what the process has printed since, up to a number of bytes; -1: all of it."""
        try:
            with self._log.open("rb") as file:
                file.seek(self._log_read)
                part = file.read(limit)
        except FileNotFoundError:
            return b""
        self._log_read += len(part)
        return part


class _Guard:
    """A shell that ends a process group when the actor has gone without a word.

    A process that is stopped can't see that its actor is gone; and Ray ends what an actor has started, but not what
    that has started, so the shell is not a child of the actor.
    """

    _SCRIPT = 'exec 3<&0; (read -r line <&3 || kill -s KILL -- "-$1") &'

    def __init__(self, group: int) -> None:
        command = ["/bin/sh", "-c", self._SCRIPT, "guard", str(group)]
        self._shell = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        self._shell.wait()

    def dismiss(self) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(b"it has ended\n")
        self._shell.stdin.close()


def _host() -> str:
    """Return this host's address and node in Ray."""
    import ray

    node: str = ray.get_runtime_context().get_node_id()
    return f"{ray.util.get_node_ip_address()} (node {node[:8]})"


def _check_storage(storage: str, mark: str) -> Refused | None:
    """Return why this host does not share the storage of the app; None where it does."""
    try:
        seen = place_at(storage).read(MARK)
    except OSError:
        seen = None
    except Refused as error:
        return Refused(f"on a host of the cluster, {_host()}, {error.what}", error.where, error.remedy)
    if seen == mark.encode():
        return None
    return Refused(
        f"a host of the cluster, {_host()}, does not see {storage} as the app does",
        "SARQC_STORAGE",
        "Set it to a folder that all hosts of the cluster share under the same path, or to object storage.",
    )
