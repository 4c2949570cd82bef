"""What a lab reports to its launcher, on this machine's own files."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from emulator.lab.boundary import Exchange
from emulator.lab.reports import CHUNK_BYTES, Reports
from emulator.lab.runtime import runtime_folder


@pytest.fixture
def exchange() -> Iterator[Exchange]:
    """The folders of a boot, where labs have theirs."""
    with runtime_folder() as folder:
        made = Exchange(folder)
        made.make()
        yield made


def test_what_was_passed_on_takes_no_memory_any_more(exchange: Exchange) -> None:
    file, lines = exchange.guest / "stdout", b"".join(b"%07d\n" % number for number in range(CHUNK_BYTES // 2))
    with Reports(exchange) as reports:
        said = b""
        for part in (lines[:1000], lines[1000:-1], lines[-1:]):
            with file.open("ab") as out:
                out.write(part)
            said += b"".join(reports.news("stdout"))
        assert said == lines
        assert list(reports.news("stdout")) == []
    assert (file.stat().st_size, file.stat().st_blocks * 512 <= 2 * os.sysconf("SC_PAGESIZE")) == (len(lines), True)
