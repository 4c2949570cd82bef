"""Reads interfaces and addresses: of each what Longhaul must know, from the kernel's messages.

The numbers stand in if_link.h, if_addr.h, if_bridge.h and ipv6.h of the kernel's uapi.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from emulator.kernel.rtnl_socket import RtnlQuery, RtnlSocket, attribute, attributes, listed

RTM_GETLINK, RTM_GETADDR = 18, 22
IFF_UP, IFF_NOARP, IFF_LOWER_UP = 1 << 0, 1 << 7, 1 << 16
ADDRGEN_NONE = 1
"""IN6_ADDR_GEN_MODE_NONE: the interface gives itself no link-local address."""

_ADDRESS, _IFNAME, _MTU, _LINK, _MASTER, _OPERSTATE, _LINKINFO, _IFALIAS = 1, 3, 4, 5, 10, 16, 18, 20
_AF_SPEC, _EXT_MASK, _NUM_TX_QUEUES, _NUM_RX_QUEUES, _LINK_NETNSID, _GSO_MAX_SEGS = 26, 29, 31, 32, 37, 40
_PROP_LIST, _ALT_IFNAME, _PERM_ADDRESS, _PARENT_DEV_NAME = 52, 53, 54, 56
_INFO_KIND, _INFO_DATA, _INFO_SLAVE_KIND, _INFO_SLAVE_DATA = 1, 2, 4, 5
_VLAN_ID, _BR_AGEING_TIME, _BR_STP_STATE, _BR_MCAST_SNOOPING = 1, 4, 5, 23
_BRPORT_LEARNING, _BRPORT_GROUP_FWD_MASK = 8, 31
_INET6_CONF, _INET6_ADDR_GEN_MODE = 2, 8
_DISABLE_IPV6 = 26
"""The place of disable_ipv6 in IFLA_INET6_CONF, an array of int (DEVCONF_DISABLE_IPV6 of ipv6.h)."""

_IFA_ADDRESS = 1
SKIP_STATS = struct.pack("=I", 8)
"""RTEXT_FILTER_SKIP_STATS: without the protocols' counters."""

_LINK_HEADER = struct.Struct("=BxHiII")
_ADDRESS_HEADER = struct.Struct("=BBBBI")
_NUMBERS = {1: "=B", 2: "=H", 4: "=I", 8: "=Q"}


class BridgeSettings(Struct, frozen=True):
    """Of a bridge; `ageing_cs` is its ageing time in hundredths of a second."""

    stp: bool
    snooping: bool
    ageing_cs: int


class BridgePort(Struct, frozen=True):
    """Of a port of a bridge."""

    learning: bool
    forward_mask: int


class LinkMessage(Struct, frozen=True):
    """One interface.

    `lower` is the index of the interface below it or of a veth's other end; that is in the namespace `lower_netns_id`
    unless that is None. `master` is the index of its bridge or bond. `segments` is the most that one super-frame holds.
    `kind` is empty for NICs. `addrgen` is IN6_ADDR_GEN_MODE_*; `ipv6` is False where the kernel has none.
    """

    index: int
    name: str
    flags: int
    mtu: int
    kind: str
    lower: int | None
    lower_netns_id: int | None
    master: int | None
    operstate: int
    alias: str
    altnames: tuple[str, ...]
    mac: str
    permanent_mac: str
    parent_device: str
    rx_queues: int
    tx_queues: int
    segments: int
    vlan_id: int | None
    bridge: BridgeSettings | None
    bridge_port: BridgePort | None
    ipv6: bool
    addrgen: int

    @property
    def up(self) -> bool:
        """Whether it is up, by its administrator."""
        return bool(self.flags & IFF_UP)

    @property
    def arp(self) -> bool:
        """Whether it uses ARP."""
        return not self.flags & IFF_NOARP

    @property
    def carrier(self) -> bool:
        """Whether it has a carrier."""
        return bool(self.flags & IFF_LOWER_UP)


class AddressMessage(Struct, frozen=True):
    """One address of an interface: `family` and `scope` as the kernel numbers them."""

    index: int
    family: int
    scope: int
    address: str
    prefix_bits: int


def links(rtnl: RtnlSocket) -> list[LinkMessage]:
    """All interfaces. Raises OSError."""
    request = _LINK_HEADER.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + attribute(_EXT_MASK, SKIP_STATS)
    return [decode_link(body) for body in rtnl.dump(RTM_GETLINK, request)]


def link(rtnl: RtnlSocket, name_or_index: str | int) -> LinkMessage | None:
    """One interface; None when there is none. Raises OSError."""
    (found,) = some_links(rtnl, [name_or_index])
    return found


def some_links(rtnl: RtnlSocket, wanted: Sequence[str | int]) -> list[LinkMessage | None]:
    """These interfaces, by name or index; None in the place of one that there is not. Raises OSError."""
    return [None if body is None else decode_link(body) for body in rtnl.queries([_query(one) for one in wanted])]


