"""The intent is spoilt while something waits to be reverted: what to go back to is not lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support import spoilt_files
from support.clocked_appliance import ONE, TWO, Machine
from support.fake_daemon import Stage
from support.spoilt_files import Spoil

from emulator.cli import main
from emulator.control.intent_store import IntentStore
from emulator.control.reverter import wait_and_expire
from emulator.errors import InputError

SPOILS = (spoilt_files.cut(0.5), spoilt_files.folder, spoilt_files.loop, spoilt_files.bytes_of(b""))
REVERTERS: dict[str, Callable[[Machine], object]] = {
    "expire": lambda machine: machine.appliance().expire(),
    "daemon": lambda machine: machine.appliance().repair(),
    "up": lambda machine: machine.appliance().up(ONE),
    "reverter": lambda machine: wait_and_expire(
        IntentStore(machine.folder), machine.appliance, machine.clock, machine.clock.pass_s, pytest.fail
    ),
}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.appliance().up(ONE)
    machine.appliance().up(TWO, confirm_s=60)
    return machine


@pytest.mark.parametrize("spoil", SPOILS)
@pytest.mark.parametrize("name", REVERTERS)
def test_it_is_reverted_in_time(machine: Machine, spoil: Spoil, name: str) -> None:
    spoil(machine.folder / "intent.json")
    if name != "reverter":
        assert machine.appliance().pending_ns() == 60 * 10**9
        machine.clock.pass_s(59)
        assert not machine.appliance().expire()
        machine.clock.pass_s(1)
    REVERTERS[name](machine)
    assert machine.is_(ONE)
    assert machine.appliance().status().pending is None
    assert os.path.lexists(machine.folder / "intent.json.spoilt")
    machine.appliance().undo()
    assert machine.is_(TWO)


def test_a_change_made_meanwhile_still_waits_and_goes_back_to_the_same(machine: Machine) -> None:
    spoilt_files.cut(0.5)(machine.folder / "intent.json")
    one = machine.appliance()
    one.up(TWO)
    assert ["Its copy takes its place, which says what to revert" in note for note in one.take_notes()] == [True]
    assert one.pending_ns() == 60 * 10**9
    machine.clock.pass_s(60)
    assert one.expire()
    assert machine.is_(ONE)


def test_what_is_confirmed_or_reverted_leaves_no_copy(machine: Machine) -> None:
    assert (machine.folder / "waiting.json").exists()
    machine.appliance().confirm()
    assert not (machine.folder / "waiting.json").exists()
    spoilt_files.cut(0.5)(machine.folder / "intent.json")
    machine.clock.pass_s(100)
    with pytest.raises(InputError):
        machine.appliance().expire()
    machine.appliance().down()
    machine.appliance().undo()
    assert machine.is_(TWO)


def test_both_spoilt_is_as_if_nothing_waited(machine: Machine) -> None:
    for name in ("intent.json", "waiting.json"):
        spoilt_files.cut(0.5)(machine.folder / name)
    with pytest.raises(InputError):
        machine.appliance().pending_ns()
    machine.appliance().down()
    assert machine.is_(None)
    machine.appliance().undo()
    assert machine.is_(TWO)


def test_leased_lanes_are_returned(machine: Machine) -> None:
    machine.appliance().confirm()
    with machine.appliance().lease(ONE):
        spoilt_files.cut(0.5)(machine.folder / "intent.json")
    assert machine.is_(TWO)


COMMANDS = (["status"], ["set", "japan", "--rtt", "50ms"], ["confirm"], ["undo"])


@pytest.mark.parametrize("argv", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("waits", [True, False])
def test_commands_end_with_2_and_a_cure(
    machine: Machine, argv: list[str], waits: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if not waits:
        machine.appliance().confirm()
    (machine.folder / "intent.json").write_text("{")
    have = machine.kernel.observe()
    assert main.main(argv, obj=machine.appliance()) == 2
    said = capsys.readouterr().err
    assert "intent.json: cannot be read: " in said
    assert "; run longhaul down: it sets the file aside and returns the ports" in said
    assert ("still reverts the unconfirmed change" in said) == waits
    assert machine.kernel.observe() == have


def test_the_daemon_outlives_it_and_reverts_at_the_deadline(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.appliance().up(ONE)
    stage.appliance().up(TWO, confirm_s=25)
    waits = stage.played(lambda: spoilt(stage), *[stage.nothing] * 5)
    assert waits == [10, 10, 5, 10, 10, 10]
    assert stage.appliance().topology() == ONE
    assert stage.events == ["watching", "failed", "reverted", "state-folder", "as-asked"]


def test_the_daemon_outlives_a_spoilt_intent_without_a_copy(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.appliance().up(ONE)
    stage.played(lambda: spoilt(stage), stage.nothing, lambda: bool(stage.appliance().down()), stage.nothing)
    assert stage.events == ["watching", "failed", "as-asked"]
    assert stage.as_asked()


def spoilt(stage: Stage) -> bool:
    """Somebody spoils the intent, which is no news that a daemon would hear of."""
    spoilt_files.cut(0.5)(stage.folder / "intent.json")
    return False
