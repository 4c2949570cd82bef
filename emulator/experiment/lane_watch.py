"""The lane and its hosts, watched from before a workload until after it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec import Struct

from emulator.analysis.observed import Delays, LaneEvidence, MachineUse, Queues
from emulator.experiment import engine_lateness, observe_cell
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.engine_lateness import Late
from emulator.hosts.host import Host
from emulator.hosts.tools import nstat, time_tolerance
from emulator.model.sweep_axes import INBOUND, OUTBOUND

if TYPE_CHECKING:
    from emulator.control.appliance import Appliance
    from emulator.control.status import DirectionCounters, Status


class WatchedLane(Struct, frozen=True):
    """What was seen of the lane: in both directions together, and its drops in each measured direction.

    `late` is how late the wire engine was.
    """

    evidence: LaneEvidence
    queues: tuple[Queues, ...]
    late: tuple[Late, ...]

    @property
    def delays(self) -> Delays:
        """What is known of the delays: the RTT of the idle lane."""
        return Delays(self.evidence.rtt_before_ns, None, None)

    @property
    def too_late(self) -> tuple[str, ...]:
        """What of the engine's lateness makes the figures invalid."""
        return tuple(str(one) for one in self.late if not one.passed)


class LaneWatch:
    """Reads the counters of a cell's lane and hosts when it is made, and again when the workload has ended.

    `rtt_ns` is the RTT of the idle lane, and `cached_metrics` the number of peers that the kernel remembers. Both
    readings raise MeasureError.
    """

    def __init__(
        self, spec: CellSpec, appliance: Appliance, hub: Host, site: Host, *, rtt_ns: int, cached_metrics: int
    ) -> None:
        self._spec, self._appliance, self._hosts = spec, appliance, (hub, site)
        self._rtt_ns, self._cached_metrics = rtt_ns, cached_metrics
        self._memory_short = any(observe_cell.short_of_memory(host) for host in self._hosts)
        self._counters, self._status = observe_cell.counters(hub, site), appliance.status()

    def ended(self, core_percent: float = 0.0) -> WatchedLane:
        """What changed since then; `core_percent` is how busy the busiest core was, where that was measured."""
        spec, before, after = self._spec, self._status, self._appliance.status()
        grown = nstat.increase(self._counters, observe_cell.counters(*self._hosts))
        ways = {way: _drops(before, after, spec.lane.name, way) for way in (OUTBOUND, INBOUND)}
        jitter_ns = spec.lane.outbound.jitter_ns + spec.lane.inbound.jitter_ns
        evidence = LaneEvidence(
            queues=_together(ways[OUTBOUND], ways[INBOUND]),
            machine=MachineUse(os.uname().release, grown, core_percent),
            memory_short=self._memory_short,
            rtt_before_ns=self._rtt_ns,
            rtt_tolerance_ns=time_tolerance.rtt_tolerance_ns() + jitter_ns,
            cached_metrics=self._cached_metrics,
            drift=tuple(f"{step.why}; as asked again by: {step.op}" for step in after.drift),
        )
        return WatchedLane(evidence, tuple(ways[way.direction] for way in spec.ways), _late(spec, before, after))


def _late(spec: CellSpec, before: Status, after: Status) -> tuple[Late, ...]:
    """How late the wire engine was in between; more than the clock's tolerance or a hundredth of the RTT fails."""
    allowed_ns = max(time_tolerance.rtt_tolerance_ns(), spec.lane.rtt_ns // 100)
    return engine_lateness.between(before.lanes, after.lanes, allowed_ns)


def _drops(before: Status, after: Status, lane: str, way: str) -> Queues:
    """What one direction's queues dropped in between."""
    old, new = (_counters(status, lane, way) for status in (before, after))
    dropped = new.dropped_since(old)
    return Queues(dropped.limit, dropped.buffer, dropped.loss, after.datapath)


def _counters(status: Status, lane: str, way: str) -> DirectionCounters:
    both = status.lane(lane)
    return (both.outbound if way == OUTBOUND else both.inbound).counters


def _together(there: Queues, back: Queues) -> Queues:
    """The drops of both directions."""
    return Queues(
        _both(there.drops_limit, back.drops_limit),
        there.drops_buffer + back.drops_buffer,
        _both(there.drops_loss, back.drops_loss),
        there.datapath,
    )


def _both(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
