"""Waiting for what will be so. Needs nothing but the standard library: the benchmarks use it too."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(ready: Callable[[], object], within_s: float = 60, every_s: float = 0.01) -> bool:
    """Whether it becomes so in time."""
    end = time.monotonic() + within_s
    while not ready():
        if time.monotonic() > end:
            return False
        time.sleep(every_s)
    return True
