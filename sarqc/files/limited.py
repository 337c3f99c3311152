"""Work on files from outside, in a process of its own within limits, which ends alone whatever a file does.

``python -m sarqc.files.limited MODULE:FUNCTION SECONDS BYTES`` gives the bytes of its standard input to a function and
writes the bytes that it returns to standard output. An error for people goes there as JSON: its class, what, where, and
the remedy; the exit code is ``REFUSED`` then.
"""

import ctypes
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from contextlib import suppress

from sarqc import errors
from sarqc.errors import Refused, SarqcError, disk_error
from sarqc.files.memory import free_memory, release_freed

GIB = 1 << 30
REFUSED = 3  # exit code
WAITS = 10  # times its limit of processor time that a process may take on a host that is busy
POLL_SECONDS = 0.5  # between two looks whether the answer is still wanted
_SHARE = 4  # of the free memory, one in so many bytes
_NICENESS = 5  # pages and other plans come first
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "TMPDIR")


class Exhausted(Refused):
    """A process that reached a limit or failed; ``what`` is the last line that it wrote to standard error."""


def answer_of(
    function: str, request: bytes, *, cpu_seconds: int, memory: int = GIB, unwanted: threading.Event | None = None
) -> bytes:
    """Return the answer of a function to a request, computed in a process of its own.

    Args:
        function: Module and name of a function from bytes to bytes, with a colon between.
        request: What it is given.
        cpu_seconds: Seconds of processor time that it may take.
        memory: Bytes that the process may write to; of more than 1 GiB no more than a quarter of what is free.
        unwanted: Set when nobody waits for the answer any more, which ends the process.

    Raises:
        SarqcError: As raised by the function.
        Exhausted: At a limit, or if it fails otherwise.
    """
    most = min(memory, max(GIB, free_memory() // _SHARE))
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {
        "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "sarqc.files.limited", function, str(cpu_seconds), str(most)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        process_group=0,
    )
    ended = threading.Event()
    if unwanted is not None:
        threading.Thread(target=_end_unwanted, args=(process, unwanted, ended), daemon=True).start()
    try:
        # In one call: a second one after a timeout would not write the rest of the request.
        answer, words = process.communicate(request, timeout=WAITS * cpu_seconds)
    except subprocess.TimeoutExpired:
        raise Exhausted(f"it took more than {WAITS * cpu_seconds} s") from None
    finally:
        ended.set()
        _kill(process)
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        release_freed()  # each thread's heap would keep what the largest file took
    if unwanted is not None and unwanted.is_set():
        raise Exhausted("nobody waits for it")
    if process.returncode == REFUSED:
        kind, *parts = json.loads(answer)
        raise getattr(errors, kind)(*parts)
    if process.returncode:
        raise Exhausted((words.decode(errors="replace").strip().splitlines() or ["it was ended at a limit"])[-1])
    return answer


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _end_unwanted(process: subprocess.Popen[bytes], unwanted: threading.Event, ended: threading.Event) -> None:
    while not ended.is_set():
        if unwanted.wait(POLL_SECONDS) and not ended.is_set():
            _kill(process)
            return


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
    except (SarqcError, OSError) as error:
        refusal = error if isinstance(error, SarqcError) else disk_error(error)
        if refusal is None:
            raise
        kind = next(kind.__name__ for kind in type(refusal).__mro__ if hasattr(errors, kind.__name__))
        answer, code = json.dumps([kind, refusal.what, refusal.where, refusal.remedy]).encode(), REFUSED
    with os.fdopen(answers, "wb") as file:
        file.write(answer)
    sys.exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
