"""System calls that Python has no function for, through the C library: what servers use and the lab must have."""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import time

_libc = ctypes.CDLL(None, use_errno=True)
_IO_URING_SETUP, _IO_URING_ENTER = 425, 426
_IO_SETUP, _IO_DESTROY, _IO_GETEVENTS, _IO_SUBMIT = 206, 207, 208, 209
_SQ_RING, _CQ_RING, _SQES = 0, 0x8000000, 0x10000000
_GETEVENTS = 1
READ, TIMEOUT = 22, 11
"""Operations of io_uring."""


def checked(answer: int) -> int:
    """The answer of a call of the C library. Raises OSError for -1."""
    if answer == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def call(name: str, *arguments: object) -> int:
    """A function of the C library by its name. Raises OSError."""
    return checked(getattr(_libc, name)(*arguments))


def syscall(number: int, *arguments: object) -> int:
    """A system call by its number. Raises OSError."""
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in (number, *arguments)]
    return checked(_libc.syscall(*wide))


class Uring:
    """An io_uring with room for four operations, driven by hand: struct io_uring_params and the rings of the ABI."""

    def __init__(self) -> None:
        params = ctypes.create_string_buffer(120)
        self._fd = syscall(_IO_URING_SETUP, 4, params)
        sq_entries, cq_entries = struct.unpack_from("II", params.raw, 0)
        self._sq = struct.unpack_from("10I", params.raw, 40)  # head, tail, mask, entries, flags, dropped, array, ...
        self._cq = struct.unpack_from("10I", params.raw, 80)  # head, tail, mask, entries, overflow, cqes, ...
        self._submit = self._map(self._sq[6] + 4 * sq_entries, _SQ_RING)
        self._done = self._map(self._cq[5] + 16 * cq_entries, _CQ_RING)
        self._entries = self._map(64 * sq_entries, _SQES)

    def _map(self, size: int, offset: int) -> mmap.mmap:
        return mmap.mmap(self._fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=offset)

    def run(self, operation: int, fd: int, address: int, length: int, offset: int = 0) -> int:
        """Submit one operation and wait for it. Returns its result: what the system call would, or -errno."""
        (tail,) = struct.unpack_from("I", self._submit, self._sq[1])
        (mask,) = struct.unpack_from("I", self._submit, self._sq[2])
        slot = tail & mask
        entry = struct.pack("=BBHiQQIIQ24x", operation, 0, 0, fd, offset, address, length, 0, 77)
        self._entries[64 * slot : 64 * slot + 64] = entry
        struct.pack_into("I", self._submit, self._sq[6] + 4 * slot, slot)
        struct.pack_into("I", self._submit, self._sq[1], tail + 1)
        assert syscall(_IO_URING_ENTER, self._fd, 1, 1, _GETEVENTS, 0, 0) == 1
        head, end, ring = (struct.unpack_from("I", self._done, self._cq[n])[0] for n in range(3))
        assert end == head + 1
        mark, result = struct.unpack_from("Qi", self._done, self._cq[5] + 16 * (head & ring))
        assert mark == 77
        struct.pack_into("I", self._done, self._cq[0], end)
        return int(result)

    def close(self) -> None:
        """Give everything back."""
        for ring in (self._submit, self._done, self._entries):
            ring.close()
        os.close(self._fd)


def timespec(seconds: int) -> ctypes.Array[ctypes.c_char]:
    """struct __kernel_timespec."""
    return ctypes.create_string_buffer(struct.pack("qq", seconds, 0))


def aio_read(fd: int, size: int) -> bytes:
    """The first bytes of a file, read by the kernel's own asynchronous I/O (io_submit(2))."""
    context = ctypes.c_ulong(0)
    syscall(_IO_SETUP, 4, ctypes.byref(context))
    buffer = ctypes.create_string_buffer(size)
    # struct iocb: data, key, rw flags, opcode (IOCB_CMD_PREAD), priority, fd, buffer, bytes, offset, ...
    block = ctypes.create_string_buffer(
        struct.pack("=QIiHhIQQqQII", 77, 0, 0, 0, 0, fd, ctypes.addressof(buffer), size, 0, 0, 0, 0)
    )
    blocks = (ctypes.c_void_p * 1)(ctypes.addressof(block))
    assert syscall(_IO_SUBMIT, context.value, 1, blocks) == 1
    events = ctypes.create_string_buffer(32)
    assert syscall(_IO_GETEVENTS, context.value, 1, 1, events, 0) == 1
    data, _, result = struct.unpack_from("QQq", events.raw)
    assert data == 77
    syscall(_IO_DESTROY, context.value)
    return buffer.raw[:result]


def passed_s(before_ns: int) -> float:
    """Seconds since a monotonic time."""
    return (time.monotonic_ns() - before_ns) / 1e9
