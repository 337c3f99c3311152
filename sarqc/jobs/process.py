"""A worker process from its parent's side: start, job, messages, stop and end."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

EXIT_SECONDS = 5.0  # how long a process may take to end after its last word
STEP_ASIDE = "step_aside"  # key of a message after the job: whether the run should step aside
IN_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}  # as nvidia-smi counts, of which plans ask memory


class Process:
    """``python -m MODULE FD ARGUMENTS`` with a session of its own, a pipe to its standard input and one from FD.

    Raises ``OSError``.
    """

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        read_end, write_end = os.pipe()
        try:
            self._popen = subprocess.Popen(
                [sys.executable, "-P", "-u", "-m", module, str(write_end), *arguments],
                stdin=subprocess.PIPE,
                pass_fds=(write_end,),
                start_new_session=True,
                # Threads that spin while they wait would starve the pages, and each other, on a small host.
                env={"OMP_WAIT_POLICY": "PASSIVE"}
                | IN_ORDER
                | os.environ
                | {"PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path)},
            )
        except OSError:
            os.close(read_end)
            raise
        finally:
            os.close(write_end)
        self.pid = self._popen.pid
        self.channel = os.fdopen(read_end, "rb")

    def give(self, document: Mapping[str, Any]) -> None:
        """Send the job, or a later message, as one line, unless the process is gone."""
        with suppress(BrokenPipeError, ValueError):  # the latter of a pipe that is closed
            assert self._popen.stdin is not None
            self._popen.stdin.write(json.dumps(document).encode() + b"\n")
            self._popen.stdin.flush()

    def alive(self) -> bool:
        return self._popen.poll() is None

    def ask_to_stop(self) -> None:
        self._popen.send_signal(signal.SIGTERM)  # does nothing once the process has been waited for

    def kill(self) -> None:
        """Kill the process and everything it started."""
        if self.alive():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def end(self) -> int:
        """Wait a little for the end, then enforce it; return the exit code."""
        try:
            return self._popen.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._popen.wait()

    def dismiss(self) -> None:
        """End a process that has nothing to clean up."""
        self.kill()
        self.end()
        self.close()

    def close(self) -> None:
        """Close both pipes."""
        self.channel.close()
        with suppress(BrokenPipeError):
            assert self._popen.stdin is not None
            self._popen.stdin.close()
