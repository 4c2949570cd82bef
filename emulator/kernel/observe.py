"""Reads the kernel back: from netlink dumps to a State. Longhaul knows its own by name or mark, never from memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from socket import AF_INET

from msgspec import Struct
from msgspec.structs import replace

from emulator.kernel import link_messages, netns, qdisc_read
from emulator.kernel.capabilities import has_netem, memory_bytes, nf_call, version
from emulator.kernel.link_messages import ADDRGEN_NONE, BridgeSettings, LinkMessage
from emulator.kernel.link_ready import ready, ready_link
from emulator.kernel.nic_facts import describe, mark
from emulator.kernel.qdisc_observe import NETEM_HANDLE, egresses_of
from emulator.kernel.route_messages import default_links
from emulator.kernel.rtnl_socket import RtnlSocket
from emulator.model.device_names import PREFIX
from emulator.plan.engine_lane import Wire
from emulator.plan.ops import NEVER_CS, nf_origin_of
from emulator.plan.qdisc_values import Egress
from emulator.plan.state import HOST_PORT, Bridge, Link, Machine, Nic, Origin, Port, State, Veth, Vlan

OUR_VETH = re.compile(rf"{PREFIX}[hsx]-")
OUR_VLAN = re.compile(rf"{PREFIX}v[hs]-")
STACKED = ("vlan", "macvlan", "macvtap", "ipvlan", "ipvtap")
"""Kinds of interface that send through another one; for other kinds IFLA_LINK means something else."""


Links = Mapping[str, LinkMessage]
"""Interfaces by name."""


def observe(rtnl: RtnlSocket, wires: Mapping[str, Wire]) -> State:
    """All that Longhaul owns, with the lanes of the wire engine (`wires`); `machine` holds what matters of the rest."""
    links = {link.name: link for link in ready(rtnl, _may_be_port)}
    names = {link.index: name for name, link in links.items()}
    spaces, ours = netns.names(), f"{PREFIX}-"
    hosts = {n for n in spaces if n.startswith(ours)}
    veths = _veths(links, names, hosts)
    vlans = {n: _vlan(link, names) for n, link in links.items() if OUR_VLAN.match(n) and link.kind == "vlan"}
    ends = {e for v in veths.values() for e in (v.name, v.peer if v.namespace is None else v.name)} | vlans.keys()
    nics = {n: describe(link) for n, link in links.items() if n not in ends and not n.startswith(f"{PREFIX}-")}
    tx_queues = {links[n].index: nic.tx_queues for n, nic in nics.items()}
    qdiscs = qdisc_read.every(rtnl)
    egresses, roots = egresses_of(qdiscs, tx_queues, lambda index: qdisc_read.filters(rtnl, index, NETEM_HANDLE))
    ports = {n: port_of(link, names, egresses, nics.get(n)) for n, link in links.items() if n in ends or mark(link)}
    bridges = {n: _bridge(link) for n, link in links.items() if link.kind == "bridge" and n.startswith(ours)}
    rest = links.keys() - ports.keys() - bridges.keys()
    switches = nf_call()
    machine = Machine(
        {n: _foreign(links[n], names, roots) for n in rest} | _addressed(rtnl, links, names, roots, rest),
        memory_bytes(),
        version(),
        switches,
        spaces,
        nics,
        "netem" in roots.values() or has_netem(),
    )
    nf_ours = switches if bridges else None
    remnants = frozenset(n for n in netns.remnants() if n.startswith(ours))
    return State(frozenset(hosts), bridges, veths, ports, nf_ours, machine, vlans, wires, remnants)


class _HostEnd(Struct, frozen=True):
    namespace: str
    name: str
    address: str | None
    up: bool
    segments: int


def _veths(links: Links, names: Mapping[int, str], hosts: set[str]) -> dict[str, Veth]:
    ends = {near: end for host in hosts for near, end in _host_end(host)}
    veths = {}
    for name, link in links.items():
        if not OUR_VETH.match(name) or link.kind != "veth":
            continue
        peer = names.get(link.lower or 0, "")
        if link.lower_netns_id is None and peer in links:
            if name.startswith(f"{PREFIX}h-"):
                veths[name] = Veth(name, peer, mtu=link.mtu, segments=links[peer].segments)
        elif end := ends.get(link.index):
            veths[name] = Veth(name, end.name, end.namespace, end.address, link.mtu, end.segments, end.up)
        else:
            veths[name] = Veth(name, HOST_PORT, "", mtu=link.mtu)
    return veths


def _host_end(host: str) -> list[tuple[int, _HostEnd]]:
    """The host's interface by the index of its other end. The socket closes at once: it would pin the namespace.

    Nothing when somebody deleted the namespace since it was listed.
    """
    try:
        with netns.inside(host), RtnlSocket() as rtnl:
            link = ready_link(rtnl, HOST_PORT)
            if link is None or link.lower is None:
                return []
            found = [one for one in link_messages.addresses(rtnl) if one.index == link.index]
    except netns.GoneError:
        return []
    ours = [f"{one.address}/{one.prefix_bits}" for one in found if one.family == AF_INET]
    return [(link.lower, _HostEnd(host, HOST_PORT, ours[0] if ours else None, link.up, link.segments))]


def _may_be_port(link: LinkMessage) -> bool:
    return bool(OUR_VETH.match(link.name) or OUR_VLAN.match(link.name) or mark(link))


def _vlan(link: LinkMessage, names: Mapping[int, str]) -> Vlan:
    return Vlan(link.name, names.get(link.lower or 0, ""), link.vlan_id or 0, link.mtu)


def port_of(
    link: LinkMessage, names: Mapping[int, str], egresses: Mapping[int, Egress], nic: Nic | None = None
) -> Port:
    """A link as a port; `names` gives its bridge's name by index, `nic` its hardware facts."""
    in_bridge, altname = link.bridge_port, mark(link)
    return Port(
        bridge=names.get(link.master or 0),
        learning=in_bridge.learning if in_bridge else True,
        forward_mask=in_bridge.forward_mask if in_bridge else 0,
        up=link.up,
        ipv6=_has_ipv6(link),
        arp=link.arp,
        egress=egresses.get(link.index),
        altname=altname,
        origin=Origin.decode(altname) if altname else None,
        offloads=nic.offloads if nic and altname else None,
    )


