"""Round-trip and one-way delays with irtt: argv and parser. Both ends share one clock here: one-way delays are
exact."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from emulator.analysis.latency_histogram import Probe
from emulator.errors import MeasureError

PORT = 2112
SHORTEST_INTERVAL_S = 0.01
OPENING_MS, LAST_ANSWER_MS = 1000, 4000
"""How long its client waits by default before it repeats a connection request, and for answers after silence."""


def server_argv() -> list[str]:
    """The arguments of a server for any number of clients; it runs until it is stopped."""
    return ["irtt", "server", "-i", "1ms", "-b", f":{PORT}"]


def client_argv(address: str, duration_s: float, interval_s: float, rtt_ns: int = 0, patience: float = 1) -> list[str]:
    """The arguments of a client: probes at a fixed interval, JSON output, the wall clock that both ends share.

    Over a long path the client must wait longer for the server, and on a busy machine `patience` times as long: a
    repeated request opens a second connection, and then no answer arrives.
    """
    grid = ["-i", f"{round(interval_s * 1000)}ms", "-d", f"{round(duration_s * 1000)}ms"]
    opening_ms = max(3 * rtt_ns // 1_000_000, round(OPENING_MS * patience))
    if opening_ms > OPENING_MS:
        openings = ",".join(f"{times * opening_ms}ms" for times in (1, 2, 4))
        grid += [f"--timeouts={openings}", f"--wait=3x{max(opening_ms, LAST_ANSWER_MS)}ms"]
    return ["irtt", "client", "-Q", *grid, "-o", "-", "--clock=wall", "--tstamp=both", f"{address}:{PORT}"]


def longest_s(duration_s: float, rtt_ns: int) -> float:
    """The time limit of a client: its duration, the handshake, and its wait for the last answers."""
    return duration_s + 20 * rtt_ns / 1e9 + 60


class IrttProbe(Struct, frozen=True):
    """One probe: its send time, "false" or where it was lost ("true_up", "true_down", "true" if unknown), and its
    delays in ns if it was answered."""

    sent_ns: int
    lost: str
    rtt_ns: int | None = None
    there_ns: int | None = None
    back_ns: int | None = None


def parse(text: str) -> list[Probe]:
    """Every probe's delays in the order of sending. Raises MeasureError."""
    return [Probe(trip.sent_ns, trip.rtt_ns, trip.there_ns, trip.back_ns) for trip in parse_trips(text)]


def parse_trips(text: str) -> list[IrttProbe]:
    """Every probe, and where it was lost, in the order of sending. Raises MeasureError."""
    try:
        return [_trip(trip) for trip in json.loads(text)["round_trips"]]
    except (ValueError, KeyError, TypeError) as error:
        raise MeasureError(f"cannot parse the output of irtt: {error}") from None


def _trip(trip: dict[str, Any]) -> IrttProbe:
    sent_ns, lost = trip["timestamps"]["client"]["send"]["wall"], trip["lost"]
    if lost != "false":
        return IrttProbe(sent_ns, lost)
    delay = trip["delay"]
    return IrttProbe(sent_ns, lost, delay["rtt"], delay.get("send"), delay.get("receive"))
