"""Schedules: what is written, what holds at any time, and when it changes next."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.folders import ROOT

from emulator.config import loader
from emulator.config.schedule_schema import parse_start
from emulator.config.writer import start_text
from emulator.errors import InputError
from emulator.model.impairment import Impairment
from emulator.model.loss_model import P32, GilbertElliott
from emulator.model.schedule import DAY_NS, Keyframe, Schedule, Start, Track
from emulator.model.timeline import Timeline
from emulator.model.topology import Lane, Topology
from emulator.report import schedule_chart

MS, S = 10**6, 10**9
HOUR = 3600 * S


def timeline(tracks: str, rest: str = "", lane: str = "{rtt: 80ms}") -> Timeline:
    """Of a file with the lanes a and b."""
    text = f"{{name: x, hub: h, lanes: {{a: {lane}, b: {lane}}}, schedule: {{{rest} tracks: [{tracks}]}}}}"
    topology = loader.loads(text)
    assert topology.schedule is not None
    return Timeline(topology, topology.schedule)


def rtts(one: Timeline, *times_ns: int, lane: str = "a") -> list[float]:
    """A lane's RTT in ms at some times."""
    return [one.at(t).lane(lane).rtt_ns / MS for t in times_ns]


REROUTE = "{lanes: [a], keys: [{at: 10s, rtt: 120ms}, {at: 20s, rtt: 90ms}]}"
RAMP = "{keys: [{at: 0s, rtt: 80ms}, {at: 10s, rtt: 120ms, ramp: yes}]}"


def test_steps_hold_from_their_time_on_and_for_the_lanes_named() -> None:
    one = timeline(REROUTE)
    assert rtts(one, -1, 0, 10 * S - 1, 10 * S, 20 * S, 99 * S) == [80, 80, 80, 120, 90, 90]
    assert rtts(one, 10 * S, lane="b") == [80]
    assert [one.next_change(t) for t in (-5, 0, 10 * S - 1, 10 * S, 20 * S)] == [0, 10 * S, 10 * S, 20 * S, None]


def test_a_ramp_goes_straight_in_steps() -> None:
    one = timeline(RAMP, "step: 2s,")
    assert rtts(one, 0, 1 * S, 2 * S, 5 * S, 10 * S - 1, 10 * S) == [80, 80, 88, 96, 112, 120]
    assert [one.next_change(t * S) for t in (0, 1, 2, 8, 9, 10)] == [2 * S, 2 * S, 4 * S, 10 * S, 10 * S, None]


def test_all_ramps_change_at_the_steps_of_the_schedule() -> None:
    """Each begins at its own key, and then follows the one grid."""
    one = timeline("{keys: [{at: 500ms, rtt: 80ms}, {at: 4500ms, rtt: 120ms, ramp: yes}]}")
    times = [500, 999, 1000, 1999, 2000, 4000, 4500]
    assert rtts(one, *(t * MS for t in times)) == [80, 80, 85, 85, 95, 115, 120]
    assert [one.next_change(t * MS) for t in (500, 1000, 4000)] == [S, 2 * S, 4500 * MS]


CROSSING = "{at: 0s, rtt: 200ms}, {at: 500ms, jitter: 95ms}, {at: 10s, ramp: yes, rtt: 0ms, jitter: 0ms}"


