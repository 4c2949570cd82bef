"""The time of day, the time since boot and the boot's id. Callers receive a clock, so that tests can set the time.

In the lab all of them are virtual.
"""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """`today` for people, `unix_ns` (ns since 1970) for schedules, `boottime_ns` (CLOCK_BOOTTIME) for deadlines.

    CLOCK_BOOTTIME counts while the machine sleeps and cannot be set. It restarts at each boot, so `boot_id` tells
    whether two readings belong to the same boot.
    """

    def today(self) -> datetime: ...

    def boottime_ns(self) -> int: ...

    def unix_ns(self) -> int: ...

    def boot_id(self) -> str: ...


class SystemClock:
    """The clocks of this machine."""

    def today(self) -> datetime:
        """The local time with its UTC offset, to the second."""
        return datetime.now().astimezone().replace(microsecond=0)

    def boottime_ns(self) -> int:
        """ns since boot, including the time asleep."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def unix_ns(self) -> int:
        """ns since 1970: the clock of schedules."""
        return time.time_ns()

    def boot_id(self) -> str:
        """The kernel's boot id; it changes at every boot."""
        return Path("/proc/sys/kernel/random/boot_id").read_text("utf-8").strip()


EXACT, COUNTED = "time-travel=inf-cpu", "time-travel"
"""The lab's clocks on its kernel's command line: both jump from timer to timer. With EXACT computing takes no time;
with COUNTED it takes as long as on the host (arch/um/kernel/time.c)."""


def is_virtual(kernel_command_line: str) -> bool:
    """Whether a kernel with this command line jumps from timer to timer, and no computing takes time."""
    return EXACT in kernel_command_line.split()


def here_is_counted() -> bool:
    """Whether this machine's clock jumps from timer to timer, and computing takes time."""
    return COUNTED in Path("/proc/cmdline").read_text("utf-8").split()


def here_is_virtual() -> bool:
    """Whether this machine's clock is virtual."""
    return is_virtual(Path("/proc/cmdline").read_text("utf-8"))
