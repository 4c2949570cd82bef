"""Runs a program to which the kernel refuses what a service's unit may refuse; on the standard library alone.

`python3 refused_calls.py ptrace|memory PROGRAM...`: systemd makes the same seccomp filters of `SystemCallFilter` and of
`MemoryDenyWriteExecute`.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD, EQUAL, MASK, RETURN = 0x20, 0x15, 0x54, 0x06
"""Instructions of a filter (linux/bpf_common.h)."""
ALLOW, REFUSE = 0x7FFF0000, 0x00050001
"""SECCOMP_RET_ALLOW, and SECCOMP_RET_ERRNO with EPERM."""
MMAP, PTRACE, PROT = 9, 101, 32
"""Two system calls of x86-64, and where struct seccomp_data has the protection of a mapping."""
WRITE_AND_EXECUTE = 6

FILTERS = {
    "ptrace": ((LOAD, 0, 0, 0), (EQUAL, 0, 1, PTRACE), (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)),
    "memory": (
        (LOAD, 0, 0, 0), (EQUAL, 0, 4, MMAP), (LOAD, 0, 0, PROT), (MASK, 0, 0, WRITE_AND_EXECUTE),
        (EQUAL, 0, 1, WRITE_AND_EXECUTE), (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW),
    ),
}  # fmt: skip


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def refuse(what: str) -> None:
    """Refuse it to this process and all that it starts."""
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in FILTERS[what])
    buffer, libc = ctypes.create_string_buffer(code), ctypes.CDLL(None, use_errno=True)
    program = Program(len(FILTERS[what]), ctypes.addressof(buffer))
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0


if __name__ == "__main__":
    refuse(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
