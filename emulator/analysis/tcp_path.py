"""The throughput that a TCP stream can reach over a lane, and the throughput that it reached. Pure functions.

Throughputs are payload in bytes per second (float); inputs are integers with their unit in the name.
Sources: RFC 9438 section 5.1 (CUBIC), Mathis et al. 1997, "The Macroscopic Behavior of the TCP
Congestion Avoidance Algorithm".
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

NS = 1_000_000_000
ETHERNET_HEADER_BYTES = 14
WIRE_OVERHEAD_BYTES = 38
"""Preamble, header, FCS and gap of a frame on a real wire; netem and tbf count the header alone."""
IP_TCP_HEADER_BYTES = 52
"""IPv4 20, TCP 20, timestamps 12."""
INITCWND_SEGMENTS = 10
MATHIS_C = math.sqrt(3 / 2)
"""The constant of Mathis' formula when every segment is acknowledged; 0.87 with delayed acknowledgements."""
PLATEAU_SHARE = 0.9
SETTLED_DRIFT = 0.05


def mss_bytes(mtu: int) -> int:
    """Payload of one full segment with timestamps: 1448 at MTU 1500."""
    return mtu - IP_TCP_HEADER_BYTES


def bdp_bytes(rate_bps: int, rtt_ns: int) -> int:
    """The bandwidth-delay product: rate x RTT, rounded up to a byte."""
    return -(-rate_bps * rtt_ns // (8 * NS))


def line_bytes_per_s(rate_bps: int, mtu: int, on_wire: bool = False) -> float:
    """The most payload a line carries: 1448/1514 of the rate through netem or tbf, 1448/1538 on a real wire."""
    overhead = WIRE_OVERHEAD_BYTES if on_wire else ETHERNET_HEADER_BYTES
    return rate_bps / 8 * mss_bytes(mtu) / (mtu + overhead)


def window_bytes_per_s(window_bytes: int, rtt_ns: int) -> float:
    """The window law: one window each round trip. Infinite at RTT 0."""
    return window_bytes * NS / rtt_ns if rtt_ns else math.inf


def slow_start_ns(window_bytes: int, rtt_ns: int, mtu: int, initcwnd: int = INITCWND_SEGMENTS) -> int:
    """The time until a window that doubles each round trip reaches `window_bytes`."""
    doublings = math.log2(max(1.0, window_bytes / (initcwnd * mss_bytes(mtu))))
    return round(rtt_ns * doublings)


def reno_window_segments(loss: float, constant: float = MATHIS_C) -> float:
    """Mean congestion window of Reno at a loss probability (Mathis)."""
    return constant / math.sqrt(loss)


def cubic_window_segments(loss: float, rtt_ns: int) -> float:
    """Mean congestion window of CUBIC at a loss probability: RFC 9438 section 5.1, or Reno's where that is larger."""
    friendly: float = 1.054 * math.pow(rtt_ns / NS / loss, 0.75)
    return max(friendly, reno_window_segments(loss))


def cubic_k_s(window_max_segments: float) -> float:
    """Seconds that CUBIC takes to return to the window at which it lost a segment (RFC 9438: C 0.4, beta 0.7)."""
    return float(math.cbrt(0.3 * window_max_segments / 0.4))


class TcpPath(Struct, frozen=True):
    """The path of the streams: the bottleneck, the RTT, and how the streams react to loss.

    `buffer_bytes` is the bottleneck's buffer where the user chose one; None: about rate x RTT.
    """

    rate_bps: int
    rtt_ns: int
    mtu: int = 1500
    loss: float = 0.0
    streams: int = 1
    congestion_control: str = "cubic"
    buffer_bytes: int | None = None

    @property
    def bdp_bytes(self) -> int:
        """Rate x RTT."""
        return bdp_bytes(self.rate_bps, self.rtt_ns)

    @property
    def line_bytes_per_s(self) -> float:
        """The most payload the bottleneck carries."""
        return line_bytes_per_s(self.rate_bps, self.mtu)


class Interval(Struct, frozen=True):
    """Bytes received between two times of a run, in seconds from its start."""

    start_s: float
    end_s: float
    bytes: int

    @property
    def bytes_per_s(self) -> float:
        """The mean throughput of the interval."""
        return self.bytes / (self.end_s - self.start_s)


class Steady(Struct, frozen=True):
    """The plateau after the slow start. `settled` is false while the rate of the last half drifts by more than 5 %."""

    from_s: float
    bytes_per_s: float
    settled: bool


def mean_bytes_per_s(intervals: Sequence[Interval]) -> float:
    """Bytes over time, over all intervals."""
    return sum(i.bytes for i in intervals) / sum(i.end_s - i.start_s for i in intervals)


def mean_until(intervals: Sequence[Interval], end_s: float) -> float:
    """The mean from the start of the run to `end_s` (whole intervals)."""
    return mean_bytes_per_s([i for i in intervals if i.end_s <= end_s + 1e-3] or intervals[:1])


def whole(intervals: Sequence[Interval]) -> list[Interval]:
    """The intervals of full length: a run often cuts its last one short, and then its rate is wrong."""
    longest = max((i.end_s - i.start_s for i in intervals), default=0.0)
    return [i for i in intervals if i.end_s - i.start_s >= 0.9 * longest]


def steady(intervals: Sequence[Interval]) -> Steady:
    """The mean after the slow start: from one interval after the first that reaches 90 % of the last half's mean.

    A short last interval is excluded: it has no valid rate. Raises ValueError without intervals.
    """
    if not intervals:
        raise ValueError("a run without intervals has no steady mean")
    full = whole(intervals)
    half = full[len(full) // 2 :]
    reference = mean_bytes_per_s(half)
    first = next(n for n, i in enumerate(full) if i.bytes_per_s >= PLATEAU_SHARE * reference)
    plateau = full[min(first + 1, len(full) - len(half)) :]
    return Steady(plateau[0].start_s, mean_bytes_per_s(plateau), abs(drift(half)) <= SETTLED_DRIFT)


def drift(intervals: Sequence[Interval]) -> float:
    """How much the rate changes from first to last interval along the least-squares line, as a share of the mean."""
    times = [(i.start_s + i.end_s) / 2 for i in intervals]
    rates = [i.bytes_per_s for i in intervals]
    middle, mean = sum(times) / len(times), sum(rates) / len(rates)
    spread = sum((t - middle) ** 2 for t in times)
    if not spread or not mean:
        return 0.0
    slope = sum((t - middle) * (r - mean) for t, r in zip(times, rates, strict=True)) / spread
    return slope * (times[-1] - times[0]) / mean
