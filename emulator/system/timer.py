"""Wake up at a time of day to the nanosecond, as far as the kernel can; and how long reading the clock takes."""

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
    """Time since 1970 in ns, and waiting for one. `reading_ns` is what reading the clock takes by itself."""

    @property
    def reading_ns(self) -> int: ...

    def now_ns(self) -> int: ...

    def sleep_until(self, at_ns: int) -> None: ...


class RealAlarm:
    """The machine's own; virtual in the lab, where every reading of the clock takes 256 ns (timer_read of UML)."""

    def __init__(self) -> None:
        readings = [time.time_ns() for _ in range(9)]
        self.reading_ns = min(b - a for a, b in pairwise(readings))

    def now_ns(self) -> int:
        """Since 1970."""
        return time.time_ns()

    def sleep_until(self, at_ns: int) -> None:
        """Wait; at once when the time has passed, and right even if somebody sets the clock meanwhile.

        time.sleep would read the clock twice, and then wake up to 50 us late: a thread's timers have that slack
        unless it says otherwise (prctl(2), PR_SET_TIMERSLACK).
        """
        with suppress(OSError):
            Path(f"/proc/{threading.get_native_id()}/timerslack_ns").write_text("1")
        until = _Timespec(*divmod(at_ns, 10**9))
        while _libc.clock_nanosleep(_CLOCK_REALTIME, _TIMER_ABSTIME, ctypes.byref(until), None) == errno.EINTR:
            continue
