"""The nodes of a Ray cluster: ``python -m sarqc.extras.cluster.ray_cluster FD ADDRESS`` names them to its caller.

A process of its own speaks with Ray, because Ray ends a process whose cluster is gone for good, and the app goes on.
"""

import json
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from sarqc.jobs.child import lines_of_the_app
from sarqc.jobs.process import Process

NAMESPACE = "sarqc"
CONNECT_SECONDS = 60.0  # within which a cluster has to answer when the app starts
EVERY_SECONDS = 1.0
SILENT_SECONDS = 20.0  # after which the last message is old
AGAIN_SECONDS = 5.0  # between two tries to connect

log = logging.getLogger(__name__)


def connect(address: str) -> None:
    """Make this process a driver of the cluster. Raise ``ConnectionError``, and whatever else Ray raises."""
    # For how long Ray lets a process live whose cluster does not answer: the lease of a worker ends earlier.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "86400")
    import ray

    ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)


class Cluster:
    """The present nodes of a cluster; ``changed`` is called from a thread when they change."""

    def __init__(self, address: str, changed: Callable[[], None]) -> None:
        self._address, self._changed = address, changed
        self._nodes: list[dict[str, Any]] = []
        self._heard_at = 0.0
        self._closing = threading.Event()
        self._process = self._start()
        self._first: queue.Queue[str | None] = queue.Queue()
        self._thread = threading.Thread(target=self._listen, name="ray-cluster", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> str | None:
        """Wait for the first answer; return what is wrong, None where nothing is."""
        try:
            return self._first.get(timeout=seconds)
        except queue.Empty:
            return f"it has not answered for {seconds:g} s"

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """Nodes alive: ``node``, ``address`` and ``resources``; none if the cluster is silent."""
        return [] if self.is_silent() else self._nodes

    def is_silent(self) -> bool:
        return time.monotonic() - self._heard_at > SILENT_SECONDS

    def close(self) -> None:
        self._closing.set()
        self._process.kill()
        self._thread.join()

    def _start(self) -> Process:
        return Process("sarqc.extras.cluster.ray_cluster", [self._address])

    def _listen(self) -> None:
        while True:
            problem: str | None = "the process that asks it has ended"
            while line := self._process.channel.readline():
                message = json.loads(line)
                problem = message.get("problem")
                if problem is None:
                    self._take(message["nodes"])
                self._first.put(problem)
            self._first.put(problem)
            self._process.dismiss()
            self._take([])
            if self._closing.is_set():
                return
            log.warning("the Ray cluster at %s: %s", self._address, problem)
            self._closing.wait(AGAIN_SECONDS)
            self._process = self._start()
            if self._closing.is_set():
                self._process.kill()

    def _take(self, nodes: list[dict[str, Any]]) -> None:
        self._heard_at = time.monotonic()
        if nodes != self._nodes:
            self._nodes = nodes
            self._changed()


class _Patience:
    """Ends this process when the cluster has not answered for long: Ray would ask again and again, as fast as it can.
    The caller starts another."""

    def __init__(self) -> None:
        self._answered = time.monotonic()
        threading.Thread(target=self._watch, name="patience", daemon=True).start()

    def answered(self) -> None:
        self._answered = time.monotonic()

    def _watch(self) -> None:
        while time.monotonic() - self._answered < SILENT_SECONDS:
            time.sleep(EVERY_SECONDS)
        os._exit(1)


def main() -> None:
    """Run the process, which ends with its listener."""
    lines_of_the_app()
    with os.fdopen(int(sys.argv[1]), "wb", buffering=0) as channel:
        try:
            connect(sys.argv[2])
            import ray

            patience = _Patience()
            while True:
                nodes = [
                    {"node": node["NodeID"], "address": node["NodeManagerAddress"], "resources": node["Resources"]}
                    for node in ray.nodes()
                    if node["Alive"]
                ]
                patience.answered()
                channel.write(json.dumps({"nodes": nodes}).encode() + b"\n")
                time.sleep(EVERY_SECONDS)
        except BrokenPipeError:
            pass
        except Exception as error:  # the operator hears whatever Ray reports
            channel.write(json.dumps({"problem": f"{type(error).__name__}: {error}"}).encode() + b"\n")
    os._exit(0)


if __name__ == "__main__":
    main()
