"""A packet that takes a given way through a lane with flows: one flow and no earlier one matches it, or none does.

The search uses only the user's matches, not the kernel's filters: sending such packets shows whether both mean the
same. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_network
from itertools import product

from msgspec import Struct

from emulator.model.flow_match import MOST_FLOWS, VERSIONS, WITH_PORTS, Match, Network
from emulator.model.topology import Lane

Address = IPv4Address | IPv6Address

NOBODYS = {4: ip_network("198.18.0.0/15"), 6: ip_network("2001:2::/48")}
"""Networks for benchmarks (RFC 2544, 5180): no host of a lane has an address in them."""

EXPERIMENT = 253
"""A protocol for experiments (RFC 3692); those just below it are unassigned."""

NO_TAG, ANY_PORT = 0, 40_000


class Packet(Struct, frozen=True):
    """What distinguishes packets, by the ends of the lane in either direction. `vlan` None is untagged."""

    hub: Address
    site: Address
    protocol: int = EXPERIMENT
    hub_port: int | None = None
    site_port: int | None = None
    dscp: int = 0
    vlan: int | None = None


def belongs(packet: Packet, match: Match) -> bool:
    """Whether the packet fulfils the match; a tagged packet needs a match that names its tag."""
    ends = ((packet.hub, match.hub), (packet.site, match.site))
    exact = (
        (packet.protocol, match.protocol), (packet.hub_port, match.hub_port), (packet.site_port, match.site_port),
        (packet.dscp, match.dscp),
    )  # fmt: skip
    return (
        all(network is None or address in network for address, network in ends)
        and all(said is None or value == said for value, said in exact)
        and (match.port is None or match.port in (packet.hub_port, packet.site_port))
        and packet.vlan == match.vlan
    )


def taken(packet: Packet, matches: Sequence[Match]) -> int | None:
    """The flow that a packet belongs to: the first match; None for none."""
    return next((index for index, match in enumerate(matches) if belongs(packet, match)), None)


def way(lane: Lane, packet: Packet) -> Lane:
    """The lane's addresses and MTU, as far as a packet needs them."""
    index = taken(packet, [flow.match for flow in lane.flows])
    return lane.ways[0 if index is None else index + 1]


def specimen(matches: Sequence[Match], index: int | None) -> Packet | None:
    """A packet of the flow at `index`, or with None of no flow.

    Returns None when there is no such packet: earlier flows match everything that would belong to it.
    """
    own = None if index is None else matches[index]
    tags = (own.vlan,) if own else (None, _free((m.vlan for m in matches), range(1, 2 + MOST_FLOWS)))
    candidates = (packet for tag in tags for packet in _candidates(matches, own, tag))
    return next((packet for packet in candidates if taken(packet, matches) == index), None)


def _candidates(matches: Sequence[Match], own: Match | None, vlan: int | None) -> Iterator[Packet]:
    """Packets that a match allows, plainest first; free fields take values that no other match names.

    Only addresses cannot be chosen so: another match may name a part of the network, and one the rest.
    """
    hub, site, dscp = (own.hub, own.site, own.dscp) if own else (None, None, None)
    point = dscp if dscp is not None else _free((m.dscp for m in matches), range(1 + MOST_FLOWS))
    versions = [network.version for network in (hub, site) if network][:1] or [4, 6]
    for version, (protocol, hub_port, site_port) in product(versions, _transports(matches, own)):
        if VERSIONS.get(protocol, version) == version:
            for ends in product(_addresses(hub, matches, version), _addresses(site, matches, version)):
                yield Packet(*ends, protocol, hub_port, site_port, point, vlan)


def _transports(matches: Sequence[Match], own: Match | None) -> Iterator[tuple[int, int | None, int | None]]:
    """Protocols, each with the hub's and the site's port where it has ports."""
    said = own or Match(vlan=NO_TAG)
    every = [port for m in matches for port in (m.port, m.hub_port, m.site_port)]
    free = _free(every, range(ANY_PORT, ANY_PORT + 3 * MOST_FLOWS + 1))
    has_ports = (said.port, said.hub_port, said.site_port) != (None, None, None)
    known = (said.protocol,) if said.protocol is not None else WITH_PORTS if has_ports else ()
    protocols = known or (_free((m.protocol for m in matches), range(EXPERIMENT, EXPERIMENT - MOST_FLOWS - 1, -1)),)
    ends = [(said.hub_port or free, said.site_port or free)]
    if said.port is not None:
        ends = [(free, said.port), (said.port, free)]
    for protocol, both in product(protocols, ends):
        yield (protocol, *both) if protocol in WITH_PORTS else (protocol, None, None)


def _free(asked: Iterable[int | None], numbers: Iterable[int]) -> int:
    """The first number that no match names; there are more candidates than flows."""
    known = set(asked)
    return next(number for number in numbers if number not in known)


def _addresses(own: Network | None, matches: Sequence[Match], version: int) -> list[Address]:
    """Some addresses of a network; of an unused network when the match names none.

    The lowest address that no other match covers is the network's lowest, or lies just above another match's network.
    """
    network = own or NOBODYS[version]
    theirs = [said for m in matches for said in (m.hub, m.site) if said and said.version == version]
    above = (int(said.broadcast_address) + 1 for said in theirs)
    low, high = int(network.network_address), int(network.broadcast_address)
    make = type(network.network_address)
    return [make(number) for number in (min(low + 1, high), low, *above) if low <= number <= high]
