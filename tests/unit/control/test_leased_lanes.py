"""Lanes that a test run has leased: nobody else's meanwhile, returned at its end, and by others if it is killed."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.hand_clock import HandClock

from emulator.cli.main import main
from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.control.change_log import REVERT, Author
from emulator.control.intent_store import IntentStore
from emulator.control.reverter import wait_and_expire
from emulator.errors import InputError, MeasureError, RefusedError
from emulator.kernel.fake import FakeKernel
from emulator.plan.desired_state import wanted
from emulator.plan.qdisc_ops import DelEgress
from emulator.plan.scheduled_state import wanted_at
from emulator.plan.state import State

USERS = loader.loads("""
name: users
hub: hub
lanes: {japan: {rtt: 346ms}}
schedule: {tracks: [{keys: [{at: 0s, rtt: 346ms}, {at: 1min, rtt: 300ms}]}], loop: 1h}
""")
CELL = replace(loader.loads("{name: users, hub: hub, lanes: {japan: {rtt: 32ms}}}"), seed=7)


@dataclass
class Box:
    """A machine in memory with the user's lanes up, whose schedule has begun a minute and a half ago."""

    folder: Path
    clock: HandClock = field(default_factory=HandClock)
    kernel: FakeKernel = field(default_factory=FakeKernel)
    guarded: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.appliance().up(USERS)
        self.began_ns = self.store.read().began_ns
        self.clock.pass_s(90)

    @property
    def store(self) -> IntentStore:
        return IntentStore(self.folder)

    def appliance(self) -> Appliance:
        author = Author("root", 0, 1, "longhaul")
        return Appliance(self.kernel, self.folder, author=author, clock=self.clock, guard=self.guarded.append)

    def kill_a_leaseholder(self) -> None:
        """Leave all as it is when a test run is killed."""
        with self.appliance().lease(CELL):
            kernel, file = copy.deepcopy(self.kernel), self.folder / "intent.json"
            intent = file.read_bytes()
        self.kernel = kernel
        file.write_bytes(intent)

    def is_the_users(self) -> bool:
        """All is as the user wants it, in the schedule's phase."""
        now, have = self.store.read(), self.kernel.observe()
        scheduled = USERS.with_lane(replace(CELL.lane("japan").with_rtt(300_000_000)))
        goal = wanted_at(USERS, scheduled, have)
        return (now.topology, now.pending, now.began_ns, have) == (USERS, None, self.began_ns, goal)


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


def test_lanes_are_leased_for_a_block_and_history_hears_nothing(box: Box) -> None:
    one = box.appliance()
    before = one.history()
    with one.lease(CELL):
        assert box.kernel.observe() == wanted(CELL, box.kernel.observe())
        assert one.topology() == CELL
        assert one.pending_ns() is None
        assert box.guarded == [box.folder]
    assert box.is_the_users()
    assert one.history() == before
    one.undo()
    assert one.topology() is None


def test_they_are_returned_after_a_failure_too(box: Box) -> None:
    with pytest.raises(MeasureError), box.appliance().lease(CELL):
        raise MeasureError("iperf3 ended with 1")
    assert box.is_the_users()
    with box.appliance().lease(CELL):
        pass
    assert box.is_the_users()


