"""The kernel's counters, on a capture from the lab."""

from __future__ import annotations

import pytest
from support.folders import CAPTURES

from emulator.errors import MeasureError
from emulator.hosts.tools import nstat

NETSTAT = (CAPTURES / "netstat.txt").read_text()


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


PROTOCOLS = """\
protocol  size sockets  memory press maxhdr  slab module     cl co di ac
UDP       1280      3       5   NI       0   yes  kernel      y  y  y  n
TCP       2240      6     774   yes    320   yes  kernel      y  y  y  y
"""


@pytest.mark.parametrize(
    ("protocols", "tcp_mem", "short"),
    [
        (PROTOCOLS, "64 128 4096", True),
        (PROTOCOLS, "774 1000 4096", False),
        (PROTOCOLS.replace("yes    320", "no     320"), "64 128 4096", False),
    ],
    ids=["pressed", "a-flag-left-over", "not-pressed"],
)
def test_tcp_is_short_of_memory_while_it_holds_more_than_it_should(protocols: str, tcp_mem: str, short: bool) -> None:
    assert nstat.short_of_memory(protocols, tcp_mem) is short


def test_a_kernel_that_does_not_tell_of_tcps_memory_is_an_error() -> None:
    with pytest.raises(MeasureError, match=r"^/proc/net/protocols cannot be read: 'x y', tcp_mem '1 2 3'$"):
        nstat.short_of_memory("x y", "1 2 3")
