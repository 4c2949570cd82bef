"""What a lab reports to its launcher, read through files that are opened before it starts.

Without Landlock root in the lab may put anything in their places: a FIFO would hang the launcher, a link would show
another file. Such things are never opened. What the lab writes into the files spoils only its own result.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator

from emulator.lab.boundary import Exchange

CHUNK_BYTES = 1 << 20
KEEP_SIZE, PUNCH_HOLE = 1, 2
"""Of include/uapi/linux/falloc.h."""
HEARTBEAT_BYTES, CONSOLE_BYTES = 4096, 1 << 16
CONSOLE_LINES = 8
NO_MAPPING = re.compile(r"Error flushing stub syscalls: -?12\b")
"""What the lab's kernel says when it ends a process because this machine's kernel maps no more memory for it."""


_libc = ctypes.CDLL(None, use_errno=True)


def release(fd: int, end: int) -> None:
    """Release the blocks of a file up to a place (fallocate(2)); it stays as long, with zeros there. A file system that
    cannot do it keeps all."""
    _libc.fallocate(fd, PUNCH_HOLE | KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(end))


class Reports:
    """The reports of one boot; a context manager that closes them. `console` is for the lab's process to write to."""

    def __init__(self, exchange: Exchange) -> None:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fds = {name: os.open(exchange.guest / name, flags) for name in Exchange.REPORTS}
        self._offsets = dict.fromkeys(self._fds, 0)
        self.console = os.open(
            exchange.console, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )

    def __enter__(self) -> Reports:
        return self

    def __exit__(self, *_: object) -> None:
        for fd in (*self._fds.values(), self.console):
            os.close(fd)

    def news(self, name: str) -> Iterator[bytes]:
        """What was appended to a report since the last call.

        The blocks of what was read are released: a command may print more than its lab has memory.
        """
        while data := os.pread(self._fds[name], CHUNK_BYTES, self._offsets[name]):
            yield data
            self._offsets[name] += len(data)
            release(self._fds[name], self._offsets[name])

    def exit_code(self) -> int | None:
        """What init.py reported; None when it did not come so far."""
        text = os.pread(self._fds["exit"], 4, 0).decode(errors="replace")
        return int(text) if re.fullmatch(r"[0-9]{1,3}", text) else None

    def beat_ns(self) -> int:
        """When the heartbeat was last written, in ns since 1970 on the host's clock."""
        return os.fstat(self._fds["heartbeat"]).st_mtime_ns

    def busy_programs(self) -> list[str]:
        """The programs that wanted the CPU at the last heartbeat."""
        text = os.pread(self._fds["heartbeat"], HEARTBEAT_BYTES, 0).decode(errors="replace")
        return text.rstrip(" \0").split("\n")

    def console_end(self) -> str:
        """The last lines that the lab's kernel printed."""
        return "\n".join(self._console().splitlines()[-CONSOLE_LINES:])

    def ended_without_mapping(self) -> bool:
        """Whether the lab's kernel ended a process because this machine's kernel mapped no more memory for it."""
        return bool(NO_MAPPING.search(self._console()))

    def _console(self) -> str:
        start = max(0, os.fstat(self.console).st_size - CONSOLE_BYTES)
        return os.pread(self.console, CONSOLE_BYTES, start).decode(errors="replace")
