"""Kills a process -9 right before one of its system calls, counted among those that change something outside it.

ptrace(2) stops the process, all threads of it, at each call. Processes that it starts live on: they die of nothing when
their parent is killed. On x86-64 alone, whose registers this reads.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

from support.forked import ended, fork

TRACEME, PEEKDATA, PEEKUSER, SYSCALL, SETOPTIONS = 0, 2, 3, 24, 0x4200
SYSGOOD, TRACE_CLONE, EXIT_KILL = 0x1, 0x8, 0x100000
WALL = 0x40000000
ORIG_RAX, RSI, RDX, RDI = (8 * place for place in (15, 13, 12, 14))
"""Where a stopped process's registers are (struct user, <sys/user.h>)."""

ALWAYS = {
    1: "write", 18: "pwrite64", 20: "writev", 46: "sendmsg", 56: "clone", 57: "fork", 58: "vfork", 62: "kill",
    77: "ftruncate", 82: "rename", 83: "mkdir", 84: "rmdir", 86: "link", 87: "unlink", 88: "symlink", 165: "mount",
    166: "umount2", 258: "mkdirat", 263: "unlinkat", 264: "renameat", 285: "fallocate", 316: "renameat2",
    424: "pidfd_send_signal", 435: "clone3",
}  # fmt: skip
"""Calls that change something, by number (arch/x86/entry/syscalls/syscall_64.tbl)."""

OPENAT, SENDTO, IOCTL = 257, 44, 16
SIOCETHTOOL, ETHTOOL_SFEATURES = 0x8946, 0x3B
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def killed(work: Callable[[], object], at: int) -> str | None:
    """Do the work in a process that dies before its call number `at`; the call's name, None when it ended before.

    Raises AssertionError when the work fails.
    """
    read, write = os.pipe()
    # The tracer waits for any process: in a process of its own, that is the traced one alone.
    tracer = fork(lambda: os.write(write, (_traced(work, at) or "").encode()))
    os.close(write)
    with os.fdopen(read) as pipe:
        name = pipe.read()
    assert ended(tracer) == 0, "the work failed"
    return name or None


def _traced(work: Callable[[], object], at: int) -> str | None:
    def stopped() -> None:
        _ptrace(TRACEME, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        work()

    process = fork(stopped)
    os.waitpid(process, WALL)
    _ptrace(SETOPTIONS, process, 0, SYSGOOD | TRACE_CLONE | EXIT_KILL)
    _ptrace(SYSCALL, process, 0, 0)
    return _watch(process, at)


def _watch(process: int, at: int) -> str | None:
    seen, inside = 0, set[int]()
    while True:
        thread, status = os.waitpid(-1, WALL)
        if not os.WIFSTOPPED(status):
            if thread == process:
                assert os.waitstatus_to_exitcode(status) == 0, f"the work ended with {status}"
                return None
            continue
        passed_on = 0
        if os.WSTOPSIG(status) == signal.SIGTRAP | 0x80:
            inside ^= {thread}
            if thread in inside and (name := _changes(thread)):
                if seen == at:
                    os.kill(process, signal.SIGKILL)
                    _reap(process)
                    return name
                seen += 1
        elif os.WSTOPSIG(status) not in (signal.SIGTRAP, signal.SIGSTOP):
            passed_on = os.WSTOPSIG(status)
        _ptrace(SYSCALL, thread, 0, passed_on)


def _reap(process: int) -> None:
    """Until the whole process is gone: its locks and sockets go last."""
    while True:
        thread, status = os.waitpid(-1, WALL)
        if thread == process and not os.WIFSTOPPED(status):
            return


def _changes(thread: int) -> str | None:
    """The name of the call that the thread is about to make; None when it changes nothing outside the process."""
    number = _register(thread, ORIG_RAX)
    if number == OPENAT:
        return "open" if _register(thread, RDX) & (os.O_CREAT | os.O_TRUNC) else None
    if number == SENDTO:  # a request of rtnetlink that only reads is RTM_GET...: 16 + 4n + 2
        kind = _memory(thread, _register(thread, RSI)) >> 32 & 0xFFFF
        return None if 16 <= kind < 256 and kind % 4 == 2 else "sendto"
    if number == IOCTL and _register(thread, RSI) == SIOCETHTOOL:  # struct ifreq: a name of 16 bytes, then a pointer
        command = _memory(thread, _memory(thread, _register(thread, RDX) + 16)) & 0xFFFFFFFF
        return "ethtool" if command == ETHTOOL_SFEATURES else None
    return ALWAYS.get(number)


def _register(thread: int, place: int) -> int:
    return _ptrace(PEEKUSER, thread, place, 0)


def _memory(thread: int, address: int) -> int:
    return _ptrace(PEEKDATA, thread, address, 0)


def _ptrace(request: int, process: int, address: int, data: int) -> int:
    ctypes.set_errno(0)
    answer = int(_libc.ptrace(request, process, address, data))
    if answer == -1 and (code := ctypes.get_errno()):
        raise OSError(code, os.strerror(code))
    return answer & (1 << 64) - 1
