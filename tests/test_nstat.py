"""The kernel's counters, on a capture from the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import MeasureError
from emulator.measure import nstat

NETSTAT = (Path(__file__).parent / "captures/netstat.txt").read_text()


def test_counters_are_called_by_group_and_name() -> None:
    counters = nstat.parse(NETSTAT)
    assert counters["TcpRetransSegs"] == 5502
    assert counters["TcpExtTCPMemoryPressures"] == 0
    assert counters["TcpMaxConn"] == -1
    assert nstat.WATCHED.keys() <= counters.keys()


def test_nonsense_is_an_error() -> None:
    with pytest.raises(MeasureError, match="the kernel's counters cannot be read: 'Tcp: A B' and 'Tcp: 1'"):
        nstat.parse("Tcp: A B\nTcp: 1\n")


def test_increase_is_what_was_counted_in_between() -> None:
    assert nstat.increase({"a": 3}, {"a": 5, "b": 1}) == {"a": 2, "b": 1}
