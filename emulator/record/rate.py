"""Measures the rate of a path with a short iperf3 in each direction: several TCP streams, without their slow start.

The measurement loads the path, so it only runs when the user asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from emulator.hosts.tools import iperf3
from emulator.record.recorder import End

SECONDS, OMITTED_S, STREAMS = 8, 4, 4
FRAME_BYTES, PAYLOAD_BYTES = 1514, 1448
"""Of a full packet at an MTU of 1500: the bottleneck counts the frame, iperf3 counts the payload."""

_PATIENCE_S = 60.0


def measured(end: End, address: str, server: Callable[[], AbstractContextManager[object]]) -> tuple[int, int]:
    """The rate of the path's bottleneck outbound and inbound, in bit/s with link headers, to four digits.

    `server` runs an iperf3 server for one test. Raises MeasureError with iperf3's own message.
    """
    there, back = (_one(end, address, server, way) for way in ([], ["-R"]))
    return there, back


def _one(end: End, address: str, server: Callable[[], AbstractContextManager[object]], way: list[str]) -> int:
    argv = ["iperf3", "-c", address, "-p", str(iperf3.PORT), "-t", str(SECONDS), "-O", str(OMITTED_S)]
    with server():
        said = end.run([*argv, "-P", str(STREAMS), "-J", *way], SECONDS + OMITTED_S + _PATIENCE_S)
    bps = iperf3.received_bps(said.stdout) * FRAME_BYTES / PAYLOAD_BYTES
    return int(float(f"{bps:.4g}"))
