"""How schedules are played: one message at each instant, by the daemon too, in the right phase whatever happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.hand_clock import HandAlarm
from support.schedule_box import MS, Box, S, scheduled

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.control.intent_store import IntentStore
from emulator.control.schedule_player import noted
from emulator.errors import InputError, KernelError, RefusedError
from emulator.kernel.fake import FakeKernel
from emulator.model.bottleneck import SMALLEST_FRAME_BYTES
from emulator.model.timeline import Timeline
from emulator.plan.desired_state import wanted
from emulator.plan.engine_ops import SetWire
from emulator.plan.ops import Op
from emulator.plan.preconditions import memory_reasons
from emulator.plan.qdisc_ops import DelEgress, SetNetem, Together
from emulator.plan.scheduled_state import steady
from emulator.plan.state import Link, Nic, State

TIMES = "{keys: [{at: 1s, rtt: 120ms}, {at: 2s, rtt: 40ms}, {at: 3s, rtt: 60ms}]}"
REROUTE = "{lanes: [a], keys: [{at: 10s, rtt: 120ms}, {at: 20s, rtt: 90ms}]}"


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def delays(ops: list[Op], port: str) -> list[float]:
    """The delays in ms that one port was given."""
    singles = [one for op in ops for one in (op.ops if isinstance(op, Together) else (op,))]
    return [one.netem.delay_ns / MS for one in singles if isinstance(one, SetNetem) and one.port == port]


def test_each_instant_is_one_message_for_all_lanes(box: Box) -> None:
    player = box.up(scheduled(TIMES)).play()
    changes = [op for op in box.kernel.log if isinstance(op, Together)]
    # The queues were made as long as they will ever be beforehand; then nothing but the changes.
    assert box.kernel.log == changes
    assert [len(op.ops) for op in changes] == [4, 4, 4]
    assert delays(box.kernel.log, "lhs-a") == [60, 20, 30]
    assert (player.lateness.changes, player.lateness.max_ns, player.lateness.drifts) == (3, 0, 0)


def test_an_engine_plays_a_schedule_in_the_room_that_it_will_ever_need(box: Box) -> None:
    box.up(scheduled(TIMES, more="datapath: wire,"))
    memory_bytes = box.kernel.wires["lh-a"].memory_bytes
    box.play()
    changes = [op for op in box.kernel.log if isinstance(op, SetWire) and op.bridge == "lh-a"]
    assert len(box.kernel.log) == 2 * len(changes)
    assert [op.wire.outbound.netem.delay_ns // MS for op in changes] == [60, 20, 30]
    assert {op.wire.memory_bytes for op in changes} == {memory_bytes}


def test_instants_that_have_passed_are_skipped_and_counted(tmp_path: Path) -> None:
    box = Box(tmp_path, slow_ns=2 * MS)
    box.up(scheduled("{keys: [{at: 1s, rtt: 120ms}, {at: 1001ms, rtt: 40ms}, {at: 1002ms, rtt: 60ms}]}"))
    late = box.play().lateness
    # The first one takes so long that the second has no more time.
    assert delays(box.kernel.log, "lhs-a") == [60, 30]
    assert (late.changes, late.skipped, late.max_ns) == (2, 1, 4 * MS)


def test_what_somebody_else_changed_is_repaired_at_the_end(box: Box) -> None:
    def meddle() -> None:
        egress = box.kernel.ports["lhh-b"].egress
        assert egress
        box.kernel.apply(SetNetem("lhh-b", replace(egress.netem, delay_ns=1)))

    player = box.up(scheduled("{lanes: [a], keys: [{at: 5s, rtt: 120ms}]}")).play(meddle)
    assert player.lateness.drifts == 1
    assert delays(box.kernel.log, "lhh-b")[-1] == 40


def test_a_real_port_keeps_one_form_all_the_while(tmp_path: Path) -> None:
    """What needs a single queue, or packets one by one, at any time has them from the start."""
    link, nic = Link(1500, True, True, 0), Nic(tx_queues=4, offloads=frozenset({"rx-gro"}))
    box = Box(tmp_path)
    box.kernel = FakeKernel({"eth1": link, "eth2": link}, {"eth1": nic, "eth2": nic})
    keys = "{at: 2s, loss: 1%}, {at: 4s, loss: 0%}, {at: 6s, rate: 10Mbit}, {at: 8s, rate: none}"
    box.up(loader.loads(
        "{name: x, hub: h, lanes: {a: {rtt: 80ms, ports: {hub: eth1, site: eth2}}}, schedule: {tracks: "
        f"[{{keys: [{keys}]}}]}}}}"
    ))  # fmt: skip
    forms = []

    def look() -> None:
        port = box.kernel.ports["eth2"]
        forms.append((port.egress.queues, port.offloads) if port.egress else None)

    look()
    box.play(look)
    assert forms == [(1, frozenset())] * 5


@pytest.mark.parametrize(
    "keys",
    [
        "{at: 1s, rtt: 300ms, rate: 1Mbit}, {at: 2s, rtt: 8ms, rate: 1Gbit}",
        "{at: 1s, loss: 1%}, {at: 2s, rate: none}, {at: 3s, jitter: 1ms}",
        "{at: 1s, rate: none}, {at: 2s, delay: 1s}, {at: 3s, rate: 100Mbit, loss: 2%}",
        "{at: 1s, down: yes}, {at: 2s, down: no}",
        "{at: 1s, rate: 9Gbit}, {at: 2s, rate: none}",
        "{at: 1s, rate: 300Mbit, rtt: 0ms}, {at: 2s, rate: none}",
        "{at: 1s, rate: 40Gbit}, {at: 2s, rate: none}",
    ],
)
def test_two_extremes_stand_for_every_moment(keys: str) -> None:
    one = scheduled(f"{{keys: [{keys}]}}", lane="{rtt: 80ms, rate: 1Mbit}")
    assert one.schedule
    kernel, timeline = FakeKernel(), Timeline(one, one.schedule)
    have = kernel.observe()
    most = steady(timeline, have, SMALLEST_FRAME_BYTES)
    states = [wanted(timeline.at(t), have, SMALLEST_FRAME_BYTES) for t in timeline.breakpoints()]
    for name, veth in most.veths.items():
        assert veth.segments == min(each.veths[name].segments for each in states)
    for name, port in most.ports.items():
        limits = [e.netem.limit for each in states if (e := each.ports[name].egress)]
        assert not limits or (port.egress and port.egress.netem.limit >= max(limits))


def test_memory_is_reckoned_for_the_longest_queues_of_a_schedule() -> None:
    one = scheduled("{keys: [{at: 1h, rtt: 30s}]}")
    machine = replace(FakeKernel().observe().machine, memory_bytes=8 * 2**30)
    assert memory_reasons(replace(one, schedule=None), machine) == []
    assert "may need" in memory_reasons(one, machine)[0]
    small = FakeKernel(memory_bytes=8 * 2**30)
    with pytest.raises(RefusedError, match="queues may need"):
        Appliance(small, Path("/nonexistent")).plan(one)


def test_a_time_without_a_bottleneck_leaves_the_longest_queue_as_long_as_it_is() -> None:
    one = scheduled("{keys: [{at: 1h, rate: none}]}", lane="{rtt: 300ms, rate: 40Gbit}")
    machine = replace(FakeKernel().observe().machine, memory_bytes=4 * 2**30)
    assert memory_reasons(one, machine) == memory_reasons(replace(one, schedule=None), machine)
    assert "may need 17.0 GiB" in memory_reasons(one, machine)[0]


def test_the_daemon_plays_and_what_it_plays_is_no_drift(box: Box) -> None:
    box.up(scheduled(REROUTE, more="on_drift: restore,"))
    seen = []
    for until_s in (9.5, 1, 9, 1):
        box.watch(until_s)
        seen.append(box.rtts())
        assert box.appliance().status().as_asked
    assert seen == [[80, 80], [120, 80], [120, 80], [90, 80]]
    assert set(box.events) == {"watching"}, "nothing to repair"
    late = box.appliance().status().lateness
    assert late and (late.changes, late.max_ns, late.skipped) == (2, 0, 0)


def test_drift_is_what_differs_from_this_moment_of_the_schedule(box: Box) -> None:
    box.up(scheduled(REROUTE, more="on_drift: restore,")).watch(15)
    box.kernel.apply(DelEgress("lhs-a"))
    assert [lane.lane.rtt_ns // MS for lane in box.appliance().status().lanes] == [120, 80]
    assert {step.op.port for step in box.appliance().status().drift if isinstance(step.op, SetNetem)} == {"lhs-a"}
    box.watch(1)
    assert box.rtts() == [120, 80]
    assert box.events[-2:] == ["repaired", "watching"]


def test_a_schedule_that_nobody_plays_is_drift_after_a_second(box: Box) -> None:
    box.up(scheduled(REROUTE))
    box.clock.pass_s(10.9)
    assert box.appliance().status().as_asked
    box.clock.pass_s(0.2)
    assert not box.appliance().status().as_asked


def test_killed_and_started_again_it_goes_on_in_its_phase(box: Box) -> None:
    box.up(scheduled(REROUTE, rest="loop: 30s,")).watch(12)
    box.clock.pass_s(100)  # nobody plays meanwhile: 113 s, and then 23 s of the loop
    box.watch(0.5)
    assert box.rtts() == [90, 80]
    box.kernel = FakeKernel()  # a reboot at 52 s of the loop
    box.clock.pass_s(29)
    box.watch(9)
    assert box.rtts() == [80, 80]
    box.watch(10)
    assert box.rtts() == [120, 80]


def test_a_change_to_a_lane_leaves_the_phase_and_another_schedule_begins_anew(box: Box) -> None:
    one = scheduled(REROUTE)
    began = [IntentStore(box.up(one).folder).read().began_ns]
    for changed in (one.with_lane(one.lane("b").with_rtt(9 * MS)), scheduled(TIMES), replace(one, schedule=None), one):
        box.clock.pass_s(5)
        began.append(IntentStore(box.up(changed).folder).read().began_ns)
    first = began[0]
    assert first and began == [first, first, first + 10 * S, None, first + 20 * S]
    box.clock.pass_s(5)
    box.appliance().up(one, anew=True)
    assert IntentStore(box.folder).read().began_ns == first + 25 * S


def test_what_is_asked_for_meanwhile_is_played_from_then_on(box: Box) -> None:
    """The daemon is in the middle of it when somebody brings another schedule up."""
    box.up(scheduled(REROUTE))
    waits = 0

    def wait(timeout_s: float, wake_fd: int | None = None) -> bool:
        nonlocal waits
        waits += 1
        if waits == 1:
            box.appliance().up(scheduled(TIMES))
            return True
        return heard_nothing(timeout_s)

    heard_nothing = box.wait
    box.wait = wait  # type: ignore[method-assign]
    box.watch(2.5)
    assert box.rtts() == [40, 40]


@pytest.mark.parametrize("took_s", [0.5, 2, 30])
def test_an_instant_that_passes_during_a_change_is_played_after_it(box: Box, took_s: float) -> None:
    """The change brought the lanes to the time at which it began; then came the instant, then its player."""
    one = scheduled("{lanes: [a], keys: [{at: 10s, rtt: 120ms}, {at: 2h, rtt: 90ms}]}", more="on_drift: report,")
    box.up(one)
    box.clock.pass_s(9.9)
    slow, waits = box.wait, 0

    def wait(timeout_s: float, wake_fd: int | None = None) -> bool:
        nonlocal waits
        waits += 1
        if waits > 1:
            return slow(timeout_s)
        box.appliance().up(one.with_lane(one.lane("b").with_rtt(9 * MS)))
        box.kernel.apply(DelEgress("lhh-b"))
        box.clock.pass_s(took_s)
        return True

    box.wait = wait  # type: ignore[method-assign]
    box.watch(took_s + 1)
    assert box.rtts() == [120, 4.5], "what somebody else changed is reported, not repaired"
    late = noted(box.folder, IntentStore(box.folder).read().began_ns)
    assert late and (late.changes, late.max_ns) == (1, round((took_s - 0.1) * S))


def test_a_port_that_is_lost_does_not_hold_up_the_others(box: Box) -> None:
    box.up(scheduled(TIMES)).watch(0.5)
    box.kernel.fail_at = len(box.kernel.log)
    box.watch(1)
    assert box.rtts() == [120, 120]
    assert box.events[-4:] == ["watching", "failed", "repaired", "as-asked"]


def test_a_look_that_fails_is_repeated_and_the_schedule_goes_on(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.up(scheduled(TIMES, rest="loop: 20s,"))
    look, looks = box.kernel.observe, 0

    def observe() -> State:
        nonlocal looks
        looks += 1
        if looks == 2:
            raise KernelError("RTM_GETLINK", 16, "Device or resource busy")
        return look()

    monkeypatch.setattr(box.kernel, "observe", observe)
    box.watch(21.5)
    assert box.rtts() == [120, 120]
    assert box.events == ["watching", "failed", "as-asked"]


def test_a_schedule_that_contradicts_its_lanes_does_not_end_the_daemon(box: Box) -> None:
    """An older version may have taken it; `down` ends it."""
    one = scheduled("{keys: [{at: 1h, rtt: 20ms}]}")
    store, jittery = IntentStore(box.up(one).folder), replace(one.lane("a").inbound, jitter_ns=30 * MS)
    store.write(replace(store.read(), topology=one.with_lane(replace(one.lane("a"), inbound=jittery))))
    box.watch(20)
    assert box.events == ["failed", "watching"]
    reason = "schedule: at 3600 s of the schedule: jitter 30 ms exceeds the one-way delay of 10 ms"
    assert f'kind=InputError reason="{reason}"' in box.out.getvalue()
    with pytest.raises(InputError, match="at 3600 s of the schedule"):
        box.appliance().status()
    box.appliance().down()
    assert box.kernel.bridges == {}


def test_what_somebody_else_asks_for_while_a_run_waits_for_its_end_stays(box: Box) -> None:
    class Waiting(HandAlarm):
        def sleep_until(self, at_ns: int) -> None:
            if at_ns == end_ns:
                box.appliance().down()
            super().sleep_until(at_ns)

    box.up(scheduled(TIMES))
    alarm = Waiting(box.clock)
    end_ns = alarm.now_ns() + 60 * S
    box.appliance().follower(alarm).run(end_ns)
    assert (box.appliance().topology(), box.kernel.observe().bridges) == (None, {})


def test_lateness_is_told_of_the_schedule_that_it_was_measured_with(box: Box) -> None:
    box.up(scheduled(TIMES)).watch(5)
    began_ns = IntentStore(box.folder).read().began_ns
    late = noted(box.folder, began_ns)
    assert late and late.changes == 3
    assert noted(box.folder, 1) is None
    (box.folder / "schedule.json").write_text("spoilt")
    assert noted(box.folder, began_ns) is None
