"""A process that reverts an unconfirmed change, or a lease whose holder was killed. It outlives terminal and network.

`python -m emulator.control.revert_process FOLDER` detaches and waits. Several of them do no harm: each checks under the
lock whether there is still something to revert. The daemon does the same when it runs. Each cell of a sweep is a lease,
and seldom leaves something to revert: until then the process imports nothing of the appliance.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from emulator.control import state_files


def main(folder: Path) -> None:
    """Detach, wait, revert. Failures go to the system's log."""
    if os.fork():
        os._exit(0)
    os.chdir("/")
    if not _ends_well(folder):
        _revert(folder)


def _ends_well(folder: Path) -> bool:
    """Wait for the end of a lease, if there is one; whether its holder returned the lanes, or has the next one."""
    if state_files.leaseholder(folder) is None:
        return False
    return state_files.await_lease_end(folder) or state_files.leaseholder(folder) is not None


def _revert(folder: Path) -> None:
    import syslog
    import time

    from emulator.control.intent_store import IntentStore
    from emulator.control.local import local
    from emulator.control.reverter import wait_and_expire
    from emulator.errors import LonghaulError
    from emulator.system.clock import SystemClock

    syslog.openlog("longhaul-reverter", syslog.LOG_PID)
    store = IntentStore(folder)
    try:
        wait_and_expire(store, lambda: local(store.folder, "revert"), SystemClock(), time.sleep, syslog.syslog)
    except LonghaulError as error:
        syslog.syslog(f"cannot tell what to revert: {error}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
