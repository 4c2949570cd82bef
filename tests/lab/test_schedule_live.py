"""Schedules on the real kernel in virtual time: an evening with flaps, and no packet lost by a change."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator import topologyfile
from emulator.appliance import Appliance
from emulator.follow import Lateness, Player, RealClock
from emulator.kernel.netlink import NetlinkKernel
from emulator.measure.stream import Arrival, Flow, Stream
from emulator.model import Topology
from emulator.timeline import Timeline

MS, S = 10**6, 10**9
EVENING_S = 71_700
LATE_NS = 10_000
SENT_NS = 200_000
"""Waking is exact; but reading the clock costs 768 ns of virtual time, and sending a message reads it many times."""


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    kernel = NetlinkKernel()
    yield (appliance := Appliance(kernel, tmp_path))
    appliance.down()
    kernel.close()


def played(
    appliance: Appliance, topology: Topology, flows: list[Flow], seconds: int, epoch_ns: int
) -> tuple[list[list[Arrival]], Lateness]:
    """Bring the topology up and play its schedule so long, while the flows run."""
    assert topology.schedule is not None
    appliance.up(topology)
    clock = RealClock()
    player = Player(appliance.kernel, Timeline(topology, topology.schedule), clock)
    with Stream(topology, flows) as stream:
        playing = threading.Thread(target=player.run, args=(epoch_ns, clock.now_ns() + seconds * S))
        playing.start()
        arrivals = stream.run(5 * S)
        playing.join()
    return arrivals, player.lateness


def test_an_evening_passes_as_it_is_written(appliance: Appliance) -> None:
    """An hour and a half of the day, from 19:55 on: all that ever changes in it."""
    day = topologyfile.load(Path(__file__).parents[2] / "topologies/day.yaml")
    epoch_ns = RealClock().now_ns() - EVENING_S * S
    flows = [Flow("new-york", site, 240, 22 * S) for site in ("london", "tokyo")]
    arrivals, late = played(appliance, day, flows, 5_400, epoch_ns)
    assert day.schedule is not None
    timeline = Timeline(day, day.schedule)
    for site, seen in zip(("london", "tokyo"), arrivals, strict=True):
        assert len(seen) >= 238
        for one in seen:
            asked_ns = timeline.at(one.sent_ns - epoch_ns).lane(site).outbound.delay_ns
            assert 0 <= one.received_ns - one.sent_ns - asked_ns < LATE_NS
    # Every 5 min a step of the ramp, the re-route with some; two flaps, there and back; the satellite's way back.
    assert late.changes == 18 + 4 + 1
    assert (late.skipped, late.drifts) == (0, 0)
    assert late.max_ns < SENT_NS


def schedule(tracks: str, rest: str = "") -> Topology:
    """One lane of 80 ms and a gigabit under a schedule."""
    text = f"{{name: t, hub: hub, lanes: {{far: {{rtt: 80ms, rate: 1Gbit}}}}, schedule: {{{rest} tracks: [{tracks}]}}}}"
    return topologyfile.loads(text)


def test_a_ramp_loses_and_reorders_nothing(appliance: Appliance) -> None:
    ramp = "{keys: [{at: 0s, rtt: 80ms}, {at: 4s, rtt: 200ms, ramp: yes}, {at: 8s, rtt: 20ms, ramp: yes}]}"
    flows = [Flow("hub", "far", 10_000, MS), Flow("far", "hub", 10_000, MS)]
    arrivals, late = played(appliance, schedule(ramp, "step: 100ms,"), flows, 14, RealClock().now_ns() + 3 * S)
    for seen in arrivals:
        assert [one.number for one in seen] == list(range(10_000))
    delays_ms = [(one.received_ns - one.sent_ns) / MS for one in arrivals[0]]
    assert max(delays_ms) == pytest.approx(100, abs=0.1)
    assert delays_ms[-1] == pytest.approx(10, abs=0.1)
    assert (late.changes, late.skipped) == (80, 0)


def test_a_flap_takes_what_is_sent_in_it_and_nothing_else(appliance: Appliance) -> None:
    flap = "{direction: outbound, keys: [{at: 1s, down: yes}, {at: 1250ms, down: no}]}"
    epoch_ns = RealClock().now_ns() + 3 * S
    flows = [Flow("hub", "far", 3_000, MS), Flow("far", "hub", 3_000, MS)]
    (out, back), late = played(appliance, schedule(flap, "loop: 2s,"), flows, 10, epoch_ns)
    assert len(back) == 3_000
    lost = sorted(set(range(3_000)) - {one.number for one in out})
    assert len(lost) in (250, 500)
    phases = [(one.sent_ns - epoch_ns) / S % 2 for one in out if one.sent_ns > epoch_ns]
    assert not [phase for phase in phases if 1.0001 < phase < 1.2499]
    assert late.max_ns < SENT_NS
