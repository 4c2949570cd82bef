"""What of the intent does not last, and until when."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.hand_clock import HandClock

from emulator.control.confirmations import Confirmations
from emulator.control.intent_store import Intent, IntentStore, Pending
from emulator.control.machine_context import MachineContext
from emulator.kernel.fake import FakeKernel
from emulator.model.impairment import Impairment
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
