"""How far a measured RTT may be from the requested one: the lab's virtual clock is exact, a machine's own is not."""

from __future__ import annotations

from emulator.system import clock

VIRTUAL_TOLERANCE_NS = 10_000
REAL_TOLERANCE_NS = 1_000_000


def rtt_tolerance_ns() -> int:
    """The allowed difference between a measured and a requested RTT on this machine."""
    return VIRTUAL_TOLERANCE_NS if clock.here_is_virtual() else REAL_TOLERANCE_NS
