"""Start a program that the host's kernel refuses every file except those it is given: Landlock (landlock(7)).

It needs no right. The file also runs by itself, on the standard library alone: `python3 -I -S landlock.py JOB`, where
JOB is the JSON of a `Job`. That process becomes the program; its parent may have threads and stays unrestricted.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntFlag
from pathlib import Path
from typing import NoReturn

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
PRCTL = 157
"""The system calls' numbers on x86-64, the lab's only architecture."""

_VERSION = 1
_PATH_BENEATH = 1
_SET_PDEATHSIG, _SET_NO_NEW_PRIVS = 1, 38
_NO_RANDOMIZE = 0x0040000

Syscall = Callable[..., int]
"""syscall(2): returns -1 and sets errno on failure."""


class Access(IntFlag):
    """What a rule allows beneath a path, in the kernel's bits."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


SINCE = {Access.REFER: 2, Access.TRUNCATE: 3, Access.IOCTL_DEV: 5}
"""The ABI that brought a right; the others are there from the first."""

OF_FILES = Access.EXECUTE | Access.WRITE_FILE | Access.READ_FILE | Access.TRUNCATE | Access.IOCTL_DEV
"""The rights that a rule for a file may carry: the kernel refuses the others."""

NETWORK_SINCE, SCOPES_SINCE = 4, 6
_TCP_BIND_AND_CONNECT = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11

READ = Access.READ_FILE | Access.READ_DIR
RUN = Access.READ_FILE | Access.EXECUTE
OVERWRITE = Access.READ_FILE | Access.WRITE_FILE | Access.TRUNCATE
CHANGE = (
    READ | OVERWRITE | Access.REMOVE_DIR | Access.REMOVE_FILE | Access.MAKE_DIR | Access.MAKE_REG | Access.MAKE_SOCK
    | Access.MAKE_FIFO | Access.MAKE_SYM | Access.REFER
)  # fmt: skip
"""Everything in a folder but to execute, to make devices, and ioctl(2) on those that are there."""


@dataclass(frozen=True)
class Job:
    """A program, and how to become it.

    `allowed` are the paths with their rights (`Access`) there and beneath; None: no Landlock. `cpu` pins it;
    `descriptors` are opened for reading and writing under their number. `parent` is the process with which it dies.
    """

    argv: Sequence[str]
    parent: int
    allowed: Mapping[str, int] | None
    cpu: int | None = None
    descriptors: Mapping[int, str] = field(default_factory=dict)

    def command(self) -> list[str]:
        """The command line that becomes the program."""
        return [sys.executable, "-I", "-S", str(Path(__file__)), json.dumps(asdict(self))]


def _syscall(*arguments: object) -> int:
    answer: int = _libc.syscall(*arguments)
    return answer


_libc = ctypes.CDLL(None, use_errno=True)


def abi(syscall: Syscall = _syscall) -> int:
    """The version of Landlock that this kernel has; 0 for none, or where it is switched off."""
    return max(0, syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION)))


def handled(version: int) -> Access:
    """Every right over files that an ABI can withhold."""
    return Access(sum(right for right in Access if SINCE.get(right, 1) <= version))


def ruleset(version: int) -> bytes:
    """struct landlock_ruleset_attr: all that is refused unless a rule allows it."""
    attribute = struct.pack("=Q", handled(version))
    if version >= NETWORK_SINCE:
        attribute += struct.pack("=Q", _TCP_BIND_AND_CONNECT)
    if version >= SCOPES_SINCE:
        attribute += struct.pack("=Q", _ABSTRACT_SOCKETS_AND_SIGNALS)
    return attribute


def restrict(allowed: Mapping[str, int], syscall: Syscall = _syscall) -> None:
    """Refuse this thread, and all that it starts, every file but those `allowed`. Raises OSError.

    A path that does not exist is left out. Without "no new privileges" the kernel wants a capability.
    """
    version = abi(syscall)
    attribute = ruleset(version)
    rules = _checked(syscall(CREATE_RULESET, attribute, ctypes.c_size_t(len(attribute)), ctypes.c_uint(0)), "create")
    try:
        for path, access in allowed.items():
            _allow(rules, path, Access(access) & handled(version), syscall)
        _checked(syscall(PRCTL, *map(ctypes.c_ulong, (_SET_NO_NEW_PRIVS, 1, 0, 0, 0))), "no new privileges")
        _checked(syscall(RESTRICT_SELF, ctypes.c_int(rules), ctypes.c_uint(0)), "restrict")
    finally:
        os.close(rules)


def _allow(rules: int, path: str, access: Access, syscall: Syscall) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not Path(f"/proc/self/fd/{beneath}").is_dir():
            access &= OF_FILES
        rule = struct.pack("=Qi", access, beneath)
        _checked(syscall(ADD_RULE, ctypes.c_int(rules), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint(0)), path)
    finally:
        os.close(beneath)


def _checked(answer: int, what: str) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock, {what}: {os.strerror(number)}")
    return answer


def become(job: Job) -> NoReturn:
    """Become the program: pinned, at fixed addresses where personality(2) may switch randomization off, restricted."""
    _libc.prctl(_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != job.parent:
        os._exit(1)  # it died before the kernel knew that we die with it
    if job.cpu is not None:
        os.sched_setaffinity(0, {job.cpu})
    for number, path in job.descriptors.items():
        opened = os.open(path, os.O_RDWR)
        os.dup2(opened, number, inheritable=True)
        os.close(opened)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and execve(2) would keep it so
        signal.signal(ignored, signal.SIG_DFL)
    now = _libc.personality(ctypes.c_ulong(0xFFFFFFFF))
    if now >= 0:
        _libc.personality(ctypes.c_ulong(now | _NO_RANDOMIZE))
    if job.allowed is not None:
        restrict(job.allowed)
    os.execv(job.argv[0], list(job.argv))


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    given["descriptors"] = {int(number): path for number, path in given["descriptors"].items()}
    become(Job(**given))
