"""How many small frames the delay lines hold, what that takes of the memory, and from which rate on they drop."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from emulator.cli import main
from emulator.control.appliance import Appliance
from emulator.kernel.fake import FakeKernel
from emulator.model.flow_match import Match
from emulator.model.impairment import Buffer, Impairment
from emulator.model.topology import Flow, Lane, Topology
from emulator.plan.netem_lowering import limit_packets, lower, queue_bytes
from emulator.plan.preconditions import memory_reasons
from emulator.plan.scheduled_state import small_frame_warnings
from emulator.plan.small_frames import FULL, STEPS, DropRates, bounded, drop_rates, smallest_frame
from emulator.plan.state import Machine, State

MS, GIB = 10**6, 2**30
FAST = Impairment(25 * MS, rate_bps=10**10)
PLAIN = Impairment(25 * MS)
SMALL_STAR = "{name: x, hub: h, lanes: {a: {rtt: 50ms}, b: {rtt: 2ms}}}"


def star(*lanes: Lane) -> Topology:
    return Topology("t", "hub", lanes)


def machine(memory_bytes: int) -> Machine:
    return Machine(memory_bytes=memory_bytes)


def test_ten_gigabit_over_fifty_milliseconds() -> None:
    shaped, plain = Lane("a", FAST, FAST), Lane("a", PLAIN, PLAIN)
    assert limit_packets(plain, PLAIN, FULL) == 83_563
    # 62.5 MB in flight: on a wire in 84 bytes a frame, at a bottleneck in 60, and there as much again in its buffer.
    assert limit_packets(plain, PLAIN) == 745_048
    assert limit_packets(shaped, FAST) == 2_084_334
    old = lower(plain, seed=1, has_seed=True, smallest=FULL).outbound
    assert drop_rates(old, 10**10) == DropRates(3_342_520)
    assert str(drop_rates(old, 10**10)) == "above 3.34 Mpps"
    both = drop_rates(lower(shaped, seed=1, has_seed=True, smallest=FULL).outbound, 10**10)
    assert str(both) == "above 3.34 Mpps, or above 1.11 Mpps while the buffer is full"


def test_memory_is_that_of_the_bytes_or_of_the_frames() -> None:
    lane = Lane("a", FAST, FAST)
    assert queue_bytes(lane, FAST, FULL) == limit_packets(lane, FAST, FULL) * 2304
    assert queue_bytes(lane, FAST) == queue_bytes(replace(lane, mtu=9000), FAST) == limit_packets(lane, FAST) * 768


DELAYS = {
    "delay_ns": st.integers(10**6, 10**9), "jitter_ns": st.integers(0, 10**6),
    "duplicate_p32": st.integers(0, 2**32 - 1),
}  # fmt: skip
IMPAIRMENTS = st.builds(Impairment, **DELAYS) | st.builds(
    Impairment,
    **DELAYS,
    rate_bps=st.integers(10**5, 10**11),
    buffer=st.none() | st.builds(Buffer, packets=st.integers(1, 10**4)),
    overhead_bytes=st.integers(0, 60),
    atm=st.booleans(),
)


@given(IMPAIRMENTS, IMPAIRMENTS, st.integers(576, 9000))
def test_what_is_sized_for_the_smallest_frames_drops_none(out: Impairment, back: Impairment, mtu: int) -> None:
    lane = Lane("a", out, back, mtu=mtu)
    for egress in lower(lane, seed=1, has_seed=True).both:
        assert drop_rates(egress, lane.line_rate_bps) == DropRates()


@given(IMPAIRMENTS, st.sampled_from(STEPS), st.integers(576, 9000))
def test_larger_frames_need_a_smaller_limit_and_less_memory(one: Impairment, step: int, mtu: int) -> None:
    lane = Lane("a", one, one, mtu=mtu)
    assert limit_packets(lane, one, 2 * step) <= limit_packets(lane, one, step)
    assert queue_bytes(lane, one, 2 * step) <= queue_bytes(lane, one, step)
    assert limit_packets(lane, one, FULL) <= limit_packets(lane, one, 2**15)


def test_lanes_share_the_memory() -> None:
    def many(count: int) -> Topology:
        return star(*(Lane(f"a{i}", FAST, FAST) for i in range(count)))

    box = machine(24 * GIB)
    sizes = [smallest_frame(many(count), box) for count in (1, 4, 8, 16, 32)]
    assert sizes == [60, 60, 128, 256, 1024]
    assert [bool(bounded(many(count), box)) for count in (1, 32)] == [False, True]
    assert not memory_reasons(many(32), box)
    for count, size in zip((1, 4, 8, 16, 32), sizes, strict=True):
        lanes = many(count).lanes
        assert sum(2 * queue_bytes(lane, FAST, size) for lane in lanes) <= 24 * GIB * 0.8
    wire = replace(box, has_netem=False)
    assert smallest_frame(many(32), wire) == 60
    assert bounded(many(32), wire) == []


def test_flows_are_counted_and_named() -> None:
    flow = Flow("voice", Match(dscp=46), FAST, FAST)
    topology = star(Lane("a", PLAIN, PLAIN, flows=(flow,)))
    assert small_frame_warnings(topology, State(machine=machine(GIB))) == [
        "small frames: a, flow voice, outbound: netem drops by its limit above 3.34 Mpps, or above 1.11 Mpps while the "
        "buffer is full, and 3 more directions"
    ]


@given(
    st.lists(IMPAIRMENTS, min_size=1, max_size=4), st.lists(IMPAIRMENTS, min_size=1, max_size=4), st.integers(20, 36)
)
def test_what_a_change_adds_is_the_difference_of_before_and_after(
    old: list[Impairment], new: list[Impairment], power: int
) -> None:
    """The lanes that the change leaves as they are need no look, unless the memory's frame changes with it."""
    before, after, box = lanes_of(old), lanes_of([*old[:1], *new[1:]]), machine(2**power)
    known = {one.where for one in bounded(before, box)}
    assert bounded(after, box, before) == [one for one in bounded(after, box) if one.where not in known]


