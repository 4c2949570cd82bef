"""Schedules on the real kernel in virtual time: an evening with flaps, and no packet lost by a change."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from msgspec.structs import replace
from support.folders import ROOT, TOPOLOGIES

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.control.intent_store import IntentStore
from emulator.control.schedule_lateness import Lateness
from emulator.hosts.tools.frame_stream import Arrival, FrameFlow, Stream
from emulator.model.schedule import Start
from emulator.model.timeline import Timeline
from emulator.model.topology import Topology
from emulator.system.timer import RealAlarm

MS, S = 10**6, 10**9
EVENING_S = 71_700
LATE_NS = 10_000
SHARED_NS = 1_000
"""Frames are sent at the same instants, and every time that the sender reads the clock takes 256 ns from all."""


def played(
    appliance: Appliance, topology: Topology, flows: list[FrameFlow], seconds: int, epoch_ns: int
) -> tuple[list[list[Arrival]], Lateness]:
    """Bring the topology up and play its schedule, which began at `epoch_ns`, so long, while the flows run."""
    assert topology.schedule is not None
    appliance.up(replace(topology, schedule=replace(topology.schedule, start=Start("at", epoch_ns))))
    alarm = RealAlarm()
    follower = appliance.follower(alarm)
    with Stream(topology, flows) as stream:
        playing = threading.Thread(target=follower.run, args=(alarm.now_ns() + seconds * S,))
        playing.start()
        arrivals = stream.run(5 * S)
        playing.join()
    return arrivals, follower.lateness


def test_an_evening_passes_as_it_is_written(appliance: Appliance) -> None:
    """An hour and a half of the day, from 19:55 on: all that ever changes in it."""
    day = loader.load(TOPOLOGIES / "day.yaml")
    epoch_ns = RealAlarm().now_ns() - EVENING_S * S
    flows = [FrameFlow("new-york", site, 240, 22 * S) for site in ("london", "tokyo")]
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
    assert late.max_ns < SHARED_NS


def schedule(tracks: str, rest: str = "") -> Topology:
    """One lane of 80 ms and a gigabit under a schedule."""
    text = f"{{name: t, hub: hub, lanes: {{far: {{rtt: 80ms, rate: 1Gbit}}}}, schedule: {{{rest} tracks: [{tracks}]}}}}"
    return loader.loads(text)


def test_a_ramp_loses_and_reorders_nothing(appliance: Appliance) -> None:
    ramp = "{keys: [{at: 0s, rtt: 80ms}, {at: 4s, rtt: 200ms, ramp: yes}, {at: 8s, rtt: 20ms, ramp: yes}]}"
    flows = [FrameFlow("hub", "far", 10_000, MS), FrameFlow("far", "hub", 10_000, MS)]
    arrivals, late = played(appliance, schedule(ramp, "step: 100ms,"), flows, 14, RealAlarm().now_ns() + 3 * S)
    for seen in arrivals:
        assert [one.number for one in seen] == list(range(10_000))
    delays_ms = [(one.received_ns - one.sent_ns) / MS for one in arrivals[0]]
    assert max(delays_ms) == pytest.approx(100, abs=0.1)
    assert delays_ms[-1] == pytest.approx(10, abs=0.1)
    assert (late.changes, late.skipped) == (80, 0)


def test_a_flap_takes_what_is_sent_in_it_and_nothing_else(appliance: Appliance) -> None:
    flap = "{direction: outbound, keys: [{at: 1s, down: yes}, {at: 1250ms, down: no}]}"
    epoch_ns = RealAlarm().now_ns() + 3 * S
    flows = [FrameFlow("hub", "far", 3_000, MS), FrameFlow("far", "hub", 3_000, MS)]
    (out, back), late = played(appliance, schedule(flap, "loop: 2s,"), flows, 10, epoch_ns)
    assert len(back) == 3_000
    lost = sorted(set(range(3_000)) - {one.number for one in out})
    assert len(lost) in (250, 500)
    phases = [(one.sent_ns - epoch_ns) / S % 2 for one in out if one.sent_ns > epoch_ns]
    assert not [phase for phase in phases if 1.0001 < phase < 1.2499]
    assert late.max_ns < SHARED_NS


def delay_ms(appliance: Appliance) -> float:
    """What the kernel holds outbound."""
    netem = appliance.status().lanes[0].outbound.netem
    assert netem
    return netem.delay_ns / MS


def test_a_killed_daemon_goes_on_in_its_phase_and_is_never_late(appliance: Appliance) -> None:
    keys = ", ".join(f"{{at: {at}s, rtt: {rtt}ms}}" for at, rtt in ((10, 120), (20, 40), (30, 60)))
    appliance.up(schedule(f"{{keys: [{keys}]}}"))
    began_ns, alarm = IntentStore(appliance.state_dir).read().began_ns, RealAlarm()
    assert began_ns is not None
    argv, env = [sys.executable, "-m", "emulator", "daemon"], {**os.environ, "LONGHAUL_STATE": str(appliance.state_dir)}

    def daemon(*until_s: int) -> list[float]:
        """One that is killed in the end, and what the lanes have at some times before."""
        with subprocess.Popen(argv, cwd=ROOT, env=env, stderr=subprocess.DEVNULL) as process:
            found = []
            for at_s in until_s:
                alarm.sleep_until(began_ns + at_s * S)
                found.append(delay_ms(appliance))
            process.kill()
        return found

    assert daemon(5, 15) == [40, 60]
    alarm.sleep_until(began_ns + 25 * S)
    assert delay_ms(appliance) == 60, "nobody plays it"
    assert daemon(27, 35) == [20, 30]
    late = appliance.status().lateness
    assert late and (late.changes, late.skipped, late.max_ns) == (2, 0, 0)
