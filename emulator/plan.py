"""From any state to any other: the operations, in order. Pure.

Order is the argument of this file. A port gets its queue before it joins its bridge and comes up last; it leaves
its bridge before its queue goes: no packet ever crosses a lane unimpaired. A live lane that only changes its
numbers gets one message that carries both directions, and never a delete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from .netem import Egress, holding
from .ops import (
    AddBridge,
    AddNamespace,
    AddVeth,
    DelBridge,
    DelEgress,
    DelNamespace,
    DelShaper,
    DelVeth,
    Drain,
    Enslave,
    HostUp,
    MarkPort,
    QuietPort,
    Release,
    RestorePort,
    SetNetem,
    SetNfCall,
    SetPort,
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


def plan(want: State, have: State) -> list[Step]:
    """The steps from one state to another; none when they are equal."""
    kept = set(_kept(want, have))
    return [
        *stop_wires(want, have, kept),
        *_remove_ports(want, have),
        *_remove_rest(want, have),
        *_add_bridges(want, have),
        *_add_hosts(want, have),
        *_add_ports(want, have),
        *_change_live(want, have),
        *open_bridges(want, have),
        *start_wires(want, have, kept),
    ]


def _kept(want: State, have: State) -> dict[str, Port]:
    """The ports that stay where they are: only their numbers may change."""
    return {
        name: port
        for name, port in have.ports.items()
        if (goal := want.ports.get(name))
        and (goal.bridge, goal.altname) == (port.bridge, port.altname)
        and name not in _doomed(want, have)
    }


def _doomed(want: State, have: State) -> set[str]:
    """The interfaces that go with a veth pair which must be removed, or made again."""
    gone = [v for name, v in have.veths.items() if not _same_pair(want.veths.get(name), v)]
    return {end for v in gone for end in (v.name, v.peer) if end != HOST_PORT}


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
        if port.altname and port.origin:
            yield Step(RestorePort(name, port.altname, port.origin), f"{name} goes back as it was")


def _remove_rest(want: State, have: State) -> Iterator[Step]:
    for name in sorted(have.veths):
        if not _same_pair(want.veths.get(name), have.veths[name]):
            yield Step(DelVeth(name), "a virtual lane goes" if name not in want.veths else f"{name} is made anew")
    for name in sorted(have.namespaces - want.namespaces):
        yield Step(DelNamespace(name), "its host is not in the topology")
    origin = next((b.nf_origin for b in have.bridges.values() if b.nf_origin), None)
    if not want.bridges and origin is not None and have.machine.nf_call not in (None, origin):
        yield Step(SetNfCall(origin), "br_netfilter goes back as it was")
    for name in sorted(have.bridges.keys() - want.bridges.keys()):
        yield Step(DelBridge(name), "its lane is not in the topology")


def _add_bridges(want: State, have: State) -> Iterator[Step]:
    for name in sorted(want.bridges.keys() - have.bridges.keys()):
        yield Step(AddBridge(name), "a new lane" if name != SWITCH else "the hub's switch")
    for name in sorted(want.bridges.keys() - opening(want, have)):
        goal = want.bridges[name]
        if goal != have.bridges.get(name):
            yield Step(WireBridge(name, goal.nf_origin, goal.up), f"{name} is a wire and sends nothing itself")
    if want.nf_call is not None and have.machine.nf_call != want.nf_call:
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


def _add_ports(want: State, have: State) -> Iterator[Step]:
    kept = _kept(want, have)
    for name in sorted(want.ports):
        yield from _port(name, want.ports[name], kept.get(name), want.machine)


def _port(name: str, goal: Port, now: Port | None, machine: Machine) -> Iterator[Step]:
    link = machine.links.get(name)
    if now is None:
        ipv6 = link.ipv6 or link.addrgen != 1 if link else True
        now = Port(None, learning=True, forward_mask=0, up=bool(link and link.up), ipv6=ipv6)
        if goal.altname:
            yield Step(MarkPort(name, goal.altname), f"{name} is ours from here on, and this is how it was")
    if now.ipv6:
        yield Step(QuietPort(name), "a port sends nothing of its own")
    if goal.egress and now.egress is None:
        yield Step(SetNetem(name, goal.egress.netem), "impaired before the first packet")
        if goal.egress.shaper:
            yield Step(SetShaper(name, goal.egress.shaper), "the bottleneck")
    if now.bridge != goal.bridge and goal.bridge:
        yield Step(Enslave(name, goal.bridge), "joins its lane")
    if (now.learning, now.forward_mask) != (goal.learning, goal.forward_mask):
        yield Step(SetPort(name, goal.learning, goal.forward_mask), "passes on LLDP and LACP as a wire does")
    if not now.up:
        yield Step(UpPort(name), "ready")


def _change_live(want: State, have: State) -> Iterator[Step]:
    """All live changes in one message; then what a smaller queue leaves to tidy up."""
    kept = _kept(want, have)
    changed: list[tuple[str, Egress, Egress]] = []
    for name in sorted(kept):
        now, goal = kept[name].egress, want.ports[name].egress
        if now and goal and now != goal:
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
        within_ns = now.netem.delay_ns + now.netem.jitter_ns + DRAIN_MARGIN_NS
        yield Step(Drain(name, goal.netem.limit, within_ns), "what is queued must find room in the smaller limit")
    if shrunk:
        tidy = tuple(SetNetem(name, goal.netem) for name, _, goal in shrunk)
        yield Step(Together(tidy), "the limit that the new RTT needs")


def _queue_ops(name: str, now: Egress, goal: Egress) -> Iterable[SetNetem | SetShaper]:
    if goal.netem != now.netem:
        yield SetNetem(name, goal.netem)
    if goal.shaper and goal.shaper != now.shaper:
        yield SetShaper(name, goal.shaper)
    if now.shaper and not goal.shaper:
        # Emptied at a rate that leaves no queue behind, so that its removal loses nothing.
        yield SetShaper(name, replace(now.shaper, rate_bytes_per_s=10**12, burst_bytes=2**27))


def _differences(changed: list[tuple[str, Egress, Egress]]) -> Iterator[str]:
    for name, now, goal in changed:
        yield (
            f"{name}: {now.netem.delay_ns} -> {goal.netem.delay_ns} ns"
            if (now.netem.delay_ns != goal.netem.delay_ns)
            else f"{name}: {now.netem}, {now.shaper} -> {goal.netem}, {goal.shaper}"
        )
