"""Flows: packets of a lane with impairments of their own, and the kernel's filters that find them. Pure.

One match describes a flow in both directions, by its ends: packets to a port of the site return from that port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network

from msgspec import Struct
from msgspec.structs import asdict, astuple

from emulator.units import parse_count

Network = IPv4Network | IPv6Network
IPV4, IPV6, VLAN = 0x0800, 0x86DD, 0x8100
"""Ethertypes (include/uapi/linux/if_ether.h)."""

PROTOCOLS = {"icmp": 1, "tcp": 6, "udp": 17, "icmp6": 58}
VERSIONS = {PROTOCOLS["icmp"]: 4, PROTOCOLS["icmp6"]: 6}
"""Protocols that belong to one version of IP."""

WITH_PORTS = (6, 17)
MOST_FLOWS = 8
"""The most flows of a lane: each needs a band, and a port's root has 16."""

DSCP = {
    "cs0": 0, "cs1": 8, "cs2": 16, "cs3": 24, "cs4": 32, "cs5": 40, "cs6": 48, "cs7": 56, "le": 1, "ef": 46,
    "af11": 10, "af12": 12, "af13": 14, "af21": 18, "af22": 20, "af23": 22, "af31": 26, "af32": 28, "af33": 30,
    "af41": 34, "af42": 36, "af43": 38,
}  # fmt: skip
"""Names of code points (RFC 2474, 2597, 3246, 8622)."""


class Match(Struct, frozen=True):
    """The packets of a flow; None matches any value. `port` is the port at either end."""

    hub: Network | None = None
    site: Network | None = None
    protocol: int | None = None
    port: int | None = None
    hub_port: int | None = None
    site_port: int | None = None
    dscp: int | None = None
    vlan: int | None = None

    def __post_init__(self) -> None:
        if not any(value is not None for value in astuple(self)):
            raise ValueError("the match is empty and would match every packet: add a key such as dscp")
        ports = (self.port, self.hub_port, self.site_port)
        if any(port is not None for port in ports) and self.protocol not in (None, *WITH_PORTS):
            raise ValueError("only tcp and udp have ports: change the protocol or remove the ports")
        if self.port is not None and ports[1:] != (None, None):
            raise ValueError("port means either end: remove it, or hub_port and site_port")
        if any(port is not None and not 1 <= port <= 65535 for port in ports):
            raise ValueError("a port is not within 1..65535")
        if self.hub and self.site and self.hub.version != self.site.version:
            raise ValueError("hub and site have different IP versions: use one version")
        if (network := self.hub or self.site) and VERSIONS.get(self.protocol or 0, network.version) != network.version:
            raise ValueError(
                "the protocol and the addresses have different IP versions: use icmp with IPv4, icmp6 with IPv6"
            )
        for name, value, most in (("dscp", self.dscp, 63), ("vlan", self.vlan, 4094), ("protocol", self.protocol, 255)):
            if value is not None and not 0 <= value <= most:
                raise ValueError(f"{name} {value} is not within 0..{most}")


class Filter(Struct, frozen=True):
    """One flower filter, for packets of one direction. `ethertype` None matches any."""

    ethertype: int | None = None
    vlan: int | None = None
    source: Network | None = None
    target: Network | None = None
    protocol: int | None = None
    source_port: int | None = None
    target_port: int | None = None
    dscp: int | None = None

    def __str__(self) -> str:
        names = {IPV4: "ip", IPV6: "ipv6", None: "all"}
        inner = names[self.ethertype]
        words = [f"protocol {inner if self.vlan is None else '802.1Q'} flower"]
        if self.vlan is not None:
            words.append(f"vlan_id {self.vlan}" + (f" vlan_ethtype {inner}" if self.ethertype else ""))
        reported = {
            "ip_proto": self.protocol, "src_ip": self.source, "dst_ip": self.target, "src_port": self.source_port,
            "dst_port": self.target_port, "ip_tos": None if self.dscp is None else f"{self.dscp << 2:#x}/0xfc",
        }  # fmt: skip
        return " ".join([*words, *(f"{key} {value}" for key, value in reported.items() if value is not None)])


def filters(match: Match, *, outbound: bool) -> tuple[Filter, ...]:
    """The filters of a flow in one direction; a packet that any of them matches belongs to the flow."""
    ends = [(match.hub_port, match.site_port)]
    if match.port is not None:
        ends = [(match.port, None), (None, match.port)]
    found = []
    for ethertype in _ethertypes(match):
        for protocol in _protocols(match):
            for hub_port, site_port in ends:
                ip, port = (match.hub, match.site), (hub_port, site_port)
                one, other = (0, 1) if outbound else (1, 0)
                found.append(
                    Filter(
                        ethertype, match.vlan, ip[one], ip[other], protocol, port[one], port[other], match.dscp
                    )
                )  # fmt: skip
    return tuple(found)


def _ethertypes(match: Match) -> Iterator[int | None]:
    network = match.hub or match.site
    if network is not None:
        yield IPV4 if network.version == 4 else IPV6
    elif match.protocol == PROTOCOLS["icmp"]:
        yield IPV4
    elif match.protocol == PROTOCOLS["icmp6"]:
        yield IPV6
    elif match.vlan is not None and (match.protocol, match.port, match.hub_port, match.site_port, match.dscp) == (
        (None,) * 5
    ):
        yield None
    else:
        yield from (IPV4, IPV6)


def _protocols(match: Match) -> tuple[int | None, ...]:
    if match.protocol is None and (match.port, match.hub_port, match.site_port) != (None, None, None):
        return WITH_PORTS
    return (match.protocol,)


def parse_network(text: str) -> Network:
    """An address or a network, of either version. Raises ValueError."""
    try:
        return ip_network(text)
    except ValueError as error:
        raise ValueError(f"{error}: use an address or a network such as 10.77.0.0/24") from None


def parse_protocol(text: str) -> int:
    """A protocol by name or number. Raises ValueError."""
    if text in PROTOCOLS:
        return PROTOCOLS[text]
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{text!r} is not a protocol: use {', '.join(PROTOCOLS)} or a number")
    return int(text)


def parse_dscp(text: str) -> int:
    """A code point by name or number. Raises ValueError."""
    if text in DSCP:
        return DSCP[text]
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{text!r} is not a code point: use a name such as ef or af41, or a number")
    return int(text)


_WORDS: dict[str, Callable[[str], Network | int]] = {
    "hub": parse_network, "site": parse_network, "protocol": parse_protocol, "port": parse_count,
    "hub_port": parse_count, "site_port": parse_count, "dscp": parse_dscp, "vlan": parse_count,
}  # fmt: skip


def parse_match(words: Iterable[str]) -> Match:
    """A match from words such as "dscp=ef", one for each key. Raises ValueError."""
    said: dict[str, Network | int] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key not in _WORDS or not value:
            raise ValueError(f"{word!r} is not KEY=VALUE; the keys are {', '.join(_WORDS)}")
        if key in said:
            raise ValueError(f"{key} is given twice: use it once")
        said[key] = _WORDS[key](value)
    return Match(**said)  # type: ignore[arg-type]


def tree(match: Match) -> dict[str, object]:
    """The match as in a topology file."""
    said = asdict(match)
    found: dict[str, object] = {key: value for key, value in said.items() if value is not None}
    for key in ("hub", "site"):
        if key in found:
            network = said[key]
            found[key] = str(network.network_address) if network.num_addresses == 1 else str(network)
    names = {number: name for name, number in PROTOCOLS.items()}
    if match.protocol in names:
        found["protocol"] = names[match.protocol]
    return found
