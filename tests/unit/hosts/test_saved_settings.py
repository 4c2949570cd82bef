"""What is restored after a kill is what was saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.hosts import saved_settings
from emulator.hosts.saved_settings import Before


def test_a_file_that_cannot_be_restored_stays_and_its_reason_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_settings, "FOLDER", tmp_path)
    (tmp_path / "site.json").write_text('{"namespace": "site", "cookie": "7", "sysctls": [], "commands": []}')
    assert "'7' is not a int" in saved_settings.recover()[0]
    assert (tmp_path / "site.json").exists()


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
