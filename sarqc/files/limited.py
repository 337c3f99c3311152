"""Work on files from outside, in a process of its own within limits: whatever such a file asks for, only that ends.

``python -m sarqc.files.limited MODULE:FUNCTION SECONDS BYTES`` gives the bytes of its standard input to a function and
writes the bytes that it returns to standard output. A refusal goes there as JSON, and the exit code is ``REFUSED``.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress

from sarqc.errors import Refused, SarqcError, from_parts
from sarqc.files.memory import free_memory

GIB = 1 << 30
REFUSED = 3  # exit code
WAITS = 10  # times its limit of processor time that a process may take on a host that is busy
_SHARE = 4  # of the free memory, one in so many bytes
_NICENESS = 5  # pages and other plans come first
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_KEPT_NAMES = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")


class Exhausted(Refused):
    """A process that reached a limit or failed; ``what`` is the last line that it wrote to standard error."""


def answer_of(function: str, request: bytes, *, cpu_seconds: int, memory: int = GIB) -> bytes:
    """Return the answer of a function to a request, computed in a process of its own.

    Args:
        function: Module and name of a function from bytes to bytes, with a colon between.
        request: What it is given.
        cpu_seconds: Seconds of processor time that it may take.
        memory: Bytes that the process may write to; of more than 1 GiB no more than a quarter of what is free.

    Raises:
        SarqcError: As raised by the function.
        Exhausted: At a limit, or if it fails otherwise.
    """
    most = min(memory, max(GIB, free_memory() // _SHARE))
    environment = {name: os.environ[name] for name in _KEPT_NAMES if name in os.environ} | {
        "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path),
        "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "sarqc.files.limited", function, str(cpu_seconds), str(most)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, process_group=0,
    )  # fmt: skip
    try:
        answer, words = process.communicate(request, timeout=WAITS * cpu_seconds)
    except subprocess.TimeoutExpired:
        raise Exhausted(f"it took more than {WAITS * cpu_seconds} s") from None
    finally:
        with suppress(ProcessLookupError):  # with whatever it started
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    if process.returncode == REFUSED:
        error = json.loads(answer)
        raise from_parts(error["kind"], error["what"], error["where"], error["remedy"])
    if process.returncode:
        raise Exhausted((words.decode(errors="replace").strip().splitlines() or ["it was ended at a limit"])[-1])
    return answer


def main(function: str, cpu_seconds: str, memory: str) -> None:
    """Answer one request within limits of seconds and bytes, and end with the process that asked."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(_NICENESS)
    # Bytes that can be written to, and not all addresses: libraries of GPUs map gigabytes that nobody touches.
    resource.setrlimit(resource.RLIMIT_DATA, (int(memory),) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no part of the answer
    module, _, name = function.partition(":")
    code = 0
    try:
        answer = getattr(importlib.import_module(module), name)(sys.stdin.buffer.read())
    except SarqcError as error:
        answer, code = json.dumps(error.parts()).encode(), REFUSED
    with os.fdopen(answers, "wb") as file:
        file.write(answer)
    sys.exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
