"""Numbered frames: ordinary headers, and a record in which no flipped bit stays unnoticed."""

from __future__ import annotations

import struct
from functools import cached_property

from msgspec import Struct

from emulator.hosts.tools.sample_packet import Packet, specimen
from emulator.model.flow_match import IPV4, IPV6, VLAN

ECT0, CE = 0b10, 0b11
COPIES = 3
_RECORD = struct.Struct(">4sIIQ")
_MAGIC = b"LgHl"
RECORDS_BYTES = COPIES * _RECORD.size

ETHERNET_BYTES, ADDRESSES_BYTES, IPV4_BYTES, IPV6_BYTES, PORTS_BYTES = 14, 12, 20, 40, 4
MISSING_BYTES = 1
"""The excess of the IP header's length over the real one: every host drops such a packet silently, whatever its
address, where it might answer a valid one."""

_plain = specimen((), None)
assert _plain is not None
PLAIN: Packet = _plain
"""The packet's fields while there are no flows."""


def smallest_bytes(packet: Packet) -> int:
    """The size of the smallest frame: headers and the record three times, without a tag."""
    ip = IPV4_BYTES if packet.hub.version == 4 else IPV6_BYTES
    return ETHERNET_BYTES + ip + (0 if packet.hub_port is None else PORTS_BYTES) + RECORDS_BYTES


class FrameTemplate(Struct, frozen=True, dict=True):
    """Frames of one form: `macs` are (source, target), `size` is in bytes without the tag, `ecn` the two bits."""

    packet: Packet
    outbound: bool
    macs: tuple[bytes, bytes]
    size: int
    ecn: int

    def frame(self, index: int, number: int, sent_ns: int) -> bytes:
        """One frame as it arrives: the receiving kernel removes the tag."""
        return self._before + _RECORD.pack(_MAGIC, index, number, sent_ns) * COPIES

    def tagged(self, frame: bytes) -> bytes:
        """The same frame as it is sent."""
        if self.packet.vlan is None:
            return frame
        return frame[:ADDRESSES_BYTES] + struct.pack(">HH", VLAN, self.packet.vlan) + frame[ADDRESSES_BYTES:]

    @cached_property
    def _before(self) -> bytes:
        """The bytes before the records: headers and padding."""
        head = self._headers()
        return head + b"\xa5" * (self.size - len(head) - RECORDS_BYTES)

    def _headers(self) -> bytes:
        packet, turn = self.packet, 1 if self.outbound else -1
        source, target = (packet.hub.packed, packet.site.packed)[::turn]
        ports = (packet.hub_port, packet.site_port)[::turn]
        tos, four = packet.dscp << 2 | self.ecn, packet.hub.version == 4
        said = self.size - ETHERNET_BYTES + MISSING_BYTES
        ip = _ipv4(said, tos, packet.protocol) if four else _ipv6(said - IPV6_BYTES, tos, packet.protocol)
        whole = ip + source + target
        return (
            self.macs[1] + self.macs[0] + (IPV4 if four else IPV6).to_bytes(2, "big")
            + (_summed(whole) if four else whole)
            + (b"" if ports[0] is None else struct.pack(">HH", *ports))
        )  # fmt: skip


def _ipv4(length: int, tos: int, protocol: int) -> bytes:
    return struct.pack(">BBHHHBBH", 0x45, tos, length, 0, 0x4000, 64, protocol, 0)


def _ipv6(length: int, tos: int, protocol: int) -> bytes:
    return struct.pack(">IHBB", 6 << 28 | tos << 20, length, protocol, 64)


def _summed(header: bytes) -> bytes:
    """An IPv4 header with a correct checksum."""
    total = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    return header[:10] + struct.pack(">H", checksum) + header[12:]


def record(frame: bytes) -> tuple[int, int, int] | None:
    """(flow, number, send time) of one of our frames, by the majority of its copies; None for any other frame."""
    if len(frame) < RECORDS_BYTES:
        return None
    copies = [frame[len(frame) - RECORDS_BYTES + i * _RECORD.size :][: _RECORD.size] for i in range(COPIES)]
    best = copies[0] if copies[0] in copies[1:] else copies[1]
    magic, index, number, sent_ns = _RECORD.unpack(best)
    return (index, number, sent_ns) if magic == _MAGIC else None


def bits_apart(one: bytes, other: bytes) -> int:
    """How many bits of two frames differ; all bits when their sizes differ."""
    if len(one) != len(other):
        return 8 * max(len(one), len(other))
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).bit_count()
