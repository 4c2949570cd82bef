"""A change to one lane: only what is named changes, all else stays. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from emulator.model.flow_match import Match
from emulator.model.impairment import Buffer, Impairment
from emulator.model.topology import Flow, Lane, split_delays


@dataclass(frozen=True)
class OfFlow:
    """The flow of a lane that a change is meant for; where there is none it becomes the last one.

    `match` None leaves its packets as they are. `away` takes the flow away.
    """

    name: str
    match: Match | None = None
    away: bool = False

    def on(self, lane: Lane) -> Flow:
        """That flow of a lane, a new one with nothing but the lane's delays. Raises ValueError."""
        if found := next((flow for flow in lane.flows if flow.name == self.name), None):
            return replace(found, match=self.match or found.match)
        if self.away or not self.match:
            there = ", ".join(flow.name for flow in lane.flows) or "none"
            raise ValueError(f"there is no flow {self.name}: {there} are there; a new one needs a match")
        delays = (Impairment(lane.outbound.delay_ns), Impairment(lane.inbound.delay_ns))
        return Flow(self.name, self.match, *delays)


@dataclass(frozen=True)
class Change:
    """What to change on a lane; None leaves it as it is.

    An RTT alone splits evenly anew. A rate of 0 takes the bottleneck away, an empty buffer (`{}`) means one BDP.
    `outbound` and `inbound` say which directions all but the delays are meant for. `further` are more fields of
    Impairment, by name. A plain loss takes the place of a model, and the other way round. `off` True leaves all but
    the bottleneck on file but without effect; False puts it into effect again, as a new delay does. With `flow` all of
    it is meant for that flow, and nothing else of the lane changes.
    """

    rtt_ns: int | None = None
    outbound_delay_ns: int | None = None
    inbound_delay_ns: int | None = None
    jitter_ns: int | None = None
    loss_p32: int | None = None
    rate_bps: int | None = None
    buffer: dict[str, int] | None = None
    outbound: bool = True
    inbound: bool = True
    off: bool | None = None
    flow: OfFlow | None = None
    further: Mapping[str, Any] = field(default_factory=dict)

    def apply(self, lane: Lane) -> Lane:
        """The lane after the change. Raises ValueError when that would contradict itself."""
        if self.flow:
            return replace(lane, flows=self._flows(lane, self.flow))
        outbound, inbound = self._ways(lane.outbound, lane.inbound)
        return replace(lane, outbound=outbound, inbound=inbound, off=self._off(lane))

    def _flows(self, lane: Lane, one: OfFlow) -> tuple[Flow, ...]:
        """The lane's flows after the change, in their order."""
        now = one.on(lane)
        if one.away:
            return tuple(flow for flow in lane.flows if flow.name != one.name)
        try:
            outbound, inbound = self._ways(now.outbound, now.inbound)
        except ValueError as error:
            raise ValueError(f"flow {one.name}: {error}") from None
        flows = {flow.name: flow for flow in lane.flows}
        return tuple((flows | {one.name: replace(now, outbound=outbound, inbound=inbound)}).values())

    def _ways(self, outbound: Impairment, inbound: Impairment) -> tuple[Impairment, Impairment]:
        """Both directions after the change."""
        outbound_ns, inbound_ns = self._delays(outbound.delay_ns, inbound.delay_ns)
        return (
            self._direction(outbound, outbound_ns, named=self.outbound),
            self._direction(inbound, inbound_ns, named=self.inbound),
        )

    def _off(self, lane: Lane) -> bool:
        delays = (self.rtt_ns, self.outbound_delay_ns, self.inbound_delay_ns)
        return (lane.off and all(delay is None for delay in delays)) if self.off is None else self.off

    def _delays(self, outbound_ns: int, inbound_ns: int) -> tuple[int, int]:
        """Both delays after the change, in ns, from those of now."""
        out, back = self.outbound_delay_ns, self.inbound_delay_ns
        if self.rtt_ns is None:
            out = outbound_ns if out is None else out
            back = inbound_ns if back is None else back
        return split_delays(self.rtt_ns, out, back)

    def _direction(self, now: Impairment, delay_ns: int, *, named: bool) -> Impairment:
        if not named:
            return replace(now, delay_ns=delay_ns)
        fields: dict[str, Any] = {"delay_ns": delay_ns}
        if self.jitter_ns is not None:
            fields["jitter_ns"] = self.jitter_ns
        if self.loss_p32 is not None:
            fields |= {"loss_p32": self.loss_p32, "loss_model": None}
        if self.rate_bps is not None:
            fields["rate_bps"] = self.rate_bps or None
        if self.buffer is not None:
            fields["buffer"] = Buffer(**self.buffer) if self.buffer else None
        return replace(now, **(fields | dict(self.further)))
