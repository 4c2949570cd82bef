"""The watchdog: lanes up at start, drift seen over netlink and mended or reported, unconfirmed changes taken back.

It holds nothing that it could lose: what is asked for is on disk, what there is in the kernel. Killed and started
again at any moment, it goes on.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from . import journal
from .appliance import Appliance, Tended
from .errors import LonghaulError
from .journal import ERROR, INFO, NOTICE, WARNING, Log
from .kernel.watch import Watch
from .notify import Notifier

BUSY_SHARE = 0.2
"""The part of the time that looking may take when the machine's links never come to rest."""


Line = tuple[int, str, dict[str, object]]
"""A priority, an event and its fields."""


class Ears(Protocol):
    """Hears of changes; see `kernel.watch.Watch`."""

    def wait(self, timeout_s: float, wake_fd: int | None = None) -> bool: ...


class Daemon:
    """The loop. `now` is a clock in s that never goes back."""

    def __init__(
        self, appliance: Appliance, ears: Ears, log: Log, notifier: Notifier, now: Callable[[], float], period_s: float
    ) -> None:
        self._appliance, self._ears, self._log, self._notifier = appliance, ears, log, notifier
        self._now, self._period_s = now, period_s
        self._told: list[Line] = []

    def start(self) -> None:
        """Make the machine as it was asked to be, whatever `on_drift` says: after a reboot nothing stands."""
        self.look(restore=True)
        self._notifier.tell("READY=1", "STATUS=watching")
        self._log(INFO, "watching", period_s=self._period_s)

    def run(self, wake_fd: int, stopped: Callable[[], bool]) -> None:
        """Look at every burst of news and every period, until `stopped`, which `wake_fd` announces."""
        rest_until = 0.0
        while not stopped():
            self._wait(rest_until, wake_fd, stopped)
            if stopped():
                return
            began = self._now()
            self.look()
            rest_until = self._now() + (self._now() - began) * (1 / BUSY_SHARE - 1)

    def look(self, restore: bool | None = None) -> None:
        """Once. A failure is logged, and tried again the next time."""
        try:
            self._tell(self._appliance.tend(restore=restore))
        except (LonghaulError, OSError) as error:
            self._tell_new([(ERROR, "failed", {"kind": type(error).__name__, "reason": str(error)})])
        self._notifier.tell("WATCHDOG=1")

    def _wait(self, rest_until: float, wake_fd: int, stopped: Callable[[], bool]) -> None:
        """For news, though not before `rest_until`, for the period, or for the deadline of what is pending."""
        end = self._now() + self._period_s
        pending_ns = self._appliance.pending_ns()
        if pending_ns is not None:
            end = min(end, self._now() + max(pending_ns, 0) / 1e9)
        while not stopped() and (left := end - self._now()) > 0:
            pause = left if self._notifier.ping_s is None else min(left, self._notifier.ping_s)
            if self._ears.wait(pause, wake_fd):
                end = min(end, max(rest_until, self._now()))
            self._notifier.tell("WATCHDOG=1")

    def _tell(self, found: Tended) -> None:
        if found.reverted:
            self._log(WARNING, "reverted", reason="not confirmed in time")
        if found.mended:
            self._log(NOTICE, "mended", steps=len(found.mended), why=found.mended[0].why, first=found.mended[0].op)
        lines: list[Line] = []
        if found.drift:
            first = found.drift[0]
            fields = {"steps": len(found.drift), "why": first.why, "mend": "longhaul up FILE", "first": first.op}
            lines.append((WARNING, "drift", fields))
        lines += [(WARNING, "blocked", {"lane": lane, "reason": why}) for lane, why in found.blocked.items()]
        self._tell_new(lines)

    def _tell_new(self, lines: list[Line]) -> None:
        """What is wrong now and was not the last time; and when nothing is wrong any more."""
        for line in lines:
            if line not in self._told:
                self._log(line[0], line[1], **line[2])
        if self._told and not lines:
            self._log(INFO, "as-asked")
        self._told = lines


def run(appliance: Callable[[], Appliance], *, once: bool, period_s: float, as_json: bool) -> None:
    """The daemon of this machine, until SIGTERM or SIGINT. The lanes stay as they are."""
    log = journal.logger(sys.stderr, os.environ, as_json)
    ears = Watch()
    daemon = Daemon(appliance(), ears, log, notifier := Notifier(os.environ, os.getpid()), time.monotonic, period_s)
    with _stop_signals() as (wake_fd, stopped):
        daemon.start()
        if not once:
            daemon.run(wake_fd, stopped)
    notifier.tell("STOPPING=1")
    log(INFO, "stopped")
    ears.close()


@contextmanager
def _stop_signals() -> Iterator[tuple[int, Callable[[], bool]]]:
    """A file descriptor that becomes readable at SIGTERM or SIGINT, and whether one came."""
    read_fd, write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    came: list[int] = []
    before = {n: signal.signal(n, lambda number, _: came.append(number)) for n in (signal.SIGTERM, signal.SIGINT)}
    old_fd = signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    try:
        yield read_fd, lambda: bool(came)
    finally:
        signal.set_wakeup_fd(old_fd)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(read_fd)
        os.close(write_fd)
