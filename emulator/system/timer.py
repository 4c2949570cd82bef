"""Sleep until a time of day, as exactly as the kernel can, and measure how long one clock reading takes."""

from __future__ import annotations

import ctypes
import errno
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Protocol

_CLOCK_REALTIME, _TIMER_ABSTIME = 0, 1
_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class Alarm(Protocol):
    """ns since 1970, and sleeping until such a time. `reading_ns` is how long one reading of the clock takes."""

    @property
    def reading_ns(self) -> int: ...

    def now_ns(self) -> int: ...

    def sleep_until(self, at_ns: int) -> None: ...


class RealAlarm:
    """The machine's clock. In the lab time is virtual and each reading takes 256 ns (timer_read of UML)."""

    def __init__(self) -> None:
        readings = [time.time_ns() for _ in range(9)]
        self.reading_ns = min(b - a for a, b in pairwise(readings))

    def now_ns(self) -> int:
        """ns since 1970."""
        return time.time_ns()

    def sleep_until(self, at_ns: int) -> None:
        """Sleep until `at_ns`; return at once if it has passed. The wake-up stays right when somebody sets the clock.

        time.sleep would read the clock twice and wake up to 50 us late: a thread's timers have that slack
        by default (prctl(2), PR_SET_TIMERSLACK).
        """
        with suppress(OSError):
            Path(f"/proc/{threading.get_native_id()}/timerslack_ns").write_text("1", "utf-8")
        until = _Timespec(*divmod(at_ns, 10**9))
        while _libc.clock_nanosleep(_CLOCK_REALTIME, _TIMER_ABSTIME, ctypes.byref(until), None) == errno.EINTR:
            continue
