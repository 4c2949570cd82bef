"""What groups of flows made of a bottleneck that they share: rates, shares, delays and losses of each group. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from emulator.analysis import flow_shares
from emulator.analysis.request_figures import RequestTimes, SocketSums
from emulator.analysis.tcp_path import NS
from emulator.model.flow_group import Contest, FlowGroup

STEADY_SHARE = 0.5
"""Figures are of the last half of the time in which all groups send."""
SMOOTHED_S, SMOOTHED_ROUND_TRIPS = 1.0, 10
"""Over how long a rate is averaged before it is called fair: the longer of both."""


class GroupFigures(Struct, frozen=True):
    """One group. Rates are payload at the receiver; series have one value for each interval.

    `flow_bytes_per_s` are the rates of its flows in the steady part; of transfers it is one rate, of all flows
    together. `windows_bytes` are the sums of the congestion windows, `trips_us` the means of the smoothed RTTs, None
    while no flow is connected. `fair_share` is its rate over that of as many average flows, None of a group of
    transfers, which asks for no more than it sends. `fair_after_ns` is the time from the last group's start until the
    rate was within a tenth of the fair one; None when it never was. `times` are those of its transfers.
    """

    congestion_control: str
    received_bytes: int
    bytes_per_s: float
    flow_bytes_per_s: tuple[float, ...]
    share: float
    fair_share: float | None
    jain: float
    fair_after_ns: int | None
    trip_p50_ns: int | None
    trip_p95_ns: int | None
    least_trip_ns: int
    sockets: SocketSums
    times: RequestTimes
    series_bytes: tuple[int, ...]
    windows_bytes: tuple[int | None, ...]
    trips_us: tuple[int | None, ...]
    lost: tuple[str, ...]
    unfinished: int

    def queueing_ns(self, rtt_ns: int) -> int | None:
        """By how much the median of its smoothed RTTs exceeds that of the idle lane."""
        return None if self.trip_p50_ns is None else max(0, self.trip_p50_ns - rtt_ns)

    def queueing_over_time_ns(self, rtt_ns: int) -> list[int | None]:
        """By how much its smoothed RTTs exceed that of the idle lane, in each interval."""
        return [None if one is None else max(0, 1000 * one - rtt_ns) for one in self.trips_us]


class FlowFigures(Struct, frozen=True):
    """All groups. `jain` is the index of all flows without an end; the steady part is from `from_ns` to `until_ns`."""

    tool: str
    interval_ns: int
    from_ns: int
    until_ns: int
    bytes_per_s: float
    jain: float
    groups: tuple[GroupFigures, ...]
    sender_cpu_percent: float
    receiver_cpu_percent: float

    @property
    def retransmits(self) -> int:
        """Segments that any flow sent again."""
        return sum(group.sockets.retransmits for group in self.groups)

    @property
    def received_bytes(self) -> int:
        """Everything that arrived during the measurement."""
        return sum(group.received_bytes for group in self.groups)


class FlowTimes(Struct, frozen=True):
    """The times of a measurement: its intervals' length and number, and the RTT, which smooths rates."""

    interval_ns: int
    intervals: int
    rtt_ns: int

    @property
    def smoothed(self) -> int:
        """Over how many intervals a rate is averaged before it is called fair."""
        return max(1, round(max(SMOOTHED_S, SMOOTHED_ROUND_TRIPS * self.rtt_ns / NS) * NS / self.interval_ns))


def ideal_transfer_ns(group: FlowGroup, line_bytes_per_s: float, rtt_ns: int) -> int | None:
    """The least time of a transfer of the group: its bytes at the line's rate, the round trip of the last one and its
    answer, and that of a new connection's handshake. None of flows without an end."""
    if group.bytes is None:
        return None
    return round(group.bytes * NS / line_bytes_per_s) + rtt_ns * (1 if group.keeps else 2)


def of_reports(
    contest: Contest, times: FlowTimes, sender: Mapping[str, Any], receiver: Mapping[str, Any]
) -> FlowFigures:
    """From the reports of both ends. Raises KeyError, TypeError, ValueError on anything else."""
    rows = [[[int(count) for count in flow] for flow in group["flows"]] for group in receiver["groups"]]
    if len(rows) != len(contest.groups) or any(len(row) != times.intervals for group in rows for row in group):
        raise ValueError("the report is of other groups or intervals")
    first, last, started = _steady(contest, times)
    rates = [_rates(group, flows, first, last, times) for group, flows in zip(contest.groups, rows, strict=True)]
    series = [tuple(map(sum, zip(*flows, strict=True))) or (0,) * times.intervals for flows in rows]
    fair = _fair_series(contest, series, times)
    endless = [rate for group, own in zip(contest.groups, rates, strict=True) if group.is_endless for rate in own]
    total = sum(map(sum, rates))
    groups = tuple(
        _group(group, times, sender["groups"][n], rates[n], series[n], fair[n], (first, last, started), endless, total)
        for n, group in enumerate(contest.groups)
    )
    return FlowFigures(
        tool=f"Python {sender['python']}",
        interval_ns=times.interval_ns,
        from_ns=first * times.interval_ns,
        until_ns=last * times.interval_ns,
        bytes_per_s=total,
        jain=flow_shares.jain(endless),
        groups=groups,
        sender_cpu_percent=100 * float(sender["cpu_s"]) / max(float(sender["wall_s"]), 1e-9),
        receiver_cpu_percent=100 * float(receiver["cpu_s"]) / max(float(sender["wall_s"]), 1e-9),
    )


