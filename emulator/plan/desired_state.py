"""Converts a topology to the intended kernel state on a machine. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from emulator.model.device_names import SWITCH, interface_name, namespace_of
from emulator.model.jitter_distribution import DistributionTable, fingerprint
from emulator.model.topology import Lane, Topology
from emulator.plan.engine_lane import Wire, lane_memory_bytes
from emulator.plan.netem_lowering import LoweredLane, lower, spread
from emulator.plan.qdisc_values import Egress
from emulator.plan.small_frames import datapath, smallest_frame
from emulator.plan.state import (  # fmt: skip
    GSO_SEGMENTS,
    HOST_PORT,
    LRO,
    Bridge,
    Machine,
    Nic,
    Origin,
    Port,
    State,
    Veth,
    Vlan,
    altname_of,
    trunk_altname_of,
)

NF_NEUTRAL = (0, 0, 0)


def wanted(topology: Topology, have: State, smallest: int | None = None) -> State:
    """The intended state of this topology on the machine of `have`, which gives seeds, br_netfilter and ports' origins.

    Every port must be known by one name (`unresolved`). The delay lines hold frames of `smallest` bytes at full rate;
    None: the smallest for which the memory has room, with all of these lanes (`smallest_frame`).
    """
    machine = have.machine
    if smallest is None:
        smallest = smallest_frame(topology, machine)
    topology = resolved(topology.in_effect, have)
    origin = next((b.nf_origin for b in have.bridges.values() if b.nf_origin), machine.nf_call)
    path = datapath(topology, machine)
    lowered = _lowered(topology, has_seed=machine.has_seed or path == "wire", smallest=smallest)
    # The engine replaces the queues, and segments super-frames itself.
    queues = {} if path == "wire" else lowered
    veths = {v.name: v for v in _veths(topology, queues)}
    vlans = {v.name: v for lane in topology.lanes for v in _vlans(lane)}
    ports = {name: port for lane in topology.lanes for name, port in _ports_of(lane, queues.get(lane.name), have)}
    ports |= _trunks(topology, queues, have)
    wires = _wires(topology, lowered) if path == "wire" else {}
    names = [interface_name("", lane.name) for lane in topology.lanes]
    bridges = {name: Bridge(up=name not in wires, nf_origin=origin) for name in names}
    if topology.virtual_lanes:
        bridges[SWITCH] = Bridge(nf_origin=origin)
        ports |= {interface_name("x", host): Port(SWITCH, learning=True) for host in _virtual_hosts(topology)}
    namespaces = frozenset(namespace_of(host) for host in _virtual_hosts(topology))
    nf_call = NF_NEUTRAL if bridges and origin is not None else None
    return State(namespaces, bridges, veths, ports, nf_call, machine, vlans, wires)


def _lowered(topology: Topology, *, has_seed: bool, smallest: int) -> dict[str, LoweredLane]:
    """Every lane in the kernel's integers, by name."""
    return {lane.name: lower(lane, seed=topology.seed, has_seed=has_seed, smallest=smallest) for lane in topology.lanes}


def _wires(topology: Topology, lowered: Mapping[str, LoweredLane]) -> dict[str, Wire]:
    wires = {}
    for lane in topology.lanes:
        outbound, inbound = lowered[lane.name].both
        site, hub = lane_ports(lane)
        name = interface_name("", lane.name)
        wires[name] = Wire(hub, site, outbound, inbound, lane_memory_bytes(lane), topology.on_failure)
    return wires


def remembering(have: State, before: Topology | None) -> State:
    """The observed state with the jitter's tables of `before`: the kernel holds the tables but does not dump them."""
    ways = [way for lane in before.lanes for way in lane.ways] if before else []
    directions = [d for way in ways for d in (way.outbound, way.inbound)]
    known = {fingerprint(d.distribution): d.distribution for d in directions if not isinstance(d.distribution, str)}
    return replace(have, ports={n: _with_table(port, known) for n, port in have.ports.items()}) if known else have


