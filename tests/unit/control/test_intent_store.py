"""The intent on disk: whatever fails while it is written, the old one or the new one is there afterwards."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.config import loader
from emulator.control.intent_store import Intent, IntentStore, Pending, write_json
from emulator.errors import InputError, MissingError
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Topology
from emulator.system import bounded_file
from emulator.system.struct_json import to_plain

OLD = Intent(Topology("old", "hub", (Lane("japan", Impairment(7)),)), 3)
NEW = Intent(Topology("new", "hub", (Lane("japan", Impairment(9)),)), 4, Pending(10**12, "life-1", OLD.topology))
CALLS = ("open", "write", "fsync", "replace", "close")


class PowerCut(BaseException):
    """No code runs after it."""


class Disk:
    """Counts the calls that reach the disk, and cuts the power before or after the one that is chosen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int = -1, after: bool = False) -> None:
        self.calls: list[str] = []
        self._at, self._after = at, after
        for name in CALLS:
            monkeypatch.setattr(f"emulator.control.intent_store.os.{name}", self._watched(name, getattr(os, name)))

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            number = len(self.calls)
            if number > self._at >= 0:  # what Python does on the way out, a dead machine does not do
                return real(*args, **options) if name == "close" else 0
            self.calls.append(name)
            if number == self._at and not self._after:
                raise PowerCut
            answer = real(*args, **options)
            if number == self._at:
                raise PowerCut
            return answer

        return call


def calls_of_a_write(tmp_path: Path) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(patch)
        IntentStore(tmp_path).write(NEW)
    return disk.calls


def test_what_is_written_comes_back_and_is_for_root_only(tmp_path: Path) -> None:
    store = IntentStore(tmp_path)
    assert store.read() == Intent()
    store.write(NEW)
    assert IntentStore(tmp_path).read() == store.read() == NEW
    assert {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()} == dict.fromkeys(
        ("intent.json", "waiting.json"), 0o600
    )
    store.write(OLD)
    assert [p.name for p in tmp_path.iterdir()] == ["intent.json"]


def test_a_file_is_parsed_again_only_when_its_content_differs(tmp_path: Path) -> None:
    store, file = IntentStore(tmp_path), tmp_path / "intent.json"
    store.write(OLD)
    assert store.read() is OLD, "what this process wrote itself is not parsed at all"
    first, times = IntentStore(tmp_path).read(), file.stat()
    store = IntentStore(tmp_path)
    assert store.read() is first
    with file.open("r+b") as opened:  # neither its inode nor its times tell
        opened.write(file.read_bytes().replace(b'"old"', b'"new"'))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert store.read().topology != first.topology


def test_the_holder_of_the_lock_reads_the_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (store := IntentStore(tmp_path)).write(Intent(change=1))
    looks: list[Path] = []
    look = bounded_file.read_bytes
    monkeypatch.setattr(bounded_file, "read_bytes", lambda file, kind: (looks.append(file), look(file, kind))[1])
    with store.locked():
        assert [store.read().change, store.read().change] == [1, 1]
        assert len(looks) == 1
        store.write(Intent(change=2))
        assert [store.read().change, store.read().change] == [2, 2]
    IntentStore(tmp_path).write(Intent(change=3))
    assert store.read().change == 3
    with store.locked():
        assert store.read().change == 3, "nothing of the last time is left"


def test_whoever_does_not_hold_the_lock_reads_the_file(tmp_path: Path) -> None:
    """As the page does while another thread changes something."""
    (store := IntentStore(tmp_path)).write(Intent(change=1))
    with store.locked(), ThreadPoolExecutor(1) as pool:
        assert store.read().change == 1
        store.write(Intent(change=2))
        assert pool.submit(store.read).result().change == 2


