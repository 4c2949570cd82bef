"""From any state to any other: the operations, in order. Pure.

The order matters: a port gets its queue before it joins its bridge and comes up last; it leaves its bridge before
its queue is deleted. So no packet ever crosses a lane unimpaired. An active lane whose numbers change is changed in
place (`live_change`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from emulator.model.device_names import SWITCH
from emulator.plan.engine_plan import open_bridges, opening, start_wires, stop_wires
from emulator.plan.live_change import Changed, change_live
from emulator.plan.ops import (
    AddBridge,
    AddNamespace,
    AddVeth,
    AddVlan,
    DelBridge,
    DelNamespace,
    DelVeth,
    DelVlan,
    Enslave,
    HostUp,
    MarkPort,
    QuietPort,
    Release,
    RestorePort,
    SetMtu,
    SetNfCall,
    SetOffloads,
    SetPort,
    SetSegments,
    Step,
    UpPort,
    WireBridge,
)
from emulator.plan.qdisc_ops import AddBands, AddFilters, AddQueues, DelEgress, SetNetem, SetQueue, SetShaper
from emulator.plan.qdisc_values import Egress
from emulator.plan.state import GSO_SEGMENTS, HOST_PORT, Machine, Port, State, Veth


def plan(want: State, have: State) -> list[Step]:
    """The steps from one state to another; none when they are equal."""
    ended = _ended_pairs(want, have)
    doomed = _doomed(want, have, ended)
    kept = _kept(want, have, doomed)
    return [
        *stop_wires(want, have, set(kept)),
        *_remove_ports(have, kept, doomed),
        *_remove_rest(want, have, ended),
        *_restore_trunks(have, kept),
        *_add_bridges(want, have),
        *_add_hosts(want, have, ended),
        *_add_ports(want, kept, trunks=True),
        *_add_vlans(want, have),
        *_add_ports(want, kept, trunks=False),
        *_change_kept(want, kept),
        *open_bridges(want, have),
        *start_wires(want, have, set(kept)),
    ]


def _kept(want: State, have: State, doomed: set[str]) -> dict[str, Port]:
    """The ports that stay: only their numbers may change."""
    return {
        name: port
        for name, port in have.ports.items()
        if (goal := want.ports.get(name))
        and (goal.bridge, goal.altname) == (port.bridge, port.altname)
        and name not in doomed
    }


def _doomed(want: State, have: State, ended: set[str]) -> set[str]:
    """The interfaces that disappear with a veth pair or VLAN that must be deleted or created again."""
    gone = [have.veths[name] for name in ended]
    vlans = {name for name, vlan in have.vlans.items() if vlan != want.vlans.get(name)}
    return {end for v in gone for end in (v.name, v.peer) if end != HOST_PORT} | vlans


def _ended_pairs(want: State, have: State) -> set[str]:
    """The veth pairs that must be deleted or created again.

    A site that changes its address takes the lane's other pair with it: the hub's switch learned its former address
    there, and frames from that address may still be on their way.
    """
    lanes = {
        have.ports[name].bridge
        for name, now in have.veths.items()
        if now.address and name in have.ports and (goal := want.veths.get(name)) and goal.address != now.address
    } - {None, SWITCH}
    return {
        name
        for name, now in have.veths.items()
        if not _same_pair(want.veths.get(name), now, shared=_on_switch(name, want))
        or (name in have.ports and have.ports[name].bridge in lanes)
    }


def _on_switch(name: str, state: State) -> bool:
    """Whether this pair is the hub's: its port stands on the switch, and all lanes share it."""
    return name in state.ports and state.ports[name].bridge == SWITCH


def _trunks(state: State) -> set[str]:
    return {vlan.trunk for vlan in state.vlans.values()}


def _same_pair(want: Veth | None, have: Veth, *, shared: bool) -> bool:
    """A missing address, state and segments can be changed in place, and the MTU of the pair that all lanes share; any
    other change needs a new pair."""
    if want is None or have.address not in (None, want.address):
        return False
    like = {"address": None, "peer_up": True, "segments": GSO_SEGMENTS} | ({"mtu": want.mtu} if shared else {})
    return replace(want, **like) == replace(have, **like)


