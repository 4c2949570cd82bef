"""Measures the rate of a path with a short test in each direction: several TCP streams, without their slow start.

The measurement loads the path, so it only runs when the user asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from emulator.hosts.tools.process import ProgramHost
from emulator.hosts.tools.workloads import PATH_RATE

FRAME_BYTES, PAYLOAD_BYTES = 1514, 1448
"""Of a full packet at an MTU of 1500: the bottleneck counts the frame, the streams count the payload."""


def measured(end: ProgramHost, address: str, server: Callable[[], AbstractContextManager[object]]) -> tuple[int, int]:
    """The rate of the path's bottleneck outbound and inbound, in bit/s with link headers, to four digits.

    `server` runs a server for one test. Raises MeasureError with the tool's own message.
    """
    there, back = (_one(end, address, server, back=back) for back in (False, True))
    return there, back


def _one(end: ProgramHost, address: str, server: Callable[[], AbstractContextManager[object]], *, back: bool) -> int:
    with server():
        bps = PATH_RATE.received_bps(end, address, back=back) * FRAME_BYTES / PAYLOAD_BYTES
    return int(float(f"{bps:.4g}"))
