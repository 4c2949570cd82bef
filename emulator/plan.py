"""From any state to any other: the operations, in order. Pure.

Order is the argument of this file. A port gets its queue before it joins its bridge and comes up last; it leaves
its bridge before its queue goes: no packet ever crosses a lane unimpaired. A live lane that only changes its
numbers gets one message that carries both directions, and never a delete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace

from .distributions import name_of
from .netem import Egress, Netem, holding
from .ops import (
    AddBridge,
    AddNamespace,
    AddQueues,
    AddVeth,
    AddVlan,
    DelBridge,
    DelEgress,
    DelNamespace,
    DelShaper,
    DelVeth,
    DelVlan,
    Drain,
    Enslave,
    HostUp,
    MarkPort,
    QuietPort,
    Release,
    RestorePort,
    SetNetem,
    SetNfCall,
    SetOffloads,
    SetPort,
    SetQueue,
    SetSegments,
    SetShaper,
    Step,
    Together,
    UpPort,
    WireBridge,
)  # fmt: skip
from .state import GSO_SEGMENTS, HOST_PORT, SWITCH, Machine, Port, State, Veth
from .wireplan import open_bridges, opening, start_wires, stop_wires

DRAIN_MARGIN_NS = 1_000_000_000

JITTER_REACH = 4
"""The longest delay of any distribution is this many jitters above the middle."""


def plan(want: State, have: State) -> list[Step]:
    """The steps from one state to another; none when they are equal."""
    kept = set(_kept(want, have))
    return [
        *stop_wires(want, have, kept),
        *_remove_ports(want, have),
        *_remove_rest(want, have),
        *_restore_trunks(want, have),
        *_add_bridges(want, have),
        *_add_hosts(want, have),
        *_add_ports(want, have, trunks=True),
        *_add_vlans(want, have),
        *_add_ports(want, have, trunks=False),
        *_change_live(want, have),
        *open_bridges(want, have),
        *start_wires(want, have, kept),
    ]


def _kept(want: State, have: State) -> dict[str, Port]:
    """The ports that stay where they are: only their numbers may change."""
    doomed = _doomed(want, have)
    return {
        name: port
        for name, port in have.ports.items()
        if (goal := want.ports.get(name))
        and (goal.bridge, goal.altname) == (port.bridge, port.altname)
        and name not in doomed
    }


def _doomed(want: State, have: State) -> set[str]:
    """The interfaces that go with a veth pair or VLAN which must be removed, or made again."""
    gone = [v for name, v in have.veths.items() if not _same_pair(want.veths.get(name), v)]
    vlans = {name for name, vlan in have.vlans.items() if vlan != want.vlans.get(name)}
    return {end for v in gone for end in (v.name, v.peer) if end != HOST_PORT} | vlans


def _trunks(state: State) -> set[str]:
    return {vlan.trunk for vlan in state.vlans.values()}


def _same_pair(want: Veth | None, have: Veth) -> bool:
    """Address, state and segments can be put right in place; the rest needs a new pair."""
    like = {"address": None, "peer_up": True, "segments": GSO_SEGMENTS}
    if want is None or have.address not in (None, want.address):
        return False
    return replace(want, **like) == replace(have, **like)  # type: ignore[arg-type]


def _remove_ports(want: State, have: State) -> Iterator[Step]:
    kept, doomed = _kept(want, have), _doomed(want, have)
    for name in sorted(have.ports.keys() - kept.keys() - doomed):
        port = have.ports[name]
        if port.bridge:
            yield Step(Release(name), f"{name} leaves {port.bridge}")
        if port.egress:
            yield Step(DelEgress(name), f"{name} is no port of a lane any more")
        if name not in _trunks(have):
            yield from _restore(name, port)


def _restore(name: str, port: Port) -> Iterator[Step]:
    if port.altname and port.origin:
        yield Step(RestorePort(name, port.altname, port.origin), f"{name} goes back as it was")


def _restore_trunks(want: State, have: State) -> Iterator[Step]:
    """Last of all that goes: until then its VLANs stand on it."""
    for name in sorted(_trunks(have) & have.ports.keys() - _kept(want, have).keys()):
        yield from _restore(name, have.ports[name])


def _remove_rest(want: State, have: State) -> Iterator[Step]:
    for name in sorted(have.veths):
        if not _same_pair(want.veths.get(name), have.veths[name]):
            yield Step(DelVeth(name), "a virtual lane goes" if name not in want.veths else f"{name} is made anew")
    for name in sorted(have.vlans):
        if have.vlans[name] != want.vlans.get(name):
            yield Step(DelVlan(name), "its lane goes" if name not in want.vlans else f"{name} is made anew")
    for name in sorted(have.namespaces - want.namespaces):
        yield Step(DelNamespace(name), "its host is not in the topology")
    if origin := _nf_back(want, have):
        yield Step(SetNfCall(origin), "br_netfilter goes back as it was")
    for name in sorted(have.bridges.keys() - want.bridges.keys()):
        yield Step(DelBridge(name), "its lane is not in the topology")


def _nf_back(want: State, have: State) -> tuple[int, int, int] | None:
    """What br_netfilter must go back to before the last bridge goes that remembers it; None when one stays."""
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
        yield Step(SetNfCall(want.nf_call), "a lane is a wire: no firewall looks into it")


def _add_hosts(want: State, have: State) -> Iterator[Step]:
    for name in sorted(want.namespaces - have.namespaces):
        yield Step(AddNamespace(name), "a host")
    for name in sorted(want.veths):
        goal, now = want.veths[name], have.veths.get(name)
        if now is None or not _same_pair(goal, now):
            yield Step(AddVeth(goal), f"{goal.name} to {goal.peer}")
            now = replace(goal, address=None, peer_up=False, segments=GSO_SEGMENTS)
        if goal.segments != now.segments:
            yield Step(SetSegments(goal), "loss is decided per packet" if goal.segments == 1 else "no loss any more")
        if goal.namespace and (goal.address, goal.peer_up) != (now.address, now.peer_up):
            yield Step(HostUp(goal), f"{goal.namespace} is at {goal.address}")


def _add_vlans(want: State, have: State) -> Iterator[Step]:
    for name in sorted(want.vlans):
        if (goal := want.vlans[name]) != have.vlans.get(name):
            yield Step(AddVlan(goal), f"VLAN {goal.tag} of {goal.trunk} is a port")


def _add_ports(want: State, have: State, *, trunks: bool) -> Iterator[Step]:
    """The trunks before the VLANs on them, the ports of bridges after."""
    kept = _kept(want, have)
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
            yield Step(MarkPort(name, goal.altname), f"{name} is ours from here on, and this is how it was")
    if now.ipv6 or now.arp:
        yield Step(QuietPort(name), "a port sends nothing of its own")
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
        return "super-frames do no harm here any more"
    if "rx-lro" in (now or ()) and goal:
        return "a bridge cannot pass on what LRO merged"
    return "each packet is impaired by itself, no super-frame is"


def _impair(name: str, goal: Egress) -> Iterator[Step]:
    if goal.queues > 1:
        yield Step(AddQueues(name, goal.queues), f"a delay alone: each of the {goal.queues} TX queues has its own")
    yield Step(SetNetem(name, goal.netem, goal.queues), "impaired before the first packet")
    if goal.shaper:
        yield Step(SetShaper(name, goal.shaper), "the bottleneck")
        if goal.aqm:
            yield Step(SetQueue(name, goal.aqm, goal.shaper), "what its buffer does")


def _rebuild(name: str, goal: Port, now: Port, machine: Machine) -> Iterator[Step]:
    """From one netem to one for each TX queue, or back: the kernel has no way but to remove the one first."""
    assert goal.egress is not None
    form = "one queue" if goal.egress.queues == 1 else f"{goal.egress.queues} TX queues"
    yield Step(Release(name), f"{name} changes to {form}: what is in flight on it is lost, and none passes unimpaired")
    yield Step(DelEgress(name), "the old queues go")
    yield from _port(name, goal, replace(now, bridge=None, learning=True, forward_mask=0, egress=None), machine)


def _change_live(want: State, have: State) -> Iterator[Step]:
    """All live changes in one message; then what a smaller queue leaves to tidy up."""
    kept = _kept(want, have)
    changed: list[tuple[str, Egress, Egress]] = []
    for name in sorted(kept):
        now, goal = kept[name].egress, want.ports[name].egress
        if now and goal and now.queues != goal.queues:
            yield from _rebuild(name, want.ports[name], kept[name], want.machine)
        elif now and goal and now != goal:
            changed.append((name, now, goal))
        elif now and not goal:
            yield Step(DelEgress(name), f"{name} is impaired no longer")
    ops = [op for name, now, goal in changed for op in _queue_ops(name, now, holding(goal, now.netem.limit))]
    if ops:
        yield Step(Together(tuple(ops)), "; ".join(_differences(changed)))
    for name, now, goal in changed:
        if now.shaper and not goal.shaper:
            yield Step(DelShaper(name), f"{name} has no bottleneck any more")
    shrunk = [(name, now, goal) for name, now, goal in changed if goal.netem.limit < now.netem.limit]
    for name, now, goal in shrunk:
        within_ns = now.netem.delay_ns + JITTER_REACH * now.netem.jitter_ns + DRAIN_MARGIN_NS
        yield Step(Drain(name, goal.netem.limit, within_ns), "what is queued must find room in the smaller limit")
    if shrunk:
        tidy = tuple(SetNetem(name, goal.netem, goal.queues, reseed=False) for name, _, goal in shrunk)
        yield Step(Together(tidy), "the limit that the new RTT needs")


def _queue_ops(name: str, now: Egress, goal: Egress) -> Iterable[SetNetem | SetShaper | SetQueue]:
    if goal.netem != now.netem or not now.alike:
        reseed = goal.netem.seed != now.netem.seed or not now.alike
        yield SetNetem(name, goal.netem, goal.queues, reseed=reseed)
    if goal.shaper and goal.shaper != now.shaper:
        yield SetShaper(name, goal.shaper)
    if goal.shaper and goal.aqm != now.aqm:
        yield SetQueue(name, goal.aqm, goal.shaper)
    if now.shaper and not goal.shaper:
        # Emptied at a rate that leaves no queue behind, so that its removal loses nothing.
        yield SetShaper(name, replace(now.shaper, rate_bytes_per_s=10**12, burst_bytes=2**27))


def _differences(changed: list[tuple[str, Egress, Egress]]) -> Iterator[str]:
    """What changes on each port, in the names that the fields have."""
    for name, now, goal in changed:
        words = [] if now.alike else ["its TX queues differ"]
        words += _netem_differences(now.netem, goal.netem) if now.alike else []
        if now.shaper != goal.shaper:
            words.append(f"{now.shaper or 'no bottleneck'} -> {goal.shaper or 'no bottleneck'}")
        if goal.shaper and now.aqm != goal.aqm:
            words.append(f"{now.aqm or 'drop-tail'} -> {goal.aqm or 'drop-tail'}")
        yield f"{name}: {', '.join(words)}"


def _netem_differences(now: Netem, goal: Netem) -> Iterator[str]:
    for field in fields(now):
        old, new = (getattr(netem, field.name) for netem in (now, goal))
        if field.name == "cell_overhead" and old != new:
            yield f"distribution {_shape(now)} -> {_shape(goal)}"
        elif field.compare and old != new:
            yield f"{field.name} {old} -> {new}"


def _shape(netem: Netem) -> str:
    """What the fingerprint in `cell_overhead` stands for."""
    return (name_of(netem.distribution) if netem.distribution else "table") if netem.cell_overhead else "none"
