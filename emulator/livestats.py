"""What happens on the lanes now: rates and drops between two readings of the counters, and the RTT measured. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from emulator.status import DirectionCounters, DirectionStatus, Status

NS = 10**9


@dataclass(frozen=True)
class Flow:
    """One direction over the last interval; what the kernel cannot tell is None.

    `queued_bytes` of at most `buffer_bytes` stand in the bottleneck, `queued_packets` of at most `limit_packets` in the
    direction altogether, those in flight too.
    """

    rate_bps: int
    packets_per_s: int
    queued_packets: int
    limit_packets: int
    queued_bytes: int
    buffer_bytes: int | None
    drops_limit: int | None
    drops_buffer: int
    drops_loss: int | None


@dataclass(frozen=True)
class LaneNow:
    """One lane over the last interval: RTT asked and measured in ns (None: not measured), echoes lost, both flows."""

    asked_ns: int
    min_ns: int | None
    median_ns: int | None
    p99_ns: int | None
    lost: int
    outbound: Flow
    inbound: Flow


@dataclass(frozen=True)
class Reading:
    """The counters at one time of a monotonic clock."""

    at_ns: int
    counters: Mapping[str, DirectionCounters]


def reading(at_ns: int, status: Status) -> Reading:
    """By port, what was counted."""
    return Reading(at_ns, {d.port: d.counters for one in status.lanes for d in (one.outbound, one.inbound)})


def flow(direction: DirectionStatus, before: Reading, now_ns: int) -> Flow:
    """One direction since `before`; a queue that was made anew in between has counted from zero."""
    new = direction.counters
    old = before.counters.get(direction.port, new)
    if new.packets < old.packets:
        old = DirectionCounters()
    lasted_ns = max(1, now_ns - before.at_ns)
    shaper = direction.shaper
    return Flow(
        rate_bps=(new.bytes - old.bytes) * 8 * NS // lasted_ns,
        packets_per_s=(new.packets - old.packets) * NS // lasted_ns,
        queued_packets=new.queued_packets,
        limit_packets=new.limit_packets,
        queued_bytes=new.queued_bytes,
        buffer_bytes=shaper.limit_bytes if shaper else None,
        drops_limit=_grown(old.drops_limit, new.drops_limit),
        drops_buffer=max(0, new.drops_buffer - old.drops_buffer),
        drops_loss=_grown(old.drops_loss, new.drops_loss),
    )


def _grown(old: int | None, new: int | None) -> int | None:
    return None if old is None or new is None else max(0, new - old)


def quantile(sorted_values: Sequence[int], share: float) -> int | None:
    """The value at or below which `share` of the values lie (nearest rank); None of nothing."""
    if not sorted_values:
        return None
    return sorted_values[max(1, -(-len(sorted_values) * round(share * 100) // 100)) - 1]
