"""The request program over lanes of the real kernel, in virtual time: the times and rates are those of physics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from support.lab_cells import MBIT, MIB, MS, run

from emulator.analysis.request_figures import RequestFigures, round_trip_ceiling
from emulator.control.appliance import Appliance
from emulator.hosts.namespace import NamespaceHost
from emulator.hosts.requests import load as request_load
from emulator.hosts.requests.load import RequestTest
from emulator.model.impairment import Impairment
from emulator.model.request_load import RequestLoad
from emulator.model.topology import Lane, Topology

NS = 10**9
MICROSECONDS = 15_000
"""What sending and receiving costs in virtual time: packets of many connections follow each other on the line."""


class OpenLane:
    """A lane of 1 Gbit/s that is up, and measurements over it."""

    def __init__(self, appliance: Appliance, rtt_ms: int) -> None:
        way = Impairment(rate_bps=1000 * MBIT)
        self.lane = Lane("far", way, way).with_rtt(rtt_ms * MS)
        self.topology = Topology("cell", "near", (self.lane,))
        self.appliance = appliance
        appliance.up(self.topology)
        # ARP, which would count as a part of the first connection's set-up.
        NamespaceHost("near").run(["ping", "-c1", self.address], 10).checked()

    @property
    def address(self) -> str:
        return str(self.topology.address("far").ip)

    def measure(self, load: RequestLoad, duration_s: int = 10) -> RequestFigures:
        test = RequestTest(load, duration_s, self.lane.rtt_ns)
        reports = request_load.run(test, NamespaceHost("near"), NamespaceHost("far"), self.address)
        assert reports.server["requests"] == load.count or reports.server["requests"] >= reports.client["answered"]
        return RequestFigures.of(reports.client, reports.server)

    def port(self) -> str:
        return self.appliance.status().lanes[0].outbound.port


@pytest.fixture
def lane(appliance: Appliance) -> Callable[[int], OpenLane]:
    return lambda rtt_ms: OpenLane(appliance, rtt_ms)


@pytest.mark.parametrize("rtt_ms", [20, 346])
def test_one_user_waits_one_round_trip_for_each_answer(lane: Callable[[int], OpenLane], rtt_ms: int) -> None:
    found = lane(rtt_ms).measure(RequestLoad())
    assert found.answered == -(-10_000 // rtt_ms)
    assert 0 <= found.times.min_ns - rtt_ms * MS < MICROSECONDS
    assert 0 <= found.times.max_ns - rtt_ms * MS < MICROSECONDS
    assert 0 <= found.setup.max_ns - rtt_ms * MS < MICROSECONDS
    assert found.transfer.max_ns == 0
    assert found.per_s(RequestLoad()) == pytest.approx(1000 / rtt_ms, rel=2e-4)
    assert found.overhead_ns < 5_000, "in virtual time the program costs next to nothing"


@pytest.mark.parametrize("load", [RequestLoad(1, 8), RequestLoad(16, 1), RequestLoad(8, 4)], ids=lambda one: one.part)
def test_more_in_flight_carry_as_many_requests_each_round_trip(
    lane: Callable[[int], OpenLane], load: RequestLoad
) -> None:
    found, ceiling = lane(80).measure(load), round_trip_ceiling(load, 80 * MS)
    assert found.answered == load.places * 125
    assert 0.999 * ceiling < found.per_s(load) <= ceiling
    assert found.times.max_ns - 80 * MS < 10 * MICROSECONDS


def test_a_user_who_thinks(lane: Callable[[int], OpenLane]) -> None:
    load = RequestLoad(4, think_ns=120 * MS)
    found = lane(80).measure(load)
    assert found.per_s(load) == pytest.approx(20, rel=2e-4)
    assert found.times.max_ns - 80 * MS < 2 * MICROSECONDS
    assert found.late.count == 4 * 49
    assert found.late.max_ns < MICROSECONDS, "a timer that rounds up would think a millisecond longer"


def test_a_large_answer_pays_for_the_growth_of_the_window_once(lane: Callable[[int], OpenLane]) -> None:
    """1 MiB is 725 segments: windows of 10, 20, 40... carry them in 7 flights, the whole of it in one later.

    A burst of the shaper passes at once.
    """
    found = lane(80).measure(RequestLoad(answer_bytes=MIB))
    first, rest = found.times.max_ns, found.times.p99_ns
    line_ns = round(MIB * 8 * 1514 / 1448)
    assert 6 * 80 * MS < first < 8 * 80 * MS
    assert 80 * MS + line_ns - MS < found.times.min_ns <= found.times.p50_ns < 80 * MS + line_ns + MS
    assert rest == first or rest < 100 * MS
    assert found.transfer.max_ns == pytest.approx(first - 80 * MS, abs=MS)
    assert found.transfer.p50_ns == pytest.approx(line_ns, rel=0.15)


def test_many_connections_are_set_up_in_one_round_trip(lane: Callable[[int], OpenLane]) -> None:
    found = lane(80).measure(RequestLoad(1000), duration_s=1)
    assert found.setup.count == 1000
    assert found.setup.max_ns < 90 * MS, "none of the SYNs was lost"


def test_an_offered_rate_is_kept_to_the_microsecond(lane: Callable[[int], OpenLane]) -> None:
    load = RequestLoad(1, 10, offered_per_s=100)
    found = lane(80).measure(load)
    assert (found.answered, found.unanswered, found.overloaded) == (1000, 0, False)
    assert found.per_s(load) == 100
    assert found.times.max_ns - 80 * MS < MICROSECONDS


def test_an_overload_is_not_omitted(lane: Callable[[int], OpenLane]) -> None:
    """One place answers 12.5 a second; of 25 the n-th waits n x 40 ms, and the last one 10 s."""
    load = RequestLoad(offered_per_s=25)
    found = lane(80).measure(load)
    assert (found.answered, found.overloaded) == (250, True)
    assert found.per_s(load) == pytest.approx(12.5, rel=2e-4)
    assert found.times.max_ns == pytest.approx(10 * NS, rel=0.01)
    assert found.times.p50_ns == pytest.approx(5 * NS, rel=0.02)
    assert found.service.max_ns - 80 * MS < MICROSECONDS


def test_what_is_never_answered_counts_with_its_waiting(lane: Callable[[int], OpenLane]) -> None:
    load = RequestLoad(offered_per_s=200)
    found = lane(80).measure(load)
    assert found.answered + found.unanswered == 2000
    assert found.unanswered > 1000
    assert found.times.count == 2000
    assert found.times.max_ns > 40 * NS
    assert found.per_s(load) == pytest.approx(12.5, rel=0.01)


def test_a_closed_loop_hides_a_stall_that_an_open_one_shows(lane: Callable[[int], OpenLane]) -> None:
    """The coordinated omission: a user who waits asks once while the lane stands still for seconds."""
    found = {}
    for load in (RequestLoad(), RequestLoad(1, 2, offered_per_s=50)):
        one = lane(20)
        found[load.is_open] = _beside_a_stall(one, load)
        one.appliance.down()
    slow = {way: sum(count for ns, count in one.times.histogram if ns > 100 * MS) for way, one in found.items()}
    assert slow[False] <= 2
    assert slow[True] >= 50, "two seconds of 50 requests each waited"
    assert found[False].times.p99_ns < 30 * MS < 1000 * MS < found[True].times.p99_ns


def _beside_a_stall(one: OpenLane, load: RequestLoad) -> RequestFigures:
    port = one.port()

    def stall() -> None:
        time.sleep(5)
        run("tc", "qdisc", "change", "dev", port, "root", "netem", "delay", "2s", "limit", "100000")
        time.sleep(2)
        run("tc", "qdisc", "change", "dev", port, "root", "netem", "delay", "10ms", "limit", "100000")

    thread = threading.Thread(target=stall)
    thread.start()
    try:
        return one.measure(load)
    finally:
        thread.join()


def test_loss_lengthens_some_requests(lane: Callable[[int], OpenLane]) -> None:
    one = lane(80)
    run("tc", "qdisc", "change", "dev", one.port(), "root", "netem", "delay", "40ms", "loss", "5%", "seed", "7",
        "limit", "100000")  # fmt: skip
    found = one.measure(RequestLoad(8), duration_s=20)
    assert found.unanswered == 0
    assert found.retransmits > 20
    assert 0 <= found.times.p50_ns - 80 * MS < MICROSECONDS
    assert found.times.p99_ns > 200 * MS
