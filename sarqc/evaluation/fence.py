"""The fence around one program: run as a script by ``sandbox.py``, with the standard library only.

Reads a JSON object on standard input (the program, its tests, its limits, its visible files) and prints one on standard
output: {"passed", "status", "timed_out", "out_of_memory", "tail"}, or {"broken"} with the reason why this host can't
isolate it. Four processes: this one keeps the time and watches the memory, and is not reachable from inside; its child
is process 1 of the new namespaces, makes the root folder and ends everything inside with itself; the program and its
tests are that one's children, each an interpreter of its own, and their conversation is in ``inside.py``.

Linux 5.12 or newer. As root the namespaces are made as root and the program gets a user of its own; as any other user
they belong to a new user namespace. Either way the program has no privileges and can't regain any, and the calls in
``system_calls.py`` are denied to it, among them those for further namespaces.

Memory: each process has its bound of address space, and the memory of all processes inside is added up every
``WATCH_SECONDS``; above the bound all are ended. Pages that several have in common count for each. It takes no cgroup,
which an ordinary user could not write; a process can exceed the bound between two measurements.

Bubblewrap would make the namespaces and the root folder as well. But it can't limit the number of files in its tmpfs:
400,000 empty ones in a folder of 1 MiB took 400 MB of the kernel's memory, which no limit of a process counts
(bubblewrap 0.8, Linux 6.18). And it needs user namespaces even as root, which containers usually forbid.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sarqc.evaluation.system_calls import deny_system_calls
else:  # a script without the package around it
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from system_calls import deny_system_calls

LIBC = ctypes.CDLL(None, use_errno=True)
# Of the kernel's headers; the same on every architecture.
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
MNT_DETACH, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 2, -100, 0x8000, 1
SYS_MOUNT_SETATTR = 442
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38

TAIL = 4096  # bytes of the program's errors that are kept
WATCH_SECONDS = 0.02
END_SECONDS = 2.0  # for the program to end after its tests, or the tests after it
CHANNEL = 3  # the descriptor between the program and its tests; as in ``inside.py``
BROKEN_OFF = 3  # exit status of tests whose program went away; as in ``inside.py``


def call(what: str, *arguments: object) -> None:
    """Call a function of the C library that returns 0.

    Raises:
        OSError: Otherwise, with the name of the function.
    """
    if getattr(LIBC, what)(*arguments) != 0:
        raise OSError(f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mount a file system, as mount(2)."""
    encoded = [None if text is None else text.encode() for text in (source, target, kind, options)]
    call("mount", *encoded[:3], ctypes.c_ulong(flags), encoded[3])


def main() -> None:
    """Run the program of the request at standard input, and end it at its bounds."""
    asked = json.loads(sys.stdin.buffer.read())
    processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)  # of the host: inside there is none
    try:
        init = enter(asked)
    except OSError as error:
        return answer(broken=str(error))
    ended, end = os.pidfd_open(init), time.monotonic() + asked["wall_seconds"]
    while not select.select([ended], [], [], WATCH_SECONDS)[0]:
        too_late = time.monotonic() > end
        if too_late or memory_of(init, processes) > asked["memory_bytes"]:
            os.kill(init, signal.SIGKILL)  # and with process 1 all that it holds
            answer(passed=False, status=0, timed_out=too_late, out_of_memory=not too_late, tail="")
            break
    os.waitpid(init, 0)