def _remove_ports(have: State, kept: Mapping[str, Port], doomed: set[str]) -> Iterator[Step]:
    for name in sorted(have.ports.keys() - kept.keys() - doomed):
        port = have.ports[name]
        if port.bridge:
            yield Step(Release(name), f"{name} leaves {port.bridge}")
        if port.egress:
            yield Step(DelEgress(name), f"{name} is no longer a port of a lane")
        if name not in _trunks(have):
            yield from _restore(name, port)


def _restore(name: str, port: Port) -> Iterator[Step]:
    if port.altname and port.origin:
        yield Step(RestorePort(name, port.altname, port.origin), f"{name} is restored")


def _restore_trunks(have: State, kept: Mapping[str, Port]) -> Iterator[Step]:
    """Deleted last: until then VLANs depend on it."""
    for name in sorted(_trunks(have) & have.ports.keys() - kept.keys()):
        yield from _restore(name, have.ports[name])


def _remove_rest(want: State, have: State, ended: set[str]) -> Iterator[Step]:
    for name in sorted(ended):
        yield Step(DelVeth(name), "a virtual lane goes" if name not in want.veths else f"{name} is created again")
    for name in sorted(have.vlans):
        if have.vlans[name] != want.vlans.get(name):
            yield Step(DelVlan(name), "its lane goes" if name not in want.vlans else f"{name} is created again")
    for name in sorted(have.namespaces - want.namespaces):
        yield Step(DelNamespace(name), "its host is not in the topology")
    for name in sorted(have.remnants - want.remnants):
        yield Step(DelNamespace(name), "a killed process left the name of a host, which is no namespace")
    if origin := _nf_back(want, have):
        yield Step(SetNfCall(origin), "br_netfilter is restored")
    for name in sorted(have.bridges.keys() - want.bridges.keys()):
        yield Step(DelBridge(name), "its lane is not in the topology")


def _nf_back(want: State, have: State) -> tuple[int, int, int] | None:
    """The br_netfilter settings to restore before the last bridge that stores them goes; None while one stays."""
    origins = {name: bridge.nf_origin for name, bridge in have.bridges.items() if bridge.nf_origin}
    if not origins or origins.keys() & want.bridges.keys():
        return None
    origin = next(iter(origins.values()))
    return origin if have.machine.nf_call not in (None, origin) else None


def _add_bridges(want: State, have: State) -> Iterator[Step]:
    for name in sorted(want.bridges.keys() - have.bridges.keys()):
        yield Step(AddBridge(name), "a new lane" if name != SWITCH else "the hub's switch")
    for name in sorted(want.bridges.keys() - opening(want, have)):
        goal = want.bridges[name]
        if goal != have.bridges.get(name):
            yield Step(WireBridge(name, goal.nf_origin, goal.up), f"{name} is a wire and sends nothing itself")
    now = _nf_back(want, have) or have.machine.nf_call
    if want.nf_call is not None and now != want.nf_call:
        yield Step(SetNfCall(want.nf_call), "a lane is a wire: no firewall filters its packets")


def _add_hosts(want: State, have: State, ended: set[str]) -> Iterator[Step]:
    for name in sorted(want.namespaces - have.namespaces):
        yield Step(AddNamespace(name), "a host")
    for name in sorted(want.veths):
        goal, now = want.veths[name], have.veths.get(name)
        if now is None or name in ended:
            yield Step(AddVeth(goal), f"{goal.name} to {goal.peer}")
            now = replace(goal, address=None, peer_up=False, segments=GSO_SEGMENTS)
        if goal.mtu != now.mtu:
            yield Step(SetMtu(goal), f"the largest MTU of the lanes is {goal.mtu}")
        if goal.segments != now.segments:
            yield Step(SetSegments(goal), "packets pass one by one" if goal.segments == 1 else "super-frames may pass")
        if goal.namespace and (goal.address, goal.peer_up) != (now.address, now.peer_up):
            yield Step(HostUp(goal), f"{goal.namespace} has the address {goal.address}")


def _add_vlans(want: State, have: State) -> Iterator[Step]:
    for name in sorted(want.vlans):
        if (goal := want.vlans[name]) != have.vlans.get(name):
            yield Step(AddVlan(goal), f"VLAN {goal.tag} of {goal.trunk} is a port")


