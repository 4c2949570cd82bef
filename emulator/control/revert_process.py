"""A process that reverts an unconfirmed change, or a lease whose holder was killed. It outlives terminal and network.

`python -m emulator.control.revert_process FOLDER` detaches and waits. Several of them do no harm: each looks under the
lock whether there is still something to take back. The daemon does the same when it runs.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from emulator.control.intent_store import IntentStore
from emulator.control.local import local
from emulator.errors import LonghaulError
from emulator.system.clock import Clock, SystemClock

GLANCE_S = 5.0
"""How often a waiting reverter looks whether it is still needed."""

LONGEST_RETRY_S = 60.0


class Expiring(Protocol):
    """Takes back what is overdue; False when nothing is."""

    def expire(self) -> bool: ...


def wait_and_expire(
    store: IntentStore,
    appliance: Callable[[], Expiring],
    clock: Clock,
    sleep: Callable[[float], None],
    report: Callable[[str], None],
) -> None:
    """Until nothing is pending any more, or its leaseholder is gone. A failure is told, and tried again."""
    retry_s = 1.0
    while pending := store.read().pending:
        if pending.leased:
            # No glance meanwhile: where clocks are virtual, each would be seen in what is measured.
            store.await_lease_end()
        elif (left_ns := pending.left_ns(clock)) > 0:
            sleep(min(left_ns / 1e9, GLANCE_S))
            continue
        try:
            if not appliance().expire() and pending.leased:
                return  # returned; what is leased anew has a reverter of its own
        except (LonghaulError, OSError) as error:
            report(f"cannot take back what was not confirmed: {error}")
            sleep(retry_s)
            retry_s = min(2 * retry_s, LONGEST_RETRY_S)


def main(folder: Path) -> None:
    """Detach, wait, take back. The system's log hears of failures."""
    import syslog

    if os.fork():
        os._exit(0)
    os.chdir("/")
    syslog.openlog("longhaul-reverter", syslog.LOG_PID)
    with contextlib.suppress(LonghaulError):  # a intent that cannot be read is for `longhaul status` to tell
        wait_and_expire(IntentStore(folder), lambda: local(folder, "revert"), SystemClock(), time.sleep, syslog.syslog)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
