"""Runs the flow program between two hosts: the receiver at one, the sender at the other, and their reports."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from msgspec import Struct

from emulator.hosts.host import Host
from emulator.hosts.tools import listening
from emulator.hosts.tools.carried_program import CarriedProgram
from emulator.model.flow_group import Contest, FlowGroup

PORT = 5401
"""Of the control connections; each group has one of those after it."""
SETUP_ROUND_TRIPS = 20
LEAST_PATIENCE_NS = 30 * 10**9
INTERVALS, LEAST_INTERVAL_NS, ROUND_INTERVAL_NS = 300, 10**8, 10**7
_LATE_S = 60.0
PROGRAM = CarriedProgram(
    "flow program", ["emulator.hosts.requests.wire", *(f"{__package__}.{name}" for name in ("receiver", "sender"))]
)


class FlowTest(Struct, frozen=True):
    """One measurement: the groups, its duration, and the longest RTT of a group."""

    contest: Contest
    duration_s: int
    rtt_ns: int

    @property
    def interval_ns(self) -> int:
        """The length of an interval: 300 of them, each 0.1 s or longer."""
        return max(LEAST_INTERVAL_NS, -(-self.duration_s * 10**9 // INTERVALS // ROUND_INTERVAL_NS) * ROUND_INTERVAL_NS)

    @property
    def intervals(self) -> int:
        """How many whole intervals the measurement has."""
        return self.duration_s * 10**9 // self.interval_ns

    @property
    def patience_ns(self) -> int:
        """How long connections may take to be set up: the kernel repeats a lost SYN after 1, 3, 7... s."""
        return LEAST_PATIENCE_NS + SETUP_ROUND_TRIPS * self.rtt_ns

    @property
    def give_up_ns(self) -> int:
        """How long after the begin the sender waits for the end of its flows, whose queue empties after their stop."""
        return self.duration_s * 10**9 + self.patience_ns

    @property
    def longest_s(self) -> float:
        """The time limit of both ends."""
        return (2 * self.patience_ns + self.give_up_ns) / 1e9 + _LATE_S

    def wish(self, address: str, senders: int = 1, only: Sequence[int] | None = None) -> dict[str, Any]:
        """The settings of one end, in the program's words; a sender has `only` the groups with these numbers."""
        every = range(len(self.contest.groups)) if only is None else only
        return {
            "address": address,
            "port": PORT,
            "senders": senders,
            "groups": [self._group(number, self.contest.groups[number]) for number in every],
            "interval_ns": self.interval_ns,
            "intervals": self.intervals,
            "patience_ns": self.patience_ns,
            "give_up_ns": self.give_up_ns,
            "longest_ns": self.give_up_ns + self.patience_ns,
            "files": sum(group.flows for group in self.contest.groups),
        }

    def _group(self, number: int, group: FlowGroup) -> dict[str, Any]:
        return {
            "port": PORT + 1 + number,
            "congestion_control": group.congestion_control,
            "flows": group.flows,
            "start_ns": group.start_ns,
            "stop_ns": min(math.inf if group.stop_ns is None else group.stop_ns, self.duration_s * 10**9),
            "bytes": group.bytes,
            "think_ns": group.think_ns,
            "keeps": group.keeps,
            "paced": group.paced,
        }


class FlowReports(Struct, frozen=True):
    """What the two ends printed, as JSON values."""

    sender: Mapping[str, Any]
    receiver: Mapping[str, Any]


def run(test: FlowTest, senders: Sequence[Host], receiver: Host, address: str) -> FlowReports:
    """Measure with a sender for each group; groups may share one. The receiver has this address.

    Raises MissingError, MeasureError.
    """
    text, numbers = PROGRAM.text, dict[str, list[int]]()
    for number, host in enumerate(senders):
        numbers.setdefault(host.name, []).append(number)
    hosts = {host.name: host for host in senders}
    wish = json.dumps(test.wish(address, len(hosts)))
    with (
        PROGRAM.told_shortly(),
        listening.server(receiver, ["python3", "-c", text, "receive", wish], PORT) as receiving,
        ExitStack() as stack,
    ):
        own = {name: json.dumps(test.wish(address, only=only)) for name, only in numbers.items()}
        sending = {
            name: stack.enter_context(host.start(["python3", "-c", text, "send", own[name]]))
            for name, host in hosts.items()
        }
        sent = {name: PROGRAM.report(one.wait(test.longest_s), hosts[name]) for name, one in sending.items()}
        return FlowReports(_joined(sent, numbers), PROGRAM.report(receiving.wait(_LATE_S), receiver))


def _joined(sent: Mapping[str, Mapping[str, Any]], numbers: Mapping[str, Sequence[int]]) -> Mapping[str, Any]:
    """The reports of all senders as one, with the groups in order; the CPU is that of the busiest."""
    groups = [
        (number, group)
        for name, report in sent.items()
        for number, group in zip(numbers[name], report["groups"], strict=True)
    ]
    busiest = max(sent.values(), key=lambda report: float(report["cpu_s"]))
    return {**busiest, "groups": [group for _, group in sorted(groups, key=lambda pair: pair[0])]}
