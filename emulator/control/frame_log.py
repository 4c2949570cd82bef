"""Notes when frames of programs pass a port of a lane, for the time of a block."""

from __future__ import annotations

import os
import select
import threading
from array import array
from contextlib import suppress

from emulator.analysis.lane_use import FrameTimes, is_of_a_program, payload_bytes
from emulator.kernel.packet_tap import PacketTap, PortDownError

SNAP_BYTES = 128
"""Of each frame: the headers."""


class FrameLog:
    """A context manager; `times` and `dropped` hold after the block. Raises OSError when the port cannot be read."""

    def __init__(self, port: str) -> None:
        self._port = port
        self._entered, self._left = array("q"), array("q")
        self._first_payload_ns: int | None = None
        self.dropped = 0

    def __enter__(self) -> FrameLog:
        self._tap = PacketTap(self._port, SNAP_BYTES)
        self._stop = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._follow, name="frame log", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.eventfd_write(self._stop, 1)
        self._thread.join()
        self._drain()
        self.dropped = self._tap.dropped()
        self._tap.close()
        os.close(self._stop)

    @property
    def times(self) -> FrameTimes:
        """What passed."""
        return FrameTimes(self._entered, self._left, self._first_payload_ns)

    def _follow(self) -> None:
        while self._stop not in select.select([self._tap.fileno(), self._stop], [], [])[0]:
            self._drain()

    def _drain(self) -> None:
        with suppress(PortDownError):
            for frame in self._tap.frames():
                if not is_of_a_program(frame.data):
                    continue
                # The port sends to the client what leaves the lane.
                (self._left if frame.sent else self._entered).append(frame.at_ns)
                if self._first_payload_ns is None and frame.sent and payload_bytes(frame.data):
                    self._first_payload_ns = frame.at_ns
