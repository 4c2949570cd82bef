"""Round-trip and one-way delays by irtt: argv and parser. Both ends are on one clock here, so each way is known."""

from __future__ import annotations

import json

from emulator.errors import MeasureError
from emulator.latency import Probe

PORT = 2112
SHORTEST_INTERVAL_S = 0.01


def server_argv() -> list[str]:
    """A server for any number of clients; it runs until it is ended."""
    return ["irtt", "server", "-i", "1ms", "-b", f":{PORT}"]


def client_argv(address: str, duration_s: float, interval_s: float) -> list[str]:
    """Probes on a fixed grid, the answer as JSON; the wall clock is the one that both ends share."""
    grid = ["-i", f"{round(interval_s * 1000)}ms", "-d", f"{round(duration_s * 1000)}ms"]
    return ["irtt", "client", "-Q", *grid, "-o", "-", "--clock=wall", "--tstamp=both", f"{address}:{PORT}"]


def longest_s(duration_s: float, rtt_ns: int) -> float:
    """When to give up on a client: its duration, the handshake, and its wait for the last answers."""
    return duration_s + 20 * rtt_ns / 1e9 + 60


def parse(text: str) -> tuple[list[Probe], int]:
    """The answered probes in the order of sending, and how many got no answer. Raises MeasureError."""
    try:
        trips = json.loads(text)["round_trips"]
        answered = [trip for trip in trips if trip["lost"] == "false"]
        probes = [
            Probe(
                trip["timestamps"]["client"]["send"]["wall"],
                trip["delay"]["rtt"],
                trip["delay"].get("send"),
                trip["delay"].get("receive"),
            )
            for trip in answered
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise MeasureError(f"irtt answered something that cannot be read: {error}") from None
    return probes, len(trips) - len(answered)