def lanes_of(impairments: list[Impairment]) -> Topology:
    return star(*(Lane(f"a{i}", one, one) for i, one in enumerate(impairments)))


def test_a_change_to_a_lane_that_dropped_them_before_does_not_observe_the_whole_machine(tmp_path: Path) -> None:
    """Among 100 lanes that look took twenty times as long as the change."""
    looks: list[str] = []

    class Counted(FakeKernel):
        def observe(self) -> State:
            looks.append("whole")
            return super().observe()

        def ports_of(self, names: frozenset[str]) -> State:
            found = super().ports_of(names)
            looks.pop()  # the kernel in memory filters what it observes
            return found

    (file := tmp_path / "t.yaml").write_text(SMALL_STAR)
    one = Appliance(Counted(memory_bytes=GIB // 2), tmp_path / "state")
    assert main.main(["up", str(file)], obj=one) == 0
    lane = star(*one.topology().lanes).lane("b")  # type: ignore[union-attr]
    looks.clear()
    one.set_lanes([lane.with_rtt(3 * MS)])
    assert looks == []


def test_the_limits_stay_the_same_under_a_schedule_and_follow_a_change(tmp_path: Path) -> None:
    """While one lane's RTT is small there would be room for more frames on the other."""
    schedule = "schedule: {tracks: [{lanes: [b], keys: [{at: 0s, rtt: 1ms}, {at: 1h, rtt: 300ms}]}]}"
    (file := tmp_path / "t.yaml").write_text(SMALL_STAR.replace("}}}", f"}}}}, {schedule}}}"))
    kernel = FakeKernel(memory_bytes=4 * GIB)
    assert main.main(["up", str(file)], obj=Appliance(kernel, tmp_path / "state")) == 0
    scheduled = kernel.observe().egress("lhs-a")
    (file := tmp_path / "u.yaml").write_text(SMALL_STAR)
    other = FakeKernel(memory_bytes=4 * GIB)
    one = Appliance(other, tmp_path / "other")
    assert main.main(["up", str(file)], obj=one) == 0
    plain = other.observe().egress("lhs-a")
    assert scheduled and plain
    assert scheduled.netem.limit < plain.netem.limit
    assert main.main(["set", "b", "--rtt", "300ms"], obj=one) == 0
    changed = other.observe().egress("lhs-a")
    assert changed and changed.netem.limit == scheduled.netem.limit
    assert one.status().as_asked


def test_up_plan_set_and_status_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file := tmp_path / "t.yaml").write_text(SMALL_STAR)
    one = Appliance(FakeKernel(memory_bytes=GIB // 2), tmp_path / "state")
    said = "small frames: a, outbound: netem drops by its limit above 3.34 Mpps, and 3 more directions"
    for argv in (["plan", str(file)], ["up", "--dry-run", str(file)], ["up", str(file)]):
        assert main.main(argv, obj=one) == 0
        assert capsys.readouterr().err.startswith(f"warning: {said}")
    assert main.main(["status"], obj=one) == 0
    assert said in capsys.readouterr().out
    assert main.main(["set", "b", "--rtt", "3ms"], obj=one) == 0
    assert capsys.readouterr().err == ""
    assert main.main(["set", "a", "--rtt", "10ms"], obj=one) == 0
    assert capsys.readouterr().err == ""
    assert main.main(["status"], obj=one) == 0
    assert "small frames" not in capsys.readouterr().out
    assert main.main(["set", "a", "--rtt", "50ms"], obj=one) == 0
    assert capsys.readouterr().err.startswith(f"warning: {said}")
