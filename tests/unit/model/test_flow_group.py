"""Groups of flows and contests: their text, what is refused, and which contests belong together."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.model import flow_group
from emulator.model.flow_group import MOST_FLOWS_OF_A_GROUP, MOST_GROUPS, Contest, FlowGroup

MS, S = 10**6, 10**9


@st.composite
def groups(draw: st.DrawFn) -> FlowGroup:
    start_ns = draw(st.integers(0, 100)) * 100 * MS
    stop_ns = draw(st.none() | st.integers(1, 100).map(lambda more: start_ns + more * 100 * MS))
    size = draw(st.none() | st.integers(1, 2**30))
    think_ns, keeps = (draw(st.integers(0, 10_000)) * MS, draw(st.booleans())) if size else (0, False)
    name = draw(st.sampled_from(["cubic", "bbr", "reno", "htcp", "tcp_x-1"]))
    rtt_ns = draw(st.none() | st.integers(1, 3000).map(lambda ms: ms * MS))
    return FlowGroup(
        name, draw(st.integers(1, MOST_FLOWS_OF_A_GROUP)), start_ns, stop_ns, rtt_ns, size, think_ns, keeps,
        draw(st.booleans()),
    )  # fmt: skip


@given(st.lists(groups(), min_size=1, max_size=MOST_GROUPS))
def test_a_contest_is_read_back_from_its_text(some: list[FlowGroup]) -> None:
    contest = Contest(tuple(some))
    assert Contest.parse(str(contest)) == contest


@given(st.lists(groups(), min_size=2, max_size=2, unique=True))
def test_different_groups_have_different_names(pair: list[FlowGroup]) -> None:
    one, other = (Contest((group,)) for group in pair)
    assert one.part != other.part
    assert one.title != other.title
    assert " " not in one.part and "," not in one.title


def test_what_a_text_means() -> None:
    assert Contest.parse("cubic, bbr:4") == Contest((FlowGroup("cubic"), FlowGroup("bbr", 4)))
    group = FlowGroup.parse("reno:8:start=5s:stop=20s:bytes=100KiB:think=1s:keep")
    assert group == FlowGroup("reno", 8, 5 * S, 20 * S, None, 102_400, S, keeps=True)
    assert FlowGroup.parse("reno:keep:bytes=1B") == FlowGroup("reno", bytes=1, keeps=True)
    assert FlowGroup.parse("reno:paced") == FlowGroup("reno", paced=True)
    assert Contest.parse("cubic:2,bbr:1:start=5s").part == "cubic2-vs-bbr1-start5s"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "'' is not the name of a congestion control: use cubic or bbr"),
        ("cubic:0", "0 flows are not within 1..256"),
        ("cubic:257", "257 flows are not within 1..256"),
        (
            "cubic:1:begin=5s",
            "there is no setting of a group 'begin': use start, stop, rtt, bytes, think, keep or paced",
        ),
        ("cubic:1:start=5s:start=6s", "names start twice"),
        ("cubic:1:start=5s:stop=5s", "a group stops after its start"),
        ("cubic:1:think=1s", "only transfers have pauses and keep a connection: add bytes"),
        ("cubic:1:rtt=0ms", "an RTT is above 0 and up to 3 s"),
        ("cubic:1:bytes=0", "0 bytes are not within"),
        ("cubic:1:bytes=1KiB:think=2h", "a pause is not longer than"),
        (",".join(["cubic"] * 9), "9 groups are not within 1..8"),
        ("cubic:x,bbr:y", "'x' is not a whole number; 'bbr:y': 'y' is not a whole number"),
    ],
)
def test_what_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        Contest.parse(text)


def test_every_pair_and_each_group_alone() -> None:
    pairs = flow_group.pairs(["cubic", "bbr", "cubic"])
    assert [str(one) for one in pairs] == ["cubic:1,cubic:1", "cubic:1,bbr:1", "bbr:1,bbr:1"]
    every = [str(one) for one in flow_group.with_each_alone(pairs)]
    assert every == ["cubic:1,cubic:1", "cubic:1,bbr:1", "bbr:1,bbr:1", "cubic:1", "bbr:1"]
    assert flow_group.with_each_alone(flow_group.with_each_alone(pairs)) == flow_group.with_each_alone(pairs)
    assert flow_group.with_each_alone([Contest.parse("reno:3")]) == (Contest.parse("reno:3"),)
    many = [Contest.parse(f"cubic:{n},bbr:{n}") for n in range(1, 40)]
    with pytest.raises(ValueError, match="117 contests, each group alone included, are too many: 64 at most"):
        flow_group.with_each_alone(many)


def test_a_measurement_is_long_enough_for_its_last_group_and_its_round_trips() -> None:
    assert flow_group.least_duration_s(Contest.parse("cubic:1,bbr:1"), 20 * MS) == 60
    assert flow_group.least_duration_s(Contest.parse("cubic:1,bbr:1:start=5s:stop=20s"), 20 * MS) == 80
    assert flow_group.least_duration_s(Contest.parse("cubic:1"), 346 * MS) == 139
    assert flow_group.least_duration_s(Contest.parse("cubic:1,reno:1:rtt=346ms"), 20 * MS) == 139
