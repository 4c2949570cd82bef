"""From a topology to the state that it stands for on a machine. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from .model import Lane, Topology
from .netem import Egress, lower
from .state import (
    GSO_SEGMENTS,
    HOST_PORT,
    SWITCH,
    Bridge,
    Origin,
    Port,
    State,
    Veth,
    altname_of,
    interface_name,
    namespace_of,
)  # fmt: skip
from .wire import Wire, room_bytes

NF_NEUTRAL = (0, 0, 0)


def wanted(topology: Topology, have: State) -> State:
    """The state that is this topology on the machine of `have`: seeds, br_netfilter and ports' origins come from it."""
    machine = have.machine
    origin = next((b.nf_origin for b in have.bridges.values() if b.nf_origin), machine.nf_call)
    splits = datapath(topology, have) == "wire"
    veths = {v.name: v for v in _veths(topology, splits=splits)}
    ports = {name: port for lane in topology.lanes for name, port in _ports_of(topology, lane, have)}
    wires = _wires(topology) if datapath(topology, have) == "wire" else {}
    names = [interface_name("", lane.name) for lane in topology.lanes]
    bridges = {name: Bridge(up=name not in wires, nf_origin=origin) for name in names}
    if topology.virtual_lanes:
        bridges[SWITCH] = Bridge(nf_origin=origin)
        ports |= {interface_name("x", host): Port(SWITCH, learning=True) for host in _virtual_hosts(topology)}
    namespaces = frozenset(namespace_of(host) for host in _virtual_hosts(topology))
    nf_call = NF_NEUTRAL if bridges and origin is not None else None
    return State(namespaces, bridges, veths, ports, nf_call, machine, wires)


def datapath(topology: Topology, have: State) -> str:
    """What impairs the lanes on this machine: "netem" or "wire"."""
    if topology.datapath == "auto":
        return "netem" if have.machine.has_netem else "wire"
    return topology.datapath


def _wires(topology: Topology) -> dict[str, Wire]:
    wires = {}
    for lane in topology.lanes:
        outbound, inbound = lower(lane, seed=topology.seed, has_seed=True)
        site, hub = lane_ports(lane)
        name = interface_name("", lane.name)
        wires[name] = Wire(hub, site, outbound, inbound, room_bytes(lane), topology.on_failure)
    return wires


def nothing(have: State) -> State:
    """The state in which nothing on the machine is ours."""
    return State(machine=have.machine)


def _virtual_hosts(topology: Topology) -> list[str]:
    lanes = topology.virtual_lanes
    return [topology.hub, *(lane.name for lane in lanes)] if lanes else []


def _veths(topology: Topology, *, splits: bool) -> Iterator[Veth]:
    """`splits`: the datapath cuts super-frames itself where packets meet fates of their own."""
    lanes = topology.virtual_lanes
    if not lanes:
        return
    mtu = max(lane.mtu for lane in lanes)
    hub = topology.hub
    yield Veth(interface_name("x", hub), HOST_PORT, namespace_of(hub), str(topology.address(hub)), mtu)
    for lane in lanes:
        name, segments = lane.name, GSO_SEGMENTS if splits else _segments(lane)
        yield Veth(interface_name("h", name), interface_name("x", name), mtu=lane.mtu, segments=segments)
        address = str(topology.address(name))
        yield Veth(interface_name("s", name), HOST_PORT, namespace_of(name), address, lane.mtu, segments)


def _segments(lane: Lane) -> int:
    """Netem decides loss per skb: with loss, every packet must be one (measured, see sch_netem.c netem_enqueue)."""
    return 1 if lane.outbound.loss_p32 or lane.inbound.loss_p32 else GSO_SEGMENTS


def _ports_of(topology: Topology, lane: Lane, have: State) -> Iterator[tuple[str, Port]]:
    outbound: Egress | None
    inbound: Egress | None
    outbound, inbound = lower(lane, seed=topology.seed, has_seed=have.machine.has_seed)
    if datapath(topology, have) == "wire":
        outbound = inbound = None
    bridge = interface_name("", lane.name)
    for side, role, egress in (("hub", "h", inbound), ("site", "s", outbound)):
        if lane.ports is None:
            yield interface_name(role, lane.name), Port(bridge, egress=egress)
            continue
        name = lane.ports.hub if side == "hub" else lane.ports.site
        origin = _origin(name, have)
        yield name, Port(bridge, egress=egress, altname=altname_of(lane.name, side, origin), origin=origin)


def _origin(port: str, have: State) -> Origin:
    if (ours := have.ports.get(port)) and ours.origin:
        return ours.origin
    link = have.machine.links[port]
    return Origin(link.up, link.ipv6, link.addrgen)


def lane_ports(lane: Lane) -> tuple[str, str]:
    """The ports whose egress impairs (outbound, inbound): the site port and the hub port."""
    if lane.ports:
        return lane.ports.site, lane.ports.hub
    return interface_name("s", lane.name), interface_name("h", lane.name)
