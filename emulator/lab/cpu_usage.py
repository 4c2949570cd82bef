"""What a lab has used of the host's CPUs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def group_cpu_s(group: int) -> float:
    """CPU seconds that a process group has used, the dead children of its members included (proc(5))."""
    ticks = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[2]) == group:
                    ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")
