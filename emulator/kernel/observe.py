"""Reads the kernel back: from netlink dumps to a State. Longhaul knows its own by name or mark, never from memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyroute2.iproute.linux import IPRoute

from emulator.kernel import netns
from emulator.kernel.capabilities import has_netem, has_seed, memory_bytes, nf_call
from emulator.kernel.link_ready import ready
from emulator.kernel.nic_facts import describe, mark
from emulator.kernel.qdisc_observe import NETEM_HANDLE, egresses_of
from emulator.model.device_names import PREFIX
from emulator.plan.engine_lane import Wire
from emulator.plan.ops import NEVER_CS, nf_origin_of
from emulator.plan.qdisc_values import Egress
from emulator.plan.state import HOST_PORT, Bridge, Link, Machine, Nic, Origin, Port, State, Veth, Vlan

IFF_UP, IFF_NOARP = 1, 1 << 7
OUR_VETH = re.compile(rf"{PREFIX}[hsx]-")
OUR_VLAN = re.compile(rf"{PREFIX}v[hs]-")
STACKED = ("vlan", "macvlan", "macvtap", "ipvlan", "ipvtap")
"""Kinds of interface that send through another one; for other kinds IFLA_LINK means something else."""
ADDRGEN_NONE = 1


def observe(ip: Any, wires: Mapping[str, Wire]) -> State:
    """All that Longhaul owns, with the lanes of the wire engine (`wires`); `machine` holds what matters of the rest."""
    links = {link.get_attr("IFLA_IFNAME"): link for link in ready(ip, _may_be_port)}
    names = {link["index"]: name for name, link in links.items()}
    spaces, ours = netns.names(), f"{PREFIX}-"
    hosts = {n for n in spaces if n.startswith(ours)}
    veths = _veths(links, names, hosts)
    vlans = {n: _vlan(link, names) for n, link in links.items() if OUR_VLAN.match(n) and _kind(link) == "vlan"}
    ends = {e for v in veths.values() for e in (v.name, v.peer if v.namespace is None else v.name)} | vlans.keys()
    nics = {n: describe(link) for n, link in links.items() if n not in ends and not n.startswith(f"{PREFIX}-")}
    tx_queues = {links[n]["index"]: nic.tx_queues for n, nic in nics.items()}
    egresses, roots = egresses_of(ip.get_qdiscs(), tx_queues, lambda i: ip.get_filters(index=i, parent=NETEM_HANDLE))
    ports = {n: port_of(link, names, egresses, nics.get(n)) for n, link in links.items() if n in ends or mark(link)}
    bridges = {n: _bridge(link) for n, link in links.items() if _kind(link) == "bridge" and n.startswith(f"{PREFIX}-")}
    rest = links.keys() - ports.keys() - bridges.keys()
    switches = nf_call()
    machine = Machine(
        {n: _foreign(links[n], names, roots) for n in rest} | _addressed(ip, links, names, roots, rest),
        memory_bytes(),
        has_seed(),
        switches,
        spaces,
        nics,
        "netem" in roots.values() or has_netem(),
    )
    nf_ours = switches if bridges else None
    remnants = frozenset(n for n in netns.remnants() if n.startswith(ours))
    return State(frozenset(hosts), bridges, veths, ports, nf_ours, machine, vlans, wires, remnants)


@dataclass(frozen=True)
class _HostEnd:
    namespace: str
    name: str
    address: str | None
    up: bool
    segments: int


def _veths(links: dict[str, Any], names: dict[int, str], hosts: set[str]) -> dict[str, Veth]:
    ends = {near: end for host in hosts for near, end in _host_end(host)}
    veths = {}
    for name, link in links.items():
        if not OUR_VETH.match(name) or _kind(link) != "veth":
            continue
        mtu, peer = link.get_attr("IFLA_MTU"), names.get(link.get_attr("IFLA_LINK"))
        if link.get_attr("IFLA_LINK_NETNSID") is None and peer in links:
            if name.startswith(f"{PREFIX}h-"):
                veths[name] = Veth(name, peer, mtu=mtu, segments=links[peer].get_attr("IFLA_GSO_MAX_SEGS"))
        elif end := ends.get(link["index"]):
            veths[name] = Veth(name, end.name, end.namespace, end.address, mtu, end.segments, end.up)
        else:
            veths[name] = Veth(name, HOST_PORT, "", mtu=mtu)
    return veths


def _host_end(host: str) -> list[tuple[int, _HostEnd]]:
    """The host's interface by the index of its other end. The socket closes at once: it would pin the namespace.

    Nothing when somebody deleted the namespace since it was listed.
    """
    try:
        with netns.inside(host), IPRoute() as ip:
            found = [link for link in ready(ip, _is_host_port) if _is_host_port(link)]
            if not found:
                return []
            link = found[0]
            addresses = [
                f"{a.get_attr('IFA_ADDRESS')}/{a['prefixlen']}"
                for a in ip.get_addr(family=2)
                if a["index"] == link["index"]
            ]
    except netns.GoneError:
        return []
    up, segments = bool(link["flags"] & IFF_UP), link.get_attr("IFLA_GSO_MAX_SEGS")
    return [(link.get_attr("IFLA_LINK"), _HostEnd(host, HOST_PORT, addresses[0] if addresses else None, up, segments))]


def _is_host_port(link: Any) -> bool:
    return bool(link.get_attr("IFLA_IFNAME") == HOST_PORT)


def _may_be_port(link: Any) -> bool:
    name = link.get_attr("IFLA_IFNAME")
    return bool(OUR_VETH.match(name) or OUR_VLAN.match(name) or mark(link))


def _vlan(link: Any, names: dict[int, str]) -> Vlan:
    tag = link.get_attr("IFLA_LINKINFO").get_attr("IFLA_INFO_DATA").get_attr("IFLA_VLAN_ID")
    trunk = names.get(link.get_attr("IFLA_LINK"), "")
    return Vlan(link.get_attr("IFLA_IFNAME"), trunk, tag, link.get_attr("IFLA_MTU"))


def port_of(link: Any, names: dict[int, str], egresses: dict[int, Egress], nic: Nic | None = None) -> Port:
    """A link as a port; `names` gives its bridge's name by index, `nic` its hardware facts."""
    info = link.get_attr("IFLA_LINKINFO")
    slave = info.get_attr("IFLA_INFO_SLAVE_DATA") if info else None
    altname = mark(link)
    ipv6, addrgen = _ipv6(link)
    return Port(
        bridge=names.get(link.get_attr("IFLA_MASTER")),
        learning=bool(slave.get_attr("IFLA_BRPORT_LEARNING")) if slave else True,
        forward_mask=slave.get_attr("IFLA_BRPORT_GROUP_FWD_MASK") if slave else 0,
        up=bool(link["flags"] & IFF_UP),
        ipv6=ipv6 or addrgen != ADDRGEN_NONE,
        arp=not link["flags"] & IFF_NOARP,
        egress=egresses.get(link["index"]),
        altname=altname,
        origin=Origin.decode(altname) if altname else None,
        offloads=nic.offloads if nic and altname else None,
    )


