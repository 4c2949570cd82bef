"""Confirm or revert, undo, history, the watchdog's repairing: the real appliance over the kernel in memory."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.clocked_appliance import ALICE, MS, ONE, TWO, Machine, drift

from emulator.control.intent_store import IntentStore
from emulator.errors import InputError, KernelError, MissingError, RefusedError
from emulator.model.impairment import Impairment
from emulator.model.schedule import Keyframe, Schedule, Track
from emulator.model.topology import Lane, Topology
from emulator.plan.ops import Op
from emulator.plan.qdisc_ops import DelEgress, SetNetem


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_confirmed_in_time_it_stays(machine: Machine) -> None:
    machine.appliance().up(ONE)
    machine.appliance().up(TWO, confirm_s=60)
    pending = machine.appliance().status().pending
    assert pending and (pending.left_ns, pending.back_to, machine.guarded) == (60 * 10**9, ONE.name, 1)
    machine.clock.pass_s(59)
    machine.appliance().confirm()
    machine.clock.pass_s(100)
    assert not machine.appliance().expire()
    assert machine.is_(TWO)
    with pytest.raises(InputError, match="no change waits for confirmation"):
        machine.appliance().confirm()


def test_while_somebody_changes_the_lanes_the_status_says_so(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.appliance().up(ONE)
    seen: list[tuple[bool, bool]] = []

    def watched(op: Op, real: Callable[[Op], None] = machine.kernel.apply) -> None:
        status = machine.appliance().status()
        seen.append((bool(status.drift), status.changing))
        real(op)

    monkeypatch.setattr(machine.kernel, "apply", watched)
    machine.appliance().up(TWO)
    assert set(seen) == {(True, True)}
    monkeypatch.undo()
    assert not machine.appliance().status().changing
    machine.kernel.apply(DelEgress("lhs-japan"))
    status = machine.appliance().status()
    assert (bool(status.drift), status.changing) == (True, False)


@pytest.mark.parametrize("base", [None, ONE], ids=["nothing", "one"])
def test_not_confirmed_it_goes_back_exactly_once(machine: Machine, base: Topology | None) -> None:
    if base:
        machine.appliance().up(base)
    machine.appliance().up(TWO, confirm_s=60)
    machine.clock.pass_s(59.9)
    assert not machine.appliance().expire()
    machine.clock.pass_s(0.1)
    with pytest.raises(RefusedError, match="too late"):
        machine.appliance().confirm()
    assert machine.appliance().expire()
    assert not machine.appliance().expire()
    assert machine.is_(base)
    assert machine.appliance().history(1)[0].author.command == "revert"


def test_a_reboot_means_not_confirmed(machine: Machine) -> None:
    machine.appliance().up(ONE)
    machine.appliance().up(TWO, confirm_s=3600)
    machine.clock.reboot()
    machine.kernel = Machine(machine.folder).kernel
    assert machine.appliance().repair(restore=True).reverted
    assert machine.is_(ONE)


def test_set_waits_for_confirmation_too_and_keeps_the_first_base(machine: Machine) -> None:
    machine.appliance().up(ONE)
    machine.appliance().set_lane(ONE.lane("japan").with_rtt(40 * MS), confirm_s=60)
    machine.clock.pass_s(30)
    machine.appliance().set_lane(ONE.lane("japan").with_rtt(50 * MS), confirm_s=60)
    machine.appliance().set_lane(ONE.lane("japan").with_rtt(60 * MS))
    machine.clock.pass_s(60)
    assert machine.appliance().expire()
    assert machine.is_(ONE)


def test_the_next_change_takes_back_first_what_is_overdue(machine: Machine) -> None:
    machine.appliance().up(ONE)
    machine.appliance().up(TWO, confirm_s=60)
    machine.clock.pass_s(61)
    machine.appliance().set_lane(ONE.lane("japan").with_rtt(50 * MS))
    assert machine.is_(ONE.with_lane(ONE.lane("japan").with_rtt(50 * MS)))


def test_set_is_refused_for_the_same_reasons_as_up(machine: Machine) -> None:
    lane = Lane("japan", Impairment(MS, rate_bps=10**7, aqm="codel"))
    machine.kernel.version = (6, 12)
    machine.appliance().up(Topology("one", "hub", (lane,)))
    machine.kernel.log.clear()
    newer = replace(lane, outbound=replace(lane.outbound, aqm="dualpi2"))
    reason = "lane japan: dualpi2 needs Linux 6.17, this is 6.12: use another aqm, or a newer kernel"
    for change in (lambda one: one.set_lane(newer), lambda one: one.up(Topology("one", "hub", (newer,)))):
        with pytest.raises(RefusedError) as refusal:
            change(machine.appliance())
        assert str(refusal.value) == reason
    assert machine.kernel.log == []


def test_set_is_refused_when_the_schedule_contradicts_a_lane(machine: Machine) -> None:
    track = Track(("japan", "london"), (Keyframe(10**9, (("delay_ns", 2 * MS),)),))
    star = replace(TWO, schedule=Schedule((track,)))
    machine.appliance().up(star)
    machine.kernel.log.clear()
    jittery = [replace(lane, outbound=replace(lane.outbound, jitter_ns=3 * MS)) for lane in star.lanes]
    with pytest.raises(InputError) as refusal:
        machine.appliance().set_lanes(jittery)
    text = "at 1 s of the schedule: jitter 3 ms exceeds the one-way delay of 2 ms"
    assert [(m.path, m.text) for m in refusal.value.mistakes] == [("japan", text), ("london", text)]
    assert (machine.appliance().topology(), machine.kernel.log) == (star, [])


def test_down_ends_what_waits(machine: Machine) -> None:
    machine.appliance().up(ONE, confirm_s=60)
    machine.appliance().down()
    machine.clock.pass_s(100)
    assert not machine.appliance().expire()
    assert machine.is_(None)


def test_without_a_guard_nothing_is_changed(machine: Machine) -> None:
    def no_guard(_: Path) -> None:
        raise MissingError("no process")

    machine.appliance().up(ONE)
    with pytest.raises(MissingError, match="no process"):
        machine.appliance(no_guard).up(TWO, confirm_s=60)
    assert machine.is_(ONE)
    assert machine.appliance().status().pending is None


def test_the_desire_is_on_disk_with_its_guard_before_the_kernel_is_touched(machine: Machine) -> None:
    def look(folder: Path) -> None:
        assert machine.kernel.log == []
        assert machine.appliance().topology() == ONE
        pending = machine.appliance().status().pending
        assert pending and pending.back_to is None

    machine.appliance(look).up(ONE, confirm_s=60)


def test_a_failed_change_leaves_no_trace(machine: Machine) -> None:
    machine.appliance().up(ONE)
    before = machine.appliance().history()
    machine.kernel.fail_at = len(machine.kernel.log) + 3
    with pytest.raises(KernelError):
        machine.appliance().up(TWO, confirm_s=60)
    assert machine.is_(ONE)
    assert machine.appliance().history() == before
    assert machine.appliance().status().pending is None
    machine.appliance().up(TWO)
    assert [c.number for c in machine.appliance().history()] == [2, 1]


def test_a_revert_that_fails_stays_due(machine: Machine) -> None:
    machine.appliance().up(ONE)
    machine.appliance().up(TWO, confirm_s=60)
    machine.clock.pass_s(60)
    machine.kernel.fail_at = len(machine.kernel.log)
    with pytest.raises(KernelError):
        machine.appliance().expire()
    assert machine.is_(TWO)
    assert machine.appliance().expire()
    assert machine.is_(ONE)


def test_undo_goes_back_and_undone_itself_comes_back(machine: Machine) -> None:
    with pytest.raises(InputError, match="no change to undo"):
        machine.appliance().undo()
    for topology in (ONE, TWO):
        machine.appliance().up(topology)
    machine.appliance().undo()
    assert machine.is_(ONE)
    machine.appliance().undo()
    assert machine.is_(TWO)
    machine.appliance().down()
    machine.appliance().undo()
    assert machine.is_(TWO)
    assert [c.summary for c in machine.appliance().history()] == [
        "undo change 5: down", "down", "undo change 3: undo change 2: up two", "undo change 2: up two", "up two",
        "up one",
    ]  # fmt: skip


@pytest.mark.parametrize("base", [None, ONE], ids=["nothing", "one"])
def test_undo_while_a_change_waits_goes_back_to_what_was_confirmed(machine: Machine, base: Topology | None) -> None:
    """The change that waits was followed by another, which waits with it."""
    if base:
        machine.appliance().up(base)
    machine.appliance().up(TWO, confirm_s=60)
    machine.appliance().set_lane(TWO.lane("japan").with_rtt(47 * MS))
    machine.appliance().undo()
    assert machine.is_(base)
    assert machine.appliance().status().pending is None
    last = machine.appliance().history(1)[0]
    assert (last.summary, last.author) == ("undo what waited for confirmation", ALICE)
    machine.clock.pass_s(100)
    assert not machine.appliance().expire()
    machine.appliance().undo()
    assert machine.is_(TWO.with_lane(TWO.lane("japan").with_rtt(47 * MS)))


def test_the_history_says_who_when_and_what(machine: Machine) -> None:
    machine.appliance().up(ONE)
    machine.clock.pass_s(1)
    machine.appliance().set_lane(ONE.lane("japan").with_rtt(40 * MS))
    machine.appliance().set_lane(ONE.lane("japan").with_rtt(44 * MS))
    last = machine.appliance().history(1)[0]
    assert (last.number, last.when, last.author) == (3, "2001-09-09T00:00:02+00:00", ALICE)
    assert last.summary == "set japan"
    assert [line for line in last.diff.splitlines() if line[0] in "+-"][2:] == [
        "-  japan: {rtt: 40ms, mtu: 1500, line_rate: 10Gbit}",
        "+  japan: {rtt: 44ms, mtu: 1500, line_rate: 10Gbit}",
    ]


def test_fifty_changes_are_kept(machine: Machine) -> None:
    for number in range(60):
        machine.appliance().up(replace(ONE, seed=number))
    kept = machine.appliance().history(100)
    assert [c.number for c in kept] == list(range(60, 10, -1))
    assert len(list((machine.folder / "changes").iterdir())) == 50


def test_an_up_of_what_stands_already_is_no_change(machine: Machine) -> None:
    machine.appliance().up(ONE)
    assert machine.appliance().up(ONE) == []
    assert len(machine.appliance().history()) == 1


def test_drift_is_reported_or_restored_as_the_topology_says(machine: Machine) -> None:
    machine.appliance().up(TWO)
    drift(machine, "lhs-japan")
    found = machine.appliance().repair()
    assert ([type(s.op) for s in found.drift], found.repaired) == ([SetNetem], [])
    assert machine.kernel.log == []
    machine.appliance().up(replace(TWO, on_drift="restore"))
    drift(machine, "lhs-japan")
    assert [type(s.op) for s in machine.appliance().repair().repaired] == [SetNetem]
    assert machine.is_(replace(TWO, on_drift="restore"))


def test_lanes_that_another_or_a_lost_folder_asked_for_are_told_and_left_alone(machine: Machine) -> None:
    machine.appliance().up(replace(TWO, on_drift="restore"))
    before = machine.kernel.observe()
    shutil.rmtree(machine.folder)
    machine.kernel.log.clear()
    for restore in (True, None):
        found = machine.appliance().repair(restore=restore)
        assert (found.repaired, found.known, machine.kernel.log) == ([], False, [])
        assert len(found.drift) > 5
    assert machine.kernel.observe() == before
    assert not machine.appliance().status().as_asked
    machine.appliance().down()
    assert machine.is_(None)


def test_what_a_killed_down_has_left_is_taken_away(machine: Machine) -> None:
    machine.appliance().up(TWO)
    store = IntentStore(machine.folder)
    store.write(replace(store.read(), topology=None))
    assert machine.appliance().repair(restore=True).repaired
    assert machine.is_(None)


def test_a_repair_touches_what_has_drifted_and_nothing_else(machine: Machine) -> None:
    machine.appliance().up(replace(TWO, on_drift="restore"))
    drift(machine, "lhs-japan")
    machine.appliance().repair()
    assert [op.port for op in machine.kernel.log if isinstance(op, SetNetem)] == ["lhs-japan"]
    assert len(machine.kernel.log) == 1


def test_repairs_in_a_row_are_one_entry_and_undo_looks_past_it(machine: Machine) -> None:
    machine.appliance().up(ONE)
    machine.appliance().up(replace(TWO, on_drift="restore"))
    for _ in range(3):
        drift(machine, "lhs-japan")
        machine.appliance().repair()
    last = machine.appliance().history()[0]
    assert (last.number, last.times, last.author.command, last.diff) == (3, 3, "watchdog", "")
    assert last.summary == "1 step: impaired before the first packet"
    machine.appliance().undo()
    assert machine.is_(ONE)