def _add_ports(want: State, kept: Mapping[str, Port], *, trunks: bool) -> Iterator[Step]:
    """Trunks before the VLANs on them, ports of bridges after."""
    for name in sorted(want.ports):
        if (want.ports[name].bridge is None) == trunks:
            yield from _port(name, want.ports[name], kept.get(name), want.machine)


def _port(name: str, goal: Port, now: Port | None, machine: Machine) -> Iterator[Step]:
    link = machine.links.get(name)
    if now is None:
        ipv6, arp = (link.ipv6 or link.addrgen != 1, link.arp) if link else (True, True)
        offloads = goal.origin.offloads if goal.origin else None
        up = bool(link and link.up)
        now = Port(None, learning=True, forward_mask=0, up=up, ipv6=ipv6, arp=arp, offloads=offloads)
        if goal.altname:
            yield Step(MarkPort(name, goal.altname), f"{name} belongs to Longhaul now; the mark holds its former state")
    if now.ipv6 or now.arp:
        yield Step(QuietPort(name), "the machine itself sends nothing through a port")
    if goal.offloads is not None and goal.offloads != now.offloads:
        yield Step(SetOffloads(name, goal.offloads), _why_offloads(goal.offloads, now.offloads))
    if goal.egress and now.egress is None:
        yield from _impair(name, goal.egress)
    if now.bridge != goal.bridge and goal.bridge:
        yield Step(Enslave(name, goal.bridge), "joins its lane")
    if (now.learning, now.forward_mask) != (goal.learning, goal.forward_mask):
        yield Step(SetPort(name, goal.learning, goal.forward_mask), "passes on LLDP and LACP as a wire does")
    if not now.up:
        yield Step(UpPort(name), "ready")


def _why_offloads(goal: frozenset[str], now: frozenset[str] | None) -> str:
    if goal >= (now or frozenset()):
        return "super-frames do no harm here now"
    if "rx-lro" in (now or ()) and goal:
        return "a bridge cannot pass on what LRO merged"
    return "each packet is impaired alone, never a super-frame"


def _impair(name: str, goal: Egress) -> Iterator[Step]:
    if goal.queues > 1:
        yield Step(AddQueues(name, goal.queues), f"a delay alone: each of the {goal.queues} TX queues has its own")
    if goal.bands:
        yield Step(AddBands(name, 1 + len(goal.bands)), "each flow has its own queue")
    for band, part in goal.places:
        yield Step(SetNetem(name, part.netem, part.queues, band=band), "impaired before the first packet")
        if part.shaper:
            yield Step(SetShaper(name, part.shaper, band), "the bottleneck")
            if part.aqm:
                yield Step(SetQueue(name, part.aqm, part.shaper, band), "how its buffer drops")
    if goal.bands:
        yield Step(AddFilters(name, goal.form[1]), "filters find the flows' packets; others take the first band")


def _rebuild(name: str, goal: Port, now: Port, machine: Machine) -> Iterator[Step]:
    """Switch between one netem and one for each TX queue: the kernel requires deleting the old form first."""
    assert goal.egress is not None
    form = "one queue" if goal.egress.queues == 1 else f"{goal.egress.queues} TX queues"
    if now.egress and now.egress.bands != goal.egress.bands:
        form = "other flows"
    yield Step(Release(name), f"{name} changes to {form}: packets in flight are lost, and none passes unimpaired")
    yield Step(DelEgress(name), "the old queues are deleted")
    yield from _port(name, goal, replace(now, bridge=None, learning=True, forward_mask=0, egress=None), machine)


def _change_kept(want: State, kept: Mapping[str, Port]) -> Iterator[Step]:
    """The changes to queues of ports that stay."""
    changed: list[Changed] = []
    for name in sorted(kept):
        now, goal = kept[name].egress, want.ports[name].egress
        if now and goal and now.form != goal.form:
            yield from _rebuild(name, want.ports[name], kept[name], want.machine)
        elif now and goal and now != goal:
            places = zip(now.places, goal.places, strict=True)
            changed += [(name, band, old, new) for (band, old), (_, new) in places if old != new]
        elif now and not goal:
            yield Step(DelEgress(name), f"{name} is no longer impaired")
    yield from change_live(changed)
