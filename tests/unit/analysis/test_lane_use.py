"""When a lane carried frames: payloads of real frames, and the quiet time of made-up ones."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.analysis.lane_use import FrameTimes, is_of_a_program, of_run, payload_bytes

MS = 10**6
MACS = bytes(12)


def frame(protocol: int, payload: int, *, tags: int = 0, options: int = 0, version: int = 4) -> bytes:
    """The first bytes of a frame, as a tap with a snap length shows them."""
    transport = (20 + options) if protocol == 6 else 8
    tcp = bytes(12) + bytes([(20 + options) // 4 << 4]) + bytes(7 + options)
    ends = tcp if protocol == 6 else bytes(8)
    if version == 4:
        ip = struct.pack(">BBH5xB10x", 0x45, 0, 20 + transport + payload, protocol) + bytes(0)
    else:
        ip = struct.pack(">4xHB33x", transport + payload, protocol)
    kind = struct.pack(">H", 0x0800 if version == 4 else 0x86DD)
    return MACS + struct.pack(">HH", 0x8100, 7) * tags + kind + ip + ends


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("tags", [0, 1, 2])
@pytest.mark.parametrize(("protocol", "options"), [(6, 0), (6, 12), (17, 0)])
@pytest.mark.parametrize("payload", [0, 1, 1448])
def test_the_payload_of_a_frame(version: int, tags: int, protocol: int, options: int, payload: int) -> None:
    assert payload_bytes(frame(protocol, payload, tags=tags, options=options, version=version)) == payload


@pytest.mark.parametrize("other", [b"", MACS, MACS + b"\x08\x06" + bytes(28), frame(1, 8)])
def test_another_frame_has_none(other: bytes) -> None:
    assert payload_bytes(other) is None


def ipv6(protocol: int, rest: bytes) -> bytes:
    return MACS + b"\x86\xdd" + struct.pack(">4xHBB32x", len(rest), protocol, 255) + rest


PING, NEIGHBOUR, LISTENERS = 128, 135, 143


@pytest.mark.parametrize(
    ("data", "counts"),
    [
        (frame(6, 0), True),
        (frame(17, 9, version=6), True),
        (frame(1, 64), True),  # an echo request
        (frame(132, 64, tags=1), True),  # SCTP
        (ipv6(58, bytes([PING]) + bytes(63)), True),
        (ipv6(58, bytes([NEIGHBOUR]) + bytes(23)), False),
        (ipv6(0, bytes([58, 0, 5, 2, 0, 0, 1, 0, LISTENERS]) + bytes(27)), False),
        (frame(2, 16), False),  # IGMP
        (MACS + b"\x08\x06" + bytes(28), False),  # ARP
        (MACS + b"\x88\xcc" + bytes(60), False),  # LLDP
        (MACS, False),
    ],
)
def test_frames_that_kernels_send_by_themselves_are_of_no_program(data: bytes, counts: bool) -> None:
    assert is_of_a_program(data) == counts


@given(st.binary(max_size=120))
def test_no_frame_is_too_strange(data: bytes) -> None:
    payload_bytes(data)
    is_of_a_program(data)


def test_the_quiet_time_is_what_no_frame_covers() -> None:
    """A request at 10 ms, its answer 80 ms later; then a pause, and the same again at 200 ms. Both ways take 40 ms."""
    times = FrameTimes((10 * MS, 200 * MS), (90 * MS, 280 * MS), 90 * MS)
    found = of_run(times, 0, 300 * MS, 40 * MS, 40 * MS)
    assert (found.first_byte_ns, found.completion_ns, found.quiet_ns) == (90 * MS, 300 * MS, (10 + 110 + 20) * MS)


def test_what_is_in_flight_at_the_ends_counts_in_between_only() -> None:
    found = of_run(FrameTimes((95 * MS,), (5 * MS,), None), 0, 100 * MS, 40 * MS, 40 * MS)
    assert (found.first_byte_ns, found.quiet_ns) == (None, 90 * MS)


@given(st.lists(st.integers(0, 10**9)), st.lists(st.integers(0, 10**9)), st.integers(0, 10**8), st.integers(0, 10**8))
def test_the_quiet_time_is_within_the_run(entered: list[int], left: list[int], there: int, back: int) -> None:
    found = of_run(FrameTimes(entered, left, None), 10**8, 9 * 10**8, there, back)
    assert 0 <= found.quiet_ns <= found.completion_ns == 8 * 10**8
