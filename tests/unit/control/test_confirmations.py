"""What of the intent does not last, and until when."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.clocked_appliance import MS, ONE, TWO, Machine
from support.hand_clock import HandClock

from emulator.control.confirmations import Confirmations
from emulator.control.intent_store import Intent, IntentStore, Pending
from emulator.control.machine_context import MachineContext
from emulator.errors import InputError, RefusedError
from emulator.kernel.fake import FakeKernel
from emulator.model.impairment import Impairment
from emulator.model.lane_patch import LanePatch
from emulator.model.schedule import Keyframe, Schedule, Track
from emulator.model.topology import Lane, Topology

OLD = Intent(Topology("old", "hub", (Lane("japan", Impairment(7)),)), 3, began_ns=5)
NEW = Topology("new", "hub", (Lane("japan", Impairment(9)),))


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def confirmations(tmp_path: Path, clock: HandClock) -> Confirmations:
    return Confirmations(MachineContext(FakeKernel(), tmp_path, clock=clock))


def test_a_deadline_holds_in_one_life_of_the_machine(confirmations: Confirmations, clock: HandClock) -> None:
    pending = confirmations.waiting(OLD, 60)
    assert pending and not confirmations.is_overdue(pending)
    clock.pass_s(59.999999999)
    assert (confirmations.left_ns(pending), confirmations.is_overdue(pending)) == (1, False)
    clock.pass_s(1e-9)
    assert confirmations.is_overdue(pending)
    clock.reboot()
    assert confirmations.is_overdue(pending)


def test_a_second_change_keeps_what_the_first_goes_back_to(confirmations: Confirmations) -> None:
    first = replace(OLD, topology=NEW, pending=confirmations.waiting(OLD, 1))
    assert confirmations.waiting(first, 5) == Pending(6 * 10**9, "life-1", OLD.topology, OLD.began_ns)
    assert confirmations.waiting(first, None) == first.pending


def test_the_time_to_confirm_begins_when_the_change_is_made(
    confirmations: Confirmations, tmp_path: Path, clock: HandClock
) -> None:
    store = IntentStore(tmp_path)
    store.write(replace(OLD, topology=NEW, pending=confirmations.waiting(OLD, 5)))
    clock.pass_s(3)
    confirmations.restart(None)
    assert confirmations.pending_ns() == 2 * 10**9
    confirmations.restart(5)
    assert confirmations.pending_ns() == 5 * 10**9
    assert store.read().lasting == NEW


def test_a_lease_lasts_as_long_as_its_holder(confirmations: Confirmations, tmp_path: Path, clock: HandClock) -> None:
    leased = Intent(NEW, 3, Pending(0, clock.boot_id(), OLD.topology, leased=True))
    assert leased.pending and (leased.topology, leased.lasting) == (NEW, OLD.topology)
    with IntentStore(tmp_path).holding_lease():
        clock.pass_s(10**6)
        assert (confirmations.left_ns(leased.pending), confirmations.is_overdue(leased.pending)) == (None, False)
    assert (confirmations.left_ns(leased.pending), confirmations.is_overdue(leased.pending)) == (0, True)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """ONE was up, and TWO has waited for a minute to be confirmed: its time ends now."""
    made = Machine(tmp_path)
    made.appliance().up(ONE)
    made.appliance().up(TWO, confirm_s=60)
    made.clock.pass_s(60)
    return made


def test_undo_after_the_time_to_confirm_reverts_and_goes_no_further(machine: Machine) -> None:
    machine.appliance().undo()
    assert machine.is_(ONE)
    assert [one.summary for one in machine.appliance().history()] == [
        "undo what waited for confirmation", "up two", "up one"
    ]  # fmt: skip
    machine.appliance().undo()
    assert machine.is_(TWO)


@pytest.mark.parametrize("how", ["undo", "revert"])
def test_what_is_reverted_before_the_users_turn_is_not_undone_again(machine: Machine, how: str) -> None:
    """The user asks while the change waits; the watchdog has the lock."""
    waited = machine.appliance().unconfirmed()
    assert machine.appliance().expire()
    assert getattr(machine.appliance(), how)(waited) == []
    assert machine.is_(ONE)


def test_undo_of_a_change_that_was_confirmed_meanwhile_undoes_it(machine: Machine) -> None:
    machine.clock.pass_s(-1)
    waited = machine.appliance().unconfirmed()
    machine.appliance().confirm()
    machine.appliance().undo(waited)
    assert machine.is_(ONE)


@pytest.mark.parametrize("overdue", [False, True])
def test_revert_goes_back_once_and_never_further(machine: Machine, overdue: bool) -> None:
    machine.clock.pass_s(0 if overdue else -1)
    machine.appliance().revert()
    assert machine.is_(ONE)
    for _ in range(2):
        with pytest.raises(RefusedError, match="no change waits for confirmation: it was confirmed or reverted before"):
            machine.appliance().revert()
    assert machine.is_(ONE)


def test_revert_keeps_a_change_that_was_confirmed(machine: Machine) -> None:
    machine.clock.pass_s(-1)
    machine.appliance().confirm()
    with pytest.raises(RefusedError, match="no change waits"):
        machine.appliance().revert()
    assert machine.is_(TWO)


def test_a_lease_is_nothing_to_revert(machine: Machine) -> None:
    machine.appliance().expire()
    with machine.appliance().lease(TWO), pytest.raises(RefusedError, match="has leased the lanes"):
        machine.appliance().revert()
    assert machine.is_(ONE)


def test_lanes_change_from_what_is_up_under_the_lock(tmp_path: Path) -> None:
    """A patch built on a change that is reverted before it would bring that back, and one of two at once the other."""
    machine = Machine(tmp_path)
    machine.appliance().up(ONE)
    machine.appliance().set_lane(LanePatch.both({"loss_p32": 2**32 - 1}).apply(ONE.lane("japan")), confirm_s=30)
    machine.clock.pass_s(31)
    for patch in (LanePatch(rtt_ns=90 * MS), LanePatch.both({"jitter_ns": MS})):
        machine.appliance().change_lanes(lambda up, patch=patch: [patch.apply(up.lane("japan"))])  # type: ignore[misc]
    assert machine.is_(ONE.with_lane(Lane("japan", *[Impairment(45 * MS, jitter_ns=MS)] * 2)))


def test_a_schedule_is_given_to_what_is_up_under_the_lock(machine: Machine) -> None:
    schedule = Schedule((Track(("japan",), (Keyframe(0, (("rtt_ns", MS),)),)),))
    machine.appliance().reschedule(lambda up: replace(up, schedule=schedule))
    assert machine.appliance().topology() == replace(ONE, schedule=schedule)
    machine.appliance().down()
    with pytest.raises(InputError, match="no topology is up"):
        machine.appliance().reschedule(lambda up: up)
