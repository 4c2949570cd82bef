"""RED below a bottleneck, in the integers that the kernel computes with. Pure.

Sources: net/sched/sch_red.c and include/net/red.h (Linux 6.12), tc's q_red.c.
"""

from __future__ import annotations

import math

from msgspec import Struct

PROBABILITY = 0.02
TABLE_SIZE = 256
MOST_BYTES = 2**20
"""The highest threshold: the kernel keeps it times 2^wlog in 32 bits (red_check_params)."""

MOST_WLOG = 9
AVERAGE_BYTES = 1000
"""The packet size that RED assumes, as tc's documentation recommends."""


class Red(Struct, frozen=True):
    """red: everything in bytes; `wlog`, `plog`, `scell` are the logarithms that the kernel computes with."""

    limit: int
    min_bytes: int
    max_bytes: int
    wlog: int
    plog: int
    scell: int
    max_p: int
    ecn: bool = False

    kind = "red"
    """The kernel's name."""

    def __str__(self) -> str:
        ecn = " ecn" if self.ecn else ""
        share = self.max_p / 2**32
        return f"red limit {self.limit} min {self.min_bytes} max {self.max_bytes} probability {share:.3g}{ecn}"


def red(limit: int, frame: int, rate_bytes_per_s: int, *, ecn: bool) -> Red:
    """RED by Floyd's advice: marks from a twelfth of the buffer to a quarter of it, weight from the burst."""
    most = max(min(limit // 4, MOST_BYTES), 4 * frame)
    least = max(most // 3, frame)
    burst = (2 * least + most) // (3 * AVERAGE_BYTES) + 1
    wlog = _ewma(least, burst)
    plog = next(i for i in range(32) if PROBABILITY / (most - least) * 2**i > 1)
    scell = _scell(wlog, rate_bytes_per_s)
    return Red(max(limit, 2 * most), least, most, wlog, plog, scell, round(PROBABILITY * 2**32), ecn)


def idle_table(one: Red, rate_bytes_per_s: int) -> bytes:
    """The decay of the average over idle time, as the kernel looks it up (tc_red_eval_idle_damping)."""
    decay = _decay(one.wlog, rate_bytes_per_s)
    return bytes([min(31, int((i << one.scell) * decay)) for i in range(TABLE_SIZE - 1)] + [31])


def _ewma(least: int, burst: int) -> int:
    """-log2 of the weight that lets a burst pass (tc_red_eval_ewma), at most Floyd's 1/512."""
    room = burst + 1 - least / AVERAGE_BYTES
    return next((w for w in range(1, MOST_WLOG) if room <= (1 - (1 - 2.0**-w) ** burst) * 2**w), MOST_WLOG)


def _decay(wlog: int, rate_bytes_per_s: int) -> float:
    """By how many powers of two the average falls in a microsecond of idle time."""
    return -math.log(1 - 2.0**-wlog) / (AVERAGE_BYTES * 1e6 / rate_bytes_per_s)


def _scell(wlog: int, rate_bytes_per_s: int) -> int:
    longest = 31 / _decay(wlog, rate_bytes_per_s)
    return next((c for c in range(32) if longest / 2**c < 512), 31)
