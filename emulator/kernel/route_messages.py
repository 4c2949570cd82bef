"""Reads which interfaces the default routes lead through.

The numbers and layouts stand in rtnetlink.h of the kernel's uapi.
"""

from __future__ import annotations

import socket
import struct

from emulator.kernel.rtnl_socket import RtnlSocket, aligned, attributes

RTM_GETROUTE = 26

_RTA_OIF, _RTA_MULTIPATH = 4, 9
_HEADER = struct.Struct("=BB10x")
"""struct rtmsg: family, length of the destination's prefix."""
_NEXT_HOP = struct.Struct("=H2xi")
"""struct rtnexthop: length, interface."""
_INDEX = struct.Struct("=i")


def default_links(rtnl: RtnlSocket) -> set[int]:
    """The indexes of the interfaces of all default routes, of IPv4 and IPv6, in any table. Raises OSError."""
    families = (socket.AF_INET, socket.AF_INET6)
    bodies = (body for family in families for body in rtnl.dump(RTM_GETROUTE, _HEADER.pack(family, 0)))
    return {index for body in bodies for index in links_of(body)}


def links_of(body: bytes) -> set[int]:
    """The indexes of the interfaces of one route, multipath routes included; none when it is no default route."""
    _, prefix_bits = _HEADER.unpack_from(body)
    if prefix_bits:  # a machine may have a million routes: of the others nothing is read
        return set()
    said = attributes(body[_HEADER.size :])
    own = {_INDEX.unpack(said[_RTA_OIF])[0]} if _RTA_OIF in said else set()
    return own | _next_hops(said.get(_RTA_MULTIPATH, b""))


def _next_hops(data: bytes) -> set[int]:
    found, at = set[int](), 0
    while at + _NEXT_HOP.size <= len(data):
        length, index = _NEXT_HOP.unpack_from(data, at)
        if length < _NEXT_HOP.size:
            break
        found.add(index)
        at += aligned(length)
    return found