CHANGES: dict[str, Callable[[Appliance], object]] = {
    "up": lambda one: one.up(USERS),
    "set": lambda one: one.set_lane(USERS.lane("japan")),
    "down": Appliance.down,
    "undo": Appliance.undo,
    "confirm": Appliance.confirm,
    "lease": lambda one: one.lease(CELL).__enter__(),
    "hold": lambda one: one.hold().__enter__(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_nobody_else_changes_them_meanwhile(box: Box, name: str) -> None:
    with box.appliance().lease(CELL):
        have, intent = box.kernel.observe(), box.store.read()
        with pytest.raises(RefusedError, match=rf"a measurement \(process {os.getpid()}\) has leased the lanes"):
            CHANGES[name](box.appliance())
        assert (box.kernel.observe(), box.store.read()) == (have, intent)
        box.appliance().repair()
        assert box.store.read() == intent
    assert box.is_the_users()


def test_what_waits_to_be_confirmed_is_not_leased(box: Box) -> None:
    box.appliance().set_lane(CELL.lane("japan"), confirm_s=60)
    intent = box.store.read()
    with pytest.raises(RefusedError, match="run longhaul confirm or longhaul undo first"), box.appliance().lease(CELL):
        pytest.fail("it was leased")
    assert box.store.read() == intent
    assert box.store.leaseholder() is None


def never(*_: object) -> None:
    pytest.fail("neither a glance nor a complaint was expected")


GIVERS: dict[str, Callable[[Box], object]] = {
    "the daemon's next look": lambda box: box.appliance().repair(),
    "the reverter": lambda box: wait_and_expire(box.store, box.appliance, box.clock, never, never),
    "the next test run": lambda box: box.appliance().lease(CELL).__enter__(),
    "the next change": lambda box: box.appliance().up(USERS),
}


@pytest.mark.parametrize("name", GIVERS)
def test_what_a_killed_test_run_has_left_is_returned(box: Box, name: str) -> None:
    box.kill_a_leaseholder()
    assert not box.is_the_users()
    assert box.appliance().pending_ns() == 0
    GIVERS[name](box)
    if name == "the next test run":
        assert box.store.read().lasting == USERS
    else:
        assert box.is_the_users()
    newest, first = box.appliance().history()
    assert (newest.before, newest.after, newest.author.command) == (USERS, USERS, REVERT)
    assert first.after == USERS


def test_down_after_a_killed_test_run_can_be_undone(box: Box) -> None:
    box.kill_a_leaseholder()
    box.appliance().down()
    assert box.kernel.observe() == State()
    box.appliance().undo()
    assert box.store.read().topology == USERS


def test_a_reverter_sleeps_until_the_borrower_is_gone_and_leaves_the_next_to_its_own(box: Box) -> None:
    waited = []

    class Waiting(IntentStore):
        def await_lease_end(self) -> None:
            waited.append(self.read().lasting)
            holding_lease.__exit__(None, None, None)
            next_one.__enter__()

    holding_lease, next_one = box.appliance().lease(CELL), box.appliance().lease(CELL)
    holding_lease.__enter__()
    wait_and_expire(Waiting(box.folder), box.appliance, box.clock, never, never)
    assert waited == [USERS]
    assert box.store.leaseholder() == os.getpid()
    next_one.__exit__(None, None, None)
    assert box.is_the_users()


def test_status_tells_of_it(box: Box, capsys: pytest.CaptureFixture[str]) -> None:
    with box.appliance().lease(CELL):
        main(["status"], obj=box.appliance())
        assert "leased: users returns when the measurement that leased the lanes ends\n" in capsys.readouterr().out
        main(["status", "--json"], obj=box.appliance())
        reported = json.loads(capsys.readouterr().out)
        assert (reported["pending"], reported["leased"], reported["back_to"]) == (None, True, "users")


def test_a_change_that_is_not_confirmed_goes_back_to_the_phase_of_the_schedule(box: Box) -> None:
    box.appliance().up(CELL, confirm_s=1)
    box.clock.pass_s(2)
    assert box.appliance().expire()
    assert box.is_the_users()


def test_lanes_that_are_held_keep_their_drift_and_nobody_changes_them(box: Box) -> None:
    still = replace(USERS, schedule=None, on_drift="restore")
    box.appliance().up(still)
    before = box.appliance().history()
    box.kernel.apply(DelEgress("lhs-japan"))
    drifted = box.kernel.observe()
    with box.appliance().hold() as held:
        assert replace(held, on_drift="restore") == still
        box.appliance().repair()
        assert (box.kernel.observe(), box.guarded) == (drifted, [box.folder])
        for name in CHANGES:
            with pytest.raises(RefusedError, match="has leased the lanes"):
                CHANGES[name](box.appliance())
    assert (box.kernel.observe(), box.store.read().topology, box.store.read().pending) == (drifted, still, None)
    assert box.appliance().history() == before
    assert box.appliance().repair().repaired


def test_a_schedule_stands_still_while_its_lanes_are_held_and_goes_on_in_its_phase(box: Box) -> None:
    with box.appliance().hold() as held:
        box.clock.pass_s(3540)
        box.appliance().repair()
        status = box.appliance().status()
        assert [lane.lane.rtt_ns for lane in status.lanes] == [300_000_000]
        assert (held.lanes[0].rtt_ns, status.drift) == (300_000_000, [])
    status = box.appliance().status()
    assert [lane.lane.rtt_ns for lane in status.lanes] == [346_000_000]
    assert (status.drift, box.store.read().topology, box.store.read().began_ns) == ([], USERS, box.began_ns)


def test_nothing_is_held_where_nothing_is_up_or_a_change_waits(box: Box) -> None:
    box.appliance().set_lane(CELL.lane("japan"), confirm_s=60)
    with pytest.raises(RefusedError, match="waits for confirmation"), box.appliance().hold():
        pytest.fail("it was held")
    box.appliance().down()
    with pytest.raises(InputError, match="nothing is up"), box.appliance().hold():
        pytest.fail("it was held")
    assert box.store.leaseholder() is None
