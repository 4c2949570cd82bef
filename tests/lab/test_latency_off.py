"""Lanes switched off and on: no packet is lost, asked is what is measured, and undo, schedule and sweep go with it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from msgspec.structs import replace

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.experiment import grid, rtt_certificate, run_cell
from emulator.experiment.cell_result import CellResult
from emulator.hosts import tcp_profiles
from emulator.hosts.tools.frame_stream import CARRIER_NS, Arrival, FrameFlow, Stream
from emulator.model.sweep_axes import Axes
from emulator.model.topology import Lane, Topology
from emulator.system.timer import RealAlarm

MS, S = 10**6, 10**9
STAR = loader.loads("{name: t, hub: hub, lanes: {far: {rtt: 80ms}, near: {rtt: 20ms, rate: 1Gbit}}}")
STEPS = "[{at: 0s, rtt: 80ms}, {at: 4s, rtt: 120ms}, {at: 8s, rtt: 40ms}]"
TRACKS = f"[{{keys: {STEPS}}}]"
PLAYED = loader.loads(f"{{name: t, hub: hub, lanes: {{far: {{rtt: 80ms}}}}, schedule: {{tracks: {TRACKS}}}}}")
FRAMES = 4_000
TOLERANCE_NS = 10_000
SETTLED_NS = 300 * MS


def switched(topology: Topology, *, off: bool) -> list[Lane]:
    """All lanes, off or on."""
    return [replace(lane, off=off) for lane in topology.lanes]


def asked_ms(appliance: Appliance) -> dict[tuple[str, str], float]:
    """What a certificate asks of every pair of hosts; all must pass."""
    topology = appliance.topology()
    assert topology
    pairs = list(rtt_certificate.measure(topology, 3, TOLERANCE_NS, at_once=1))
    assert [pair for pair in pairs if not pair.passed] == []
    return {(pair.one, pair.other): pair.asked_ns / MS for pair in pairs}


def held_ms(appliance: Appliance) -> list[float]:
    """The delay of the first lane in the kernel, outbound and inbound; what is asked must be there."""
    status = appliance.status()
    assert status.as_asked
    one = status.lanes[0]
    return [way.netem.delay_ns / MS if way.netem else 0 for way in (one.outbound, one.inbound)]


def one_way_ns(seen: Sequence[Arrival], begin_ns: int, end_ns: int) -> list[int]:
    """The delays of the frames that were sent in that time."""
    found = [one.received_ns - one.sent_ns for one in seen if begin_ns < one.sent_ns < end_ns]
    assert len(found) > 500
    return found


def test_off_and_back_loses_no_packet_and_asked_is_measured_both_ways(appliance: Appliance) -> None:
    appliance.up(STAR)
    flows = [FrameFlow(*ends, FRAMES, MS) for site in STAR.sites for ends in (("hub", site), (site, "hub"))]
    changed: list[int] = []

    def change() -> None:
        time.sleep(CARRIER_NS / S + 1.3)
        changed.append(time.clock_gettime_ns(time.CLOCK_REALTIME))
        appliance.set_lanes(switched(STAR, off=True), confirm_s=60)
        time.sleep(1.4)
        changed.append(time.clock_gettime_ns(time.CLOCK_REALTIME))
        appliance.undo()

    with Stream(STAR, flows) as stream:
        changing = threading.Thread(target=change)
        changing.start()
        arrivals = stream.run(S)
        changing.join()
    off_ns, on_ns = changed
    for seen, flow in zip(arrivals, flows, strict=True):
        assert [one.number for one in seen] == list(range(FRAMES))
        (site,) = {flow.sender, flow.receiver} - {"hub"}
        half_ns = STAR.lane(site).rtt_ns // 2
        for asked_ns, span in ((half_ns, (0, off_ns - SETTLED_NS)), (0, (off_ns + SETTLED_NS, on_ns - SETTLED_NS)),
                               (half_ns, (on_ns + SETTLED_NS, 2**63))):  # fmt: skip
            # A frame of 1 Gbit/s takes 0.5 us; reading the clock takes virtual time from everybody.
            assert all(0 <= delay_ns - asked_ns < 200_000 for delay_ns in one_way_ns(seen, *span))
    assert appliance.topology() == STAR
    assert appliance.status().as_asked


def test_a_certificate_asks_of_a_lane_that_is_off_what_is_in_effect(appliance: Appliance) -> None:
    appliance.up(STAR)
    assert asked_ms(appliance) == {("hub", "far"): 80, ("hub", "near"): 20, ("far", "near"): 100}
    appliance.set_lanes(switched(STAR, off=True)[:1], confirm_s=60)
    assert asked_ms(appliance) == {("hub", "far"): 0, ("hub", "near"): 20, ("far", "near"): 20}
    appliance.confirm()
    appliance.set_lanes(switched(STAR, off=True))
    assert set(asked_ms(appliance).values()) == {0}
    appliance.undo()
    assert asked_ms(appliance)["far", "near"] == 20
    appliance.set_lanes(switched(STAR, off=False))
    assert asked_ms(appliance)["far", "near"] == 100


def test_a_schedule_goes_on_without_effect_and_its_phase_is_back_with_the_lane(appliance: Appliance) -> None:
    appliance.up(PLAYED)
    alarm = RealAlarm()
    began_ns, drifts = alarm.now_ns(), 0
    found = []
    for until_s, off in ((2, True), (6, False), (10, True)):
        follower = appliance.follower(alarm)
        follower.run(began_ns + until_s * S)
        drifts += follower.lateness.drifts
        found.append(held_ms(appliance))
        appliance.set_lanes(switched(PLAYED, off=off))
        found.append(held_ms(appliance))
    assert found == [[40, 40], [0, 0], [0, 0], [60, 60], [20, 20], [0, 0]]
    assert drifts == 0


def test_a_sweep_measures_what_its_cells_ask_and_gives_the_lane_back_off(appliance: Appliance, pinged: None) -> None:
    appliance.up(replace(STAR, lanes=tuple(switched(STAR, off=True))))
    for rtts_ns, asked_ns in (((), 0), ((30 * MS,), 30 * MS)):
        result = _measured(appliance, rtts_ns)
        assert result.spec.lane.rtt_ns == asked_ns
        assert asked_ns <= result.delays.rtt_ns < asked_ns + 200_000
        assert [lane.off for lane in appliance.status().topology.lanes] == [True, True]  # type: ignore[union-attr]
        assert appliance.status().as_asked
    assert set(asked_ms(appliance).values()) == {0}


def _measured(appliance: Appliance, rtts_ns: tuple[int, ...]) -> CellResult:
    """A cell of the lane `near`, which is leased meanwhile."""
    topology = appliance.topology()
    assert topology
    axes = Axes(lane=("near",), rtt=rtts_ns, tcp_profile=("default",), duration=2)
    (spec,) = grid.cells(grid.placed(topology, ("near",), in_lab=False), axes, tcp_profiles.load_profiles())
    return run_cell.execute(spec, appliance, instead=True).result
