"""What is restored after a kill is what was saved."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import example, given
from support import spoilt_files
from support.spoilt_files import Spoil, spoils
from support.waiting import PATIENCE_S

from emulator.hosts import saved_settings
from emulator.hosts.saved_settings import Before


def test_a_file_that_cannot_be_restored_stays_and_its_reason_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_settings, "FOLDER", tmp_path)
    monkeypatch.setattr(saved_settings, "_PROC_SYS", tmp_path / "no-proc")
    saved_settings.write(tmp_path / "site.json", Before("site", 7, ((saved_settings.TCP_MEM, "1 2 3"),), ()))
    assert "net.ipv4.tcp_mem cannot be set" in saved_settings.recover()[0]
    assert (tmp_path / "site.json").exists()


@given(spoils)
@example(spoilt_files.bytes_of(b'{"namespace": "site", "cookie": "7", "sysctls": [], "commands": []}'))
@example(spoilt_files.bytes_of(b'{"namespace": "site", "cookie": 0, "sysctls": [], "commands": [[]]}'))
def test_a_spoilt_file_is_set_aside_and_holds_the_next_measurement_up_once(spoil: Spoil) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        patch.setattr(saved_settings, "FOLDER", folder)
        saved_settings.write(folder / "site.json", Before("no-such-host", 7, (), ()))
        spoil(folder / "site.json")
        reasons = saved_settings.recover()
        assert [r for r in reasons if "site.json cannot be read" not in r or "it is now" not in r] == []
        assert saved_settings.recover() == []


def test_what_was_saved_is_what_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    restored: list[Before] = []
    monkeypatch.setattr(saved_settings, "FOLDER", tmp_path)

    def note(before: Before) -> None:
        restored.append(before)

    monkeypatch.setattr(Before, "put_back", note)
    before = Before("site", 7, (("net.ipv4.tcp_rmem", "4096 131072 6291456"),), (("ip", "route", "replace", "x"),))
    saved_settings.write(tmp_path / "site.json", before)
    assert saved_settings.recover() == []
    assert restored == [before]
    assert not (tmp_path / "site.json").exists()


def test_a_measurement_that_begins_during_a_check_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Path] = []
    monkeypatch.setattr(saved_settings, "FOLDER", tmp_path)

    def measure() -> None:
        with saved_settings.at_work("site") as file:
            begun.append(file)

    measurement = threading.Thread(target=measure)

    def begin(_: Before) -> None:
        measurement.start()
        measurement.join(0.2)  # time to do it wrong: to do it right it must wait for the check

    monkeypatch.setattr(Before, "put_back", begin)
    saved_settings.write(tmp_path / "site.json", Before("site", 7, (), ()))
    assert saved_settings.recover() == []
    measurement.join(PATIENCE_S)
    assert begun == [tmp_path / "site.json"]
