"""Measure how much CPU time a lab used on the host."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def group_cpu_s(group: int) -> float:
    """CPU seconds that a process group used, with its members' dead children included (proc(5))."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text("utf-8").rsplit(")", 1)[1].split()
                if int(fields[2]) == group:
                    ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
