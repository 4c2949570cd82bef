"""From when the time to confirm counts, and when a change is reverted, where kernel, disk and machine are slow.

It counts from when the change is made and its deadline is written: the user then has the whole time. A standstill of
the machine delays the revert by no more than itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clocked_appliance import ONE, TWO, Machine

from emulator.control.confirmations import MOST_TRIES, ON_TIME_NS
from emulator.control.intent_store import Intent, IntentStore
from emulator.control.reverter import wait_and_expire
from emulator.errors import RefusedError
from emulator.plan.ops import Op

S = 10**9


@contextmanager
def slow(machine: Machine, kernel_s: float, disk_s: Iterator[float]) -> Iterator[list[float]]:
    """Each operation of the kernel and each write of the intent takes so long; the block gets what the writes took."""
    apply, took = machine.kernel.apply, list[float]()

    class SlowStore(IntentStore):
        """On a slow disk."""

        def write(self, intent: Intent) -> None:
            took.append(next(disk_s, 0.0))
            machine.clock.pass_s(took[-1])
            super().write(intent)

    def slowly(op: Op) -> None:
        machine.clock.pass_s(kernel_s)
        apply(op)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine.kernel, "apply", slowly)
        patch.setattr("emulator.control.machine_context.IntentStore", SlowStore)
        yield took


@given(st.floats(0, 100), st.lists(st.floats(0, 300), max_size=8), st.integers(1, 120))
def test_the_whole_time_counts_from_when_the_change_is_made(
    kernel_s: float, disk_s: list[float], confirm_s: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        machine.appliance().up(ONE)
        with slow(machine, kernel_s, iter(disk_s)) as took:
            one = machine.appliance()
            one.up(TWO, confirm_s=confirm_s)
        left_ns, notes = one.pending_ns(), one.take_notes()
        assert left_ns is not None
        assert left_ns <= (confirm_s + max(took)) * S + 1
        if len(took) <= MOST_TRIES and not notes:
            assert left_ns >= confirm_s * S - ON_TIME_NS
        assert left_ns >= confirm_s * S - ON_TIME_NS or ["writing takes up to" in note for note in notes] == [True]


def test_a_disk_that_is_always_slow_takes_nothing_from_the_time(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.appliance().up(ONE)
    with slow(machine, 30, iter([70.0] * 20)) as took:
        one = machine.appliance()
        one.up(TWO, confirm_s=60)
    assert one.pending_ns() == 60 * S
    assert one.take_notes() == []
    assert took == [70.0] * 3  # of the change, of its deadline, and of the deadline that allows for the disk
    assert not one.expire()
    machine.clock.pass_s(59.999)
    assert machine.is_(TWO)
    machine.clock.pass_s(0.001)
    assert one.expire()
    assert machine.is_(ONE)


@given(st.lists(st.floats(0, 500), min_size=1, max_size=20))
def test_a_standstill_delays_the_revert_by_no_more_than_itself(stood_s: list[float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder))
        machine.appliance().up(ONE)
        machine.appliance().up(TWO, confirm_s=60)
        began_ns, stands, stood = machine.clock.now_ns, iter(stood_s), list[float]()

        def sleep(seconds: float) -> None:
            assert machine.clock.now_ns < began_ns + 60 * S
            stood.append(next(stands, 0.0))
            machine.clock.pass_s(seconds + stood[-1])

        wait_and_expire(IntentStore(machine.folder), machine.appliance, machine.clock, sleep, pytest.fail)
        assert machine.is_(ONE)
        passed_ns = machine.clock.now_ns - began_ns
        assert 60 * S - 1 <= passed_ns <= (60 + stood[-1]) * S + 1


def test_who_confirms_in_time_is_heard_although_somebody_else_holds_the_lock(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.appliance().up(ONE)
    for waits_s, kept in ((10.0, True), (0.0, False)):
        machine.appliance().up(TWO, confirm_s=60)
        machine.clock.pass_s(55 if kept else 60)
        one, locked = machine.appliance(), IntentStore.locked

        @contextmanager
        def late(store: IntentStore, waits_s: float = waits_s, locked=locked) -> Iterator[None]:  # type: ignore[no-untyped-def]
            machine.clock.pass_s(waits_s)
            with locked(store):
                yield

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(IntentStore, "locked", late)
            if kept:
                one.confirm()
                assert machine.appliance().status().pending is None
            else:
                with pytest.raises(RefusedError, match="too late"):
                    one.confirm()
        machine.appliance().up(ONE)