def _with_table(port: Port, known: Mapping[int, DistributionTable]) -> Port:
    if port.egress is None:
        return port
    bands = tuple(replace(band, egress=_knowing(band.egress, known)) for band in port.egress.bands)
    return replace(port, egress=replace(_knowing(port.egress, known), bands=bands))


def _knowing(egress: Egress, known: Mapping[int, DistributionTable]) -> Egress:
    netem = egress.netem
    table = known.get(netem.cell_overhead, netem.distribution)
    return replace(egress, netem=replace(netem, distribution=table))


def nothing(have: State) -> State:
    """The state in which Longhaul owns nothing on the machine."""
    return State(machine=have.machine)


def resolve(name: str, have: State) -> list[str]:
    """The interfaces with this name, altname, MAC or bus address; the user means one of them."""
    nics = have.machine.nics
    if name in have.machine.links or name in have.ports or name in nics:
        return [name]
    for answers in (_burnt_in, _answers):
        if found := sorted(port for port, nic in nics.items() if answers(nic, name)):
            return found
    return []


def _burnt_in(nic: Nic, name: str) -> bool:
    """A bond's ports share one MAC, and each still has its own below it."""
    return nic.permanent_mac == name.lower() != ""


def _answers(nic: Nic, name: str) -> bool:
    return name in nic.altnames or (name.lower() in (nic.mac, nic.bus) and name != "")


def resolved(topology: Topology, have: State) -> Topology:
    """The same topology with the interface's name for every port that is exactly one interface."""
    return replace(topology, lanes=tuple(resolved_lane(lane, have) for lane in topology.lanes))


def resolved_lane(lane: Lane, have: State) -> Lane:
    """The same lane with the interfaces' names for its ports; a name of no or several interfaces stays as it is."""
    if lane.ports is None:
        return lane
    hub, site = (found[0] if len(found := resolve(name, have)) == 1 else name for name in lane.named_ports)
    return replace(lane, ports=replace(lane.ports, hub=hub, site=site)) if hub != site else lane


def unknown_ports(topology: Topology, have: State) -> list[str]:
    """The names of no or several interfaces, and different names of one interface."""
    names = list(dict.fromkeys(name for lane in topology.lanes for name in lane.named_ports))
    found = [resolve(name, have) for name in names]
    return [name for name, ports in zip(names, found, strict=True) if len(ports) != 1 or found.count(ports) > 1]


def unresolved(topology: Topology, have: State) -> list[str]:
    """The reasons why the topology's ports are not distinct interfaces; empty when they are."""
    names = dict.fromkeys(name for lane in topology.lanes for name in lane.named_ports)
    found = {name: resolve(name, have) for name in names}
    reasons = []
    for name, ports in found.items():
        if not ports:
            reasons.append(f"port {name}: there is no such interface; 'longhaul nics' lists them")
        elif len(ports) > 1:
            reasons.append(f"port {name}: {' and '.join(ports)} have this name: use the name of one of them")
    meant: dict[str, list[str]] = {}
    for name, ports in found.items():
        meant.setdefault(ports[0] if len(ports) == 1 else name, []).append(name)
    reasons += [
        f"port {port}: named twice, as {' and as '.join(by)}: use two ports"
        for port, by in meant.items()
        if len(by) > 1
    ]
    return reasons


def _virtual_hosts(topology: Topology) -> list[str]:
    lanes = topology.virtual_lanes
    return [topology.hub, *(lane.name for lane in lanes)] if lanes else []


def _veths(topology: Topology, queues: Mapping[str, LoweredLane]) -> Iterator[Veth]:
    lanes = topology.virtual_lanes
    if not lanes:
        return
    mtu = max(lane.mtu for lane in lanes)
    hub = topology.ends(lanes[0].name).hub
    yield Veth(interface_name("x", hub.host), HOST_PORT, namespace_of(hub.host), str(hub.address), mtu)
    for lane in lanes:
        name, segments = lane.name, _segments(queues.get(lane.name))
        yield Veth(interface_name("h", name), interface_name("x", name), mtu=lane.mtu, segments=segments)
        site = topology.ends(name).site
        yield Veth(interface_name("s", name), HOST_PORT, namespace_of(site.host), str(site.address), lane.mtu, segments)


