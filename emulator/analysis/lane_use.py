"""When a lane carried frames of a program, from the frames at the client's port. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from msgspec import Struct

from emulator.analysis.program_runs import Frames

ETHERNET_BYTES, VLAN_BYTES = 14, 4
_IPV4, _IPV6, _TAGS = 0x0800, 0x86DD, (0x8100, 0x88A8)
_TCP, _UDP, _IGMP, _ICMPV6, _HOP_BY_HOP = 6, 17, 2, 58, 0
_OF_THE_LINK = (*range(130, 138), 143)
"""The types of ICMPv6 by which kernels find neighbours, routers and listeners."""
_IPV6_BYTES = 40
_UDP_BYTES = 8


class FrameTimes(Struct, frozen=True):
    """The times of a run's frames (ns since 1970), in order: when one entered the lane at the client's port, and when
    one left it there. `first_payload_ns` is when the first one with payload left it."""

    entered_ns: Sequence[int]
    left_ns: Sequence[int]
    first_payload_ns: int | None


def is_of_a_program(frame: bytes) -> bool:
    """Whether a frame is of IP and no way of kernels to find each other (neighbour discovery, group membership)."""
    try:
        kind, at = _network(frame)
        if kind == _IPV4:
            return frame[at + 9] != _IGMP
        protocol, after = frame[at + 6], at + _IPV6_BYTES
        if protocol == _HOP_BY_HOP:
            protocol, after = frame[after], after + 8 * (frame[after + 1] + 1)
        return kind == _IPV6 and not (protocol == _ICMPV6 and frame[after] in _OF_THE_LINK)
    except (struct.error, IndexError):
        return False


def payload_bytes(frame: bytes) -> int | None:
    """The payload of a TCP segment or a UDP datagram, from its first bytes; None for any other frame.

    Extension headers of IPv6 are not read: the frame then counts as another one.
    """
    try:
        kind, at = _network(frame)
        if kind == _IPV4:
            header, protocol = (frame[at] & 15) * 4, frame[at + 9]
            size = struct.unpack_from(">H", frame, at + 2)[0] - header
        elif kind == _IPV6:
            header, protocol = _IPV6_BYTES, frame[at + 6]
            size = struct.unpack_from(">H", frame, at + 4)[0]
        else:
            return None
        if protocol == _UDP:
            return int(size) - _UDP_BYTES
        return int(size) - (frame[at + header + 12] >> 4) * 4 if protocol == _TCP else None
    except (struct.error, IndexError):
        return None


def _network(frame: bytes) -> tuple[int, int]:
    """The network protocol of a frame and where its header begins. Raises struct.error for a frame cut short."""
    at, kind = ETHERNET_BYTES, struct.unpack_from(">H", frame, ETHERNET_BYTES - 2)[0]
    while kind in _TAGS:
        at, kind = at + VLAN_BYTES, struct.unpack_from(">H", frame, at + VLAN_BYTES - 2)[0]
    return kind, at


def of_run(times: FrameTimes, began_ns: int, ended_ns: int, there_ns: int, back_ns: int) -> Frames:
    """The figures of a run between two times, over a lane with these delays from and to the client."""
    spans = [(at, at + there_ns) for at in times.entered_ns] + [(at - back_ns, at) for at in times.left_ns]
    first = times.first_payload_ns
    return Frames(
        completion_ns=ended_ns - began_ns,
        first_byte_ns=None if first is None else first - began_ns,
        quiet_ns=ended_ns - began_ns - _covered_ns(spans, began_ns, ended_ns),
    )


def _covered_ns(spans: Iterable[tuple[int, int]], began_ns: int, ended_ns: int) -> int:
    """How much of the time between two instants the spans cover together."""
    covered, until = 0, began_ns
    for begin, end in sorted(spans):
        first, last = max(begin, until), min(end, ended_ns)
        if last > first:
            covered, until = covered + last - first, last
    return covered
