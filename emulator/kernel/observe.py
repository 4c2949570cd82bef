"""Read the kernel back: from netlink dumps to a State. What is ours is known by name or by mark, never by memory."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pyroute2.iproute.linux import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from ..aqm import Aqm
from ..netem import Egress, Netem, Shaper, common_netem
from ..ops import NF_CALL, nf_origin_of
from ..state import HOST_PORT, PREFIX, Bridge, Link, Machine, Nic, Origin, Port, State, Veth, Vlan
from ..wire import Wire
from . import QueueCounters, codec, codec_aqm, netns
from .nics import describe, mark

NETEM_HANDLE = 0x10000
SHAPER_HANDLE = 0x100000
SHAPER_CLASS = SHAPER_HANDLE | 1
ROOT = 0xFFFFFFFF
IFF_UP, IFF_NOARP = 1, 1 << 7
AQMS = ("codel", "fq_codel", "red")
OUR_VETH = re.compile(rf"{PREFIX}[hsx]-")
OUR_VLAN = re.compile(rf"{PREFIX}v[hs]-")
STACKED = ("vlan", "macvlan", "macvtap", "ipvlan", "ipvtap")
"""Kinds that stand on another interface and send through it; IFLA_LINK of others means something else."""
ADDRGEN_NONE = 1
SEED_SINCE = (6, 6)


def observe(ip: Any, wires: Mapping[str, Wire]) -> State:
    """All that is ours, the lanes of the wire engine (`wires`) too, and in `machine` what is not but matters."""
    links = {link.get_attr("IFLA_IFNAME"): link for link in ip.get_links()}
    names = {link["index"]: name for name, link in links.items()}
    hosts = {n for n in netns.names() if n.startswith(f"{PREFIX}-")}
    veths = _veths(links, names, hosts)
    vlans = {n: _vlan(link, names) for n, link in links.items() if OUR_VLAN.match(n) and _kind(link) == "vlan"}
    ends = {e for v in veths.values() for e in (v.name, v.peer if v.namespace is None else v.name)} | vlans.keys()
    nics = {n: describe(link) for n, link in links.items() if n not in ends and not n.startswith(f"{PREFIX}-")}
    egresses, roots = egresses_of(ip.get_qdiscs(), {links[n]["index"]: nic.tx_queues for n, nic in nics.items()})
    ports = {n: port_of(link, names, egresses, nics.get(n)) for n, link in links.items() if n in ends or mark(link)}
    bridges = {n: _bridge(link) for n, link in links.items() if _kind(link) == "bridge" and n.startswith(f"{PREFIX}-")}
    rest = links.keys() - ports.keys() - bridges.keys()
    nf_call = _nf_call()
    machine = Machine(
        {n: _foreign(links[n], names, roots) for n in rest} | _addressed(ip, links, names, roots, rest),
        memory_bytes(),
        has_seed(),
        nf_call,
        frozenset(netns.names()),
        nics,
        "netem" in roots.values() or has_netem(),
    )
    nf_ours = nf_call if bridges else None
    return State(frozenset(hosts), bridges, veths, ports, nf_ours, machine, vlans, wires)


def counters(ip: Any) -> dict[str, QueueCounters]:
    """What every netem of ours counted, by port; `shaper_drops` are its child's, which netem counts as its own too."""
    names = {link["index"]: link.get_attr("IFLA_IFNAME") for link in ip.get_links()}
    netems: dict[int, list[Any]] = {}
    shaper_drops: dict[int, int] = {}
    for qdisc in ip.get_qdiscs():
        if qdisc.get_attr("TCA_KIND") == "netem":
            netems.setdefault(qdisc["index"], []).append(qdisc.get_attr("TCA_STATS2"))
        elif qdisc.get_attr("TCA_KIND") == "tbf" and qdisc["handle"] == SHAPER_HANDLE:
            shaper_drops[qdisc["index"]] = qdisc.get_attr("TCA_STATS2").get_attr("TCA_STATS_QUEUE")["drops"]
    return {names[i]: _counted(stats, shaper_drops.get(i, 0)) for i, stats in netems.items() if i in names}


def netem_backlog(ip: Any, index: int) -> int:
    """The packets in the root queue of one interface."""
    for qdisc in ip.get_qdiscs(index=index):
        if qdisc["index"] == index and qdisc["parent"] == ROOT:
            return int(qdisc.get_attr("TCA_STATS2").get_attr("TCA_STATS_QUEUE")["qlen"])
    return 0


def _counted(netems: list[Any], shaper_drops: int) -> QueueCounters:
    """The sum over all TX queues."""
    basics = [stats.get_attr("TCA_STATS_BASIC") for stats in netems]
    queues = [stats.get_attr("TCA_STATS_QUEUE") for stats in netems]
    packets, octets = (sum(one[key] for one in basics) for key in ("packets", "bytes"))
    drops, queued, backlog = (sum(one[key] for one in queues) for key in ("drops", "qlen", "backlog"))
    return QueueCounters(packets, octets, drops, queued, backlog, shaper_drops)


