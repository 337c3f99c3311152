"""System calls that a program behind the fence does not get: a filter of the kernel, set before the program begins.

The denied calls lead into parts of the kernel that no Python program of a test needs and in which holes have been: new
namespaces, mounts, io_uring, bpf, keys, performance counters, other processes' memory, and memory that belongs to no
process. With the standard library only: ``fence.py`` has nothing else.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

# Names in the order of their numbers, by architecture: x86_64, aarch64. Both have the same from 424 on.
_DENIED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224),
    "swapoff": (168, 225), "acct": (163, 89), "quotactl": (179, 60), "syslog": (103, 116), "personality": (135, 92),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "memfd_create": (319, 279), "shmget": (29, 194),
    "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180), "vmsplice": (278, 75),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "mount_setattr": (442, 442), "quotactl_fd": (443, 443), "memfd_secret": (447, 447), "statmount": (457, 457),
    "listmount": (458, 458), "open_tree_attr": (467, 467),
}  # fmt: skip
_CLONE, _CLONE3 = (56, 220), 435
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NEW_NAMESPACES = 0x7E020080  # the flags of clone for namespaces of every kind
_X32 = 0x40000000  # numbers from here on are a second set of calls on x86_64

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000  # SECCOMP_RET_…
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # of classic BPF
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # bytes into struct seccomp_data, little-endian


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def deny_system_calls() -> None:
    """Deny the calls to this process and all that it starts, for ever; needs PR_SET_NO_NEW_PRIVS.

    Raises:
        OSError: If the kernel has no such filter or the architecture is not known here.
    """
    machine = os.uname().machine
    if machine not in _AUDIT_ARCH:
        raise OSError(f"seccomp: the system calls of {machine} are not known here")
    code = b"".join(_instructions(machine))
    libc = ctypes.CDLL(None, use_errno=True)
    program = _Program(len(code) // 8, code)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(f"seccomp: {os.strerror(ctypes.get_errno())}")


def _instructions(machine: str) -> list[bytes]:
    which = list(_AUDIT_ARCH).index(machine)
    deny, absent = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    code = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, _AUDIT_ARCH[machine], 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, _X32, 0, 1),
        _step(_RETURN, _KILL),
        _step(_EQUAL, _CLONE3, 0, 1),
        _step(_RETURN, absent),  # its flags can't be seen; the C library takes clone then
    ]
    for numbers in _DENIED.values():
        code += [_step(_EQUAL, numbers[which], 0, 1), _step(_RETURN, deny)]
    code += [
        _step(_EQUAL, _CLONE[which], 0, 3),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_ANY_BIT, _NEW_NAMESPACES, 0, 1),
        _step(_RETURN, deny),
    ]
    return [*code, _step(_RETURN, _ALLOW)]


def _step(operation: int, value: int, jump_true: int = 0, jump_false: int = 0) -> bytes:
    return struct.pack("<HBBI", operation, jump_true, jump_false, value)
