"""The watchdog: brings the lanes up at start, detects drift over netlink, repairs or reports it, and reverts changes
that nobody confirmed.

It keeps no state of its own: the intent is on disk, the state in the kernel. Killed and restarted, it continues.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from emulator.control.appliance import Appliance
from emulator.control.intent_store import IntentStore
from emulator.control.schedule_player import LEAD_NS, Follower
from emulator.control.state_files import INTENT_FILE
from emulator.kernel.watch import Watch
from emulator.plan.repair import RepairOutcome
from emulator.system import event_log
from emulator.system.event_log import ERROR, INFO, NOTICE, WARNING, Log
from emulator.system.sd_notify import Notifier
from emulator.system.timer import Alarm, RealAlarm

BUSY_SHARE = 0.2
"""The share of the time that checks may take when the machine's links change all the time."""
RETRY_S = 1.0
"""A revert that failed is tried again after this time."""
UP, UP_OR_DOWN = "longhaul up FILE", "longhaul up FILE to keep them, longhaul down to remove them"
"""What to do about drift; and about lanes that are up although this state folder never held an intent."""

Line = tuple[int, str, dict[str, object]]
"""A priority, an event and its fields."""


class Ears(Protocol):
    """Reports changes on the machine; see `kernel.watch.Watch`."""

    def wait(self, timeout_s: float, wake_fd: int | None = None) -> bool: ...

    def close(self) -> None: ...


class WatchedAppliance(Protocol):
    """What the watchdog needs of an appliance; see `appliance.Appliance`."""

    def repair(self, *, restore: bool | None = None) -> RepairOutcome: ...

    def pending_ns(self) -> int | None: ...

    def follower(self, alarm: Alarm) -> Follower: ...

    @property
    def state_dir(self) -> Path: ...


