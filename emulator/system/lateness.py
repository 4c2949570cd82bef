"""How late this machine is just now, and time limits that allow for it.

A limit says how long something takes on a machine with nothing else to do. Where other programs want the processors, or
a host machine takes them away, all takes longer. In the lab time is virtual and nothing is late: limits hold as given.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from msgspec import Struct

from emulator.system import clock

TIMERS, TIMER_S = 5, 0.001
HALF_AS_FAST_NS = 10_000_000
"""A machine whose timers are this late counts as half as fast."""

MOST_FACTOR = 10.0
BUSY_FACTOR = 1.5


class MachineLateness(Struct, frozen=True):
    """How many programs want a processor, how many processors there are, and by how much a timer was late, in ns."""

    load: float
    cpus: int
    timer_ns: int

    @property
    def factor(self) -> float:
        """How much longer than on an idle machine something may take: 1 to 10."""
        return min(MOST_FACTOR, max(1.0, self.load / self.cpus, 1 + self.timer_ns / HALF_AS_FAST_NS))

    @property
    def busy(self) -> bool:
        """Whether this explains why something was late."""
        return self.factor >= BUSY_FACTOR

    def __str__(self) -> str:
        processors = "1 processor" if self.cpus == 1 else f"{self.cpus} processors"
        return f"load {self.load:.1f} on {processors}, timers up to {self.timer_ns / 1e6:.1f} ms late"


def now() -> MachineLateness:
    """The lateness of this machine: its load of a minute or of this moment, and the latest of five timers."""
    cpus = len(os.sched_getaffinity(0))
    if clock.here_is_virtual():
        return MachineLateness(0.0, cpus, 0)
    late_ns = 0
    for _ in range(TIMERS):
        due_ns = time.monotonic_ns() + round(TIMER_S * 1e9)
        time.sleep(TIMER_S)
        late_ns = max(late_ns, time.monotonic_ns() - due_ns)
    return MachineLateness(_load(Path("/proc/loadavg").read_text("utf-8")), cpus, late_ns)


def _load(loadavg: str) -> float:
    """The larger of the load of the last minute and of this moment, without this program itself."""
    mean, _, _, runnable, _ = loadavg.split()
    return max(float(mean), float(runnable.partition("/")[0]) - 1)


class Deadline:
    """A time limit in seconds that, once it has passed, is extended once by what this machine is late."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s, self._end_s = limit_s, time.monotonic() + limit_s
        self._late: MachineLateness | None = None

    def left_s(self) -> float:
        """The seconds that are left; 0 when the deadline has passed."""
        left_s = self._end_s - time.monotonic()
        if left_s <= 0 and self._late is None:
            self._late = now()
            self._end_s += (self._late.factor - 1) * self._limit_s
            left_s = self._end_s - time.monotonic()
        return max(0.0, left_s)

    def passed(self) -> bool:
        """Whether even the extended limit has passed."""
        return self.left_s() == 0

    def __str__(self) -> str:
        """The limit in words, with the reason for an extension."""
        if self._late is None or not self._late.busy:
            return f"{self._limit_s:g} s"
        extended_s = self._late.factor * self._limit_s
        return f"{self._limit_s:g} s, nor within {extended_s:.3g} s on this busy machine ({self._late})"
