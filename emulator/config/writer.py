"""Converts a topology to the plain values of a file, in the form that people write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from emulator import units
from emulator.model import flow_match, impairment_keys
from emulator.model.impairment import Impairment
from emulator.model.impairment_keys import KEYS
from emulator.model.schedule import DOWN, RTT, Keyframe, Schedule, Start
from emulator.model.topology import Flow, Lane, Topology, split_rtt


def tree(topology: Topology) -> dict[str, Any]:
    """The topology as a file holds it."""
    found: dict[str, Any] = {
        "name": topology.name,
        "hub": topology.hub,
        **({"hub_host": topology.hub_host} if topology.hub_host else {}),
        "subnet": str(topology.subnet),
        "seed": topology.seed,
        "on_drift": topology.on_drift,
        "datapath": topology.datapath,
        "on_failure": topology.on_failure,
        "lanes": {lane.name: lane_tree(lane) for lane in topology.lanes},
    }
    if topology.schedule:
        found["schedule"] = schedule_tree(topology.schedule)
    return found


def lane_tree(lane: Lane, *, apart: bool = False) -> dict[str, object]:
    """A lane as a person would write it: an RTT and shared impairments where both directions are equal.

    With `apart`, each direction is complete, including its delay.
    """
    even = not apart and (lane.outbound.delay_ns, lane.inbound.delay_ns) == split_rtt(lane.rtt_ns)
    outbound, inbound = (_direction_tree(d, with_delay=not even) for d in (lane.outbound, lane.inbound))
    tree: dict[str, object] = {"rtt": units.compact(units.format_duration(lane.rtt_ns))} if even else {}
    if even and outbound == inbound and "seed" not in outbound:
        tree |= outbound
    else:
        tree |= {name: d for name, d in (("outbound", outbound), ("inbound", inbound)) if d}
    tree |= {"mtu": lane.mtu, "line_rate": units.compact(units.format_rate(lane.line_rate_bps))}
    if lane.off:
        tree["disabled"] = True
    if lane.ports:
        vlan = {} if lane.vlan is None else {"vlan": lane.vlan}
        tree["ports"] = {"hub": lane.ports.hub, "site": lane.ports.site} | vlan
    tree |= {key: str(value) for key, value in (("host", lane.host), ("address", lane.address)) if value}
    if lane.flows:
        tree["flows"] = {flow.name: {"match": flow_match.tree(flow.match), **_ways_tree(flow)} for flow in lane.flows}
    return tree


def _ways_tree(flow: Flow) -> dict[str, object]:
    """Both directions of a flow in full: an omitted delay would mean the lane's."""
    ways = {name: _direction_tree(getattr(flow, name), with_delay=True) for name in ("outbound", "inbound")}
    return dict(ways)


def _direction_tree(direction: Impairment, *, with_delay: bool) -> dict[str, object]:
    """One direction's settings that have an effect; the delay only with `with_delay`."""
    delay = impairment_keys.named("delay")
    tree = impairment_keys.written(direction, (delay,))
    return tree if with_delay else {name: value for name, value in tree.items() if name != delay.name}


def schedule_tree(schedule: Schedule) -> dict[str, object]:
    """A schedule as a person would write it; a trace becomes its keyframes."""
    found: dict[str, object] = {"start": start_text(schedule.start)}
    if schedule.loop_ns:
        found["loop"] = _time(schedule.loop_ns)
    tracks = [
        {"lanes": list(track.lanes) or "all", "direction": track.direction, "keys": [_key_tree(k) for k in track.keys]}
        for track in schedule.tracks
    ]
    return found | {"step": _time(schedule.step_ns), "tracks": tracks}


def _key_tree(frame: Keyframe) -> dict[str, object]:
    values, words = dict(frame.values), dict[str, object](at=_time(frame.at_ns))
    if frame.ramp:
        words["ramp"] = "yes"
    if RTT in values:
        words["rtt"] = _time(int(str(values[RTT])))
    words |= {key.name: key.write(values) for key in KEYS if values.keys() >= set(key.fields)}
    return words | ({"down": "yes" if values[DOWN] else "no"} if DOWN in values else {})


def start_text(start: Start) -> str:
    """When a schedule begins, as `schedule_schema.parse_start` reads it."""
    if start.kind == "now":
        return units.compact(units.format_duration(start.ns)) if start.ns else "now"
    if start.kind == "daily":
        seconds = start.ns // 10**9
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    seconds, rest = divmod(start.ns, 10**9)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
    return moment.isoformat()


def _time(ns: int) -> str:
    return units.compact(units.format_duration(ns))
