"""The measuring clock: the lab's virtual clock is exact, a machine's own is not."""

from __future__ import annotations

from pathlib import Path

VIRTUAL_TOLERANCE_NS = 10_000
REAL_TOLERANCE_NS = 1_000_000


def is_virtual(kernel_command_line: str) -> bool:
    """Whether a kernel with this command line jumps from timer to timer instead of waiting."""
    return any(word.startswith("time-travel") for word in kernel_command_line.split())


def rtt_tolerance_ns() -> int:
    """The allowed difference between a measured and a requested RTT on this machine."""
    return VIRTUAL_TOLERANCE_NS if here_is_virtual() else REAL_TOLERANCE_NS


def here_is_virtual() -> bool:
    """Whether this machine's clock is virtual."""
    return is_virtual(Path("/proc/cmdline").read_text())
