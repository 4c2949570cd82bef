"""The watchdog in a thread of its own, for a process that also serves the API."""

from __future__ import annotations

import os
import threading
import time

from emulator.control.watchdog_loop import Ears, WatchdogLoop, WatchedAppliance, ears_of
from emulator.system.event_log import INFO, Log
from emulator.system.sd_notify import Notifier
from emulator.system.timer import RealAlarm

PERIOD_S = 10.0
"""It checks the lanes at least this often."""


class Watchdog:
    """Watches the lanes from `start` to `stop`. `appliance` must allow calls from this thread."""

    def __init__(
        self, appliance: WatchedAppliance, log: Log, ears: Ears | None = None, period_s: float = PERIOD_S
    ) -> None:
        self._ears, self._log, self._notifier = ears or ears_of(appliance), log, Notifier(os.environ, os.getpid())
        self.daemon = WatchdogLoop(appliance, self._ears, log, self._notifier, time.monotonic, period_s, RealAlarm())
        self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Start: first bring the lanes up."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for its end. The lanes stay up."""
        self._ended.set()
        os.write(self._wake[1], b".")
        if self._thread.ident is not None:  # started; it may have ended since the line above
            self._thread.join()
            self._notifier.report("STOPPING=1")
            self._log(INFO, "stopped")
        self._ears.close()
        for fd in self._wake:
            os.close(fd)

    def _run(self) -> None:
        self.daemon.start()
        self.daemon.run(self._wake[0], self._ended.is_set)
