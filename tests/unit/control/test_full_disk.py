"""A disk on which nothing can be written: no change begins, `down` and a revert work, and what is not saved is told.

A real full disk is in tests/lab/test_full_disk.py.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.clocked_appliance import ONE, TWO, Machine, drift

from emulator.control.appliance import Appliance
from emulator.control.intent_store import IntentStore
from emulator.control.reverter import wait_and_expire
from emulator.errors import MissingError
from emulator.plan.desired_state import wanted

CODES = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
FORBIDDEN = (errno.EROFS, errno.EACCES)
"""Of these, nothing can be opened for writing."""
CHANGES: dict[str, Callable[[Appliance], object]] = {
    "up": lambda one: one.up(TWO),
    "up --confirm": lambda one: one.up(TWO, confirm_s=60),
    "set": lambda one: one.set_lanes([ONE.lanes[0].with_rtt(3_000_000)]),
    "undo": Appliance.undo,
}


@contextmanager
def failing(code: int, room: bool = False) -> Iterator[None]:
    """Every write fails; with `room`, only until the file that takes the room is gone."""
    real_open, real_write, real_unlink, full = os.open, os.write, os.unlink, [True]

    def refuse() -> None:
        if full[0]:
            raise OSError(code, os.strerror(code))

    def write(fd: int, data: Any) -> int:
        refuse()
        return real_write(fd, data)

    def opened(path: Any, flags: int, *more: Any, **names: Any) -> int:
        if code in FORBIDDEN and flags & (os.O_CREAT | os.O_RDWR | os.O_WRONLY):
            refuse()
        return real_open(path, flags, *more, **names)

    def unlink(path: Any, *more: Any, **names: Any) -> None:
        if code in FORBIDDEN:
            refuse()
        there = os.path.lexists(path)
        real_unlink(path, *more, **names)
        if room and there and Path(path).name == "room":
            full[0] = False

    with pytest.MonkeyPatch.context() as patch:
        for name, call in (("write", write), ("open", opened), ("unlink", unlink)):
            patch.setattr(os, name, call)
        yield


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.appliance().up(TWO)
    machine.appliance().up(ONE)
    machine.kernel.log.clear()
    return machine


@pytest.mark.parametrize("code", CODES + FORBIDDEN, ids=errno.errorcode.get)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_refused_before_the_kernel_is_touched(machine: Machine, change: str, code: int) -> None:
    with failing(code), pytest.raises(MissingError, match=rf"cannot write {machine.folder}/.*: {os.strerror(code)}; "):
        CHANGES[change](machine.appliance())
    assert machine.kernel.log == []
    assert machine.is_(ONE)


@pytest.mark.parametrize("code", CODES + FORBIDDEN, ids=errno.errorcode.get)
def test_down_returns_the_ports_and_says_what_could_not_be_written(machine: Machine, code: int) -> None:
    told = (
        "the lanes are removed and the ports returned, but the intent still asks for what was up before, and the "
        rf"daemon would bring that up: cannot write {machine.folder}/intent.json: {os.strerror(code)}; .*; then "
        "run longhaul down again"
    )
    with failing(code), pytest.raises(MissingError, match=told):
        machine.appliance().down()
    assert machine.kernel.bridges == {}
    machine.appliance().down()
    assert machine.is_(None)


def test_down_uses_the_room_that_is_kept(machine: Machine) -> None:
    one = machine.appliance()
    with failing(errno.ENOSPC, room=True):
        one.down()
    assert machine.is_(None)
    assert one.take_notes() == []
    machine.appliance().undo()
    assert machine.is_(ONE)


@pytest.mark.parametrize("room", [True, False])
def test_a_change_that_nobody_confirms_is_reverted(machine: Machine, room: bool) -> None:
    machine.appliance().up(TWO, confirm_s=60)
    machine.clock.pass_s(61)
    with failing(errno.ENOSPC, room=room):
        if room:
            assert machine.appliance().expire()
        else:
            with pytest.raises(MissingError, match="one is up again, but the intent still asks for what was up before"):
                machine.appliance().expire()
    have = machine.kernel.observe()
    assert have == wanted(ONE, have)
    assert machine.appliance().expire() != room
    assert machine.is_(ONE)


def test_the_reverter_waits_between_its_tries(machine: Machine) -> None:
    machine.appliance().up(TWO, confirm_s=60)
    machine.clock.pass_s(61)
    slept: list[float] = []
    reported: list[str] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    with failing(errno.EROFS), pytest.raises(KeyboardInterrupt):
        wait_and_expire(IntentStore(machine.folder), machine.appliance, machine.clock, sleep, reported.append)
    assert slept == [1, 2, 4]
    assert "one is up again" in reported[0]


def test_a_repair_is_made_and_what_the_history_lacks_is_told(machine: Machine) -> None:
    drift(machine, "lhh-japan")
    with failing(errno.ENOSPC):
        outcome = machine.appliance().repair(restore=True)
    assert outcome.repaired
    assert ["the history lacks this repair: cannot write" in note for note in outcome.notes] == [True]
    assert machine.is_(ONE)


def test_a_confirmation_uses_the_room(machine: Machine) -> None:
    machine.appliance().up(TWO, confirm_s=60)
    with failing(errno.ENOSPC, room=True):
        machine.appliance().confirm()
    machine.clock.pass_s(61)
    assert not machine.appliance().expire()
    assert machine.is_(TWO)


def test_what_is_half_written_takes_no_room(machine: Machine) -> None:
    with failing(errno.ENOSPC), pytest.raises(MissingError):
        machine.appliance().up(TWO)
    assert list(machine.folder.rglob("*.partial")) == []
