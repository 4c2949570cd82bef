"""A state folder on a disk that is really full: a tmpfs of 256 KiB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from support import oracle

from emulator.cli.main import main
from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.kernel.netlink import NetlinkKernel

FILE = "{name: small, hub: hub, lanes: {a: {rtt: 4ms}}}"


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    oracle.sh(f"mount -t tmpfs -o size=256k disk {tmp_path}")
    (tmp_path / "state").mkdir()
    monkeypatch.setenv("LONGHAUL_STATE", str(tmp_path / "state"))
    yield tmp_path
    oracle.sh(f"umount -l {tmp_path}")


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "filler").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def longhaul(*words: str) -> int:
    return main(words)


def test_up_is_refused_and_nothing_is_made(disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (disk / "small.yaml").write_text(FILE)
    before = oracle.snapshot()
    fill(disk)
    assert longhaul("up", str(disk / "small.yaml")) == 4
    assert "No space left on device; make room there, then try again" in capsys.readouterr().err
    assert oracle.difference(before, oracle.snapshot()) == []


def test_set_is_refused_and_down_gives_everything_back(disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (disk / "small.yaml").write_text(FILE)
    before = oracle.snapshot()
    assert longhaul("up", str(disk / "small.yaml")) == 0
    fill(disk)
    assert longhaul("status") == 0
    capsys.readouterr()
    assert longhaul("set", "a", "--rtt", "6ms") == 4
    assert "No space left on device" in capsys.readouterr().err
    assert longhaul("down") == 0
    assert oracle.difference(before, oracle.snapshot()) == []
    assert longhaul("status") == 0
    assert "nothing is up" in capsys.readouterr().out


def test_a_file_of_the_users_that_cannot_be_written_is_one_line(disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(disk)
    assert longhaul("docs", "--man", str(disk)) == 4
    told = f"cannot write {disk}/longhaul.1: No space left on device; make room there, then try again\n"
    assert capsys.readouterr().err == told


def test_a_disk_that_became_read_only(disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (disk / "small.yaml").write_text(FILE)
    before = oracle.snapshot()
    assert longhaul("up", str(disk / "small.yaml")) == 0
    oracle.sh(f"mount -o remount,ro {disk}")
    assert longhaul("status") == 0
    capsys.readouterr()
    assert longhaul("set", "a", "--rtt", "6ms") == 4
    assert "Read-only file system; mount the file system for writing" in capsys.readouterr().err
    assert longhaul("down") == 4
    assert "the lanes are removed and the ports returned, but the intent still asks" in capsys.readouterr().err
    assert oracle.difference(before, oracle.snapshot()) == []
    oracle.sh(f"mount -o remount,rw {disk}")
    assert longhaul("down") == 0


def test_a_change_that_nobody_confirms_goes_back(disk: Path) -> None:
    before = oracle.snapshot()
    with closing(Appliance(NetlinkKernel(), disk / "state", guard=lambda _: None)) as one:
        one.up(loader.loads(FILE), confirm_s=0.0)
        fill(disk)
        assert one.expire()
    assert oracle.difference(before, oracle.snapshot()) == []