def _query(name_or_index: str | int) -> RtnlQuery:
    name, index = (name_or_index, 0) if isinstance(name_or_index, str) else (None, name_or_index)
    request = _LINK_HEADER.pack(socket.AF_UNSPEC, 0, index, 0, 0) + attribute(_EXT_MASK, SKIP_STATS)
    if name is not None:
        request += attribute(_IFNAME, name.encode() + b"\0")
    return RtnlQuery(RTM_GETLINK, request)


def addresses(rtnl: RtnlSocket) -> list[AddressMessage]:
    """All IPv4 and IPv6 addresses. Raises OSError."""
    bodies = rtnl.dump(RTM_GETADDR, _ADDRESS_HEADER.pack(socket.AF_UNSPEC, 0, 0, 0, 0))
    return [decode_address(body) for body in bodies if body[0] in (socket.AF_INET, socket.AF_INET6)]


@lru_cache(maxsize=1024)
def decode_link(body: bytes) -> LinkMessage:
    """An interface from its message. Most interfaces are as they were at the last look."""
    _, _, index, flags, _ = _LINK_HEADER.unpack_from(body)
    said = attributes(body[_LINK_HEADER.size :])
    info = attributes(said.get(_LINKINFO, b""))
    kind, data = _text(info.get(_INFO_KIND)), attributes(info.get(_INFO_DATA, b""))
    ipv6, addrgen = _ipv6(said.get(_AF_SPEC, b""))
    return LinkMessage(
        index=index,
        name=_text(said.get(_IFNAME)),
        flags=flags,
        mtu=_number(said.get(_MTU)) or 0,
        kind=kind,
        lower=_number(said.get(_LINK)),
        lower_netns_id=_number(said.get(_LINK_NETNSID)),
        master=_number(said.get(_MASTER)),
        operstate=_number(said.get(_OPERSTATE)) or 0,
        alias=_text(said.get(_IFALIAS)),
        altnames=tuple(_text(name) for number, name in listed(said.get(_PROP_LIST, b"")) if number == _ALT_IFNAME),
        mac=said.get(_ADDRESS, b"").hex(":"),
        permanent_mac=said.get(_PERM_ADDRESS, b"").hex(":"),
        parent_device=_text(said.get(_PARENT_DEV_NAME)),
        rx_queues=_number(said.get(_NUM_RX_QUEUES)) or 1,
        tx_queues=_number(said.get(_NUM_TX_QUEUES)) or 1,
        segments=_number(said.get(_GSO_MAX_SEGS)) or 0,
        vlan_id=_number(data.get(_VLAN_ID)) if kind == "vlan" else None,
        bridge=_bridge(data) if kind == "bridge" else None,
        bridge_port=_bridge_port(info),
        ipv6=ipv6,
        addrgen=addrgen,
    )


def decode_address(body: bytes) -> AddressMessage:
    """An address from its message."""
    family, bits, _, scope, index = _ADDRESS_HEADER.unpack_from(body)
    address = attributes(body[_ADDRESS_HEADER.size :])[_IFA_ADDRESS]
    return AddressMessage(index, family, scope, socket.inet_ntop(family, address), bits)


def _bridge(data: dict[int, bytes]) -> BridgeSettings:
    stp, snooping = (bool(_number(data.get(kind))) for kind in (_BR_STP_STATE, _BR_MCAST_SNOOPING))
    return BridgeSettings(stp, snooping, _number(data.get(_BR_AGEING_TIME)) or 0)


def _bridge_port(info: dict[int, bytes]) -> BridgePort | None:
    if _text(info.get(_INFO_SLAVE_KIND)) != "bridge":
        return None
    data = attributes(info.get(_INFO_SLAVE_DATA, b""))
    return BridgePort(bool(_number(data.get(_BRPORT_LEARNING))), _number(data.get(_BRPORT_GROUP_FWD_MASK)) or 0)


def _ipv6(families: bytes) -> tuple[bool, int]:
    """Whether IPv6 is on, and the addrgen mode; off where the kernel has none."""
    inet6 = attributes(attributes(families).get(socket.AF_INET6, b""))
    if not inet6:
        return False, ADDRGEN_NONE
    settings = inet6.get(_INET6_CONF, b"")
    values = struct.unpack(f"={len(settings) // 4}i", settings)
    disabled = len(values) > _DISABLE_IPV6 and values[_DISABLE_IPV6]
    return not disabled, _number(inet6.get(_INET6_ADDR_GEN_MODE)) or 0


def _text(content: bytes | None) -> str:
    return "" if content is None else content.partition(b"\0")[0].decode(errors="backslashreplace")


def _number(content: bytes | None) -> int | None:
    return None if content is None else int(struct.unpack(_NUMBERS[len(content)], content)[0])
