"""The lanes as Prometheus metrics. Names and units follow its conventions: seconds, bytes, totals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from emulator.control.schedule_lateness import BUCKETS_NS, Lateness
from emulator.control.status import DirectionCounters, DirectionStatus, LaneStatus, Status
from emulator.model.impairment import Impairment
from emulator.model.loss_model import P32
from web.live import Look

NS = 1e9
SIDES = ("outbound", "inbound")
LABELS = ["lane", "flow", "direction"]
"""The labels of a direction's metrics; an empty `flow` stands for the packets of no flow."""


class Lanes(Collector):
    """The state of the lanes at one time, as a collector."""

    def __init__(self, status: Status, look: Look | None, runs: dict[str, int], watchers: int) -> None:
        self._status, self._look, self._runs, self._watchers = status, look, runs, watchers

    def collect(self) -> Iterator[Metric]:
        """Yield all metric families."""
        lanes = self._status.lanes
        text = "Requested round-trip time; 0 while the lane is off"
        asked = GaugeMetricFamily("longhaul_lane_rtt_asked_seconds", text, labels=LABELS[:2])
        for lane in (one.lane.in_effect for one in lanes):
            asked.add_metric([lane.name, ""], lane.rtt_ns / NS)
            for flow in lane.flows:
                asked.add_metric([lane.name, flow.name], (flow.outbound.delay_ns + flow.inbound.delay_ns) / NS)
        yield asked
        off = GaugeMetricFamily("longhaul_lane_off", "Whether the lane's settings are off", labels=LABELS[:1])
        for one in lanes:
            off.add_metric([one.lane.name], one.lane.off)
        yield off
        yield self._measured()
        yield from _gauges(lanes)
        yield from _counters(lanes)
        drift = 0 if self._status.changing else len(self._status.drift)
        yield GaugeMetricFamily("longhaul_drift_steps", "Steps that repair the drift", value=drift)
        leased = int(self._status.leased)
        old = "Deprecated name of longhaul_lanes_leased; the next release removes it"
        yield GaugeMetricFamily("longhaul_lanes_borrowed", old, value=leased)
        yield GaugeMetricFamily("longhaul_lanes_leased", "Whether a measurement has leased the lanes", value=leased)
        if self._status.lateness:
            yield _lateness(self._status.lateness)
        runs = GaugeMetricFamily("longhaul_runs", "Test runs by state", labels=["state"])
        for state, count in self._runs.items():
            runs.add_metric([state], count)
        yield runs
        yield GaugeMetricFamily("longhaul_event_watchers", "Clients of the event stream", value=self._watchers)

    def _measured(self) -> Metric:
        family = GaugeMetricFamily(
            "longhaul_lane_rtt_measured_seconds", "Round-trip time measured over the last second", labels=["lane", "of"]
        )
        for name, lane in (self._look.lanes if self._look else {}).items():
            for of in ("min", "median", "p99"):
                value = getattr(lane, f"{of}_ns")
                if value is not None:
                    family.add_metric([name, of], value / NS)
        return family


def _lateness(late: Lateness) -> Metric:
    ends = [*(str(end / NS) for end in BUCKETS_NS), "+Inf"]
    return HistogramMetricFamily(
        "longhaul_schedule_lateness_seconds",
        "How late the schedule's changes were applied",
        buckets=list(zip(ends, accumulate(late.histogram), strict=True)),
        sum_value=late.total_ns / NS,
    )


def _directions(lanes: tuple[LaneStatus, ...]) -> Iterator[tuple[list[str], Impairment, DirectionCounters]]:
    """Every direction of every lane and flow: its labels, its settings and its counters."""
    for one in lanes:
        for side in SIDES:
            whole: DirectionStatus = getattr(one, side)
            yield [one.lane.name, "", side], getattr(one.lane, side), whole.counters
            for flow, part in zip(one.lane.flows, whole.flows, strict=False):
                yield [one.lane.name, flow.name, side], getattr(flow, side), part.counters


def _gauges(lanes: tuple[LaneStatus, ...]) -> Iterator[Metric]:
    families = {
        "queued_packets": GaugeMetricFamily("longhaul_queue_packets", "Packets in flight and queued", labels=LABELS),
        "limit_packets": GaugeMetricFamily("longhaul_queue_limit_packets", "Limit of queue_packets", labels=LABELS),
        "queued_bytes": GaugeMetricFamily("longhaul_queue_bytes", "Bytes in flight and queued", labels=LABELS),
    }
    loss = GaugeMetricFamily("longhaul_loss_asked_ratio", "Requested loss", labels=LABELS)
    for labels, asked, counters in _directions(lanes):
        for field, family in families.items():
            family.add_metric(labels, getattr(counters, field))
        loss.add_metric(labels, asked.loss_p32 / P32)
    yield from families.values()
    yield loss


def _counters(lanes: tuple[LaneStatus, ...]) -> Iterator[Metric]:
    traffic = {
        "bytes": CounterMetricFamily("longhaul_sent_bytes", "Bytes sent", labels=LABELS),
        "packets": CounterMetricFamily("longhaul_sent_packets", "Packets (skbs) sent", labels=LABELS),
    }
    drops = CounterMetricFamily("longhaul_dropped_packets", "Packets dropped, by cause", labels=[*LABELS, "cause"])
    for labels, _, counters in _directions(lanes):
        for field, family in traffic.items():
            family.add_metric(labels, getattr(counters, field))
        for cause in ("limit", "buffer", "loss"):
            value = getattr(counters, f"drops_{cause}")
            if value is not None:
                drops.add_metric([*labels, cause], value)
    yield from traffic.values()
    yield drops


def text(status: Status, look: Look | None, runs: dict[str, int], watchers: int) -> bytes:
    """The metrics in the exposition format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Lanes(status, look, runs, watchers))
    return generate_latest(registry)
