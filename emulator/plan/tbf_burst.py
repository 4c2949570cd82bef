"""A bottleneck's burst as sch_tbf keeps it: a time at the rate, from which many bursts read back alike. Pure.

Sources: psched_l2t_ns and psched_ratecfg_precompute of net/sched/sch_generic.c (Linux 6.12).
"""

from __future__ import annotations

from functools import lru_cache

from emulator.model.bottleneck import TICK_NS, wire_bytes


def burst_ticks(rate_bytes_per_s: int, burst_bytes: int) -> int:
    """What tbf stores for a burst: its time at the rate in scheduler ticks (psched_l2t_ns, then PSCHED_NS2TICKS)."""
    factor, shift = 1_000_000_000, 0
    while not (factor // rate_bytes_per_s) & 2**31 and not factor & 2**63:
        factor, shift = factor << 1, shift + 1
    multiplier = (factor // rate_bytes_per_s) & 0xFFFFFFFF
    return ((burst_bytes * multiplier) >> shift) // TICK_NS


@lru_cache(1024)  # a search of thirty steps, asked for at every look at the kernel
def burst_from_ticks(rate_bytes_per_s: int, ticks: int, overhead: int = 0, *, atm: bool = False) -> int:
    """The largest burst that the kernel stores as `ticks`: many bursts read back as the same tick."""
    low, high = 0, 2 * (ticks + 1) * TICK_NS * rate_bytes_per_s // 1_000_000_000 + 2
    while high - low > 1:
        middle = (low + high) // 2
        above = burst_ticks(rate_bytes_per_s, wire_bytes(middle, overhead, atm=atm)) > ticks
        low, high = (low, middle) if above else (middle, high)
    return low


def canonical_burst(rate_bytes_per_s: int, burst_bytes: int, overhead: int = 0, *, atm: bool = False) -> int:
    """The representative of all bursts that the kernel stores as the same tick count."""
    ticks = burst_ticks(rate_bytes_per_s, wire_bytes(burst_bytes, overhead, atm=atm))
    return burst_from_ticks(rate_bytes_per_s, ticks, overhead, atm=atm)
