"""Takes back what nobody confirmed in time, or what a borrower that was killed has left. A process of its own, so that
it outlives terminal, network and CLI.

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

from emulator.control.intent_store import Store
from emulator.errors import LonghaulError
from emulator.system.clock import Clock, SystemClock

GLANCE_S = 5.0
"""How often a waiting reverter looks whether it is still needed."""

LONGEST_RETRY_S = 60.0


class Settler(Protocol):
    """Takes back what is overdue; False when nothing is."""

    def settle(self) -> bool: ...


def wait_and_settle(
    store: Store,
    settler: Callable[[], Settler],
    clock: Clock,
    sleep: Callable[[float], None],
    tell: Callable[[str], None],
) -> None:
    """Until nothing is pending any more, or its borrower is gone. A failure is told, and tried again."""
    retry_s = 1.0
    while pending := store.read().pending:
        if pending.borrowed:
            # No glance meanwhile: where clocks are virtual, each would be seen in what is measured.
            store.await_return()
        elif (left_ns := pending.left_ns(clock)) > 0:
            sleep(min(left_ns / 1e9, GLANCE_S))
            continue
        try:
            if not settler().settle() and pending.borrowed:
                return  # given back; what is borrowed anew has a reverter of its own
        except (LonghaulError, OSError) as error:
            tell(f"cannot take back what was not confirmed: {error}")
            sleep(retry_s)
            retry_s = min(2 * retry_s, LONGEST_RETRY_S)


def main(folder: Path) -> None:
    """Detach, wait, take back. The system's log hears of failures."""
    import syslog

    from emulator.control.appliance import local

    if os.fork():
        os._exit(0)
    os.chdir("/")
    syslog.openlog("longhaul-reverter", syslog.LOG_PID)
    with contextlib.suppress(LonghaulError):  # a desire that cannot be read is for `longhaul status` to tell
        wait_and_settle(Store(folder), lambda: local(folder, "revert"), SystemClock(), time.sleep, syslog.syslog)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
