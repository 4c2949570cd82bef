"""Active queue management: codel, fq_codel or red below the bottleneck, in the kernel's own integers. Pure.

Sources: net/sched/sch_codel.c, sch_fq_codel.c, sch_red.c (Linux 6.12), tc's q_red.c, RFC 8289 (CoDel).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

CODEL_INTERVAL_US = 100_000
"""CoDel's interval for paths up to this RTT; on a longer one it is the RTT (RFC 8289, 4.2)."""

TICK_NS = 1024
FQ_FLOWS = 1024
RED_PROBABILITY = 0.02
RED_TABLE_SIZE = 256
RED_MOST_BYTES = 2**20
"""The highest threshold: the kernel keeps it times 2^wlog in 32 bits (red_check_params)."""

RED_MOST_WLOG = 9
RED_AVERAGE_BYTES = 1000
"""The packet size that RED assumes, as tc's documentation recommends."""


@dataclass(frozen=True)
class Codel:
    """codel, or with `flows` fq_codel: `limit` packets, times in ticks of 1024 ns (CODEL_SHIFT)."""

    limit: int
    target_ticks: int
    interval_ticks: int
    ecn: bool = False
    flows: int = 0

    @property
    def kind(self) -> str:
        """The kernel's name."""
        return "fq_codel" if self.flows else "codel"

    def __str__(self) -> str:
        ecn = "ecn" if self.ecn else "noecn"
        flows = f" flows {self.flows}" if self.flows else ""
        times = f"target {ticks_to_us(self.target_ticks)}us interval {ticks_to_us(self.interval_ticks)}us"
        return f"{self.kind} limit {self.limit}{flows} {times} {ecn}"


@dataclass(frozen=True)
class Red:
    """red: everything in bytes; `wlog`, `plog`, `scell` are the logarithms that the kernel computes with."""

    limit: int
    min_bytes: int
    max_bytes: int
    wlog: int
    plog: int
    scell: int
    max_p: int
    ecn: bool = False

    @property
    def kind(self) -> str:
        """The kernel's name."""
        return "red"

    def __str__(self) -> str:
        ecn = " ecn" if self.ecn else ""
        share = self.max_p / 2**32
        return f"red limit {self.limit} min {self.min_bytes} max {self.max_bytes} probability {share:.3g}{ecn}"


Aqm = Codel | Red


def lower(queue: str, *, buffer_bytes: int, frame: int, rate_bytes_per_s: int, rtt_ns: int, ecn: bool) -> Aqm | None:
    """The queue of this name with the buffer's depth; None for drop-tail, the bottleneck's default."""
    packets = max(2, buffer_bytes // frame)
    if queue == "red":
        return _red(buffer_bytes, frame, rate_bytes_per_s, ecn=ecn)
    if queue == "drop-tail":
        return None
    interval_us = max(CODEL_INTERVAL_US, rtt_ns // 1000)
    times = interval_us * 1000 // 20 // TICK_NS, interval_us * 1000 // TICK_NS
    return Codel(packets, *times, ecn, FQ_FLOWS if queue == "fq-codel" else 0)


def ticks_to_us(ticks: int) -> int:
    """The time in us to send, so that the kernel stores these ticks: it rounds down."""
    return -(-ticks * TICK_NS // 1000)


def us_to_ticks(us: int) -> int:
    """The ticks behind a time in us that the kernel reports: it rounded down again."""
    return -(-us * 1000 // TICK_NS)


def _red(limit: int, frame: int, rate_bytes_per_s: int, *, ecn: bool) -> Red:
    """RED by Floyd's advice: marks from a twelfth of the buffer to a quarter of it, weight from the burst."""
    most = max(min(limit // 4, RED_MOST_BYTES), 4 * frame)
    least = max(most // 3, frame)
    burst = (2 * least + most) // (3 * RED_AVERAGE_BYTES) + 1
    wlog = _ewma(least, burst)
    plog = next(i for i in range(32) if RED_PROBABILITY / (most - least) * 2**i > 1)
    scell = _scell(wlog, rate_bytes_per_s)
    return Red(max(limit, 2 * most), least, most, wlog, plog, scell, round(RED_PROBABILITY * 2**32), ecn)


def _ewma(least: int, burst: int) -> int:
    """-log2 of the weight that lets a burst pass (tc_red_eval_ewma), at most Floyd's 1/512."""
    room = burst + 1 - least / RED_AVERAGE_BYTES
    return next((w for w in range(1, RED_MOST_WLOG) if room <= (1 - (1 - 2.0**-w) ** burst) * 2**w), RED_MOST_WLOG)


def _decay(wlog: int, rate_bytes_per_s: int) -> float:
    """By how many powers of two the average falls in a microsecond of idle time."""
    return -math.log(1 - 2.0**-wlog) / (RED_AVERAGE_BYTES * 1e6 / rate_bytes_per_s)


def _scell(wlog: int, rate_bytes_per_s: int) -> int:
    longest = 31 / _decay(wlog, rate_bytes_per_s)
    return next((c for c in range(32) if longest / 2**c < 512), 31)


def red_table(red: Red, rate_bytes_per_s: int) -> bytes:
    """The decay of the average over idle time, as the kernel looks it up (tc_red_eval_idle_damping)."""
    decay = _decay(red.wlog, rate_bytes_per_s)
    return bytes([min(31, int((i << red.scell) * decay)) for i in range(RED_TABLE_SIZE - 1)] + [31])
