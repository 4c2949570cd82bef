"""Round trips and losses of an endless ping, whatever the order of its replies."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from emulator.control import rtt_monitor
from emulator.control.rtt_monitor import PingEcho, Rtts
from emulator.hosts.tools.ping import SEQUENCES

MS = 10**6


class FakePing:
    """Prints what a test says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def start(self, _: list[str]) -> FakePing:
        """It is its own program."""
        return self

    def lines_so_far(self) -> list[str]:
        """What it printed since the last call."""
        lines, self.lines = self.lines, []
        return lines


@pytest.fixture
def ping(monkeypatch: pytest.MonkeyPatch) -> FakePing:
    made = FakePing()
    monkeypatch.setattr(rtt_monitor, "NamespaceHost", lambda _: made)
    return made


def taken(ping: FakePing, echo: PingEcho, numbers: Iterable[int], ms: int = 32) -> Rtts:
    """What is taken after these replies, each of this round trip."""
    ping.lines = ["PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data."]
    ping.lines += [f"64 bytes from 10.0.0.2: icmp_seq={n % SEQUENCES} ttl=64 time={ms} ms" for n in numbers]
    return echo.take()


def test_replies_that_only_change_their_order_are_not_lost(ping: FakePing) -> None:
    """As on a lane with `reorder`: every sixth reply overtakes the three before it."""
    echo, seconds = PingEcho("hub", "10.0.0.2"), []
    for first in range(1, 601, 12):
        numbers = [4, 1, 2, 3, 5, 6, 10, 7, 8, 9, 11, 12]
        seconds.append(taken(ping, echo, [first - 1 + number for number in numbers]))
    assert sum(len(one.sorted_ns) for one in seconds) == 600
    assert sum(one.lost for one in seconds) == 0


def test_what_is_still_missing_after_three_seconds_and_a_round_trip_is_lost_once(ping: FakePing) -> None:
    echo = PingEcho("hub", "10.0.0.2")
    assert taken(ping, echo, [7, 8, 11, 13]) == Rtts((32 * MS,) * 4, 0), "echoes before the first reply do not count"
    assert taken(ping, echo, [10, *range(14, 39)]).lost == 0
    assert taken(ping, echo, [39]).lost == 1, "9 is 30 numbers behind"
    assert taken(ping, echo, [9, 40, 41]).lost == 0, "10 came; 9 comes too late to be told otherwise"
    assert taken(ping, echo, range(42, 60)).lost == 1, "12"
    assert taken(ping, echo, []).lost == 0


def test_a_long_lane_has_as_much_longer_to_answer(ping: FakePing) -> None:
    echo = PingEcho("hub", "10.0.0.2")
    assert [taken(ping, echo, numbers, ms=4000).lost for numbers in ([1, 71], [72], [73])] == [0, 1, 1]


def test_the_numbers_begin_anew_after_the_highest(ping: FakePing) -> None:
    """Of an endless ping after nearly two hours."""
    echo = PingEcho("hub", "10.0.0.2")
    assert taken(ping, echo, [65533, 65535, 65537, 65536, 65534]).lost == 0
    assert taken(ping, echo, [65540]).lost == 0
    assert taken(ping, echo, range(65541, 65600)).lost == 2


def test_all_echoes_of_a_long_silence_are_lost(ping: FakePing) -> None:
    echo = PingEcho("hub", "10.0.0.2")
    assert taken(ping, echo, [1, 2, 40_003]).lost == 39_971
    assert taken(ping, echo, [40_033]).lost == 29
