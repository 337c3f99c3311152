"""Programs that a model wrote, each run in a process of its own: no network, none of the host's files, bounded.

``fence.py`` makes the isolation from Linux's own means: new mount, process and network namespaces, a root folder with
nothing but Python's files, read-only, a filter of system calls, and limits. Tests run in an interpreter of their own
behind the same fence, so that a program can't pass them but by its answers. The kernel is the host's: it is a fence
against accidents and curiosity of a program, not a proof against an attacker who knows a hole in the kernel.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sarqc.errors import Refused

_FENCE, _INSIDE = (Path(__file__).with_name(name) for name in ("fence.py", "inside.py"))
_AT_ONCE = 4  # programs
_STARTING_SECONDS = 10  # more than the program's own time, before the fence itself counts as lost
_REMEDY = (
    "It takes Linux 5.12 or newer, an ordinary user and user namespaces, which containers usually forbid. "
    "Else leave the task out."
)

Result = Literal["passed", "failed", "timed out", "out of memory"]


@dataclass(frozen=True)
class Limits:
    """Limits of one program: CPU time, address space and the size of a file per process, the rest for all together."""

    cpu_seconds: int = 5
    wall_seconds: float = 20.0
    memory_bytes: int = 1 << 30  # of address space, and in memory of all processes together
    disk_bytes: int = 16 << 20  # of its working folder, which lies in memory
    processes: int = 16  # threads count
    files: int = 64


@dataclass(frozen=True)
class ProgramResult:
    """Result of a program; ``error`` is its last line at standard error, or the reason of its end."""

    result: Result
    error: str = ""


@dataclass(frozen=True)
class Program:
    """Source that is not trusted, and tests that are: they define ``check``, which gets the program's ``entry``.

    Arguments and answers cross from one interpreter to the other by value, as plain data: numbers, text, bytes and
    containers of them. Without tests “passed” means only that the program itself claims to have reached its last line.
    """

    source: str
    tests: str = ""
    entry: str = ""


def run_program(program: Program | str, limits: Limits | None = None) -> ProgramResult:
    """Run Python source to its last line in a fresh process, then its tests, and return the result.

    It sees the standard library and this environment's packages, an empty environment, a working folder of its own
    (deleted afterwards), no network, no other process and no other file of the host. A program that ends itself before
    its tests are over, with whatever status, has failed.

    Args:
        program: Source with tests, or source alone.
        limits: Limits of the program; None for the defaults.

    Raises:
        Refused: If the host can't isolate it; then nothing was run.
    """
    limits = limits or Limits()
    program = Program(program) if isinstance(program, str) else program
    asked = asdict(limits) | asdict(program) | {
        "python": os.path.abspath(sys.executable), "visible": _visible(), "inside": _INSIDE.read_text("utf-8"),
    }  # fmt: skip
    command = [sys.executable, "-I", "-S", str(_FENCE)]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(asked).encode(),
            capture_output=True,
            env={},
            cwd="/",
            start_new_session=True,
            timeout=limits.wall_seconds + _STARTING_SECONDS,
            check=False,
        )
        said = json.loads(done.stdout.split(b"\n")[0])
    except subprocess.TimeoutExpired:
        raise _cannot_isolate("the process around the program did not answer") from None
    except (OSError, ValueError) as error:
        raise _cannot_isolate(str(error)) from None
    if "broken" in said:
        raise _cannot_isolate(said["broken"])
    return _outcome(said, limits)


def run_programs(programs: Sequence[Program | str], limits: Limits | None = None) -> list[ProgramResult]:
    """Run each program as ``run_program`` does, a few at once, and return the results in order."""
    with ThreadPoolExecutor(min(_AT_ONCE, os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda program: run_program(program, limits), programs))


# Fails wherever it can reach something: tried once, so that a host is never believed to isolate.
_TRIAL = """
import errno, os, socket
try:
    socket.create_connection(("127.0.0.1", 9), 1)
except OSError as error:
    assert error.errno == errno.ENETUNREACH, "the network is reachable"
else:
    raise AssertionError("the network is reachable")
assert not os.path.exists("/proc/self"), "other processes are visible"
assert not os.access("/usr", os.W_OK) and not os.access("/", os.W_OK), "files outside can be written"
assert os.getuid() != 0, "it is root"
import ctypes
assert ctypes.CDLL(None).unshare(0) == -1, "system calls are not denied"
"""


@functools.cache
def require_isolation() -> None:
    """Check once a process that a program really runs in isolation on this host.

    Raises:
        Refused: If it does not.
    """
    outcome = run_program(_TRIAL)
    if outcome.result != "passed":
        raise _cannot_isolate(outcome.error)


def _cannot_isolate(why: str) -> Refused:
    return Refused(f"this host can't isolate the programs that a model writes: {why}", "task humaneval", _REMEDY)


def _outcome(said: dict[str, Any], limits: Limits) -> ProgramResult:
    if said["passed"]:
        return ProgramResult("passed")
    if said["timed_out"]:
        return ProgramResult(
            "timed out", f"more than {limits.cpu_seconds} s of CPU or {limits.wall_seconds:g} s in all"
        )
    if said["out_of_memory"]:
        return ProgramResult("out of memory", f"more than {limits.memory_bytes >> 20} MiB in all its processes")
    status, lines = said["status"], said["tail"].strip().splitlines()
    error = lines[-1][:200] if lines else f"it ended itself with status {status}"
    if status < 0:
        error = f"ended by signal {-status}"
    return ProgramResult("out of memory" if error.startswith("MemoryError") or status == -9 else "failed", error)


def _visible() -> list[tuple[str, str]]:
    """Host files that the program sees, as (real path, path): libraries, this Python and its packages, devices."""
    paths = ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/urandom"]
    prefixes = [
        find(prefix) for prefix in (sys.base_prefix, sys.prefix) for find in (os.path.abspath, os.path.realpath)
    ]
    seen: list[tuple[str, str]] = []
    for path in [*paths, *prefixes]:
        inside = any(path == other or path.startswith(f"{other}/") for _, other in seen)
        if os.path.exists(path) and not inside:
            seen.append((os.path.realpath(path), path))
    return seen
