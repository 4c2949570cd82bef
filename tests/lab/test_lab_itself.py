"""The lab's promises: exact virtual time, an untouched host, nothing there that was not asked for."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path


def output(*argv: str) -> str:
    return subprocess.run(argv, check=True, text=True, capture_output=True).stdout


def test_an_hour_passes_in_an_instant_and_to_the_millisecond() -> None:
    before = time.monotonic_ns()
    time.sleep(3600)
    assert 0 <= time.monotonic_ns() - before - 3600 * 10**9 < 1_000_000


def test_the_clock_starts_where_it_always_does() -> None:
    assert output("date", "-u", "+%Y-%m-%d").strip() == "2001-09-09"


def test_only_the_loopback_is_there() -> None:
    assert [path.name for path in Path("/sys/class/net").iterdir() if path.is_dir()] == ["lo"]


def test_the_host_is_hidden_but_for_the_current_folder() -> None:
    assert not Path("/usr/src").is_dir() or not list(Path("/usr/src").iterdir())
    assert (Path.cwd() / "pyproject.toml").exists()
    assert os.getuid() == 0


def test_our_source_cannot_be_written() -> None:
    try:
        Path("/opt/longhaul/src/emulator/probe").write_text("")
    except OSError as error:
        assert error.strerror == "Read-only file system"
    else:
        raise AssertionError("the source is writable")
