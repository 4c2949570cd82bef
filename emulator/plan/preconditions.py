"""Why this machine must not be touched for a topology, and what to be warned of. Pure."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv6Address, ip_address

from emulator.errors import RefusedError
from emulator.model.timeline import Timeline
from emulator.model.topology import Lane, Topology
from emulator.plan.desired_state import datapath, resolved, unresolved
from emulator.plan.engine_lane import lane_memory_bytes, unknown
from emulator.plan.netem_lowering import frame_bytes, limit_packets, lower, skb_bytes
from emulator.plan.state import SWITCH, Machine, Nic, State, interface_name
from emulator.units import compact, format_rate

MEMORY_SHARE = 0.8
"""Of the machine's memory, what the lanes' queues may need together at the very worst."""

ENGINE_NEVER = {
    "aqm": "the wire engine never runs codel, fq-codel or red: "
    "what is measured with a copy of the kernel's code says nothing about the original",
}
"""What the engine will not have, by the topology's key, and why."""

DUPLICATES_WITH_FLOWS = "duplicates cannot be had on a lane with flows: Linux takes one netem a port with them"


def refuse(topology: Topology, have: State, sessions: Collection[str] = ()) -> None:
    """Raises RefusedError with every reason why this machine must not be touched for this topology.

    `sessions` are the machine's own addresses on which somebody is connected who must not be cut off.
    """
    reasons = unresolved(topology, have)
    if not reasons:
        topology = resolved(topology, have)
        names = dict.fromkeys(name for lane in topology.lanes for name in lane.named_ports)
        for name in names:
            reasons += [
                f"port {name}: {text}; free it or name another port" for text in port_reasons(name, have, sessions)
            ]
        reasons += [text for lane in topology.lanes for text in _lane_reasons(lane, have)]
    goal_bridges = {interface_name("", lane.name) for lane in topology.lanes} | {SWITCH}
    taken = sorted(goal_bridges & have.machine.links.keys())
    reasons += [f"{name}: an interface of that name is not a bridge of ours" for name in taken]
    if not reasons:
        engine = datapath(topology, have.machine) == "wire"
        reasons += _wire_reasons(topology) if engine else _netem_reasons(topology)
    if not reasons:
        reasons += memory_reasons(topology, have.machine)
    if reasons:
        raise RefusedError("\n".join(reasons))


def port_reasons(name: str, have: State, sessions: Collection[str] = ()) -> list[str]:
    """Why an interface that is not ours may not be a port of any lane; empty when it may."""
    link = have.machine.links.get(name)
    if link is None:
        return []
    upper = {n: other for n, other in have.machine.links.items() if other.lower == name}
    cut = sorted({_plain(a) for a in sessions} & {_plain(a) for one in (link, *upper.values()) for a in one.addresses})
    route = "carries the default route"
    checks = (
        (bool(cut), f"carries the session you work in, on {', '.join(cut)}"),
        (link.default_route, route),
        (any(other.default_route for other in upper.values()), f"{route}, by {', '.join(sorted(upper))}"),
        (bool(link.addresses), f"has the address {', '.join(link.addresses)}"),
        (bool(link.master), f"belongs to {link.master}"),
        (bool(upper), f"carries {', '.join(sorted(upper))}"),
        (link.kind == "bridge", "is itself a bridge"),
        (bool(link.qdisc), f"has {'an' if link.qdisc[:1] in 'aeiou' else 'a'} {link.qdisc} qdisc of somebody else's"),
    )
    return [text for bad, text in checks if bad]


def warnings(topology: Topology, have: State) -> list[str]:
    """What need not stop anybody, but is likely not meant."""
    if unresolved(topology, have):
        return []
    lines = []
    for lane in resolved(topology, have).lanes:
        for name in lane.named_ports:
            nic = have.machine.nics.get(name, Nic())
            if not nic.carrier:
                lines.append(f"port {name}: has no carrier; is the cable plugged in, and the far end up?")
            if (speed := _unsaid_speed_bps(lane, nic)) is not None:
                lines.append(
                    f"port {name}: runs at {format_rate(speed)}, lane {lane.name} is sized for "
                    f"{format_rate(lane.line_rate_bps)}; say line_rate: {compact(format_rate(speed))}, "
                    "or packets are lost"
                )
    return list(dict.fromkeys(lines))


