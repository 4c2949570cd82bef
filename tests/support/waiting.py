"""Waiting for what will be so. Needs nothing but the standard library: the benchmarks use it too."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_S = 300.0
"""How long a test waits in real time for what must come, however busy the machine is; nothing is judged by it."""


def until(ready: Callable[[], object], within_s: float = PATIENCE_S, every_s: float = 0.01) -> bool:
    """Whether it becomes so in time."""
    end = time.monotonic() + within_s
    while not ready():
        if time.monotonic() > end:
            return False
        time.sleep(every_s)
    return True