def test_a_failed_write_leaves_nothing_in_mind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (store := IntentStore(tmp_path)).write(Intent(change=1))

    def cut(name: object, to: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with store.locked():
        assert store.read().change == 1
        with monkeypatch.context() as broken:
            broken.setattr(os, "replace", cut)
            with pytest.raises(MissingError):
                store.write(Intent(change=2))
        assert store.read().change == 1


def test_it_is_on_the_disk_before_it_has_its_name_and_then_the_folder_is(tmp_path: Path) -> None:
    of_a_file = ["open", "write", "fsync", "close", "replace", "open", "fsync", "close"]
    assert calls_of_a_write(tmp_path) == of_a_file * 2  # the copy, then the intent


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_power_cut_at_any_call_leaves_the_old_or_the_new(tmp_path: Path, after: bool) -> None:
    calls = calls_of_a_write(tmp_path)
    found = []
    for at in range(len(calls)):
        IntentStore(tmp_path).write(OLD)
        with pytest.MonkeyPatch.context() as patch:
            Disk(patch, at, after)
            with pytest.raises(PowerCut):
                IntentStore(tmp_path).write(NEW)
        found.append(IntentStore(tmp_path).read())
    renamed = max(at for at, call in enumerate(calls) if call == "replace") + (0 if after else 1)
    assert found == [OLD] * renamed + [NEW] * (len(calls) - renamed)


def test_half_a_draft_of_another_life_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "intent.partial").write_text('{"format": 2, "topo')
    store = IntentStore(tmp_path)
    assert store.read() == Intent()
    store.write(OLD)
    assert IntentStore(tmp_path).read() == OLD


def test_a_short_write_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr("emulator.control.intent_store.os.write", lambda fd, data: real(fd, data[:100]))
    IntentStore(tmp_path).write(NEW)
    assert IntentStore(tmp_path).read() == NEW


def desire_json(folder: Path, intent: Intent) -> Path:
    """The intent as the release before wrote it."""
    plain = to_plain(intent)
    if plain["pending"]:
        plain["pending"]["borrowed"] = plain["pending"].pop("leased")
    write_json(folder / "desire.json", 4, plain)
    return folder / "desire.json"


@pytest.mark.parametrize("leased", [False, True])
def test_the_intent_of_the_release_before_is_read_until_a_new_one_is_written(tmp_path: Path, leased: bool) -> None:
    assert NEW.pending
    was = replace(NEW, pending=replace(NEW.pending, leased=leased))
    old, store = desire_json(tmp_path, was), IntentStore(tmp_path)
    assert store.read() == was
    assert store.is_known()
    stamp = store.stamp()
    store.write(OLD)
    assert (store.read(), old.exists()) == (OLD, False)
    assert store.stamp() != stamp != (0, 0)


def test_a_test_run_of_the_release_before_keeps_its_lease(tmp_path: Path) -> None:
    store = IntentStore(tmp_path)
    assert store.leaseholder() is None
    with (tmp_path / "borrower").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(f"{os.getpid():<10}\n")
        held.flush()
        assert store.leaseholder() == os.getpid()
    assert store.leaseholder() is None


def test_the_old_file_without_a_version_is_read_until_a_new_one_is_written(tmp_path: Path) -> None:
    assert OLD.topology
    (tmp_path / "topology.yaml").write_text(loader.dumps(OLD.topology))
    store = IntentStore(tmp_path)
    assert store.read() == Intent(OLD.topology)
    store.write(Intent())
    assert store.read() == Intent()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cannot be read: Expecting value"),
        ("[]", "cannot be read: it has no format"),
        ("{}", "cannot be read: it has no format"),
        ('{"format": 99}', "it is of format 99, this version reads up to 5"),
        ('{"format": 2, "topology": {}}', "Missing"),
        ('{"format": 2, "strange": 1}', "Intent has no strange"),
    ],
)
def test_a_file_that_makes_no_sense_says_what_to_do(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "intent.json").write_text(text)
    with pytest.raises(InputError) as error:
        IntentStore(tmp_path).read()
    assert why in str(error.value)
    assert "run longhaul down: it sets the file aside and returns the ports" in str(error.value)


def test_no_right_to_write_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingError, match=r"cannot write .*/file/state/intent\.json: Not a directory"):
        IntentStore(tmp_path / "file" / "state").write(OLD)


def test_the_file_is_json_with_a_version(tmp_path: Path) -> None:
    IntentStore(tmp_path).write(OLD)
    plain = json.loads((tmp_path / "intent.json").read_text())
    assert (plain["format"], plain["change"], plain["topology"]["name"]) == (5, 3, "old")