def _unsaid_speed_bps(lane: Lane, nic: Nic) -> int | None:
    """The port's speed where it is above what netem's limit is sized for, and no rate keeps it down."""
    speed = (nic.speed_mbps or 0) * 10**6
    limited = lane.outbound.rate_bps and lane.inbound.rate_bps
    return None if limited or speed <= lane.line_rate_bps else speed


def _lane_reasons(lane: Lane, have: State) -> list[str]:
    """Why the two ports of a lane do not go together."""
    reasons = []
    for name in lane.named_ports:
        link = have.machine.links.get(name)
        if link and (link.mtu < lane.mtu or (link.mtu != lane.mtu and lane.vlan is None)):
            fix = f"ip link set {name} mtu {lane.mtu}"
            reasons.append(f"port {name}: has MTU {link.mtu}, lane {lane.name} wants {lane.mtu}; {fix}, or say its mtu")
    speeds = [have.machine.nics.get(name, Nic()).speed_mbps for name in lane.named_ports]
    if None not in speeds and len(set(speeds)) > 1:
        reported = " and ".join(f"{n} at {v} Mbit/s" for n, v in zip(lane.named_ports, speeds, strict=True))
        reasons.append(f"lane {lane.name}: {reported} are no pair; name two ports of one speed")
    return reasons


def _plain(address: str) -> str:
    """An address in one spelling; IPv4 within IPv6 as IPv4."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return str(mapped or parsed)


def _wire_reasons(topology: Topology) -> list[str]:
    """What the wire engine cannot do for these lanes, now or ever, by the names of netem, tbf and the egress."""
    reasons = []
    for lane in dict.fromkeys(lane for one in _at_all_times(topology) for lane in one.in_effect.lanes):
        egresses = lower(lane, seed=topology.seed, has_seed=True).both
        for name, egress in zip(("outbound", "inbound"), egresses, strict=True):
            told = [ENGINE_NEVER.get(what, f"the wire engine cannot do {what}") for what in unknown(egress)]
            reasons += [f"lane {lane.name}, {name}: {why}; choose datapath: netem" for why in told]
    return list(dict.fromkeys(reasons))


def _netem_reasons(topology: Topology) -> list[str]:
    """What netem cannot do for these lanes, now or ever, and the wire engine can."""
    reasons = []
    for lane in dict.fromkeys(lane for one in _at_all_times(topology) for lane in one.in_effect.lanes):
        wishes = [wish for way in lane.ways for wish in (way.outbound, way.inbound)]
        if lane.flows and any(wish.duplicate_p32 for wish in wishes):
            reasons.append(f"lane {lane.name}: {DUPLICATES_WITH_FLOWS}; choose datapath: wire")
    return list(dict.fromkeys(reasons))


def _at_all_times(topology: Topology) -> list[Topology]:
    """The topology, and as its schedule makes it."""
    if not topology.schedule:
        return [topology]
    timeline = Timeline(topology, topology.schedule)
    return [topology, *(timeline.at(t_ns) for t_ns in timeline.breakpoints())]


def _queue_bytes(lane: Lane) -> int:
    ways = [(way, wish) for way in lane.ways for wish in (way.outbound, way.inbound)]
    return sum(limit_packets(way, wish) for way, wish in ways) * skb_bytes(frame_bytes(lane.mtu))


def memory_reasons(topology: Topology, machine: Machine) -> list[str]:
    """Why the machine is too small for the lanes' queues, at the very worst of their schedule; empty when it is not."""
    if topology.schedule:
        topology = Timeline(topology, topology.schedule).envelope()
    if datapath(topology, machine) == "wire":
        need = sum(sum(lane_memory_bytes(lane)) for lane in topology.lanes)
    else:
        need = sum(_queue_bytes(lane) for lane in topology.lanes)
    if need <= machine.memory_bytes * MEMORY_SHARE:
        return []
    return [
        f"the lanes' queues may need {need / 2**30:.1f} GiB, this machine has "
        f"{machine.memory_bytes / 2**30:.1f} GiB: lower rate, RTT or buffer"
    ]
