"""The figures of requests over a lane: their times, their rate, and the ceilings that physics sets to it. Pure.

Times are corrected for coordinated omission where requests are due at fixed times: each counts from when it was due,
so a slow answer delays the start of no clock. Users of a closed loop wait for their answer by definition; their times
count from the sending, and nothing is corrected.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from emulator.analysis import tcp_path
from emulator.analysis.tcp_path import NS, TcpPath
from emulator.model.request_load import RequestLoad


class RequestTimes(Struct, frozen=True):
    """Durations in ns: their count, exact mean and extremes, quantiles (nearest rank), and the histogram.

    `histogram` holds (value in ns, count) in rising order, in bins of four digits as HdrHistogram's. Everything is 0
    when nothing was counted.
    """

    count: int
    mean_ns: int
    min_ns: int
    p50_ns: int
    p90_ns: int
    p99_ns: int
    p99_9_ns: int
    max_ns: int
    histogram: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, counted: Mapping[str, Any]) -> RequestTimes:
        """From a count of the request program. Raises KeyError, TypeError, ValueError."""
        count, sum_ns, least_ns, most_ns = (int(counted[name]) for name in ("count", "sum_ns", "least_ns", "most_ns"))
        return cls._of(count, sum_ns, least_ns, most_ns, [(int(ns), int(times)) for ns, times in counted["histogram"]])

    @classmethod
    def _of(cls, count: int, sum_ns: int, least_ns: int, most_ns: int, bins: list[tuple[int, int]]) -> RequestTimes:
        # A bin's value may lie outside what was measured, by its width.
        p50_ns, p90_ns, p99_ns, p99_9_ns = (
            min(most_ns, max(least_ns, _at_rank(bins, -(-count * share // 1000)))) for share in (500, 900, 990, 999)
        )
        mean_ns = round(sum_ns / max(1, count))
        return cls(count, mean_ns, least_ns, p50_ns, p90_ns, p99_ns, p99_9_ns, most_ns, tuple(bins))

    @classmethod
    def joined(cls, all: Sequence[RequestTimes]) -> RequestTimes:
        """The times of several measurements as one series."""
        some = [one for one in all if one.count]
        if len(some) < 2:
            return some[0] if some else all[0]
        bins: Counter[int] = Counter()
        for one in some:
            bins.update(dict(one.histogram))
        count, sum_ns = sum(one.count for one in some), sum(one.count * one.mean_ns for one in some)
        least_ns, most_ns = min(one.min_ns for one in some), max(one.max_ns for one in some)
        return cls._of(count, sum_ns, least_ns, most_ns, sorted(bins.items()))


def _at_rank(bins: Sequence[tuple[int, int]], rank: int) -> int:
    """The value of this rank, counted from 1, in bins of rising values (nearest rank); 0 when there are none."""
    for value_ns, count in bins:
        rank -= count
        if rank <= 0:
            return value_ns
    return 0


class SocketSums(Struct, frozen=True):
    """What one end's kernel says of its connections, summed: segments sent again, and times with data in flight."""

    retransmits: int
    busy_us: int
    rwnd_limited_us: int
    sndbuf_limited_us: int

    @property
    def rwnd_share(self) -> float:
        """The share of the busy time in which the other end's window held data back."""
        return self.rwnd_limited_us / self.busy_us if self.busy_us else 0.0

    @property
    def sndbuf_share(self) -> float:
        """The share of the busy time in which the send buffer held data back."""
        return self.sndbuf_limited_us / self.busy_us if self.busy_us else 0.0


