"""What of the intent does not last, and until when."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.hand_clock import HandClock

from emulator.control.change_log import History
from emulator.control.intent_store import Intent, IntentStore, Pending
from emulator.control.pending_change import Ledger
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Topology

OLD = Intent(Topology("old", "hub", (Lane("japan", Impairment(7)),)), 3, began_ns=5)
NEW = Intent(Topology("new", "hub", (Lane("japan", Impairment(9)),)), 4)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def ledger(tmp_path: Path, clock: HandClock) -> Ledger:
    return Ledger(IntentStore(tmp_path), History(tmp_path / "changes"), clock)


def test_a_deadline_holds_in_one_life_of_the_machine(ledger: Ledger, clock: HandClock) -> None:
    pending = ledger.waiting(NEW, OLD, 60 * 10**9).pending
    assert pending and not ledger.is_overdue(pending)
    clock.pass_s(59.999999999)
    assert (ledger.left_ns(pending), ledger.is_overdue(pending)) == (1, False)
    clock.pass_s(1e-9)
    assert ledger.is_overdue(pending)
    clock.reboot()
    assert ledger.is_overdue(pending)


def test_a_second_change_keeps_what_the_first_goes_back_to(ledger: Ledger) -> None:
    first = ledger.waiting(NEW, OLD, 10**9)
    second = ledger.waiting(first, NEW, 5 * 10**9)
    assert second.pending == Pending(6 * 10**9, "life-1", OLD.topology, OLD.began_ns)
    assert ledger.waiting(first, NEW, None) == first


def test_what_is_leased_lasts_as_long_as_its_borrower(ledger: Ledger, tmp_path: Path, clock: HandClock) -> None:
    leased = ledger.with_lease(NEW, OLD)
    assert leased.pending and (leased.topology, leased.lasting) == (NEW.topology, OLD.topology)
    with IntentStore(tmp_path).holding_lease():
        clock.pass_s(10**6)
        assert (ledger.left_ns(leased.pending), ledger.is_overdue(leased.pending)) == (None, False)
    assert (ledger.left_ns(leased.pending), ledger.is_overdue(leased.pending)) == (0, True)