def memory_of(process: int, processes: int) -> int:
    """Return the bytes that a process and all its descendants have in memory.

    Args:
        process: Its id.
        processes: Descriptor of the folder /proc.
    """
    total, waiting = 0, [str(process)]
    while waiting:
        name = waiting.pop()
        try:
            total += int(read(f"{name}/statm", processes).split()[1]) * resource.getpagesize()
            for thread in os.listdir(descriptor := os.open(f"{name}/task", os.O_RDONLY, dir_fd=processes)):
                waiting += read(f"{name}/task/{thread}/children", processes).split()
            os.close(descriptor)
        except (FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            continue
    return total


def read(path: str, folder: int) -> str:
    """Return the first 64 KiB of a file, by its path in an open folder."""
    descriptor = os.open(path, os.O_RDONLY, dir_fd=folder)
    try:
        return os.read(descriptor, 1 << 16).decode()
    finally:
        os.close(descriptor)


def enter(asked: dict[str, Any]) -> int:
    """Enter new namespaces, and return the id of their process 1, which is at work."""
    user, group = os.getuid(), os.getgid()
    namespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
    if user == 0:
        os.setgroups([])
        owner = 50_000 + os.getpid() % 10_000  # nobody's, and another one for each program: processes count by user
    else:
        namespaces |= CLONE_NEWUSER
        owner = user
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # where memory runs out, the kernel shall take these first
    call("unshare", namespaces)
    if user != 0:
        for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(line)
    init = os.fork()
    if init == 0:
        try:
            call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            make_root(asked, owner)
            answer(**judge(asked, owner))
        except OSError as error:
            answer(broken=str(error))
        finally:
            os._exit(0)
    return init


def make_root(asked: dict[str, Any], owner: int) -> None:
    """Make a root folder with the files that a Python needs, read-only, and a small writable ``/program`` in memory."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    os.mkdir("/tmp/.old")
    call("pivot_root", b"/tmp", b"/tmp/.old")
    os.chdir("/")
    for source, target in asked["visible"]:
        if os.path.isdir(f"/.old{source}"):
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            open(target, "a").close()
        mount(f"/.old{source}", target, None, MS_BIND | MS_REC)
    os.mkdir("/program")
    call("umount2", b"/.old", MNT_DETACH)
    os.rmdir("/.old")
    read_only = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    if LIBC.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, read_only, ctypes.sizeof(read_only)) != 0:
        raise OSError(f"mount_setattr: {os.strerror(ctypes.get_errno())}")
    group = owner if os.getuid() == 0 else os.getgid()
    options = f"size={asked['disk_bytes']},nr_inodes=1000,mode=700,uid={owner},gid={group}"
    mount("tmpfs", "/program", "tmpfs", MS_NOSUID | MS_NODEV, options)
    os.chdir("/program")


def judge(asked: dict[str, Any], owner: int) -> dict[str, Any]:
    """Run the program beside its tests, whose end decides, and keep the last lines of standard error of each."""
    ours, theirs = socket.socketpair()
    told, telling = os.pipe()
    # The tests first: the bound of processes counts them, whatever the program does at once.
    tests = Side(asked, owner, "tests", told, ours.fileno())
    program = Side(asked, owner, "program", os.open("/dev/null", os.O_RDONLY), theirs.fileno())
    ours.close()
    theirs.close()
    os.close(told)
    with open(telling, "wb") as file:
        file.write(json.dumps({"tests": asked["tests"], "entry": asked["entry"]}).encode())
    sides, end = (program, tests), None
    while tests.status is None or (tests.status == BROKEN_OFF and program.status is None):
        if end is None and (tests.status is not None or program.status is not None):
            end = time.monotonic() + END_SECONDS
        left = None if end is None else max(end - time.monotonic(), 0)
        watched = [descriptor for side in sides for descriptor in side.watched]
        ready = select.select(watched, [], [], left)[0]
        for side in sides:
            side.look(ready)
        if not ready and left == 0:
            break
    if tests.status == 0:
        return {"passed": True, "status": 0, "timed_out": False, "out_of_memory": False, "tail": ""}
    blamed = program if tests.status in (None, BROKEN_OFF) else tests
    tail = blamed.tail.decode("utf-8", "replace")
    late = program.late or tests.late
    return {"passed": False, "status": blamed.status or 0, "timed_out": late, "out_of_memory": False, "tail": tail}


class Side:
    """One of the two interpreters: its process, the end of its errors, and its exit status."""

    def __init__(self, asked: dict[str, Any], owner: int, role: str, standard_input: int, channel: int) -> None:
        self.tail = b""
        self.status: int | None = None  # as of ``waitstatus_to_exitcode``; None while it runs
        self.late = False  # ended by its limit of CPU time
        self._seconds = asked["cpu_seconds"]
        self._errors, written = os.pipe()
        started, starting = os.pipe()  # which the interpreter does not inherit
        self._process = os.fork()
        if self._process == 0:
            try:
                become(asked, owner, role, (standard_input, written, channel))
            except (OSError, ValueError) as error:
                os.write(written, f"the {role} could not be started: {error}".encode())
            finally:
                os._exit(1)
        os.close(written)
        os.close(starting)
        os.read(started, 1)  # nothing, once the interpreter runs as the other user, or could not be started
        os.close(started)
        self._ended = os.pidfd_open(self._process)
        self.watched = [self._errors, self._ended]

    def look(self, ready: list[int]) -> None:
        """Read the new output and the exit status, if there are any."""
        if self._errors in ready:
            part = os.read(self._errors, 1 << 16)  # a pipe holds no more than that
            self.tail = (self.tail + part)[-TAIL:]
            if not part:
                self.watched.remove(self._errors)
        if self._ended in ready:  # what it started may write for ever
            _, status, used = os.wait4(self._process, 0)
            code, spent = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
            self.late = code == -signal.SIGXCPU or (code == -signal.SIGKILL and spent >= self._seconds)
            self.status, self.watched = code, []


def become(asked: dict[str, Any], owner: int, role: str, descriptors: tuple[int, int, int]) -> None:
    """Turn this process into one of the two interpreters.

    It gets limits, no privileges, and no open files but its streams and the channel to the other.

    Args:
        asked: The request.
        owner: User id.
        role: ``program`` or ``tests``.
        descriptors: Standard input, errors, channel.
    """
    if os.getuid() == 0:
        os.setresgid(owner, owner, owner)
        os.setresuid(owner, owner, owner)  # takes every capability away; elsewhere the exec below does
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if role == "program":
        with open("program.py", "w", encoding="utf-8") as file:
            file.write(asked["source"])
    nowhere = os.open("/dev/null", os.O_RDWR)
    standard_input, errors, channel = (fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 10) for one in descriptors)
    for stream, source in ((0, standard_input), (1, nowhere), (2, errors), (CHANNEL, channel)):
        os.dup2(source, stream)
    for name, most in (
        ("CPU", asked["cpu_seconds"]),
        ("AS", asked["memory_bytes"]),
        ("FSIZE", asked["disk_bytes"]),
        ("NPROC", asked["processes"] + 1),  # the tests are a process of the same user
        ("NOFILE", asked["files"]),
        ("CORE", 0),
    ):
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        above = most + 1 if name == "CPU" and hard == resource.RLIM_INFINITY else most  # ended by SIGXCPU, then SIGKILL
        resource.setrlimit(kind, (most, above))
    environment = {"HOME": "/program", "TMPDIR": "/program", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    deny_system_calls()
    os.execve(asked["python"], [asked["python"], "-I", "-c", asked["inside"], role], environment)


def answer(**said: object) -> None:
    """Print the result as a line of JSON."""
    os.write(1, json.dumps(said).encode() + b"\n")


if __name__ == "__main__":
    main()