def _bridge(link: LinkMessage) -> Bridge:
    settings = link.bridge or BridgeSettings(stp=False, snooping=False, ageing_cs=NEVER_CS)
    return Bridge(
        up=link.up,
        stp=settings.stp,
        snooping=settings.snooping,
        # The kernel rounds it to its ticks.
        forgets=settings.ageing_cs < NEVER_CS // 2,
        ipv6=_has_ipv6(link),
        arp=link.arp,
        nf_origin=nf_origin_of(link.alias),
    )


def _has_ipv6(link: LinkMessage) -> bool:
    """Whether it uses IPv6, or would give itself an address as soon as it may."""
    return link.ipv6 or link.addrgen != ADDRGEN_NONE


def _foreign(link: LinkMessage, names: Mapping[int, str], roots: Mapping[int, str]) -> Link:
    return Link(
        mtu=link.mtu,
        up=link.up,
        ipv6=link.ipv6,
        addrgen=link.addrgen,
        arp=link.arp,
        kind=link.kind,
        master=names.get(link.master or 0, ""),
        lower=names.get(link.lower or 0, "") if link.kind in STACKED else "",
        qdisc=roots.get(link.index, ""),
    )


def _addressed(
    rtnl: RtnlSocket, links: Links, names: Mapping[int, str], roots: Mapping[int, str], rest: set[str]
) -> dict[str, Link]:
    """The foreign interfaces with addresses or the default route added: reasons to refuse them."""
    addresses: dict[str, list[str]] = {}
    for one in link_messages.addresses(rtnl):
        if one.family == AF_INET or one.scope == 0:
            addresses.setdefault(names.get(one.index, ""), []).append(one.address)
    default = {names.get(index, "") for index in default_links(rtnl)}
    return {
        name: replace(
            _foreign(links[name], names, roots),
            addresses=tuple(addresses.get(name, ())),
            default_route=name in default,
        )
        for name in rest & (addresses.keys() | default)
    }
