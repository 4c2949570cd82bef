"""Why this machine must not be touched for a topology. Pure."""

from __future__ import annotations

from .errors import RefusedError
from .goal import datapath, lane_ports, wanted
from .model import Lane, Topology
from .netem import memory_bytes
from .state import SWITCH, State, interface_name
from .wire import unknown

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
    if not reasons and datapath(topology, have) == "wire":
        reasons += _wire_reasons(topology, have)
    if not reasons:
        reasons += _memory_reasons(topology, have)
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


def _wire_reasons(topology: Topology, have: State) -> list[str]:
    goal, reasons = wanted(topology, have), []
    for lane in topology.lanes:
        wire = goal.wires[interface_name("", lane.name)]
        for name, egress in (("outbound", wire.outbound), ("inbound", wire.inbound)):
            if missing := unknown(egress):
                what = ", ".join(missing)
                reasons.append(f"lane {lane.name}, {name}: the wire engine cannot do {what}; choose datapath: netem")
    return reasons


def _memory_reasons(topology: Topology, have: State) -> list[str]:
    goal, mtus = wanted(topology, have), {p: lane.mtu for lane in topology.lanes for p in lane_ports(lane)}
    need = sum(memory_bytes(port.egress, mtus[name]) for name, port in goal.ports.items() if port.egress)
    need += sum(room for wire in goal.wires.values() for room in wire.rooms)
    if need <= have.machine.memory_bytes * MEMORY_SHARE:
        return []
    return [
        f"the lanes' queues may need {need / 2**30:.1f} GiB, this machine has "
        f"{have.machine.memory_bytes / 2**30:.1f} GiB: lower rate, RTT or buffer"
    ]
