"""Limits guesses: after a few wrong tokens an address must wait with the next wrong one. Pure but for its memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

FAILURES, WINDOW_S, REMEMBERED = 5, 60.0, 1024


@dataclass
class Throttle:
    """Failed logins by address. Time is an argument, in seconds of a monotonic clock."""

    failures: int = FAILURES
    window_s: float = WINDOW_S
    _failed: OrderedDict[str, list[float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait_s(self, address: str, now_s: float) -> int:
        """The seconds that this address must wait before its next wrong token, rounded up; 0: it need not wait."""
        with self._lock:
            recent = self._recent(address, now_s)
            if len(recent) < self.failures:
                return 0
            return max(1, -int(-(recent[-self.failures] + self.window_s - now_s) // 1))

    def failed(self, address: str, now_s: float) -> None:
        """Record a failure. Only the latest addresses are kept, so that nobody can fill the memory."""
        with self._lock:
            recent = self._recent(address, now_s)
            self._failed[address] = [*recent[-self.failures :], now_s]
            self._failed.move_to_end(address)
            while len(self._failed) > REMEMBERED:
                self._failed.popitem(last=False)

    def _recent(self, address: str, now_s: float) -> list[float]:
        return [at for at in self._failed.get(address, []) if now_s - at < self.window_s]
