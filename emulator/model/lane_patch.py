"""A partial change to one lane: named settings change, all others stay. Pure.

Commands, requests, schedules, replays and the axes of a sweep build such a patch and apply it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from emulator.errors import no_such
from emulator.model.flow_match import Match
from emulator.model.impairment import Impairment
from emulator.model.impairment_keys import AT_REST, KEYS
from emulator.model.topology import Flow, Lane, split_delays

NOTHING: Mapping[str, Any] = MappingProxyType({})


class LanePatch(Struct, frozen=True):
    """A change to a lane, or to one of its flows.

    `outbound` and `inbound` are fields of `Impairment` by name, with their new values. An `rtt_ns` alone is split
    evenly; with one direction's `delay_ns`, the other direction gets the rest. A `delay_ns` of None removes the delay:
    a flow then has the lane's, a lane has 0. `off` True disables all settings except the bottleneck and keeps them;
    False enables them again, as does a new delay. `flows` are patches by the flow's name: an unknown flow becomes the
    last one, with the delays that the lane then has; None deletes a flow, and None in place of `flows` deletes all.
    `match`, for flows only, holds fields of `Match` by name; a new flow needs one.
    """

    rtt_ns: int | None = None
    outbound: Mapping[str, Any] = field(default_factory=dict)
    inbound: Mapping[str, Any] = field(default_factory=dict)
    off: bool | None = None
    match: Mapping[str, Any] | None = None
    flows: Mapping[str, LanePatch | None] | None = field(default_factory=dict)

    def __post_init__(self) -> None:
        unknown = (self.outbound.keys() | self.inbound.keys()) - AT_REST.keys()
        unknown |= (self.match or {}).keys() - set(Match.__struct_fields__)
        if unknown:
            raise TypeError(f"no such field: {', '.join(sorted(unknown))}")

    @classmethod
    def both(cls, values: Mapping[str, Any], *, rtt_ns: int | None = None) -> LanePatch:
        """The same fields of `Impairment` in both directions."""
        return cls(rtt_ns, values, values)

    def apply(self, lane: Lane) -> Lane:
        """The lane after the change. Raises ValueError when its settings would be contradictory."""
        outbound, inbound = self._ways(lane.outbound, lane.inbound, (0, 0))
        flows = self._flows(lane, (outbound.delay_ns, inbound.delay_ns))
        return replace(lane, outbound=outbound, inbound=inbound, off=self._off(lane), flows=flows)

    @property
    def _delayed(self) -> bool:
        return self.rtt_ns is not None or "delay_ns" in self.outbound or "delay_ns" in self.inbound

    def _off(self, lane: Lane) -> bool:
        return (lane.off and not self._delayed) if self.off is None else self.off

    def _ways(
        self, outbound: Impairment, inbound: Impairment, delays_ns: tuple[int, int]
    ) -> tuple[Impairment, Impairment]:
        """Both directions after the change; `delays_ns` are the delays of directions without their own."""
        out, back = dict(self.outbound), dict(self.inbound)
        if self._delayed:
            now_ns = outbound.delay_ns, inbound.delay_ns
            out["delay_ns"], back["delay_ns"] = self._delays(now_ns, delays_ns)
        return replace(outbound, **out), replace(inbound, **back)

    def _delays(self, now_ns: tuple[int, int], delays_ns: tuple[int, int]) -> tuple[int, int]:
        """Both delays after the change, in ns."""
        if self.rtt_ns is not None:
            return split_delays(self.rtt_ns, self.outbound.get("delay_ns"), self.inbound.get("delay_ns"))
        said = [way.get("delay_ns", now) for way, now in zip((self.outbound, self.inbound), now_ns, strict=True)]
        out, back = (base if one is None else one for one, base in zip(said, delays_ns, strict=True))
        return out, back

    def _flows(self, lane: Lane, delays_ns: tuple[int, int]) -> tuple[Flow, ...]:
        """The lane's flows after the change, in their order; `delays_ns` are the lane's then."""
        if self.flows is None:
            return ()
        flows = {flow.name: flow for flow in lane.flows}
        for name, patch in self.flows.items():
            if patch is None:
                flows.pop(name, None)
            else:
                flows[name] = patch._on_flow(lane, name, delays_ns)
        return tuple(flows.values())

    def _on_flow(self, lane: Lane, name: str, delays_ns: tuple[int, int]) -> Flow:
        """The flow of that name after the change. Raises ValueError."""
        there = [flow.name for flow in lane.flows]
        now = lane.flows[there.index(name)] if name in there else self._new_flow(name, there, delays_ns)
        try:
            outbound, inbound = self._ways(now.outbound, now.inbound, delays_ns)
            return replace(now, match=replace(now.match, **self.match or {}), outbound=outbound, inbound=inbound)
        except ValueError as error:
            raise ValueError(f"flow {name}: {error}") from None

    def _new_flow(self, name: str, there: Sequence[str], delays_ns: tuple[int, int]) -> Flow:
        """A flow beside those that are `there`, with these delays and no other impairment."""
        if not self.match:
            raise ValueError(f"{no_such('flow', name, there)}; a new flow needs a match")
        try:
            match = Match(**self.match)
        except ValueError as error:
            raise ValueError(f"flow {name}: {error}") from None
        return Flow(name, match, *map(Impairment, delays_ns))


def difference(before: Lane, after: Lane) -> LanePatch:
    """The patch that turns one lane into the other; both have the same ports, MTU and line rate.

    It holds a new or different flow in full, and all fields of a key when one of them differs. Flows of both lanes
    keep the order of `before`.
    """
    flows: dict[str, LanePatch | None] = {flow.name: None for flow in before.flows if flow not in after.flows}
    flows |= {flow.name: _whole(flow) for flow in after.flows if flow not in before.flows}
    outbound, inbound = _changed(before.outbound, after.outbound), _changed(before.inbound, after.inbound)
    return LanePatch(outbound=outbound, inbound=inbound, off=after.off, flows=flows)


def _whole(flow: Flow) -> LanePatch:
    return LanePatch(outbound=asdict(flow.outbound), inbound=asdict(flow.inbound), match=asdict(flow.match))


def _changed(before: Impairment, after: Impairment) -> dict[str, Any]:
    """The fields of every key that differs."""
    differing = (key for key in KEYS if key.of(before) != key.of(after))
    return {name: value for key in differing for name, value in key.of(after).items()}
