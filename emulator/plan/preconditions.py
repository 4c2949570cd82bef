"""The reasons to refuse a topology on this machine, and the warnings about it. Pure."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv6Address, ip_address

from emulator.errors import RefusedError
from emulator.model import device_names
from emulator.model.impairment import AQM_SINCE
from emulator.model.topology import Lane, Topology
from emulator.plan.desired_state import resolved, unresolved
from emulator.plan.engine_lane import lane_memory_bytes, unknown
from emulator.plan.netem_lowering import lower
from emulator.plan.scheduled_state import timeline_of
from emulator.plan.small_frames import FULL, MEMORY_SHARE, MOST_PACKETS, datapath, lane_queues_bytes, most_packets
from emulator.plan.state import Machine, Nic, State
from emulator.units import compact, format_rate

ENGINE_NEVER = {
    "aqm": "the wire engine runs none of the kernel's queues but drop-tail: "
    "what is measured with a copy of the kernel's code says nothing about the original",
}
"""The settings that the engine will never support, by the topology's key, each with the reason."""

DUPLICATES_WITH_FLOWS = (
    "netem cannot duplicate packets on a lane with flows: Linux allows duplicates only for the single netem of a port"
)


def refuse(topology: Topology, have: State, sessions: Collection[str] = ()) -> None:
    """Raises RefusedError with every reason against this topology on this machine.

    `sessions` are the machine's own addresses of connections that must stay.
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
    made = {name for name, _ in device_names.made(topology.hub, topology.kinds)}
    taken = sorted(made & have.machine.links.keys())
    reasons += [f"{name}: an interface that Longhaul does not own has this name: rename or delete it" for name in taken]
    if reasons := reasons or setting_reasons(topology, have.machine):
        raise RefusedError("\n".join(reasons))


def port_reasons(name: str, have: State, sessions: Collection[str] = ()) -> list[str]:
    """Why an interface that Longhaul does not own may not be a port of any lane; empty when it may."""
    link = have.machine.links.get(name)
    if link is None:
        return ["is made by Longhaul for another lane"] if _is_made(name, have) else []
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


def _is_made(name: str, have: State) -> bool:
    """Whether an interface is a bridge, a veth's end or a VLAN of Longhaul's."""
    ends = {end for veth in have.veths.values() for end in (veth.name, veth.peer)}
    return name in have.bridges.keys() | have.vlans.keys() | ends


def warnings(topology: Topology, have: State) -> list[str]:
    """Warnings about settings that the user likely does not mean."""
    if unresolved(topology, have):
        return []
    lines = []
    for lane in resolved(topology, have).lanes:
        for name in lane.named_ports:
            nic = have.machine.nics.get(name, Nic())
            if not nic.carrier:
                lines.append(f"port {name}: has no carrier: check the cable, and that the far end is up")
            if (speed := _unsaid_speed_bps(lane, nic)) is not None:
                lines.append(
                    f"port {name}: runs at {format_rate(speed)}, lane {lane.name} is sized for "
                    f"{format_rate(lane.line_rate_bps)}; say line_rate: {compact(format_rate(speed))}, "
                    "or packets are lost"
                )
    return list(dict.fromkeys(lines))


def _unsaid_speed_bps(lane: Lane, nic: Nic) -> int | None:
    """The port's speed where it exceeds the lane's line rate and no rate limits it; else None."""
    speed = (nic.speed_mbps or 0) * 10**6
    limited = lane.outbound.rate_bps and lane.inbound.rate_bps
    return None if limited or speed <= lane.line_rate_bps else speed


def _lane_reasons(lane: Lane, have: State) -> list[str]:
    """Why the two ports of a lane do not fit together."""
    reasons = []
    for name in lane.named_ports:
        link = have.machine.links.get(name)
        if link and (link.mtu < lane.mtu or (link.mtu != lane.mtu and lane.vlan is None)):
            fix = f"ip link set {name} mtu {lane.mtu}"
            reasons.append(f"port {name}: has MTU {link.mtu}, lane {lane.name} wants {lane.mtu}; {fix}, or say its mtu")
    speeds = [have.machine.nics.get(name, Nic()).speed_mbps for name in lane.named_ports]
    if None not in speeds and len(set(speeds)) > 1:
        reported = " and ".join(f"{n} at {v} Mbit/s" for n, v in zip(lane.named_ports, speeds, strict=True))
        reasons.append(f"lane {lane.name}: {reported} differ in speed: use two ports of one speed")
    return reasons


def _plain(address: str) -> str:
    """An address in one spelling; IPv4 within IPv6 as IPv4."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return str(mapped or parsed)


