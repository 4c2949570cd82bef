"""What time it is, and in which life of the machine. Handed in wherever time matters, so that tests may turn it."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Protocol


class Clock(Protocol):
    """The time of day for people, CLOCK_BOOTTIME in ns for deadlines, and the boot's id to tell one life from another.

    `unix_ns` is ns since 1970, the clock of schedules.

    CLOCK_BOOTTIME goes on while the machine sleeps and is never set; it begins anew with each boot.
    """

    def today(self) -> datetime: ...

    def boottime_ns(self) -> int: ...

    def unix_ns(self) -> int: ...

    def boot_id(self) -> str: ...


class SystemClock:
    """This machine's."""

    def today(self) -> datetime:
        """With the local offset, to the second."""
        return datetime.now().astimezone().replace(microsecond=0)

    def boottime_ns(self) -> int:
        """ns since the machine was started, time asleep included."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def unix_ns(self) -> int:
        """ns since 1970: the clock of schedules."""
        return time.time_ns()

    def boot_id(self) -> str:
        """A new one after every start."""
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
