"""A schedule as curves to be drawn: the points are what the timeline gives the lanes."""

from __future__ import annotations

import pytest
from support.folders import TOPOLOGIES

from emulator.config import loader
from emulator.model.timeline import Timeline
from emulator.report.schedule_points import MOST_POINTS, DrawnCurve, drawn

S = 10**9


def curves(text: str) -> dict[str, DrawnCurve]:
    """The curves of a topology's schedule, by their setting."""
    topology = loader.loads(text)
    assert topology.schedule
    return {one.key: one for one in drawn(Timeline(topology, topology.schedule))}


def test_every_point_is_what_the_lanes_get() -> None:
    day = loader.load(TOPOLOGIES / "day.yaml")
    assert day.schedule
    timeline = Timeline(day, day.schedule)
    seen = 0
    for curve in drawn(timeline):
        lane = day.schedule.tracks[curve.track].lanes[0]
        for at_ns, value in curve.points:
            now = timeline.at(at_ns).lane(lane)
            real = {"rtt": now.rtt_ns, "loss": now.outbound.mean_loss, "rate": now.outbound.rate_bps,
                    "down": now.outbound.mean_loss}[curve.key]  # fmt: skip
            assert value == real, (curve.key, at_ns)
            seen += 1
    assert seen > 150


def test_a_ramp_has_the_steps_of_the_schedule_and_a_key_its_handle() -> None:
    found = curves(
        "name: x\nhub: hub\nlanes: {a: {rtt: 80ms, loss: 1%}}\nschedule:\n  step: 2s\n  tracks:\n"
        "    - {lanes: [a], keys: [{at: 1s, rtt: 80ms}, {at: 7s, rtt: 110ms, ramp: yes}]}\n"
        "    - {lanes: [a], direction: inbound, keys: [{at: 3s, loss: 2% burst 4}, {at: 4s, down: yes}]}\n"
    )
    rtt = found["rtt"]
    assert [(at_ns // S, value) for at_ns, value in rtt.points] == [
        (1, 80_000_000), (2, 85_000_000), (4, 95_000_000), (6, 105_000_000), (7, 110_000_000)
    ]  # fmt: skip
    assert rtt.handles == [(1 * S, 80_000_000, False), (7 * S, 110_000_000, True)]
    assert (rtt.before, rtt.unit) == (80_000_000, "ns")
    assert [value for _, value in found["loss"].points] == [pytest.approx(0.02, rel=1e-6)]
    assert (found["loss"].before, found["loss"].unit) == (pytest.approx(0.01, rel=1e-6), "share")
    assert (found["down"].points, found["down"].unit, found["down"].before) == ([(4 * S, 1)], "switch", 0)


def test_lanes_that_differ_have_no_value_before_the_first_key() -> None:
    found = curves(
        "name: x\nhub: hub\nlanes: {a: {rtt: 80ms}, b: {rtt: 90ms}}\nschedule:\n  tracks:\n"
        "    - {lanes: all, keys: [{at: 1s, rtt: 100ms, rate: 1Gbit}, {at: 2s, rate: none}]}\n"
    )
    assert found["rtt"].before is None
    assert [value for _, value in found["rate"].points] == [10**9, None]


def test_a_trace_keeps_its_extremes_and_has_no_handles() -> None:
    keys = ", ".join(f"{{at: {at}s, jitter: {5 if at != 777 else 9}ms}}" for at in range(3000))
    found = curves(
        f"name: x\nhub: hub\nlanes: {{a: {{rtt: 80ms}}}}\nschedule:\n  tracks:\n    - {{lanes: [a], keys: [{keys}]}}\n"
    )
    jitter = found["jitter"]
    assert (jitter.keys, jitter.handles) == (3000, [])
    assert 3 < len(jitter.points) <= MOST_POINTS
    assert max(value or 0 for _, value in jitter.points) == 9_000_000