def setting_reasons(topology: Topology, machine: Machine) -> list[str]:
    """Why this machine's datapath, kernel or memory cannot hold the lanes' settings; empty when they can."""
    engine = datapath(topology, machine) == "wire"
    reasons = _wire_reasons(topology) if engine else _netem_reasons(topology, machine.kernel)
    return reasons or memory_reasons(topology, machine)


def _wire_reasons(topology: Topology) -> list[str]:
    """The settings of these lanes, with and without the schedule, that the wire engine does not support."""
    reasons = []
    for lane in dict.fromkeys(lane for one in _at_all_times(topology) for lane in one.in_effect.lanes):
        egresses = lower(lane, seed=topology.seed, has_seed=True).both
        for name, egress in zip(("outbound", "inbound"), egresses, strict=True):
            missing = [ENGINE_NEVER.get(what, f"the wire engine does not support {what}") for what in unknown(egress)]
            reasons += [f"lane {lane.name}, {name}: {why}: use datapath: netem" for why in missing]
    return list(dict.fromkeys(reasons))


def _netem_reasons(topology: Topology, kernel: tuple[int, int]) -> list[str]:
    """The settings of these lanes, with and without the schedule, that netem or this kernel does not support."""
    reasons = []
    for lane in dict.fromkeys(lane for one in _at_all_times(topology) for lane in one.in_effect.lanes):
        impairments = [impairment for way in lane.ways for impairment in (way.outbound, way.inbound)]
        if lane.flows and any(impairment.duplicate_p32 for impairment in impairments):
            reasons.append(f"lane {lane.name}: {DUPLICATES_WITH_FLOWS}: use datapath: wire")
        aqms = dict.fromkeys(impairment.aqm for impairment in impairments)
        reasons += [
            f"lane {lane.name}: {_too_old(name, kernel)}" for name in aqms if kernel < AQM_SINCE.get(name, (0, 0))
        ]
    return list(dict.fromkeys(reasons))


def _too_old(aqm: str, kernel: tuple[int, int]) -> str:
    (major, minor), (here, there) = AQM_SINCE[aqm], kernel
    return f"{aqm} needs Linux {major}.{minor}, this is {here}.{there}: use another aqm, or a newer kernel"


def _at_all_times(topology: Topology) -> list[Topology]:
    """The topology, and its states under its schedule."""
    timeline = timeline_of(topology)
    return [topology, *(timeline.at(t_ns) for t_ns in timeline.breakpoints())] if timeline else [topology]


def memory_reasons(topology: Topology, machine: Machine) -> list[str]:
    """Why the machine is too small for the lanes' queues in the worst case of their schedule; empty when it is not.

    Queues for full-size frames must fit; whether there is room for small ones is `smallest_frame`.
    """
    if timeline := timeline_of(topology):
        topology = timeline.envelope()
    if datapath(topology, machine) == "wire":
        need = sum(sum(lane_memory_bytes(lane)) for lane in topology.lanes)
    else:
        need = sum(lane_queues_bytes(lane, FULL) for lane in topology.lanes)
    if need <= machine.memory_bytes * MEMORY_SHARE:
        return _limit_reasons(topology)
    return [
        f"the lanes' queues may need {need / 2**30:.1f} GiB, this machine has "
        f"{machine.memory_bytes / 2**30:.1f} GiB: use a lower rate, RTT or buffer"
    ]


def _limit_reasons(topology: Topology) -> list[str]:
    """The lanes whose queues exceed netem's limit."""
    return [
        f"lane {lane.name}: {packets} packets may be in flight, netem holds {MOST_PACKETS}: "
        "use a lower rate, RTT or buffer"
        for lane in topology.lanes
        if (packets := most_packets(lane, FULL)) > MOST_PACKETS
    ]
