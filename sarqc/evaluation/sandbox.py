"""Programs that a model wrote, each run in bubblewrap: no network, none of the host's files, bounded.

A program and its tests are two interpreters (``inside.py``), each in a bubblewrap of its own, so that a program can't
pass its tests but by its answers. Bubblewrap makes the namespaces and a root folder with nothing but Python's files,
read-only. The kernel limits each process; the memory of all together and the number of files are watched from outside,
and a program can exceed them between two looks. The kernel is the host's: it is a fence against accidents and curiosity
of a program, not a proof against an attacker who knows a hole in the kernel.
"""

import ctypes
import errno
import functools
import itertools
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from sarqc.errors import Refused
from sarqc.evaluation.inside import ENDED

_INSIDE = Path(__file__).with_name("inside.py")
_AT_ONCE = 4  # programs
_TAIL = 4096  # bytes of the program's errors that are kept
_WATCH_SECONDS = 0.02
_MOST_FILES = 1000  # an empty one takes a kilobyte of the kernel's memory, which no limit counts
_JAILS = itertools.count(os.getpid())
# Fails where it reaches something: tried once, so that a host is never just believed to isolate.
_TRIAL = (
    "import os, socket\n"
    "assert [name for _, name in socket.if_nameindex()] == ['lo'], 'the network is reachable'\n"
    "assert os.getuid() != 0 and not os.access('/usr', os.W_OK), 'files outside can be written'\n"
    "assert not os.path.exists('/proc/self'), 'other processes are visible'\n"
)
# Memory that belongs to no process, namespaces, in which a process has every capability, and parts of the kernel that
# no test needs and in which holes have been.
_DENIED = (
    "memfd_create",
    "shmget",
    "msgget",
    "semget",
    "io_uring_setup",
    "unshare",
    "setns",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "open_by_handle_at",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "add_key",
    "request_key",
    "keyctl",
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
    files: int = 64  # open ones


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
    ours, theirs = socket.socketpair()
    try:
        with (
            ours,
            theirs,
            _Jail({"tests": program.tests, "entry": program.entry}, limits, ours) as tests,
            _Jail({"program": program.source}, limits, theirs) as judged,
        ):
            return _judge(tests, judged, limits)
    except OSError as error:
        raise _cannot_isolate(str(error)) from None


def run_programs(programs: Sequence[Program | str], limits: Limits | None = None) -> list[ProgramResult]:
    """Run each program as ``run_program`` does, a few at once, and return the results in order."""
    with ThreadPoolExecutor(min(_AT_ONCE, os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda program: run_program(program, limits), programs))


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
    return Refused(
        f"this host can't isolate the programs that a model writes: {why}",
        "task humaneval",
        "Install bubblewrap 0.7 or newer (apt-get install bubblewrap) on a Linux that allows user namespaces, which "
        "containers usually forbid; else leave the task out.",
    )


class _Jail:
    """One of the two interpreters in its bubblewrap, and the end of what it writes to standard error."""

    def __init__(self, asked: dict[str, object], limits: Limits, channel: socket.socket) -> None:
        self.tail, self.has_started, self.is_open = b"", False, True
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as denied:
            given.write(json.dumps(asked | {"channel": channel.fileno()}).encode())
            given.seek(0)
            _write_filter(denied.fileno())
            denied.seek(0)
            self._process = subprocess.Popen(
                [
                    *_bubblewrap(limits, denied.fileno()),
                    os.path.abspath(sys.executable),
                    "-I",
                    "-c",
                    _INSIDE.read_text("utf-8"),
                ],
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                cwd="/",
                pass_fds=[denied.fileno(), channel.fileno()],
                env={"HOME": "/program", "TMPDIR": "/program", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            )
        channel.close()  # so that the other side notices the end of this one

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # and with bubblewrap all that it holds
        self._process.wait()
        os.close(self.fileno())

    def fileno(self) -> int:
        """Return the descriptor of its standard error."""
        assert self._process.stderr is not None
        return self._process.stderr.fileno()

    def read(self) -> None:
        """Read some of its standard error, or note its end."""
        part = os.read(self.fileno(), 1 << 16)
        self.is_open = bool(part)
        if not self.has_started and b"\0" in part:
            self.has_started, self.tail, part = True, b"", part.partition(b"\0")[2]
        self.tail = (self.tail + part)[-_TAIL:]

    def end(self) -> int:
        """Let it end within a second, or end it, and return its exit status."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)
        self._process.kill()
        while self.is_open:
            self.read()
        return self._process.wait()

    def memory(self) -> int:
        """Return the bytes that all its processes have in memory; pages in common count for each."""
        total, waiting = 0, [str(self._process.pid)]
        while waiting:
            process = Path("/proc", waiting.pop())
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                total += int((process / "statm").read_text().split()[1]) * resource.getpagesize()
                for thread in (process / "task").iterdir():
                    waiting += (thread / "children").read_text().split()
        return total

    def files(self) -> int:
        """Return the number of files in its working folder, deleted ones that are open included."""
        outer = self._process.pid
        with suppress(FileNotFoundError, ProcessLookupError, IndexError):  # it has ended meanwhile
            inner = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()[0]  # bubblewrap's own
            volume = os.statvfs(f"/proc/{inner}/root/program")
            return volume.f_files - volume.f_ffree if self.has_started else 0
        return 0


def _judge(tests: _Jail, judged: _Jail, limits: Limits) -> ProgramResult:
    began = time.monotonic()
    late = ProgramResult("timed out", f"more than {limits.cpu_seconds} s of CPU or {limits.wall_seconds:g} s in all")
    blamed, result = judged, None
    while tests.is_open and result is None:
        for jail in select.select([jail for jail in (tests, judged) if jail.is_open], [], [], _WATCH_SECONDS)[0]:
            jail.read()
        if time.monotonic() - began > limits.wall_seconds:
            result = late
        elif tests.memory() + judged.memory() > limits.memory_bytes:
            result = ProgramResult("out of memory", f"more than {limits.memory_bytes >> 20} MiB in all its processes")
        elif judged.files() > _MOST_FILES:
            result = ProgramResult("failed", f"more than {_MOST_FILES} files")
    if result is None:
        status = tests.end()
        if status == 0:
            return ProgramResult("passed")
        blamed = judged if status == ENDED else tests
        status = blamed.end()
        was_killed = status == 128 + signal.SIGKILL  # as bubblewrap says it
        was_late = was_killed and time.monotonic() - began >= limits.cpu_seconds
        result = late if was_late else _failure(status, blamed.tail.decode("utf-8", "replace").strip().splitlines())
    if not blamed.has_started:
        raise _cannot_isolate(blamed.tail.decode("utf-8", "replace").strip() or "bubblewrap did not start in time")
    return result


def _failure(status: int, lines: list[str]) -> ProgramResult:
    if status < 0:  # bubblewrap had to be ended
        return ProgramResult("failed", "the program broke off its talk with the tests")
    if status > 128:
        return ProgramResult(
            "out of memory" if status == 128 + signal.SIGKILL else "failed", f"ended by signal {status - 128}"
        )
    error = lines[-1][:200] if lines else f"it ended itself with status {status}"
    return ProgramResult("out of memory" if error.startswith("MemoryError") else "failed", error)


def _bubblewrap(limits: Limits, denied: int) -> list[str]:
    """Return the command that runs what follows in bubblewrap; under root as a user of its own.

    The kernel counts processes by user, and those of root have no limit.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise _cannot_isolate("bubblewrap (bwrap) is not installed")
    rights, become = ["--unshare-all", "--cap-drop", "ALL"], []
    if os.getuid() == 0:
        rights = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
        rights += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        user = str(50_000 + next(_JAILS) % 10_000)
        become = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]
    visible: list[str] = []
    devices = [("--dev-bind", f"/dev/{name}") for name in ("null", "zero", "urandom")]
    for option, path in [*(("--ro-bind-try", path) for path in _visible()), *devices]:
        for parent in reversed(Path(path).parents):  # of which bubblewrap would make some that root alone can enter
            visible += ["--dir", str(parent)]
        visible += [option, path, path]
    return [
        "choom",
        "-n",
        "1000",
        "--",  # where memory runs out, the kernel shall take these first
        program,
        *rights,
        "--die-with-parent",
        "--new-session",
        "--seccomp",
        str(denied),
        *visible,
        "--perms",
        "0777",
        "--size",
        str(limits.disk_bytes),
        "--tmpfs",
        "/program",
        "--chdir",
        "/program",
        "--remount-ro",
        "/",
        *become,
        "prlimit",
        f"--cpu={limits.cpu_seconds}",
        f"--as={limits.memory_bytes}",
        f"--fsize={limits.disk_bytes}",
        f"--nproc={limits.processes}",
        f"--nofile={limits.files}",
        "--core=0",
    ]


def _visible() -> list[str]:
    """Return the host's files that the program sees: libraries, this Python and its packages."""
    prefixes = [
        find(prefix) for prefix in (sys.base_prefix, sys.prefix) for find in (os.path.abspath, os.path.realpath)
    ]
    seen: list[str] = []
    for path in ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", *prefixes]:
        if not any(Path(path).is_relative_to(other) for other in seen):
            seen.append(path)
    return seen


def _write_filter(descriptor: int) -> None:
    """Write the filter of system calls that bubblewrap gives to the kernel; raises ``OSError`` without libseccomp."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(0x7FFF0000))  # allow what has no rule

    def deny(name: str, error: int, bit: int = 0) -> None:
        call, masked_equal = library.seccomp_syscall_resolve_name(name.encode()), 7
        condition = (ctypes.c_uint64 * 3)(masked_equal << 32, bit, bit)  # the first argument has the bit
        if library.seccomp_rule_add_array(rules, 0x50000 | error, call, int(bit > 0), condition) != 0:
            raise OSError(f"libseccomp has no rule for {name}")

    for name in _DENIED:
        deny(name, errno.EPERM)
    deny("clone", errno.EPERM, 0x10000000)  # for a user namespace
    deny("clone3", errno.ENOSYS)  # its flags can't be seen; the C library takes clone then
    if library.seccomp_export_bpf(rules, descriptor) != 0:
        raise OSError("libseccomp can't write its filter")
    library.seccomp_release(rules)