def test_two_ramps_of_different_beginnings_keep_their_distance() -> None:
    one = timeline(f"{{keys: [{CROSSING}]}}", lane="{rtt: 200ms}")
    found = [one.at(t).lane("a").inbound for t in (500 * MS, S, 3 * S, 9 * S, 10 * S)]
    assert [(way.delay_ns // MS, way.jitter_ns // MS) for way in found] == [
        (100, 95),
        (90, 90),
        (70, 70),
        (10, 10),
        (0, 0),
    ]


def test_a_contradiction_between_two_keys_is_told_at_its_step() -> None:
    with pytest.raises(InputError) as wrong:
        timeline("{keys: [{at: 0s, rtt: 20ms}, {at: 900ms, jitter: 10ms}, {at: 2s, ramp: yes, rtt: 0ms, jitter: 0ms}]}")
    assert [m.text for m in wrong.value.mistakes] == [
        "at 1 s of the schedule: jitter 9.090909 ms exceeds the one-way delay of 5 ms"
    ]


TICK = 250 * MS


def ramp(field: str, keys: dict[int, int]) -> Track:
    """A track whose every key but the first is reached by a ramp; the times are in ticks."""
    times = sorted(keys)
    return Track((), tuple(Keyframe(at * TICK, ((field, keys[at]),), at > times[0]) for at in times))


@example({0: 200, 40: 0}, {2: 95, 40: 0}, S)
@example({7: 5, 17: 0}, {6: 2, 24: 0}, 350 * MS)
@given(
    st.dictionaries(st.integers(0, 24), st.integers(0, 8), min_size=2, max_size=4),
    st.dictionaries(st.integers(0, 24), st.integers(0, 4), min_size=2, max_size=4),
    st.sampled_from([100 * MS, 350 * MS, S]),
)
def test_a_schedule_that_loads_is_valid_at_every_step(rtts: dict[int, int], jitters: dict[int, int], step: int) -> None:
    """In nanoseconds, where each rounding counts."""
    lane = Lane("a", Impairment(9), Impairment(8))
    tracks = ramp("rtt_ns", rtts), ramp("jitter_ns", jitters)
    try:
        one = Timeline(Topology("x", "h", (lane,)), Schedule(tracks, step_ns=step))
    except ValueError:
        return
    at_ns: int | None = 0
    while at_ns is not None:
        now = one.at(at_ns).lanes[0]
        assert now.inbound.jitter_ns <= now.inbound.delay_ns
        at_ns = one.next_change(at_ns)


def test_a_later_track_sets_the_delay_whether_it_says_rtt_or_delay() -> None:
    delay, rtt = "{direction: outbound, keys: [{at: 0s, delay: 10ms}]}", "{keys: [{at: 0s, rtt: 100ms}]}"
    both = (timeline(f"{first}, {then}").at(0).lane("a") for first, then in ((delay, rtt), (rtt, delay)))
    assert [(lane.outbound.delay_ns // MS, lane.inbound.delay_ns // MS) for lane in both] == [(50, 50), (10, 50)]


def test_a_later_key_sets_the_delay_whether_it_says_rtt_or_delay() -> None:
    one = timeline("{keys: [{at: 0s, rtt: 80ms}, {at: 1s, delay: 10ms}, {at: 2s, rtt: 30000001ns}]}")
    assert rtts(one, 0, S, 2 * S) == [80, 20, 30.000001]


def test_a_lane_that_is_down_loses_the_packets_of_its_flows_too() -> None:
    flows = "flows: {voice: {match: {dscp: ef}, outbound: {loss: 1% burst 4, ecn: yes}}}"
    one = timeline(
        "{direction: inbound, keys: [{at: 1s, down: yes}, {at: 2s, down: no}]}", lane=f"{{rtt: 80ms, {flows}}}"
    )
    voices, own = [one.at(t * S).lane("a").flows[0] for t in range(3)], one.topology.lane("a").flows[0]
    assert [voice.outbound for voice in voices] == [own.outbound] * 3
    assert [voice.inbound for voice in voices] == [own.inbound, Impairment(40 * MS, loss_p32=P32), own.inbound]
    assert [lane.flows[0].inbound.per_packet for lane in one.envelope().lanes] == [True, True]


def test_a_loop_begins_anew() -> None:
    one = timeline(REROUTE, "loop: 30s,")
    assert rtts(one, 45 * S, 60 * S, 70 * S) == [120, 80, 120]
    assert [one.next_change(t * S) for t in (20, 29, 30, 45)] == [30 * S, 30 * S, 40 * S, 50 * S]


def test_everything_that_a_key_may_set() -> None:
    keys = "{at: 0s, delay: 30ms, jitter: 1ms, loss: 1% burst 4, rate: 1Gbit}, {at: 1s, down: yes}, {at: 2s, down: no}"
    one = timeline(f"{{lanes: b, direction: inbound, keys: [{keys}, {{at: 3s, rate: none}}]}}")
    first, down, up, free = (one.at(t * S).lane("b").inbound for t in range(4))
    assert (first.delay_ns, first.jitter_ns, first.rate_bps) == (30 * MS, MS, 10**9)
    assert isinstance(first.loss_model, GilbertElliott)
    assert (down.loss_p32, down.loss_model) == (P32, None)
    assert (up.loss_p32, up.loss_model, free.rate_bps) == (0, first.loss_model, None)
    assert one.at(S).lane("b").outbound == one.topology.lane("b").outbound


def test_the_envelope_is_what_is_ever_needed() -> None:
    one = timeline("{lanes: [a], keys: [{at: 1s, rtt: 300ms, rate: 1Mbit}, {at: 2s, rtt: 8ms, rate: 1Gbit, loss: 1%}]}",
                   lane="{rtt: 80ms, rate: 1Mbit}")  # fmt: skip
    most = one.envelope().lane("a").outbound
    assert (most.delay_ns, most.rate_bps, most.per_packet) == (150 * MS, 10**9, True)
    for rate, rtt, needed in (("1Mbit", "80ms", None), ("4Gbit", "80ms", 10**10), ("1Mbit", "0ms", 10**10),
                              ("40Gbit", "80ms", 4 * 10**10)):  # fmt: skip
        unshaped = timeline("{keys: [{at: 1s, rate: none}]}", lane=f"{{rtt: {rtt}, rate: {rate}}}")
        assert unshaped.envelope().lane("a").outbound.rate_bps == needed


@given(st.lists(st.integers(1, 10**11), min_size=1, max_size=6, unique=True), st.booleans(), st.integers(0, 3 * 10**11))
def test_nothing_changes_between_two_changes(times: list[int], looped: bool, t_ns: int) -> None:
    keys = tuple(Keyframe(t, (("rtt_ns", (i + 1) * 10 * MS),), ramp=i % 2 == 1) for i, t in enumerate(sorted(times)))
    topology = loader.loads("{name: x, hub: h, lanes: {a: {rtt: 80ms}}}")
    one = Timeline(topology, Schedule((Track((), keys),), 2 * 10**11 if looped else None, 7 * S))
    after = one.next_change(t_ns)
    until = after if after is not None else t_ns + 10**12
    assert until > t_ns
    assert one.at(until - 1) == one.at(t_ns)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("now", Start()),
        ("10s", Start("now", 10 * S)),
        ("06:30", Start("daily", 23_400 * S)),
        ("06:30:05", Start("daily", 23_405 * S)),
        ("1970-01-02T00:00:01Z", Start("at", DAY_NS + S)),
        ("1970-01-01T02:00:00.5+01:00", Start("at", HOUR + S // 2)),
    ],
)
def test_starts(text: str, start: Start) -> None:
    assert parse_start(text) == start
    assert parse_start(start_text(start)) == start


def test_the_phase_of_a_day() -> None:
    assert Start("daily", 6 * HOUR).epoch_ns(5 * DAY_NS + 7 * HOUR) == 5 * DAY_NS + 6 * HOUR
    assert Start("daily", 6 * HOUR).epoch_ns(5 * DAY_NS + 5 * HOUR) == 4 * DAY_NS + 6 * HOUR
    assert Start("now", 3).epoch_ns(40) == 43
    assert Start("at", 7).epoch_ns(40) == 7


def test_a_file_comes_back_as_it_was() -> None:
    day = loader.load(ROOT / "topologies/day.yaml")
    assert day.schedule is not None
    assert loader.loads(loader.dumps(day)) == day
    every = timeline(
        "{lanes: a, direction: inbound, keys: [{at: 1s, delay: 9ms, jitter: 1ms, loss: 1% burst 4, rate: none},"
        " {at: 2s, down: yes, loss: 3%}]}", "start: 2026-01-31T06:00:00Z, loop: 9s, step: 2ms,",
    ).topology  # fmt: skip
    assert loader.loads(loader.dumps(every)) == every


@pytest.mark.parametrize(
    ("tracks", "message"),
    [
        ("{keys: []}", "a track needs either keys or a trace: use one of them"),
        ("{keys: [{at: 2s, rtt: 1ms}, {at: 1s, rtt: 2ms}]}", "keys must be in time order: 1 s comes after 2 s"),
        ("{keys: [{at: 2s}]}", "the key at 2 s sets nothing: add a setting such as loss"),
        ("{keys: [{at: 2s, rtt: 1ms, ramp: yes}]}", "the key at 2 s is the first and cannot ramp: add an earlier key"),
        ("{keys: [{at: 1s, loss: 0}, {at: 2s, loss: 1% burst 2, ramp: yes}]}",
         "the key at 2 s: loss cannot ramp from the value before: remove ramp"),
        ("{keys: [{at: 1s, rate: none}, {at: 2s, rate: 1Gbit, ramp: yes}]}",
         "the key at 2 s: a rate cannot ramp to or from none: use a number"),
        ("{direction: inbound, keys: [{at: 1s, rtt: 1ms}]}",
         "the key at 1 s: rtt sets both directions; use delay for one of them"),
        ("{keys: [{at: 1min, rtt: 1ms}]}", "the loop of 30 s ends before the last key at 60 s"),
    ],
)  # fmt: skip
def test_schedules_that_make_no_sense(tracks: str, message: str) -> None:
    with pytest.raises(InputError) as wrong:
        timeline(tracks, "loop: 30s,")
    assert [m.text for m in wrong.value.mistakes] == [message]


def test_the_chart_shows_a_flap_of_a_second_in_a_day() -> None:
    day = loader.load(ROOT / "topologies/day.yaml")
    assert day.schedule is not None
    rows = {(r.lane, r.direction, r.figure): r for r in schedule_chart.rows(Timeline(day, day.schedule), 48)}
    flap = rows["tokyo", "outbound", "loss"]
    assert (flap.least, flap.greatest, flap.line.count("█"), flap.line.index("█")) == ("0%", "100%", 1, 40)
    assert rows["ship", "both", "rate"].line.count("▁") == 1
    assert ("london", "both", "delay") in rows
