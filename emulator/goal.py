"""From a topology to the state that it stands for on a machine. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from .distributions import Table, fingerprint
from .model import Lane, Topology
from .netem import lower
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

NF_NEUTRAL = (0, 0, 0)


def wanted(topology: Topology, have: State) -> State:
    """The state that is this topology on the machine of `have`: seeds, br_netfilter and ports' origins come from it."""
    machine = have.machine
    origin = next((b.nf_origin for b in have.bridges.values() if b.nf_origin), machine.nf_call)
    veths = {v.name: v for v in _veths(topology)}
    ports = {name: port for lane in topology.lanes for name, port in _ports_of(topology, lane, have)}
    bridges = {interface_name("", lane.name): Bridge(nf_origin=origin) for lane in topology.lanes}
    if topology.virtual_lanes:
        bridges[SWITCH] = Bridge(nf_origin=origin)
        ports |= {interface_name("x", host): Port(SWITCH, learning=True) for host in _virtual_hosts(topology)}
    namespaces = frozenset(namespace_of(host) for host in _virtual_hosts(topology))
    nf_call = NF_NEUTRAL if bridges and origin is not None else None
    return State(namespaces, bridges, veths, ports, nf_call, machine)


def keeps_tables(have: State) -> bool:
    """Whether the kernel holds a table of jitter that is none of the named ones."""
    netems = [port.egress.netem for port in have.ports.values() if port.egress]
    return any(netem.cell_overhead and not netem.distribution for netem in netems)


def remembering(have: State, before: Topology) -> State:
    """The state observed, with the tables of jitter that the kernel holds but does not tell: they are in `before`."""
    directions = [d for lane in before.lanes for d in (lane.outbound, lane.inbound)]
    known = {fingerprint(d.distribution): d.distribution for d in directions if not isinstance(d.distribution, str)}
    ports = {name: _with_table(port, known) for name, port in have.ports.items()}
    return replace(have, ports=ports)


def _with_table(port: Port, known: Mapping[int, Table]) -> Port:
    if port.egress is None or port.egress.netem.cell_overhead not in known:
        return port
    netem = replace(port.egress.netem, distribution=known[port.egress.netem.cell_overhead])
    return replace(port, egress=replace(port.egress, netem=netem))


def nothing(have: State) -> State:
    """The state in which nothing on the machine is ours."""
    return State(machine=have.machine)


def _virtual_hosts(topology: Topology) -> list[str]:
    lanes = topology.virtual_lanes
    return [topology.hub, *(lane.name for lane in lanes)] if lanes else []


def _veths(topology: Topology) -> Iterator[Veth]:
    lanes = topology.virtual_lanes
    if not lanes:
        return
    mtu = max(lane.mtu for lane in lanes)
    hub = topology.hub
    yield Veth(interface_name("x", hub), HOST_PORT, namespace_of(hub), str(topology.address(hub)), mtu)
    for lane in lanes:
        name, segments = lane.name, _segments(lane)
        yield Veth(interface_name("h", name), interface_name("x", name), mtu=lane.mtu, segments=segments)
        address = str(topology.address(name))
        yield Veth(interface_name("s", name), HOST_PORT, namespace_of(name), address, lane.mtu, segments)


def _segments(lane: Lane) -> int:
    """Netem decides per skb: where packets meet fates of their own, each must be one (sch_netem.c, netem_enqueue)."""
    return 1 if lane.outbound.per_packet or lane.inbound.per_packet else GSO_SEGMENTS


def _ports_of(topology: Topology, lane: Lane, have: State) -> Iterator[tuple[str, Port]]:
    outbound, inbound = lower(lane, seed=topology.seed, has_seed=have.machine.has_seed)
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
