"""What happens on the lanes now: rates and drops between two readings of the counters, and the measured RTT. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from emulator.control.status import DirectionCounters, DirectionStatus, LaneStatus, Status

NS = 10**9


class Traffic(Struct, frozen=True):
    """One direction over the last interval; None where the kernel has no such figure.

    The bottleneck queues `queued_bytes` of at most `buffer_bytes`; the direction holds `queued_packets` of at most
    `limit_packets`, those in flight included.
    """

    rate_bps: int
    packets_per_s: int
    queued_packets: int
    limit_packets: int
    queued_bytes: int
    buffer_bytes: int | None
    drops_limit_per_s: float | None
    drops_buffer_per_s: float
    drops_loss_per_s: float | None


class FlowNow(Struct, frozen=True):
    """Both directions of a flow over the last interval."""

    outbound: Traffic
    inbound: Traffic


class LaneNow(Struct, frozen=True):
    """One lane over the last interval: configured and measured RTT in ns (None: not measured), lost echoes, traffic.

    `flows` is empty, or holds every flow by name, and under "" the packets of no flow.
    """

    asked_ns: int
    min_ns: int | None
    median_ns: int | None
    p99_ns: int | None
    lost: int
    outbound: Traffic
    inbound: Traffic
    flows: Mapping[str, FlowNow]

    def to_json(self) -> dict[str, Any]:
        """Its values as plain data."""
        flows = {name: _both(one) for name, one in self.flows.items()}
        return {**asdict(self), **_both(self), "flows": flows}


def _both(one: LaneNow | FlowNow) -> dict[str, Any]:
    return {"outbound": asdict(one.outbound), "inbound": asdict(one.inbound)}


class Reading(Struct, frozen=True):
    """The counters at one time of a monotonic clock, by port and flow; "" stands for packets of no flow."""

    at_ns: int
    counters: Mapping[tuple[str, str], DirectionCounters]


def reading(at_ns: int, status: Status) -> Reading:
    """The counters until now."""
    counters = {}
    for one in status.lanes:
        names = [flow.name for flow in one.lane.flows]
        for whole in (one.outbound, one.inbound):
            counters[whole.port, ""] = whole.counters
            # A flow that the kernel lost counts nothing.
            counters |= {(whole.port, name): part.counters for name, part in zip(names, whole.flows, strict=False)}
    return Reading(at_ns, counters)


def flows(one: LaneStatus, before: Reading, now_ns: int) -> dict[str, FlowNow]:
    """The traffic of each flow that a lane has in both directions since `before`; see `LaneNow`."""
    both = zip(one.lane.flows, one.outbound.flows, one.inbound.flows, strict=False)
    parts = {flow.name: (out, back) for flow, out, back in both}
    if parts:
        parts[""] = (one.outbound, one.inbound)
    return {name: FlowNow(*(traffic(part, before, now_ns, name) for part in ways)) for name, ways in parts.items()}


def together(parts: Sequence[Traffic]) -> Traffic:
    """The sum over one direction. It is None where one term is."""
    sums: dict[str, float | None] = {}
    for name in Traffic.__struct_fields__:
        values = [getattr(part, name) for part in parts]
        sums[name] = None if None in values else sum(values)
    return Traffic(**sums)  # type: ignore[arg-type]


def traffic(direction: DirectionStatus, before: Reading, now_ns: int, flow: str = "") -> Traffic:
    """One direction since `before`; a queue created meanwhile counted from zero."""
    new = direction.counters
    old = before.counters.get((direction.port, flow), new)
    if new.packets < old.packets:
        old = DirectionCounters()
    dropped, lasted_ns = new.dropped_since(old), max(1, now_ns - before.at_ns)
    shaper = direction.shaper
    return Traffic(
        rate_bps=(new.bytes - old.bytes) * 8 * NS // lasted_ns,
        packets_per_s=(new.packets - old.packets) * NS // lasted_ns,
        queued_packets=new.queued_packets,
        limit_packets=new.limit_packets,
        queued_bytes=new.queued_bytes,
        buffer_bytes=shaper.limit_bytes if shaper else None,
        drops_limit_per_s=_per_s(dropped.limit, lasted_ns),
        drops_buffer_per_s=max(0, dropped.buffer) * NS / lasted_ns,
        drops_loss_per_s=_per_s(dropped.loss, lasted_ns),
    )


def _per_s(count: int | None, lasted_ns: int) -> float | None:
    return None if count is None else max(0, count) * NS / lasted_ns


def quantile(sorted_values: Sequence[int], share: float) -> int | None:
    """The value at or below which `share` of the values lie (nearest rank); None without values."""
    if not sorted_values:
        return None
    return sorted_values[max(1, -(-len(sorted_values) * round(share * 100) // 100)) - 1]
