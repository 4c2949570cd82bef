"""Numbered frames: each is the packet that was asked for, in its direction, and no host would answer it."""

from __future__ import annotations

import struct
from ipaddress import ip_address

import pytest
from msgspec.structs import replace

from emulator.hosts.tools import probe_frame
from emulator.hosts.tools.probe_frame import PLAIN, FrameTemplate
from emulator.hosts.tools.sample_packet import Packet

HUB, SITE = b"\x02\0\0\0\0\x01", b"\x02\0\0\0\0\x02"
FOUR = Packet(ip_address("10.77.0.1"), ip_address("10.77.0.2"), 17, 40_000, 53, dscp=46)
SIX = Packet(ip_address("fd00::1"), ip_address("fd00::2"), 6, 40_000, 80, dscp=34, vlan=7)


def form(packet: Packet, *, outbound: bool = True, size: int = 200, ecn: int = 0) -> FrameTemplate:
    """Frames between the hub and the site."""
    return FrameTemplate(packet, outbound, (HUB, SITE) if outbound else (SITE, HUB), size, ecn)


def test_a_packet_of_ipv4() -> None:
    frame = form(FOUR, ecn=probe_frame.ECT0).frame(3, 4, 5)
    assert (len(frame), frame[:14]) == (200, SITE + HUB + b"\x08\0")
    version, tos, length = struct.unpack(">BBH", frame[14:18])
    assert (version, tos >> 2, tos & 3, frame[23]) == (0x45, 46, probe_frame.ECT0, 17)
    assert length == 200 - 14 + 1, "a byte is missing: no host takes it"
    assert frame[26:38] == FOUR.hub.packed + FOUR.site.packed + struct.pack(">HH", 40_000, 53)
    total = sum(struct.unpack(">10H", frame[14:34]))
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF, "the checksum is right: a router would pass it"


def test_a_packet_of_ipv6_and_its_tag() -> None:
    one = form(SIX, outbound=False)
    frame = one.frame(3, 4, 5)
    first, length, protocol = struct.unpack(">IHB", frame[14:21])
    assert (frame[12:14], first >> 28, first >> 22 & 63, protocol) == (b"\x86\xdd", 6, 34, 6)
    assert length == 200 - 14 - 40 + 1
    assert frame[22:58] == SIX.site.packed + SIX.hub.packed + struct.pack(">HH", 80, 40_000), "it comes from the site"
    assert one.tagged(frame) == frame[:12] + b"\x81\0\0\x07" + frame[12:]
    assert form(FOUR).tagged(frame) == frame


@pytest.mark.parametrize(
    "packet", [PLAIN, FOUR, SIX, replace(SIX, protocol=132, hub_port=None, site_port=None)], ids=str
)
def test_the_smallest_frame_holds_the_record_and_one_flipped_bit_does_not_hide_it(packet: Packet) -> None:
    size = probe_frame.smallest_bytes(packet)
    frame = form(packet, size=size).frame(3, 4, 5)
    assert (len(frame), probe_frame.record(frame)) == (size, (3, 4, 5))
    for bit in range(8 * size):
        flipped = bytearray(frame)
        flipped[bit // 8] ^= 1 << bit % 8
        assert probe_frame.record(bytes(flipped)) == (3, 4, 5)
        assert probe_frame.bits_apart(frame, bytes(flipped)) == 1


def test_frames_of_others() -> None:
    assert probe_frame.record(b"short") is None
    assert probe_frame.record(b"\0" * 200) is None
    assert probe_frame.bits_apart(b"abc", b"ab") == 24
