"""Reports our state to the service manager (sd_notify(3)) over the datagram socket that the environment names."""

from __future__ import annotations

import socket
from collections.abc import Mapping


class Notifier:
    """Does nothing without a service manager. `ping_s`: the watchdog's interval in seconds, None without a watchdog."""

    def __init__(self, environment: Mapping[str, str], pid: int) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        mine = environment.get("WATCHDOG_PID", str(pid)) == str(pid)
        limit_us = int(environment.get("WATCHDOG_USEC", "0")) if mine else 0
        self.ping_s = limit_us / 2e6 if limit_us else None

    def report(self, *lines: str) -> None:
        """Send READY=1, WATCHDOG=1, STATUS=... or STOPPING=1. A manager that does not listen causes no error."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to_manager:
            try:
                to_manager.sendto("\n".join(lines).encode(), address)
            except OSError:
                return