def _steady(contest: Contest, times: FlowTimes) -> tuple[int, int, int]:
    """The first interval of the steady part, the one after its last, and the one in which the last group starts.

    Groups that never send at the same time have no common part; then it is the whole measurement.
    """
    started = max(group.start_ns for group in contest.groups) // times.interval_ns
    stops = [group.stop_ns // times.interval_ns for group in contest.groups if group.stop_ns is not None]
    last = min([*stops, times.intervals])
    if last <= started:
        return 0, times.intervals, min(started, times.intervals)
    return started + int((last - started) * STEADY_SHARE), last, started


def _rates(
    group: FlowGroup, flows: Sequence[Sequence[int]], first: int, last: int, times: FlowTimes
) -> tuple[float, ...]:
    """The rate of each flow in the steady part; a flow that never connected has none."""
    lasts_s = (last - first) * times.interval_ns / NS
    seen = [sum(flow[first:last]) / lasts_s for flow in flows]
    wanted = group.flows if group.is_endless else 1
    return (*seen, *[0.0] * (wanted - len(seen)))


def _fair_series(contest: Contest, series: Sequence[Sequence[int]], times: FlowTimes) -> list[list[float]]:
    """The fair part of each group without an end in each interval: as many average flows as it has, of those that send
    then."""
    fair: list[list[float]] = [[0.0] * times.intervals for _ in contest.groups]
    for at in range(times.intervals):
        now = [n for n, group in enumerate(contest.groups) if group.is_endless and _sends(group, at, times)]
        flows = sum(contest.groups[n].flows for n in now)
        for n in now:
            fair[n][at] = sum(series[m][at] for m in now) * contest.groups[n].flows / flows
    return fair


def _sends(group: FlowGroup, at: int, times: FlowTimes) -> bool:
    stop_ns = group.stop_ns if group.stop_ns is not None else times.intervals * times.interval_ns
    return group.start_ns <= at * times.interval_ns < stop_ns


def _group(
    group: FlowGroup,
    times: FlowTimes,
    sent: Mapping[str, Any],
    rates: tuple[float, ...],
    series: tuple[int, ...],
    fair: Sequence[float],
    steady: tuple[int, int, int],
    endless: Sequence[float],
    total: float,
) -> GroupFigures:
    first, last, started = steady
    rate = sum(rates)
    fair_rate = sum(endless) * group.flows / len(endless) if group.is_endless else 0.0
    after = (
        flow_shares.fair_from(series[started:last], fair[started:last], times.smoothed) if group.is_endless else None
    )
    trips_us = tuple(None if one is None else int(one) for one in sent["trips_us"])
    seen_us = sorted(one for one in trips_us[first:last] if one is not None)
    return GroupFigures(
        congestion_control=str(sent["congestion_control"]),
        received_bytes=sum(series),
        bytes_per_s=rate,
        flow_bytes_per_s=rates,
        share=rate / total if total else 0.0,
        fair_share=rate / fair_rate if fair_rate else 0.0 if group.is_endless else None,
        jain=flow_shares.jain(rates),
        fair_after_ns=None if after is None else after * times.interval_ns,
        trip_p50_ns=_quantile_ns(seen_us, 0.5),
        trip_p95_ns=_quantile_ns(seen_us, 0.95),
        least_trip_ns=1000 * int(sent["least_trip_us"]),
        sockets=SocketSums(**sent["sockets"]),
        times=RequestTimes.of(sent["times"]),
        series_bytes=series,
        windows_bytes=tuple(None if one is None else int(one) for one in sent["windows"]),
        trips_us=trips_us,
        lost=tuple(map(str, sent["lost"])),
        unfinished=int(sent["unfinished"]),
    )


def _quantile_ns(sorted_us: Sequence[int], share: float) -> int | None:
    """The nearest rank, in ns; None without values."""
    return 1000 * sorted_us[max(0, -(-len(sorted_us) * round(share * 100) // 100) - 1)] if sorted_us else None
