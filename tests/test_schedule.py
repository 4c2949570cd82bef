"""Schedules: what is written, what holds at any time, when it changes next, and how it is played."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator import chart, topologyfile
from emulator.errors import InputError
from emulator.follow import Lateness, Player, epoch
from emulator.goal import wanted
from emulator.kernel.fake import FakeKernel
from emulator.lossmodels import P32, GilbertElliott
from emulator.model import Topology
from emulator.ops import Op, SetNetem, SetWire, Together
from emulator.reconcile import apply
from emulator.schedule import DAY_NS, Key, Schedule, Start, Track
from emulator.scheduleform import parse_start, start_text
from emulator.state import Link, Nic, State
from emulator.timeline import Timeline

MS, S = 10**6, 10**9
HOUR = 3600 * S
ROOT = Path(__file__).parent.parent


def timeline(tracks: str, rest: str = "", lane: str = "{rtt: 80ms}") -> Timeline:
    """Of a file with the lanes a and b."""
    text = f"{{name: x, hub: h, lanes: {{a: {lane}, b: {lane}}}, schedule: {{{rest} tracks: [{tracks}]}}}}"
    topology = topologyfile.loads(text)
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
    unshaped = timeline("{keys: [{at: 1s, rate: none}]}", lane="{rtt: 80ms, rate: 1Mbit}")
    assert unshaped.envelope().lane("a").outbound.rate_bps is None


@given(st.lists(st.integers(1, 10**11), min_size=1, max_size=6, unique=True), st.booleans(), st.integers(0, 3 * 10**11))
def test_nothing_changes_between_two_changes(times: list[int], looped: bool, t_ns: int) -> None:
    keys = tuple(Key(t, (("rtt_ns", (i + 1) * 10 * MS),), ramp=i % 2 == 1) for i, t in enumerate(sorted(times)))
    topology = topologyfile.loads("{name: x, hub: h, lanes: {a: {rtt: 80ms}}}")
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
    day = topologyfile.load(ROOT / "topologies/day.yaml")
    assert day.schedule is not None
    assert topologyfile.loads(topologyfile.dumps(day)) == day
    every = timeline(
        "{lanes: a, direction: inbound, keys: [{at: 1s, delay: 9ms, jitter: 1ms, loss: 1% burst 4, rate: none},"
        " {at: 2s, down: yes, loss: 3%}]}", "start: 2026-01-31T06:00:00Z, loop: 9s, step: 2ms,",
    ).topology  # fmt: skip
    assert topologyfile.loads(topologyfile.dumps(every)) == every


@pytest.mark.parametrize(
    ("tracks", "message"),
    [
        ("{keys: []}", "a track has either keys or a trace"),
        ("{keys: [{at: 2s, rtt: 1ms}, {at: 1s, rtt: 2ms}]}", "the key at 1 s stands behind the one at 2 s"),
        ("{keys: [{at: 2s}]}", "the key at 2 s sets nothing"),
        ("{keys: [{at: 2s, rtt: 1ms, ramp: yes}]}", "the key at 2 s is the first: there is nothing to ramp from"),
        ("{keys: [{at: 1s, loss: 0}, {at: 2s, loss: 1% burst 2, ramp: yes}]}",
         "the key at 2 s: loss can only step from what stands before it"),
        ("{keys: [{at: 1s, rate: none}, {at: 2s, rate: 1Gbit, ramp: yes}]}",
         "the key at 2 s: a rate of none is no number to ramp to or from"),
        ("{direction: inbound, keys: [{at: 1s, rtt: 1ms}]}",
         "the key at 1 s: rtt is for both directions at once; write delay for one of them"),
        ("{keys: [{at: 1min, rtt: 1ms}]}", "the loop of 30 s ends before the last key at 60 s"),
    ],
)  # fmt: skip
def test_schedules_that_make_no_sense(tracks: str, message: str) -> None:
    with pytest.raises(InputError) as wrong:
        timeline(tracks, "loop: 30s,")
    assert [m.text for m in wrong.value.mistakes] == [message]


def test_the_chart_shows_a_flap_of_a_second_in_a_day() -> None:
    day = topologyfile.load(ROOT / "topologies/day.yaml")
    assert day.schedule is not None
    rows = {(r.lane, r.direction, r.figure): r for r in chart.rows(Timeline(day, day.schedule), 48)}
    flap = rows["tokyo", "outbound", "loss"]
    assert (flap.least, flap.greatest, flap.line.count("█"), flap.line.index("█")) == ("0%", "100%", 1, 40)
    assert rows["ship", "both", "rate"].line.count("▁") == 1
    assert ("london", "both", "delay") in rows


class FakeClock:
    """Stands still until somebody waits; `slow_ns` passes with every reading."""

    def __init__(self, now_ns: int = 10**18, slow_ns: int = 0) -> None:
        self.ns, self.slow_ns = now_ns, slow_ns

    def now_ns(self) -> int:
        self.ns += self.slow_ns
        return self.ns

    def sleep_until(self, at_ns: int) -> None:
        self.ns = max(self.ns, at_ns)


def up(topology: Topology) -> FakeKernel:
    kernel = FakeKernel()
    have: State = kernel.observe()
    apply(kernel, wanted(topology, have), have)
    kernel.log.clear()
    return kernel


def delays(ops: list[Op], port: str) -> list[float]:
    """The delays in ms that one port was given."""
    singles = [one for op in ops for one in (op.ops if isinstance(op, Together) else (op,))]
    return [one.netem.delay_ns / MS for one in singles if isinstance(one, SetNetem) and one.port == port]


def test_each_instant_is_one_message_for_all_lanes() -> None:
    one = timeline("{keys: [{at: 1s, rtt: 120ms}, {at: 2s, rtt: 40ms}, {at: 3s, rtt: 60ms}]}")
    kernel, clock = up(one.topology), FakeClock()
    player = Player(kernel, one, clock)
    player.run(clock.ns, clock.ns + 10 * S)
    changes = [op for op in kernel.log if isinstance(op, Together)]
    # Beforehand, the queues are made as long as they will ever be; then nothing but the changes.
    assert kernel.log == changes
    assert [len(op.ops) for op in changes] == [4, 4, 4, 4]
    assert delays(kernel.log, "lhs-a") == [40, 60, 20, 30]
    assert clock.ns == 10**18 + 10 * S
    assert (player.lateness.changes, player.lateness.max_ns, player.lateness.drifts) == (3, 0, 0)


def test_an_engine_plays_a_schedule_in_the_room_that_it_will_ever_need() -> None:
    one = timeline("{keys: [{at: 1s, rtt: 120ms}, {at: 2s, rtt: 40ms}]}")
    one = Timeline(replace(one.topology, datapath="wire"), one.schedule)
    kernel, clock = up(one.topology), FakeClock()
    Player(kernel, one, clock).run(clock.ns, clock.ns + 10 * S)
    changes = [op for op in kernel.log if isinstance(op, SetWire) and op.bridge == "lh-a"]
    assert len(kernel.log) == 2 * len(changes)
    assert [op.wire.outbound.netem.delay_ns // MS for op in changes] == [40, 60, 20]
    assert {op.wire.rooms for op in changes} == {kernel.wires["lh-a"].rooms}


def test_a_run_that_begins_late_begins_in_the_right_phase() -> None:
    one = timeline(REROUTE, "loop: 30s,")
    kernel, clock = up(one.topology), FakeClock()
    Player(kernel, one, clock).run(clock.ns - 75 * S, clock.ns + 10 * S)
    assert delays(kernel.log, "lhs-a") == [60, 45]


def test_instants_that_have_passed_are_skipped_and_counted() -> None:
    one = timeline("{keys: [{at: 1s, rtt: 120ms}, {at: 1001ms, rtt: 40ms}, {at: 1002ms, rtt: 60ms}]}")
    kernel, clock = up(one.topology), FakeClock(slow_ns=2 * MS)
    player = Player(kernel, one, clock)
    player.run(clock.ns, clock.ns + 10 * S)
    assert delays(kernel.log, "lhs-a")[-1] == 30
    assert player.lateness.skipped == 2
    assert player.lateness.changes == 1
    assert player.lateness.max_ns == 4 * MS


def test_what_somebody_else_changed_is_mended_at_the_end() -> None:
    one = timeline(REROUTE)
    kernel, clock = up(one.topology), FakeClock()
    player = Player(kernel, one, clock)

    def meddle(_: int) -> None:
        port = kernel.ports["lhh-b"]
        kernel.apply(SetNetem("lhh-b", port.egress.netem.__class__()))  # type: ignore[union-attr]

    player.run(clock.ns, clock.ns + 60 * S, meddle)
    assert player.lateness.drifts == 1
    assert delays(kernel.log, "lhh-b")[-1] == 40


def test_a_real_port_keeps_one_form_all_the_while() -> None:
    """What needs a single queue, or packets one by one, at any time has them from the start."""
    link, nic = Link(1500, True, True, 0), Nic(tx_queues=4, offloads=frozenset({"rx-gro"}))
    kernel = FakeKernel({"eth1": link, "eth2": link}, {"eth1": nic, "eth2": nic})
    topology = topologyfile.loads(
        "{name: x, hub: h, lanes: {a: {rtt: 80ms, ports: {hub: eth1, site: eth2}}}, schedule: {tracks: "
        "[{keys: [{at: 2s, loss: 1%}, {at: 4s, loss: 0%}, {at: 6s, rate: 10Mbit}, {at: 8s, rate: none}]}]}}"
    )
    assert topology.schedule is not None
    have = kernel.observe()
    apply(kernel, wanted(topology, have), have)
    player, clock = Player(kernel, Timeline(topology, topology.schedule), FakeClock()), FakeClock()
    forms = []

    def look(_: int) -> None:
        port = kernel.ports["eth2"]
        forms.append((port.egress.queues, port.offloads) if port.egress else None)

    player.run(clock.ns, clock.ns + 10 * S, look)
    assert forms == [(1, frozenset())] * 4


def test_lateness_falls_into_buckets() -> None:
    late = Lateness()
    for ns in (0, 9_999, 10_000, 5 * MS, 2 * S):
        late.add(ns)
    assert late.histogram == [2, 1, 0, 1, 0, 0, 1]
    assert (late.changes, late.max_ns, late.mean_ns) == (5, 2 * S, (19_999 + 5 * MS + 2 * S) / 5)


def test_a_run_that_was_cut_off_goes_on_in_its_phase(tmp_path: Path) -> None:
    one, note = timeline(REROUTE).topology, tmp_path / "state/schedule.json"
    assert epoch(one, "text", note, 1000) == 1000
    assert epoch(one, "text", note, 5000) == 1000
    assert epoch(one, "text", note, 6000, restart=True) == 6000
    assert epoch(one, "another text", note, 7000) == 7000
    with pytest.raises(InputError, match="has no schedule"):
        epoch(topologyfile.load(ROOT / "topologies/single-lane.yaml"), "text", note, 1)
