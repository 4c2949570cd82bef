"""When the flows of a group begin and end: the ends of the flow program over the loopback, by a clock that the test
moves, however late the machine is."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from support.free_ports import free_ports
from support.waiting import PATIENCE_S, until

from emulator.hosts.flows import load as flow_load
from emulator.hosts.flows.load import FlowTest
from emulator.hosts.flows.receiver import FlowReceiver
from emulator.hosts.flows.sender import FlowSender, FlowsOfGroup
from emulator.model.flow_group import MOST_GROUPS, Contest

MS = 10**6
KIB = 2**10


@pytest.fixture(autouse=True)
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """That of the control connections; each group has one of those after it."""
    with free_ports(MOST_GROUPS + 1) as first:
        monkeypatch.setattr(flow_load, "PORT", first)
        yield first


class Sending:
    """The sender of one measurement, in a thread.

    Its clock began with the machine's: by that one its timer has always expired, so that each turn reads the clock.
    """

    def __init__(self, text: str, duration_s: int) -> None:
        self.now_ns, self.wish = 1, FlowTest(Contest.parse(text), duration_s, 0).wish("127.0.0.1")
        self.sender = FlowSender(self.wish, lambda: self.now_ns)
        self.reports = dict[str, dict[str, Any]]()
        self.threads = list[threading.Thread]()
        self.runs("sent", self.sender.run)

    def runs(self, name: str, run: Callable[[], dict[str, Any]]) -> None:
        """Run this end, too, in a thread that a failed test leaves behind."""
        self.threads.append(threading.Thread(target=lambda: self.reports.update({name: run()}), daemon=True))

    def begin(self) -> list[FlowsOfGroup]:
        """Begin to send; the groups."""
        for thread in self.threads:
            thread.start()
        return self.sender._groups

    def at(self, ms: int) -> None:
        """It is this time of the measurement: wait until all is begun that was due."""
        self.now_ns = 1 + ms * MS
        assert until(lambda: self.sender._planned and all(ns > self.now_ns for ns, *_ in self.sender._due[:1]))

    def ended(self) -> list[dict[str, Any]]:
        """What it reports of each group."""
        for thread in self.threads:
            thread.join(PATIENCE_S)
        self.sender._epoll.close()
        os.close(self.sender._timer.fd)
        groups: list[dict[str, Any]] = self.reports["sent"]["groups"]
        return groups


class Both(Sending):
    """The sender, and the receiver in another thread, by the same clock."""

    def __init__(self, text: str, duration_s: int) -> None:
        super().__init__(text, duration_s)
        self.receiver = FlowReceiver(self.wish, lambda: self.now_ns)
        self.receiver.listen()
        self.runs("received", self.receiver.run)

    def ended(self) -> list[dict[str, Any]]:
        groups = super().ended()
        one = self.receiver
        for each in (one._ends, one._told, one._epoll, *(listener for _, listener in one._listening.values())):
            each.close()
        os.close(one._timer.fd)
        return groups

    def received(self, group: int) -> list[list[int]]:
        """The bytes of each interval, of each flow of a group."""
        flows: list[list[int]] = self.reports["received"]["groups"][group]["flows"]
        return flows


def test_a_group_sends_after_its_start_and_ends_before_the_others() -> None:
    both = Both("cubic:1,reno:1:start=600ms:stop=1500ms", 3)
    (other,), (flow,) = (group.flows for group in both.begin())
    both.at(0)
    assert until(lambda: other.connected)
    both.at(599)
    assert flow.idle
    both.at(600)
    assert until(lambda: any(one.total() for one in both.receiver._flows[1]))
    both.at(1499)
    assert flow.connected
    both.at(1500)
    assert until(lambda: flow.idle)
    assert other.connected
    both.at(3000)
    first, second = both.ended()
    assert [len(first["windows"]), len(second["windows"])] == [30, 30]
    assert None not in first["windows"]
    assert second["windows"][:5] == [None] * 5
    assert None not in second["windows"][6:14]
    assert second["windows"][15:] == [None] * 15
    (intervals,) = both.received(1)
    assert sum(intervals[:6]) == 0 < sum(intervals)
    assert [(group["lost"], group["unfinished"]) for group in (first, second)] == [([], 0)] * 2


@pytest.mark.parametrize("keep", ["", ":keep"])
def test_the_next_transfer_begins_when_the_think_time_after_the_last_one_is_over(keep: str) -> None:
    both = Both(f"cubic:2:bytes=30KiB:think=50ms{keep}", 1)
    (group,) = both.begin()
    for turn in range(20):
        both.at(turn * 50)
        assert until(lambda: group.times.count == 2 * (turn + 1))  # noqa: B023
        both.at(turn * 50 + 49)
        assert group.times.count == 2 * (turn + 1)
    both.at(1000)
    (sent,) = both.ended()
    assert (sent["times"]["count"], sent["times"]["most_ns"], sent["lost"], sent["unfinished"]) == (40, 0, [], 0)
    assert both.received(0) == [[4 * 30 * KIB] * 10]


def test_a_receiver_that_closes_too_early_is_a_lost_flow(port: int) -> None:
    """Somebody else listens at the ports: he begins, takes nothing and closes."""
    sending = Sending("cubic:2", 1)
    with ExitStack() as stack:
        control, flows = (
            stack.enter_context(socket.create_server(("127.0.0.1", port + number), reuse_port=False))
            for number in range(2)
        )
        (group,) = sending.begin()
        told = stack.enter_context(control.accept()[0])
        told.send(b"b")
        for _ in range(2):
            flows.accept()[0].close()
        assert until(lambda: len(group.lost) == 2)
        sending.at(1000)
        (sent,) = sending.ended()
    assert len(sent["lost"]) == 2
