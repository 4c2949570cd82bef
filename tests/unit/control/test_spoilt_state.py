"""A state folder in which somebody else wrote: no command ends in a traceback, and `down` returns the ports."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import spoilt_files
from support.clocked_appliance import ONE, TWO, Machine, drift
from support.spoilt_files import Spoil, spoils

from emulator.control.appliance import Appliance
from emulator.control.schedule_player import noted
from emulator.errors import InputError, LonghaulError
from emulator.plan.qdisc_ops import SetNetem
from emulator.plan.state import State

FILES = (
    "intent.json", "waiting.json", "desire.json", "topology.yaml", "schedule.json", "lock", "leaseholder",
    "player",
    "borrower", "room", "intent.partial", "changes",
    "changes/000001.json", "changes/000002.json", "changes/000003.json",
)  # fmt: skip
COMMANDS: dict[str, Callable[[Appliance], object]] = {
    "status": Appliance.status,
    "history": Appliance.history,
    "undo": Appliance.undo,
    "plan": lambda one: one.plan(TWO),
    "up": lambda one: one.up(TWO, confirm_s=60),
    "set": lambda one: one.set_lanes([ONE.lanes[0]]),
    "confirm": Appliance.confirm,
    "expire": Appliance.expire,
    "pending": Appliance.pending_ns,
    "repair": lambda one: one.repair(restore=True),
    "lateness": lambda one: noted(one.state_dir, 0),
    "is played": Appliance.is_played,
}


def machine_with_history(folder: Path) -> Machine:
    machine = Machine(folder)
    machine.appliance().up(TWO)
    machine.appliance().up(ONE)
    machine.appliance().set_lanes([ONE.lanes[0].with_rtt(3_000_000)])
    (folder / "leaseholder").write_text("17        \n")
    (folder / "player").touch()
    return machine


@given(st.sampled_from(FILES), spoils, st.sampled_from(sorted(COMMANDS)))
@example("intent.json", spoilt_files.folder, "up")
@example("intent.json", spoilt_files.loop, "status")
@example("desire.json", spoilt_files.bytes_of(b"[" * 200_000), "repair")
@example("changes", spoilt_files.pipe, "up")
@example("lock", spoilt_files.loop, "set")
@example("leaseholder", spoilt_files.bytes_of(b"no number\n"), "up")
@example("player", spoilt_files.pipe, "is played")
def test_no_file_of_the_state_folder_prevents_down(file: str, spoil: Spoil, command: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        machine = machine_with_history(folder)
        if file in ("desire.json", "topology.yaml"):
            (folder / "intent.json").unlink()
        spoil(folder / file)
        try:
            COMMANDS[command](machine.appliance())
        except LonghaulError as error:
            assert str(error)
        machine.clock.pass_s(120)
        machine.appliance().down()
        assert machine.kernel.observe() == State()
        machine.appliance().up(ONE)
        assert machine.is_(ONE)


@pytest.mark.parametrize("spoil", [spoilt_files.cut(0.5), spoilt_files.folder, spoilt_files.loop, spoilt_files.pipe])
def test_down_sets_the_intent_aside_and_undo_brings_the_last_topology_back(tmp_path: Path, spoil: Spoil) -> None:
    machine = machine_with_history(tmp_path)
    last = machine.appliance().topology()
    assert last
    spoil(tmp_path / "intent.json")
    with pytest.raises(InputError, match=r"intent\.json: cannot be read: .*; run longhaul down"):
        machine.appliance().status()
    one = machine.appliance()
    one.down()
    aside = tmp_path / "intent.json.spoilt"
    assert [f"it is now {aside}. The last topology" in note for note in one.take_notes()] == [True]
    assert os.path.lexists(aside)
    assert machine.is_(None)
    machine.appliance().undo()
    assert machine.is_(last)


def test_a_second_spoilt_file_has_a_name_of_its_own(tmp_path: Path) -> None:
    machine = machine_with_history(tmp_path)
    for _ in range(2):
        (tmp_path / "intent.json").write_text("{")
        machine.appliance().up(ONE)
    assert {path.name for path in tmp_path.glob("*.spoilt*")} == {"intent.json.spoilt", "intent.json.spoilt-2"}


def test_a_file_of_a_newer_version_is_set_aside_too(tmp_path: Path) -> None:
    machine = machine_with_history(tmp_path)
    (tmp_path / "intent.json").write_text('{"format": 99}')
    one = machine.appliance()
    one.down()
    told = "intent.json cannot be read: it is of format 99, this version reads up to 5; it is now"
    offer = "The last topology in the history is one (change 3): longhaul undo brings it up"
    assert [told in note and note.endswith(offer) for note in one.take_notes()] == [True]


def test_history_and_undo_skip_a_spoilt_change_and_say_so(tmp_path: Path) -> None:
    machine = machine_with_history(tmp_path)
    (tmp_path / "changes/000003.json").write_text("}{")
    one = machine.appliance()
    assert [change.number for change in one.history()] == [2, 1]
    assert ["000003.json is skipped: Expecting value" in note for note in one.take_notes()] == [True]
    one.undo()
    assert machine.is_(TWO)


def test_the_daemon_reports_what_it_could_not_read(tmp_path: Path) -> None:
    machine = machine_with_history(tmp_path)
    (tmp_path / "changes/000003.json").write_text("")
    drift(machine, "lhh-japan")
    outcome = machine.appliance().repair(restore=True)
    assert [step.op.port for step in outcome.repaired if isinstance(step.op, SetNetem)] == ["lhh-japan"]
    assert ["000003.json is skipped: Expecting value" in note for note in outcome.notes] == [True]


def test_what_cannot_be_restored_on_a_host_is_told(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    one = Appliance(machine.kernel, tmp_path, clock=machine.clock, recover=lambda: ["lh-a.json cannot be read"])
    one.up(ONE)
    assert one.take_notes() == ["lh-a.json cannot be read"]
    assert one.repair(restore=True).notes == ["lh-a.json cannot be read"]
