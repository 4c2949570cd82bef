"""Lanes that come and go while the others stay as they are."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.folders import ROOT

from emulator.config import loader
from emulator.kernel.fake import FakeKernel
from emulator.model import lane_set
from emulator.model.flow_match import Match
from emulator.model.impairment import Impairment
from emulator.model.schedule import Keyframe, Schedule, Track
from emulator.model.topology import Flow, Lane, Topology
from emulator.plan.desired_state import wanted
from emulator.plan.planner import plan

STAR = loader.load(ROOT / "topologies/new-york.yaml")
LOSS = (Keyframe(0, (("loss_p32", 1),)),)


def lane(name: str) -> Lane:
    """A lane of 10 ms."""
    return Lane(name, Impairment(5_000_000), Impairment(5_000_000))


def track(*lanes: str) -> Track:
    """Loses packets on these lanes; on all without a name."""
    return Track(lanes, LOSS)


def test_a_new_lane_is_the_last_one_and_has_the_next_address() -> None:
    star = lane_set.added(STAR, [lane("tokyo"), lane("paris")])
    assert star.sites == ("california", "london", "japan", "tokyo", "paris")
    assert str(star.address("paris")) == "10.77.0.6/24"
    assert star.lanes[:3] == STAR.lanes
    assert star.lane("tokyo").address is None


def test_the_lanes_behind_a_removed_one_keep_their_addresses() -> None:
    star = lane_set.removed(STAR, "california")
    assert {site: star.address(site) for site in star.sites} == {site: STAR.address(site) for site in star.sites}


def test_a_new_lane_gets_the_address_that_a_removed_one_left() -> None:
    star = lane_set.added(lane_set.removed(STAR, "london"), [lane("tokyo")])
    assert star.lane("tokyo").address == IPv4Address("10.77.0.3")
    assert str(star.address("japan")) == "10.77.0.4/24"


@pytest.mark.parametrize(
    ("name", "text"), [("new-york", "new-york is the hub"), ("london", "there is a lane london already")]
)
def test_a_name_that_is_taken(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        lane_set.added(STAR, [lane(name)])


def test_a_lane_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="no lane 'lundon'"):
        lane_set.removed(STAR, "lundon")


def test_a_full_subnet_is_said() -> None:
    small = replace(STAR, subnet=IPv4Network("10.77.0.0/29"))
    full = lane_set.added(small, [lane("a"), lane("b")])
    with pytest.raises(ValueError, match="too few addresses"):
        lane_set.added(full, [lane("c")])


def test_a_schedule_forgets_the_lane_and_a_track_of_it_alone_goes() -> None:
    tracks = (track("london"), track("london", "japan"), track(), track("japan"))
    star = replace(STAR, schedule=Schedule(tracks, loop_ns=60 * 10**9))
    rest = lane_set.removed(star, "london").schedule
    assert rest == Schedule((track("japan"), track(), track("japan")), loop_ns=60 * 10**9)


def test_a_schedule_of_the_lane_alone_goes_with_it() -> None:
    star = replace(STAR, schedule=Schedule((track("london"),)))
    assert lane_set.removed(star, "london").schedule is None


def test_a_schedule_that_would_make_the_new_lane_invalid_is_refused() -> None:
    jitter = Track((), (Keyframe(0, (("jitter_ns", 8_000_000),)),))
    star = replace(STAR, schedule=Schedule((jitter,)))
    with pytest.raises(ValueError, match="jitter 8 ms exceeds the one-way delay of 5 ms"):
        lane_set.added(star, [lane("tokyo")])


def test_what_is_lost_with_a_lane_is_named() -> None:
    flows = (Flow("voice", Match(dscp=46)), Flow("backup", Match(port=873)))
    tracks = (track("london"), track("london", "japan"), track(), track("japan"))
    star = replace(STAR.with_lane(replace(STAR.lane("london"), flows=flows)), schedule=Schedule(tracks))
    assert lane_set.lost_with(star, "london") == [
        "london loses 2 flows: voice, backup",
        "the schedule loses 1 track, which changed only london",
        "1 track of the schedule will change the others without london",
    ]
    assert lane_set.lost_with(star, "california") == []


NAMES = ("a", "b", "c", "d", "e")


@given(st.lists(st.sampled_from(NAMES), max_size=14))
def test_whatever_comes_and_goes_no_step_is_about_another_lane(names: list[str]) -> None:
    """Each name is added when it is absent, else removed, with a schedule-free star on a kernel that is as asked."""
    star = Topology("star", "hub", (lane("stays"), lane("a")))
    kernel = FakeKernel()
    for name in names:
        before = {site: star.address(site) for site in star.sites}
        have = wanted(star, kernel.observe())
        star = lane_set.removed(star, name) if name in star.sites else lane_set.added(star, [lane(name)])
        steps = " ".join(str(step.op) for step in plan(wanted(star, have), have))
        for other in set(before) - {name}:
            assert star.address(other) == before[other]
            assert f"-{other} " not in f"{steps} "