def segments_of(lane: Lane) -> int:
    """The gso_max_segs of the ends of a lane's hosts."""
    return _segments(lower(lane, seed=0, has_seed=False))


def _segments(queues: LoweredLane | None) -> int:
    """The gso_max_segs before these queues: 1 where they would treat a super-frame differently from its packets.

    Netem decides per skb (sch_netem.c, netem_enqueue), and tbf segments skbs that are larger than its burst; the drops
    of the two could then not be separated (sch_tbf.c, tbf_segment).
    """
    return 1 if queues and queues.single_packets else GSO_SEGMENTS


def _vlans(lane: Lane) -> Iterator[Vlan]:
    if lane.vlan is not None:
        for name, trunk in zip(reversed(lane_ports(lane)), lane.named_ports, strict=True):
            yield Vlan(name, trunk, lane.vlan, lane.mtu)


def _ports_of(lane: Lane, queues: LoweredLane | None, have: State) -> Iterator[tuple[str, Port]]:
    egresses, impairments = queues.both if queues else (None, None), (lane.outbound, lane.inbound)
    bridge, single = interface_name("", lane.name), bool(queues and queues.single_packets)
    for name, side, impairment, egress in zip(lane_ports(lane), ("site", "hub"), impairments, egresses, strict=True):
        if lane.ports is None or lane.vlan is not None:
            yield name, Port(bridge, egress=egress)
            continue
        origin = _origin(name, have)
        yield (
            name,
            Port(
                bridge,
                egress=spread(impairment, egress, tx_queues(name, have.machine)) if egress else None,
                altname=altname_of(lane.name, side, origin),
                origin=origin,
                offloads=_offloads(origin, single=single),
            ),
        )


def _trunks(topology: Topology, queues: Mapping[str, LoweredLane], have: State) -> dict[str, Port]:
    """The ports that VLAN lanes share: marked and silent, in no bridge and without a queue of Longhaul's."""
    shared: dict[str, bool] = {}
    for lane in topology.lanes:
        single = lane.name in queues and queues[lane.name].single_packets
        for name in lane.named_ports if lane.vlan is not None else ():
            shared[name] = shared.get(name, False) or single
    trunks = {}
    for name, single in shared.items():
        origin = _origin(name, have)
        mark, offloads = trunk_altname_of(name, origin), _offloads(origin, single=single)
        trunks[name] = Port(None, True, 0, altname=mark, origin=origin, offloads=offloads)
    return trunks


def _offloads(origin: Origin, *, single: bool) -> frozenset[str]:
    """The receive offloads of a port: the former ones, unless its lanes need single packets."""
    return frozenset() if single else origin.offloads - LRO


def _origin(port: str, have: State) -> Origin:
    if (ours := have.ports.get(port)) and ours.origin:
        return ours.origin
    link, nic = have.machine.links[port], have.machine.nics.get(port, Nic())
    return Origin(link.up, link.ipv6, link.addrgen, link.arp, nic.offloads)


def tx_queues(port: str, machine: Machine) -> int:
    """How many TX queues an interface has."""
    return machine.nics[port].tx_queues if port in machine.nics else 1


def lane_ports(lane: Lane) -> tuple[str, str]:
    """The ports whose egress impairs (outbound, inbound): the site port and the hub port. Of a `resolved` topology."""
    if lane.ports and lane.vlan is None:
        return lane.ports.site, lane.ports.hub
    shared = "v" if lane.ports else ""
    return interface_name(f"{shared}s", lane.name), interface_name(f"{shared}h", lane.name)


def remembering_loss(goal: State, before: State) -> State:
    """The goal after the state `before`: its netems remember earlier loss."""
    ports = {name: _remembering_loss(port, before.ports.get(name)) for name, port in goal.ports.items()}
    return replace(goal, ports=ports)


def _remembering_loss(port: Port, before: Port | None) -> Port:
    if port.egress is None or before is None or before.egress is None:
        return port
    return replace(port, egress=port.egress.remembering(before.egress))