def egresses_of(qdiscs: Iterable[Any], tx_queues: Mapping[int, int]) -> tuple[dict[int, Egress], dict[int, str]]:
    """Our queues by interface index, and the kind of what somebody installed on any interface.

    `tx_queues` says how many of them the interfaces have, 1 unless said.
    """
    netems: dict[int, Netem] = {}
    shapers: dict[int, Shaper] = {}
    aqms: dict[int, Aqm] = {}
    installed: dict[int, str] = {}
    queues: dict[int, dict[int, Netem]] = {}  # below a root mq of ours, by number from 1
    for qdisc in qdiscs:
        kind, index, parent = qdisc.get_attr("TCA_KIND"), qdisc["index"], qdisc["parent"]
        if qdisc["handle"]:  # the kernel's own have none
            installed.setdefault(index, kind)
        if kind == "netem" and parent == ROOT:
            netems[index] = codec.decode_netem(qdisc.get_attr("TCA_OPTIONS"))
        elif kind == "tbf" and qdisc["handle"] == SHAPER_HANDLE:
            shapers[index] = codec.decode_shaper(qdisc.get_attr("TCA_OPTIONS"))
        elif kind in AQMS and parent == SHAPER_CLASS:
            aqms[index] = codec_aqm.decode(kind, qdisc.get_attr("TCA_OPTIONS"))
        elif kind == "mq" and qdisc["handle"] == NETEM_HANDLE:
            queues.setdefault(index, {})
        elif kind == "netem" and parent & ~0xFFFF == NETEM_HANDLE:
            netem = codec.decode_netem(qdisc.get_attr("TCA_OPTIONS"))
            queues.setdefault(index, {})[parent & 0xFFFF] = netem
    spread = {i: _spread(tx_queues.get(i, 1), found) for i, found in queues.items()}
    return spread | {i: Egress(netem, shapers.get(i), aqm=aqms.get(i)) for i, netem in netems.items()}, installed


def _spread(places: int, netems: dict[int, Netem]) -> Egress:
    """What the netems of all TX queues are together, numbered from 1."""
    ordered = [netems[number] for number in sorted(netems)]
    common = common_netem(ordered) if len(ordered) == places else None
    limit = max((netem.limit for netem in ordered), default=0)
    return Egress(common or Netem(limit=limit), queues=places, alike=common is not None)


@dataclass(frozen=True)
class _End:
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


def _host_end(host: str) -> list[tuple[int, _End]]:
    """The host's interface by the index of its other end. The socket is closed at once: it would pin the namespace."""
    with netns.inside(host), IPRoute() as ip:
        found = [link for link in ip.get_links() if link.get_attr("IFLA_IFNAME") == HOST_PORT]
        if not found:
            return []
        link = found[0]
        addresses = [
            f"{a.get_attr('IFA_ADDRESS')}/{a['prefixlen']}"
            for a in ip.get_addr(family=2)
            if a["index"] == link["index"]
        ]
    up, segments = bool(link["flags"] & IFF_UP), link.get_attr("IFLA_GSO_MAX_SEGS")
    return [(link.get_attr("IFLA_LINK"), _End(host, HOST_PORT, addresses[0] if addresses else None, up, segments))]


def _vlan(link: Any, names: dict[int, str]) -> Vlan:
    tag = link.get_attr("IFLA_LINKINFO").get_attr("IFLA_INFO_DATA").get_attr("IFLA_VLAN_ID")
    trunk = names.get(link.get_attr("IFLA_LINK"), "")
    return Vlan(link.get_attr("IFLA_IFNAME"), trunk, tag, link.get_attr("IFLA_MTU"))


def port_of(link: Any, names: dict[int, str], egresses: dict[int, Egress], nic: Nic | None = None) -> Port:
    """A link as a port; `names` gives its bridge's name by index, `nic` says what it is made of."""
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
    """The foreign interfaces again that have addresses or the default route: reasons to leave them alone."""
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
    """The interfaces of all default routes, of those with several ways too."""
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


def _nf_call() -> tuple[int, int, int] | None:
    paths = [Path(f"/proc/sys/net/bridge/bridge-nf-call-{name}") for name in NF_CALL]
    if not all(path.exists() for path in paths):
        return None
    first, second, third = (int(path.read_text()) for path in paths)
    return first, second, third


def memory_bytes() -> int:
    """Of this machine, in all."""
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    return int(line.split()[1]) * 1024


def has_seed() -> bool:
    """Whether this kernel's netem takes a seed."""
    numbers = re.findall(r"\d+", os.uname().release)
    return (int(numbers[0]), int(numbers[1])) >= SEED_SINCE


@cache
def has_netem() -> bool:
    """Whether this kernel has sch_netem, tried out in a namespace that goes at once; yes where we may not try."""
    try:
        return netns.in_new(_try_netem)
    except OSError:
        return True


def _try_netem() -> bool:
    with IPRoute() as ip:
        try:
            ip.tc("add", "netem", index=1, handle=NETEM_HANDLE, body=codec.encode_netem(Netem()))
        except NetlinkError as error:
            return bool(error.code != errno.ENOENT)
    return True
