"""Why this machine must not be touched for a topology. Pure."""

from __future__ import annotations

from .errors import RefusedError
from .goal import lane_ports
from .model import Lane, Topology
from .netem import frame_bytes, limit_packets, skb_bytes
from .state import SWITCH, Machine, State, interface_name

MEMORY_SHARE = 0.8
"""Of the machine's memory, what the lanes' queues may need together at the very worst."""


def refuse(topology: Topology, have: State) -> None:
    """Raises RefusedError with every reason why this machine must not be touched for this topology."""
    reasons = [f"port {name}: there is no such interface" for name in unknown_ports(topology, have)]
    for lane in topology.lanes:
        for name in lane_ports(lane) if lane.ports else ():
            reasons += _port_reasons(name, lane, have)
    goal_bridges = {interface_name("", lane.name) for lane in topology.lanes} | {SWITCH}
    taken = sorted(goal_bridges & have.machine.links.keys())
    reasons += [f"{name}: an interface of that name is not a bridge of ours" for name in taken]
    if not reasons:
        reasons += memory_reasons(topology, have.machine)
    if reasons:
        raise RefusedError("\n".join(reasons))


def unknown_ports(topology: Topology, have: State) -> list[str]:
    there = have.machine.links.keys() | have.ports.keys()
    return [n for lane in topology.lanes if lane.ports for n in (lane.ports.hub, lane.ports.site) if n not in there]


def _port_reasons(name: str, lane: Lane, have: State) -> list[str]:
    link = have.machine.links.get(name)
    if link is None:
        return []
    checks = (
        (link.default_route, "carries the default route"),
        (bool(link.addresses), f"has the address {', '.join(link.addresses)}"),
        (bool(link.master), f"belongs to {link.master}"),
        (link.qdisc in ("netem", "tbf", "htb", "hfsc", "cake"), f"has a {link.qdisc} qdisc of somebody else's"),
        (link.mtu != lane.mtu, f"has MTU {link.mtu}, lane {lane.name} wants {lane.mtu}"),
    )
    return [f"port {name}: {text}; free it or name another port" for bad, text in checks if bad]


def memory_reasons(topology: Topology, machine: Machine) -> list[str]:
    """Why the machine is too small for the lanes' queues, at the very worst; empty when it is not."""
    need = sum(
        limit_packets(lane, wish) * skb_bytes(frame_bytes(lane.mtu))
        for lane in topology.lanes
        for wish in (lane.outbound, lane.inbound)
    )
    if need <= machine.memory_bytes * MEMORY_SHARE:
        return []
    return [
        f"the lanes' queues may need {need / 2**30:.1f} GiB, this machine has "
        f"{machine.memory_bytes / 2**30:.1f} GiB: lower rate, RTT or buffer"
    ]
