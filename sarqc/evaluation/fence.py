"""The fence around one program: run as a script by ``sandbox.py``, with the standard library only.

Reads a JSON object on standard input (the program, its limits, what it may see) and prints one on standard output:
{"status", "timed_out", "tail"} of the program, or {"broken"} saying what this host does not allow. Three processes:
this one keeps the time and is not reachable from inside; its child is process 1 of the new namespaces, makes the root
folder and ends everything inside with itself; the program is that one's child.

Linux 5.12 or newer. As root the namespaces are made as root and the program gets a user of its own; as anybody else
they belong to a new user namespace. Either way the program has no privileges and can't regain any.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import sys
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
# Of the kernel's headers; the same on every architecture.
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
MNT_DETACH, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 2, -100, 0x8000, 1
SYS_MOUNT_SETATTR = 442
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38

TAIL = 4096  # bytes of the program's errors that are kept
PASSED = 111  # exit status of a program that came to its end: one that leaves early with 0 has not
# As a module of another name, so that what stands under ``if __name__ == "__main__"`` does not run.
RUN = (
    "import os\n"
    "with open('program.py', encoding='utf-8') as file: source = file.read()\n"
    "exec(compile(source, 'program.py', 'exec'), {'__name__': 'program'})\n"
    f"os._exit({PASSED})\n"
)


def call(what: str, *arguments: object) -> None:
    """One function of the C library that returns 0; raises ``OSError`` with its name else."""
    if getattr(LIBC, what)(*arguments) != 0:
        raise OSError(f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind, options)]
    call("mount", *encoded[:3], ctypes.c_ulong(flags), encoded[3])


def main() -> None:
    asked = json.loads(sys.stdin.buffer.read())
    try:
        init = enter(asked)
    except OSError as error:
        return answer(broken=str(error))
    ended = select.select([os.pidfd_open(init)], [], [], asked["wall_seconds"])[0]
    if not ended:
        os.kill(init, signal.SIGKILL)  # and with process 1 all that it holds
        answer(timed_out=True, status=0, tail="")
    os.waitpid(init, 0)


def enter(asked: dict[str, Any]) -> int:
    """The new namespaces, with their process 1 at work; its id."""
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
    """A root folder that holds what a Python needs, read-only, and ``/program``: small, writable, soon gone."""
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
    """Runs the program and waits for it, keeping the end of what it writes to standard error."""
    errors, written = os.pipe()
    program = os.fork()
    if program == 0:
        try:
            become(asked, owner, written)
        except (OSError, ValueError) as error:
            os.write(written, f"the program could not be started: {error}".encode())
        finally:
            os._exit(1)
    os.close(written)
    ended = os.pidfd_open(program)
    watched, tail = [errors, ended], b""
    while True:
        ready = select.select(watched, [], [])[0]
        part = os.read(errors, 1 << 16) if errors in ready else b""  # a pipe holds no more than that
        tail = (tail + part)[-TAIL:]
        if ended in ready:  # what it started may write for ever
            break
        if not part:
            watched = [ended]
    _, status, used = os.wait4(program, 0)
    code, spent = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
    late = code == -signal.SIGXCPU or (code == -signal.SIGKILL and spent >= asked["cpu_seconds"])
    return {"status": code, "timed_out": late, "tail": tail.decode("utf-8", "replace")}


def become(asked: dict[str, Any], owner: int, errors: int) -> None:
    """Turns this process into the program: limits, no privileges, no open files but its three streams."""
    if os.getuid() == 0:
        os.setresgid(owner, owner, owner)
        os.setresuid(owner, owner, owner)  # takes every capability away; elsewhere the exec below does
    call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    with open("program.py", "w", encoding="utf-8") as file:
        file.write(asked["source"])
    nowhere = os.open("/dev/null", os.O_RDWR)
    for stream, source in ((0, nowhere), (1, nowhere), (2, errors)):
        os.dup2(source, stream)
    for name, most in (
        ("CPU", asked["cpu_seconds"]),
        ("AS", asked["memory_bytes"]),
        ("FSIZE", asked["disk_bytes"]),
        ("NPROC", asked["processes"]),
        ("NOFILE", asked["files"]),
        ("CORE", 0),
    ):
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        above = most + 1 if name == "CPU" and hard == resource.RLIM_INFINITY else most  # ended by SIGXCPU, then SIGKILL
        resource.setrlimit(kind, (most, above))
    environment = {"HOME": "/program", "TMPDIR": "/program", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    os.execve(asked["python"], [asked["python"], "-I", "-c", RUN], environment)


def answer(**said: object) -> None:
    os.write(1, json.dumps(said).encode() + b"\n")


if __name__ == "__main__":
    main()