def _bridge(link: Any) -> Bridge:
    data = link.get_attr("IFLA_LINKINFO").get_attr("IFLA_INFO_DATA")
    ipv6, addrgen = _ipv6(link)
    return Bridge(
        up=bool(link["flags"] & IFF_UP),
        stp=bool(data.get_attr("IFLA_BR_STP_STATE")),
        snooping=bool(data.get_attr("IFLA_BR_MCAST_SNOOPING")),
        # The kernel rounds it to its ticks.
        forgets=data.get_attr("IFLA_BR_AGEING_TIME") < NEVER_CS // 2,
        ipv6=ipv6 or addrgen != ADDRGEN_NONE,
        arp=not link["flags"] & IFF_NOARP,
        nf_origin=nf_origin_of(link.get_attr("IFLA_IFALIAS") or ""),
    )


def _foreign(link: Any, names: dict[int, str], roots: dict[int, str]) -> Link:
    ipv6, addrgen = _ipv6(link)
    return Link(
        mtu=link.get_attr("IFLA_MTU"),
        up=bool(link["flags"] & IFF_UP),
        ipv6=ipv6,
        addrgen=addrgen,
        arp=not link["flags"] & IFF_NOARP,
        kind=_kind(link),
        master=names.get(link.get_attr("IFLA_MASTER"), ""),
        lower=names.get(link.get_attr("IFLA_LINK"), "") if _kind(link) in STACKED else "",
        qdisc=roots.get(link["index"], ""),
    )


def _addressed(
    ip: Any, links: dict[str, Any], names: dict[int, str], roots: dict[int, str], rest: set[str]
) -> dict[str, Link]:
    """The foreign interfaces with addresses or the default route added: reasons to refuse them."""
    addresses: dict[str, list[str]] = {}
    for address in (*ip.get_addr(family=2), *ip.get_addr(family=10)):
        if address["family"] == 2 or address["scope"] == 0:
            addresses.setdefault(names.get(address["index"], ""), []).append(address.get_attr("IFA_ADDRESS"))
    default = _default_ports(ip, names)
    return {
        name: replace(
            _foreign(links[name], names, roots),
            addresses=tuple(addresses.get(name, ())),
            default_route=name in default,
        )
        for name in rest & (addresses.keys() | default)
    }


def _default_ports(ip: Any, names: dict[int, str]) -> set[str]:
    """The interfaces of all default routes, multipath routes included."""
    indexes = set()
    for route in (*ip.get_default_routes(family=2), *ip.get_default_routes(family=10)):
        indexes |= {route.get_attr("RTA_OIF")} | {way["oif"] for way in route.get_attr("RTA_MULTIPATH") or ()}
    return {names.get(index, "") for index in indexes if index}


def _kind(link: Any) -> str:
    info = link.get_attr("IFLA_LINKINFO")
    return (info.get_attr("IFLA_INFO_KIND") or "") if info else ""


def _ipv6(link: Any) -> tuple[bool, int]:
    """Whether IPv6 is on, and the addrgen mode; off where the kernel has none."""
    spec = link.get_attr("IFLA_AF_SPEC")
    inet6 = spec.get_attr("AF_INET6") if spec else None
    if not inet6:
        return False, ADDRGEN_NONE
    conf = inet6.get_attr("IFLA_INET6_CONF") or {}
    return not conf.get("disable_ipv6", 0), inet6.get_attr("IFLA_INET6_ADDR_GEN_MODE") or 0
