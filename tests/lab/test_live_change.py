"""A change of a live lane: no packet of a numbered stream is lost, none overtakes another, each has its delay."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass
from statistics import median

import pytest

from emulator.control.appliance import Appliance
from emulator.control.status import Dropped
from emulator.kernel import netns
from emulator.model.impairment import Impairment
from emulator.model.lane_patch import LanePatch
from emulator.model.loss_model import P32
from emulator.model.topology import Lane, Topology

EVERY_S = 0.001
PORT = 7000


@dataclass(frozen=True)
class Arrival:
    number: int
    sent_ns: int
    received_ns: int


def sockets(topology: Topology, sender: str, receiver: str) -> tuple[socket.socket, socket.socket]:
    with netns.inside(f"lh-{receiver}"):
        into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        into.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        into.bind(("", PORT))
        into.settimeout(2)
    with netns.inside(f"lh-{sender}"):
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        out.connect((str(topology.address(receiver).ip), PORT))
    return out, into


def stream(topology: Topology, sender: str, receiver: str, seconds: float, arrivals: list[Arrival]) -> threading.Thread:
    """Send a numbered datagram every millisecond; both ends run in threads of this process."""
    out, into = sockets(topology, sender, receiver)

    def send() -> None:
        with out:
            for number in range(int(seconds / EVERY_S)):
                out.send(f"{number} {time.monotonic_ns()}".encode())
                time.sleep(EVERY_S)

    def receive() -> None:
        with into:
            while True:
                try:
                    number, sent = map(int, into.recv(100).split())
                except TimeoutError:
                    return
                arrivals.append(Arrival(number, sent, time.monotonic_ns()))

    receiving = threading.Thread(target=receive)
    receiving.start()
    threading.Thread(target=send).start()
    return receiving


@pytest.mark.parametrize("rtts_ms", [(200, 50, 200), (80, 0, 80)], ids=["200-50-200", "on-off-on"])
@pytest.mark.parametrize("direction", ["outbound", "inbound"])
@pytest.mark.parametrize("rate_bps", [10**9, None], ids=["shaped", "unshaped"])
def test_no_packet_is_lost_or_overtaken(
    appliance: Appliance, rtts_ms: tuple[int, ...], direction: str, rate_bps: int | None
) -> None:
    lane = Lane("site", Impairment(rate_bps=rate_bps), Impairment(rate_bps=rate_bps))
    topology = Topology("live", "hub", (lane.with_rtt(rtts_ms[0] * 10**6),))
    appliance.up(topology)
    ends = ("hub", "site") if direction == "outbound" else ("site", "hub")
    arrivals: list[Arrival] = []
    receiving = stream(topology, *ends, seconds=3, arrivals=arrivals)
    changes = []
    for rtt_ms in rtts_ms[1:]:
        time.sleep(1)
        changes.append(time.monotonic_ns())
        appliance.set_lane(lane.with_rtt(rtt_ms * 10**6))
    receiving.join()
    assert [a.number for a in arrivals] == list(range(3000))
    spans = ((0, changes[0] - 10**8), (changes[0] + 3 * 10**8, changes[1] - 10**8), (changes[1] + 3 * 10**8, 2**63))
    for rtt_ms, (begin_ns, end_ns) in zip(rtts_ms, spans, strict=True):
        extra_ns = [delay_ns - rtt_ms * 500_000 for delay_ns in delays_ns(arrivals, begin_ns, end_ns)]
        # Reading the clock costs 768 ns of virtual time, and the planner in this process reads it too.
        assert 0 <= median(extra_ns) < 10_000
        assert 0 <= max(extra_ns) < 200_000
    # None passes unimpaired: the shortest delay is the smaller of the two that were asked for.
    assert min(a.received_ns - a.sent_ns for a in arrivals[500:]) >= min(rtts_ms) * 500_000


def delays_ns(arrivals: list[Arrival], begin_ns: int, end_ns: int) -> list[int]:
    """The one-way delays of what was sent in that time, the first packets (ARP) left out."""
    chosen = [a.received_ns - a.sent_ns for a in arrivals[500:] if begin_ns < a.sent_ns < end_ns]
    assert len(chosen) > 100
    return chosen


def test_losses_that_were_asked_for_are_never_blamed_on_the_limit(appliance: Appliance) -> None:
    lane = Lane("site", Impairment(), Impairment()).with_rtt(20 * 10**6)
    topology = Topology("live", "hub", (lane,))
    appliance.up(topology)
    appliance.set_lane(LanePatch(outbound={"loss_p32": P32 // 2}).apply(lane))
    arrivals: list[Arrival] = []
    stream(topology, "hub", "site", seconds=0.5, arrivals=arrivals).join()
    assert len(arrivals) < 400
    appliance.set_lane(lane)
    appliance.set_lane(lane.with_rtt(30 * 10**6))
    before = appliance.status()
    assert not before.drift
    stream(topology, "hub", "site", seconds=0.5, arrivals=arrivals).join()
    was, now = (status.lane("site").outbound.counters for status in (before, appliance.status()))
    assert (was.drops_limit, was.drops_loss, now.drops_limit) == (None, None, None)
    assert now.dropped_since(was) == Dropped(0, 0, 0)
    appliance.down()
    appliance.up(topology)
    assert appliance.status().lane("site").outbound.counters.drops_limit == 0
