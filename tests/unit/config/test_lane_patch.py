"""A partial lane over one that is there."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from emulator.config import lane_patch, loader
from emulator.errors import InputError
from emulator.model.flow_match import Match
from emulator.model.impairment import Buffer, Impairment
from emulator.model.schedule import Keyframe, Schedule, Track
from emulator.model.topology import Flow, Lane, Topology

MS = 10**6
UNEVEN = Lane("a", Impairment(30 * MS, MS, 43, 10**9, Buffer(bytes=8 << 20)), Impairment(2 * MS))
STAR = Topology("star", "hub", (UNEVEN, Lane("b")))


VOICE = Flow("voice", Match(dscp=46), Impairment(50 * MS, MS, 43), Impairment(50 * MS))
WITH_FLOWS = Topology(
    "star", "hub", (Lane("a", flows=(VOICE, Flow("bulk", Match(port=9, protocol=6)))).with_rtt(8 * MS),)
)


def flows(patch: object) -> tuple[Flow, ...]:
    """The flows of a lane with two after a patch of them; the rest of the lane never changes."""
    after = lane_patch.patched(WITH_FLOWS, "a", {"flows": patch}).lane("a")
    assert (after.outbound, after.inbound) == (Impairment(4 * MS), Impairment(4 * MS))
    return after.flows


def patched(patch: dict[str, Any]) -> Lane:
    """Lane a after the patch; the other lane never changes."""
    after = lane_patch.patched(STAR, "a", patch)
    assert after.lane("b") == STAR.lane("b")
    return after.lane("a")


def test_an_empty_patch_changes_nothing() -> None:
    assert lane_patch.patched(STAR, "a", {}) == STAR


@pytest.mark.parametrize(
    ("patch", "delays"),
    [
        ({"rtt": "50ms"}, (25 * MS, 25 * MS)),
        ({"rtt": "3ns", "jitter": None}, (2, 1)),
        ({"rtt": "50ms", "inbound": {"delay": "1ms"}}, (49 * MS, MS)),
        ({"inbound": {"delay": "7ms"}}, (30 * MS, 7 * MS)),
        ({"rtt": None, "jitter": None}, (0, 0)),
    ],
)
def test_delays(patch: dict[str, Any], delays: tuple[int, int]) -> None:
    lane = patched(patch)
    assert (lane.outbound.delay_ns, lane.inbound.delay_ns) == delays


def test_what_holds_for_both_directions_and_what_for_one() -> None:
    lane = patched({"loss": "1%", "inbound": {"loss": None, "rate": "1Mbit"}})
    assert (lane.outbound.loss_p32, lane.inbound.loss_p32) == (42949673, 0)
    assert (lane.outbound.rate_bps, lane.inbound.rate_bps) == (10**9, 10**6)
    assert lane.outbound.buffer == Buffer(bytes=8 << 20)


def test_a_buffer_goes_with_its_rate() -> None:
    with pytest.raises(InputError, match="a buffer needs a rate"):
        patched({"rate": None})
    assert patched({"rate": None, "buffer": None}).outbound.rate_bps is None


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ({"rtt": 40}, "lanes.a.rtt"),
        ({"rtt": "1ms"}, "lanes.a"),  # half of it is less than the jitter there
        ({"ports": {}}, "lanes.a.ports"),
        ({"inbound": None}, "lanes.a.inbound"),
        ({"outbound": {"loss": []}}, "lanes.a.outbound.loss"),
        ({"flows": []}, "lanes.a.flows"),
        ({"flows": {"voice": 3}}, "lanes.a.flows.voice"),
        ({"flows": {"voice": {"match": None}}}, "lanes.a.flows.voice.match"),
        ({"flows": {"voice": {"inbound": 3}}}, "lanes.a.flows.voice.inbound"),
        ({"flows": {"new": {"loss": "1%"}}}, "lanes.a.flows.new.match"),
        ({"flows": {"new": {"match": {"prot": "tcp"}}}}, "lanes.a.flows.new.match.prot"),
    ],
)
def test_mistakes(patch: dict[str, Any], path: str) -> None:
    with pytest.raises(InputError) as caught:
        patched(patch)
    assert [m.path for m in caught.value.mistakes] == [path]


@pytest.mark.parametrize(
    "patch",
    [
        {"match": {}},
        {"match": None},
        {"flows": {"f": {"flows": {}, "match": {"vlan": 7}}}},
        {"outbound": {"rtt": None}},
    ],
)
def test_what_is_no_key_is_told_where_it_stands(patch: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="unknown key"):
        patched(patch)


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"jitter": "15ms"}, "at 3600 s of the schedule: jitter 15 ms exceeds the one-way delay of 10 ms"),
        (
            {"buffer": "8MiB"},
            "at 7200 s of the schedule: a buffer needs a rate: without a bottleneck there is no queue",
        ),
    ],
)
def test_what_the_schedule_contradicts_is_told_with_its_time(patch: dict[str, Any], text: str) -> None:
    keys = Keyframe(3600 * 10**9, (("rtt_ns", 20 * MS),)), Keyframe(7200 * 10**9, (("rate_bps", None),))
    lane = Lane("a", Impairment(100 * MS, rate_bps=10**9), Impairment(100 * MS, rate_bps=10**9))
    star = Topology("star", "hub", (lane, Lane("b")), schedule=Schedule((Track(("a",), keys),)))
    with pytest.raises(InputError) as caught:
        lane_patch.patched(star, "a", patch)
    assert [(m.path, m.text) for m in caught.value.mistakes] == [("lanes.a", text)]
    assert lane_patch.patched(star, "b", {"rate": "1Gbit", **patch, "rtt": "200ms"}).lane("b").rtt_ns == 200 * MS


def test_a_lane_that_is_not_there() -> None:
    with pytest.raises(InputError, match="there is no lane 'c': use a or b"):
        lane_patch.patched(STAR, "c", {"rtt": "1ms"})


def test_a_flow_is_changed_and_what_is_not_named_stays() -> None:
    voice, bulk = flows({"voice": {"loss": None, "inbound": {"loss": "1%"}}})
    assert bulk == WITH_FLOWS.lane("a").flows[1]
    assert voice == replace(VOICE, outbound=Impairment(50 * MS, MS), inbound=Impairment(50 * MS, loss_p32=42949673))
    assert flows({"voice": {"rtt": "10ms"}})[0].inbound.delay_ns == 5 * MS
    assert flows({"voice": {"rtt": None}})[0].inbound.delay_ns == 4 * MS, "without one of its own it is the lane's"
    assert flows({"bulk": {"match": {"protocol": None, "vlan": "7"}}})[1].match == Match(port=9, vlan=7)


def test_a_new_flow_is_the_last_and_null_takes_one_away() -> None:
    new = {"match": {"site": "10.0.0.0/8"}, "outbound": {"rate": "1Mbit"}}
    found = flows({"voice": None, "new": new})
    assert [flow.name for flow in found] == ["bulk", "new"]
    assert found[1].outbound == Impairment(4 * MS, rate_bps=10**6)
    assert flows({"none": None}) == WITH_FLOWS.lane("a").flows
    assert flows(None) == ()


def test_the_rest_of_a_lane_changes_without_its_flows() -> None:
    after = lane_patch.patched(WITH_FLOWS, "a", {"rtt": "20ms", "loss": "1%"}).lane("a")
    assert (after.rtt_ns, after.flows) == (20 * MS, WITH_FLOWS.lane("a").flows)
    assert loader.loads(loader.dumps(WITH_FLOWS.with_lane(after))).lane("a") == after


@pytest.mark.parametrize(
    ("patch", "off"),
    [
        ({"disabled": True}, True),
        ({"loss": "1%"}, True),
        ({"disabled": False}, False),
        ({"disabled": None}, False),
        ({"rtt": "40ms"}, False),
        ({"inbound": {"delay": "1ms"}}, False),
        ({"rtt": "40ms", "disabled": True}, True),
    ],
    ids=str,
)
def test_a_lane_that_is_off_comes_into_effect_by_a_delay_or_by_its_word(patch: dict[str, Any], off: bool) -> None:
    before = STAR.with_lane(replace(STAR.lane("b"), off=True))
    assert lane_patch.patched(before, "b", patch).lane("b").off == off