class WatchdogLoop:
    """The loop. `now` is a clock in s that never goes back, `alarm` the one of schedules."""

    def __init__(
        self,
        appliance: WatchedAppliance,
        ears: Ears,
        log: Log,
        notifier: Notifier,
        now: Callable[[], float],
        period_s: float,
        alarm: Alarm,
    ) -> None:
        self._appliance, self._ears, self._log, self._notifier = appliance, ears, log, notifier
        self._now, self._period_s, self._alarm = now, period_s, alarm
        self._follower = appliance.follower(alarm)
        self._reported: list[Line] = []
        self._failed = False
        """Whether the last check of the lanes failed."""
        self.looked_at: float | None = None
        """When it last checked the lanes, by `now`."""

    def start(self) -> None:
        """Bring the lanes up, whatever `on_drift` says: after a reboot none are."""
        self.look(restore=True)
        self._notifier.report("READY=1", "STATUS=watching")
        self._log(INFO, "watching", period_s=self._period_s)

    def run(self, wake_fd: int, stopped: Callable[[], bool]) -> None:
        """Check the lanes after every burst of changes and every period, and play their schedule, until `stopped`.

        `wake_fd` becomes readable when that happens."""
        with self._follower.playing():
            self._run(wake_fd, stopped)
        self._follower.note()

    def _run(self, wake_fd: int, stopped: Callable[[], bool]) -> None:
        rest_until, look_at = 0.0, self._now() + self._period_s
        while not stopped():
            look_at = self._wait(look_at, rest_until, wake_fd, stopped)
            if stopped():
                break
            if self._until_change_s() <= 0:
                self._play()
                continue
            began = self._now()
            self.look()
            rest_until = self._now() + (self._now() - began) * (1 / BUSY_SHARE - 1)
            look_at = self._now() + self._period_s

    def look(self, restore: bool | None = None) -> None:
        """Check the lanes once. The loop logs a failure and tries again the next time."""
        try:
            self._report(self._appliance.repair(restore=restore))
            self._failed = False
        except Exception as error:  # of whatever kind: what is unconfirmed must be reverted later nevertheless
            self._report_failure(error)
            self._failed = True
        self.looked_at = self._now()
        self._notifier.report("WATCHDOG=1")

    def _play(self) -> None:
        """Play the schedule's next change. If it fails, check all lanes: one lost port must not stop the others."""
        try:
            self._follower.play()
            self._ears.wait(0)  # discard the news of the watchdog's own change
        except Exception as error:
            self._report_failure(error)
            self.look(restore=True)
            self._follower.forget()

    def _until_change_s(self) -> float:
        """The time until the schedule's next change must be prepared."""
        due_ns = self._unless_failed(lambda: self._follower.due_ns)
        return math.inf if due_ns is None else (due_ns - LEAD_NS - self._alarm.now_ns()) / 1e9

    def _unless_failed(self, find: Callable[[], int | None]) -> int | None:
        """A time that the state folder gives; None without one, and where it cannot be read: the loop logs that."""
        try:
            return find()
        except Exception as error:
            self._report_failure(error)
            return None

    def _wait(self, look_at: float, rest_until: float, wake_fd: int, stopped: Callable[[], bool]) -> float:
        """Wait until the schedule has something to do, or it is time to check the lanes; returns that time.

        That is `look_at`, the deadline of a pending change, or the time of news, but not before `rest_until`. After a
        failure a change that is overdue waits for RETRY_S."""
        pending_ns = self._unless_failed(self._appliance.pending_ns)
        if pending_ns is not None:
            overdue_s = RETRY_S if self._failed else 0
            look_at = min(look_at, self._now() + (pending_ns / 1e9 if pending_ns > 0 else overdue_s))
        while not stopped() and (left := look_at - self._now()) > 0 and (change := self._until_change_s()) > 0:
            pause = left if self._notifier.ping_s is None else min(left, self._notifier.ping_s)
            # The kernel may wake the loop late: by a thousandth of the time, and to the next whole millisecond.
            if self._ears.wait(min(pause, change * 0.99), wake_fd):
                look_at = min(look_at, max(rest_until, self._now()))
            self._notifier.report("WATCHDOG=1")
        return look_at

    def _report_failure(self, error: Exception) -> None:
        self._report_new([(ERROR, "failed", {"kind": type(error).__name__, "reason": str(error)})])

    def _report(self, found: RepairOutcome) -> None:
        if found.reverted:
            self._log(WARNING, "reverted", reason="not confirmed in time")
        if found.repaired:
            self._log(
                NOTICE, "repaired", steps=len(found.repaired), why=found.repaired[0].why, first=found.repaired[0].op
            )
        lines: list[Line] = []
        if found.drift:
            first = found.drift[0]
            fields = {
                "steps": len(found.drift),
                "why": first.why,
                "repair": UP if found.known else UP_OR_DOWN,
                "first": first.op,
            }
            lines.append((WARNING, "drift", fields))
        lines += [(WARNING, "blocked", {"lane": lane, "reason": why}) for lane, why in found.blocked.items()]
        lines += [(WARNING, "state-folder", {"reason": note}) for note in found.notes]
        self._report_new(lines)

    def _report_new(self, lines: list[Line]) -> None:
        """Log what is wrong now and was not the last time; and when nothing is wrong any more."""
        for line in lines:
            if line not in self._reported:
                self._log(line[0], line[1], **line[2])
        if self._reported and not lines:
            self._log(INFO, "as-asked")
        self._reported = lines


def ears_of(appliance: WatchedAppliance) -> Watch:
    """Listens to what others change on the machine, and to changes of the intent. Raises MissingError, OSError."""
    with (store := IntentStore(appliance.state_dir)).locked():  # this creates the folder, or raises what is missing
        return Watch(store.folder / INTENT_FILE)


def run(appliance: Callable[[], Appliance], *, once: bool, period_s: float, as_json: bool) -> None:
    """Run the daemon of this machine until SIGTERM or SIGINT. The lanes stay up."""
    log = event_log.logger(sys.stderr, os.environ, as_json)
    machine, notifier = appliance(), Notifier(os.environ, os.getpid())
    ears = ears_of(machine)
    daemon = WatchdogLoop(machine, ears, log, notifier, time.monotonic, period_s, RealAlarm())
    with _stop_signals() as (wake_fd, stopped):
        daemon.start()
        if not once:
            daemon.run(wake_fd, stopped)
    notifier.report("STOPPING=1")
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
