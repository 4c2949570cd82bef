"""Tell the service manager how we are (sd_notify(3)), over the datagram socket that it names in the environment."""

from __future__ import annotations

import socket
from collections.abc import Mapping


class Notifier:
    """Silent where there is no service manager. `ping_s` is how often it wants to hear of us, None for never."""

    def __init__(self, environment: Mapping[str, str], pid: int) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        mine = environment.get("WATCHDOG_PID", str(pid)) == str(pid)
        limit_us = int(environment.get("WATCHDOG_USEC", "0")) if mine else 0
        self.ping_s = limit_us / 2e6 if limit_us else None

    def tell(self, *lines: str) -> None:
        """READY=1, WATCHDOG=1, STATUS=..., STOPPING=1. A manager that does not listen is no reason to fail."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to_manager:
            try:
                to_manager.sendto("\n".join(lines).encode(), address)
            except OSError:
                return
