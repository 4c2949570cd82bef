"""Takes back what nobody confirmed in time, or what a borrower that was killed has left. A process of its own, so that
it outlives terminal, network and CLI.

`python -m emulator.reverter FOLDER` detaches and waits; several of them do no harm, for each looks under the lock
whether there is still something to take back. The daemon does the same when it runs.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from .clock import Clock, SystemClock
from .desire import Store
from .errors import LonghaulError, MissingError

GLANCE_S = 5.0
"""How often a waiting reverter looks whether it is still needed."""

LONGEST_RETRY_S = 60.0


class Settler(Protocol):
    """Takes back what is overdue; False when nothing is."""

    def settle(self) -> bool: ...


def start(folder: Path) -> None:
    """Leave a reverter running for this state folder. Raises MissingError when it cannot be started."""
    package = Path(__file__).parent.parent
    path = os.pathsep.join(filter(None, [str(package), os.environ.get("PYTHONPATH")]))
    argv = [sys.executable, "-m", __spec__.name, str(folder.resolve())]
    nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    pid = os.posix_spawn(sys.executable, argv, {**os.environ, "PYTHONPATH": path}, file_actions=nowhere, setsid=True)
    if code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise MissingError(
            f"{' '.join(argv)} ended with {code}: nothing would take the change back; nothing was changed"
        )


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

    from .appliance import local

    if os.fork():
        os._exit(0)
    os.chdir("/")
    syslog.openlog("longhaul-reverter", syslog.LOG_PID)
    with contextlib.suppress(LonghaulError):  # a desire that cannot be read is for `longhaul status` to tell
        wait_and_settle(Store(folder), lambda: local(folder, "revert"), SystemClock(), time.sleep, syslog.syslog)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
