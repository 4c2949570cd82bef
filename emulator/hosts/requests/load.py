"""Runs the request program between two hosts: a server at one, the client at the other, and their reports.

The program's text travels as an argument of python3, so that a host needs Python and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from emulator.errors import LateError, MeasureError
from emulator.hosts.host import Host
from emulator.hosts.tools import listening
from emulator.hosts.tools.carried_program import CarriedProgram
from emulator.hosts.tools.process import Completed, Running
from emulator.model.request_load import RequestLoad

PORT = 5301
SETUP_ROUND_TRIPS = 20
LEAST_PATIENCE_NS = 30 * 10**9
_LATE_S = 60.0
PROGRAM = CarriedProgram("request program", [f"{__package__}.{name}" for name in ("wire", "server", "client")])


class RequestTest(Struct, frozen=True):
    """One measurement: the load, its duration, the lane's RTT, and the congestion control (None: the host's)."""

    load: RequestLoad
    duration_s: int
    rtt_ns: int
    congestion_control: str | None = None

    @property
    def patience_ns(self) -> int:
        """How long connections may take to be set up: the kernel repeats a lost SYN after 1, 3, 7... s."""
        return LEAST_PATIENCE_NS + SETUP_ROUND_TRIPS * self.rtt_ns

    @property
    def drain_ns(self) -> int:
        """How long the client waits for answers after the last request was due: what an overload piles up may take as
        long again."""
        return self.duration_s * 10**9 + self.patience_ns

    @property
    def longest_s(self) -> float:
        """The time limit of the client."""
        return (self.patience_ns + self.drain_ns) / 1e9 + self.duration_s + _LATE_S

    def wish(self, address: str) -> dict[str, Any]:
        """The settings of both ends, in the program's words."""
        load = self.load
        return {
            "address": address,
            "port": PORT,
            "connections": load.connections,
            "in_flight": load.in_flight,
            "request": load.request_bytes,
            "answer": load.answer_bytes,
            "think_ns": load.think_ns,
            "rate": load.offered_per_s,
            "count": load.count,
            "duration_ns": self.duration_s * 10**9,
            "drain_ns": self.drain_ns,
            "patience_ns": self.patience_ns,
            "congestion_control": self.congestion_control,
        }


class RequestReports(Struct, frozen=True):
    """What the two ends printed, as JSON values."""

    client: Mapping[str, Any]
    server: Mapping[str, Any]


def run(test: RequestTest, client: Host, server: Host, address: str) -> RequestReports:
    """Measure between the hosts; the server has this address. Raises MissingError, MeasureError."""
    text, wish = PROGRAM.text, json.dumps(test.wish(address))
    with (
        PROGRAM.told_shortly(),
        listening.server(server, ["python3", "-c", text, "serve", wish], PORT) as serving,
        client.start(["python3", "-c", text, "ask", wish]) as asking,
    ):
        asked = PROGRAM.report(asking.wait(test.longest_s), client)
        return RequestReports(asked, PROGRAM.report(_ended(serving, asked, server), server))


def _ended(serving: Running, asked: Mapping[str, Any], server: Host) -> Completed:
    """The server's end, which follows the client's when the lane still carries packets. Raises MeasureError."""
    try:
        return serving.wait(_LATE_S)
    except LateError:
        raise MeasureError(
            f"{asked['unanswered']} requests were not answered, and the end of the connections did not reach "
            f"{server.name} within {_LATE_S:g} s: the lane carries nothing"
        ) from None