class RequestFigures(Struct, frozen=True):
    """What the request program counted in one measurement.

    `times` run to the last byte of the answer: in an open loop from when the request was due, else from its sending;
    what was not answered counts with the time that it had waited. `service` runs from the sending always, `transfer`
    from the answer's first byte to its last, `setup` is of connections. `held` requests found every place taken when
    they were due; `overloaded`: the last one did too. `elapsed_ns` is the time to the last answer. `late` is how late
    the program itself was, `overhead_ns` what a request costs it without any network, and CPU is in per cent of a core.
    """

    tool: str
    answered: int
    unanswered: int
    held: int
    overloaded: bool
    elapsed_ns: int
    times: RequestTimes
    service: RequestTimes
    transfer: RequestTimes
    setup: RequestTimes
    late: RequestTimes
    overhead_ns: int
    client_cpu_percent: float
    server_cpu_percent: float
    client: SocketSums
    server: SocketSums

    @classmethod
    def of(cls, client: Mapping[str, Any], server: Mapping[str, Any]) -> RequestFigures:
        """From the reports of both ends. Raises KeyError, TypeError, ValueError on anything else."""
        wall_s = max(float(client["wall_s"]), 1e-9)
        return cls(
            tool=f"Python {client['python']}",
            answered=int(client["answered"]),
            unanswered=int(client["unanswered"]),
            held=int(client["held"]),
            overloaded=bool(client["last_held"]),
            elapsed_ns=int(client["elapsed_ns"]),
            **{name: RequestTimes.of(client[name]) for name in ("times", "service", "transfer", "setup", "late")},
            overhead_ns=int(client["overhead_ns"]),
            client_cpu_percent=100 * float(client["cpu_s"]) / wall_s,
            server_cpu_percent=100 * float(server["cpu_s"]) / wall_s,
            client=SocketSums(**client["sockets"]),
            server=SocketSums(**server["sockets"]),
        )

    @property
    def retransmits(self) -> int:
        """Segments sent again by either end."""
        return self.client.retransmits + self.server.retransmits

    def per_s(self, load: RequestLoad) -> float:
        """Answered requests a second.

        In a closed loop the think time after the last answer counts, so that the time holds whole cycles. An open loop
        that keeps up lasts as long as requests were due; one that is overloaded lasts until the last answer.
        """
        if not self.answered:
            return 0.0
        if load.offered_per_s is None:
            return self.answered * NS / max(1, self.elapsed_ns + load.think_ns)
        due_ns = (self.answered + self.unanswered) * NS / load.offered_per_s
        return self.answered * NS / max(due_ns, self.elapsed_ns if self.overloaded or self.unanswered else 0)

    def with_times_of(self, others: Sequence[RequestFigures]) -> RequestFigures:
        """The same with the times of several measurements, this one included, as one series each."""
        return replace(
            self,
            times=RequestTimes.joined([one.times for one in others]),
            service=RequestTimes.joined([one.service for one in others]),
            transfer=RequestTimes.joined([one.transfer for one in others]),
            setup=RequestTimes.joined([one.setup for one in others]),
            late=RequestTimes.joined([one.late for one in others]),
        )


FEW = 10
"""Requests a place: fewer say little about a steady state."""


def least_duration_s(load: RequestLoad, rtt_ns: int) -> int:
    """How long a measurement must last so that each place carries `FEW` requests."""
    due_s = load.places / load.offered_per_s if load.offered_per_s else 0.0
    return math.ceil(FEW * max(due_s, (rtt_ns + load.think_ns) / NS))


class RequestPaths(Struct, frozen=True):
    """The lane from the client (`there`) and to it (`back`)."""

    there: TcpPath
    back: TcpPath

    @property
    def rtt_ns(self) -> int:
        """The round trip."""
        return self.there.rtt_ns

    @property
    def lane(self) -> TcpPath:
        """Both directions as one path: a loss of either."""
        return replace(self.there, loss=1 - (1 - self.there.loss) * (1 - self.back.loss))


def round_trip_ceiling(load: RequestLoad, rtt_ns: int) -> float:
    """Requests a second at most: every place carries one in each round trip and think time. Infinite without both."""
    cycle_ns = rtt_ns + load.think_ns
    return load.places * NS / cycle_ns if cycle_ns else math.inf


HEADER_BYTES = tcp_path.ETHERNET_HEADER_BYTES + tcp_path.IP_TCP_HEADER_BYTES
LEAST_HEADER_BYTES = HEADER_BYTES - 12
"""Without TCP's timestamps, which a host may have turned off."""


def line_ceiling(load: RequestLoad, paths: RequestPaths, header_bytes: int = HEADER_BYTES) -> float:
    """Requests a second at most that the line carries, in whichever direction it fills first."""
    there = _message_ns(paths.there, load.request_bytes, load.in_flight, header_bytes)
    return NS / max(there, _message_ns(paths.back, load.answer_bytes, load.in_flight, header_bytes))


def _message_ns(path: TcpPath, size_bytes: int, in_flight: int, header_bytes: int = HEADER_BYTES) -> float:
    """How long the line carries one message with its headers.

    It has frames of its own, unless others of its connection are in flight: as many of them may share a frame.
    """
    full = size_bytes / (path.mtu + tcp_path.ETHERNET_HEADER_BYTES - header_bytes)
    frames = math.ceil(full) if in_flight == 1 else max(full, 1 / in_flight)
    return (size_bytes + frames * header_bytes) * 8 * NS / path.rate_bps


def ceiling(load: RequestLoad, paths: RequestPaths) -> float:
    """The lower of both, and the offered rate where there is one."""
    offered = load.offered_per_s or math.inf
    return min(round_trip_ceiling(load, paths.rtt_ns), line_ceiling(load, paths), offered)


def ideal_ns(load: RequestLoad, paths: RequestPaths) -> int:
    """The least time of one request: a round trip, and both messages at the line's rate."""
    there = _message_ns(paths.there, load.request_bytes, load.in_flight)
    return paths.rtt_ns + math.ceil(there + _message_ns(paths.back, load.answer_bytes, load.in_flight))
