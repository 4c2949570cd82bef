"""The smallest Ethernet frames above 10 million a second: the delay line holds them, or says from which rate on not."""

from __future__ import annotations

import ctypes
import time

import pytest

from emulator.control.appliance import Appliance
from emulator.control.status import DirectionStatus
from emulator.kernel import netns, observe, observe_ports
from emulator.kernel.packet_socket import ETH_P_ALL, packet_socket
from emulator.model.bottleneck import SMALLEST_FRAME_BYTES
from emulator.model.device_names import namespace_of
from emulator.model.flow_match import Match
from emulator.model.impairment import Impairment
from emulator.model.topology import Flow, Lane, Topology
from emulator.plan.netem_lowering import limit_packets
from emulator.plan.small_frames import FULL, DropRates
from emulator.plan.state import HOST_PORT

MS = 10**6
PR_SET_TIMERSLACK = 29
BURST_NS = 10_000
CARRIER_S = 2.0
"""A port that has just come up may pass nothing for a second (link watch)."""

ETHERNET = b"\x02" * 6 + b"\x06" * 6 + b"\x08\x00"
VOICE, OTHER = 46 << 2, 0
WIRE_PPS = 14_880_952
"""The most frames that 10 Gbit/s Ethernet carries."""


def lane(delay_ns: int = MS, rate_bps: int | None = None, *flows: Flow) -> Lane:
    one = Impairment(delay_ns, rate_bps=rate_bps)
    return Lane("far", one, one, flows=flows)


def poured(
    appliance: Appliance, pps: int, count: int, *, tos: int = OTHER, size: int = SMALLEST_FRAME_BYTES
) -> tuple[int, int]:
    """Send frames from the hub at this rate: how many passed netem, and how many its limit dropped."""
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)
    frame = (ETHERNET + bytes([0x45, tos]) + bytes(size))[:size]
    before, sent = outbound(appliance, tos), 0
    with netns.inside(namespace_of("hub")), packet_socket(1 << 20) as one:
        one.bind((HOST_PORT, ETH_P_ALL))
        time.sleep(CARRIER_S)
        begin_ns = time.monotonic_ns()
        while sent < count:
            time.sleep(max(0, begin_ns + sent * 10**9 // pps - time.monotonic_ns()) / 1e9)
            for _ in range(min(count - sent, pps * BURST_NS // 10**9)):
                one.send(frame)
                sent += 1
        took_ns = time.monotonic_ns() - begin_ns
    assert sent * 10**9 / took_ns > 0.98 * pps
    time.sleep(0.5)
    after = outbound(appliance, tos)
    assert after.counters.drops_limit is not None and before.counters.drops_limit is not None
    packets = after.counters.packets - before.counters.packets
    return packets, after.counters.drops_limit - before.counters.drops_limit


def outbound(appliance: Appliance, tos: int = OTHER) -> DirectionStatus:
    direction = appliance.status().lane("far").outbound
    return direction.flows[0] if tos == VOICE else direction


def test_small_frames_above_ten_million_a_second_are_held(appliance: Appliance) -> None:
    one = lane()
    appliance.up(Topology("t", "hub", (one,)))
    assert limit_packets(one, one.outbound, FULL) < 5_000
    assert poured(appliance, WIRE_PPS, 17_000) == (17_000, 0)
    appliance.set_lane(longer := one.with_rtt(3 * MS))
    assert limit_packets(longer, longer.outbound, FULL) < 10_000
    assert poured(appliance, WIRE_PPS, 24_000) == (24_000, 0)


def test_a_flow_and_its_bottleneck_hold_them_too(appliance: Appliance) -> None:
    voice = Impairment(MS, rate_bps=8 * 10**9)
    appliance.up(Topology("t", "hub", (lane(MS, None, Flow("voice", Match(dscp=46), voice, voice)),)))
    assert poured(appliance, 12_000_000, 14_000, tos=VOICE) == (14_000, 0)
    assert poured(appliance, WIRE_PPS, 17_000) == (17_000, 0)


def planted(appliance: Appliance, monkeypatch: pytest.MonkeyPatch, one: Lane, memory_bytes: int) -> DropRates:
    """Bring a lane up on a machine of so little memory; the rates that status says."""
    for module in (observe, observe_ports):
        monkeypatch.setattr(module, "memory_bytes", lambda: memory_bytes)
    appliance.up(topology := Topology("t", "hub", (one,)))
    rates = outbound(appliance).drop_rates
    assert f"far, outbound: netem drops by its limit {rates}" in appliance.warnings(topology)[0]
    return rates


def test_with_little_memory_they_drop_from_the_rate_on_that_is_said(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = planted(appliance, monkeypatch, lane(), 30 << 20).empty
    assert said == 4_303_000
    assert poured(appliance, said * 99 // 100, 6_000) == (6_000, 0)
    assert poured(appliance, said * 101 // 100, 6_000)[1] > 0


def test_a_full_buffer_takes_its_part_of_the_limit(appliance: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the buffer is empty four times as many are held; no frame rate is needed that the bottleneck lacks."""
    said = planted(appliance, monkeypatch, lane(MS, 10**9), 8 << 20)
    assert said == (1_332_000, 444_000)
    assert poured(appliance, 1_310_000, 4_000) == (4_000, 0)
    assert poured(appliance, 1_350_000, 4_000)[1] > 0
    # A twentieth more than the bottleneck passes fills the buffer; frames of 281 bytes are 444 000 a second.
    for size, drops in ((320, False), (260, True)):
        full_pps = 10**9 // (8 * size)
        assert (poured(appliance, full_pps * 21 // 20, 30_000, size=size)[1] > 0) == drops
        assert (full_pps > 444_000) == drops
    assert outbound(appliance).counters.drops_buffer > 0
