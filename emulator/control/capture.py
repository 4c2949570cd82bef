"""Captures the frames of the active lanes: a pcapng file for each port and direction of a lane, until it is stopped.

Of a lane's outbound direction, `LANE.outbound.in.pcapng` has what entered the emulator at the hub port, and
`LANE.outbound.out.pcapng` what left it at the site port, with the lane's delay; of inbound the other way round. In the
lab capturing takes no virtual time but that of the clock readings for each frame.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from emulator import __version__
from emulator.analysis.observed import CapturedFile
from emulator.config import writer
from emulator.control.appliance import Appliance
from emulator.control.state_files import INTENT_FILE
from emulator.control.status import LaneStatus
from emulator.errors import LonghaulError, MeasureError
from emulator.hosts.tools import pcapng
from emulator.kernel.packet_tap import PacketTap, PortDownError, TappedFrame
from emulator.kernel.watch import Watch

WIRE = "wire"
"""The datapath whose frames leave past every tap (PACKET_QDISC_BYPASS in emulator/engine/src/egress.rs)."""
BUFFER_BYTES = 1 << 20
CHECK_S = 60.0
"""The time between two looks at the lanes when the kernel reports no change."""


class CaptureWriter:
    """One file: its header at once, a block a frame, its statistics at the end. Raises OSError."""

    def __init__(self, path: Path, port: str, description: str, comment: str, snap_bytes: int) -> None:
        self._path, self._sha256, self._frames, self._last_ns = path, hashlib.sha256(), 0, 0
        self._file = path.open("wb", BUFFER_BYTES)
        self._write(pcapng.header(f"Longhaul {__version__}", comment))
        self._write(pcapng.interface(port, description, snap_bytes))

    def add(self, frame: TappedFrame) -> None:
        """Append a frame."""
        self._frames, self._last_ns = self._frames + 1, frame.at_ns
        self._write(pcapng.packet(frame))

    def close(self, dropped: int) -> CapturedFile:
        """End the file; `dropped` is how many frames of its port the kernel could not pass on."""
        self._write(pcapng.statistics(self._last_ns, self._frames + dropped, dropped))
        self._file.close()
        return CapturedFile(self._path.name, self._sha256.hexdigest(), self._frames, dropped)

    def abandon(self) -> None:
        """Close the file as it is; nothing happens when it is closed."""
        with suppress(OSError):
            self._file.close()

    def _write(self, block: bytes) -> None:
        self._sha256.update(block)
        self._file.write(block)


class _TappedPort:
    """A tap and the files of what it receives and sends."""

    def __init__(self, tap: PacketTap, received: CaptureWriter, sent: CaptureWriter | None) -> None:
        self.tap, self._received, self._sent, self._dropped = tap, received, sent, 0

    def read(self) -> bool:
        """Write what waits; whether the port is still there. Raises OSError when a file cannot be written."""
        try:
            self._drain()
        except PortDownError:
            # The kernel reports it before the frames that wait.
            self._drain()
        self._dropped += self.tap.dropped()
        return self.tap.is_there()

    def close(self) -> list[CapturedFile]:
        """End the files, both even if one cannot be written. Raises OSError."""
        self.tap.close()
        with ExitStack() as stack:
            files = [file for file in (self._received, self._sent) if file]
            for file in files:
                stack.callback(file.abandon)
            return [file.close(self._dropped) for file in files]

    def _drain(self) -> None:
        for frame in self.tap.frames():
            if file := self._sent if frame.sent else self._received:
                file.add(frame)


class Capture:
    """Captures lanes until `stop`. `lanes` empty means all. With `follow` it also takes the lanes that come up later.

    `follow` opens the same appliance once more, for a thread: a connection to the kernel belongs to one thread. A port
    that goes and comes back gets a second file, `...in-2.pcapng`.
    """

    def __init__(
        self, appliance: Appliance, folder: Path, *, snap_bytes: int = 0, lanes: Collection[str] = (),
        follow: Callable[[], Appliance] | None = None,
    ) -> None:  # fmt: skip
        """Start. Raises MeasureError when a file or a tap cannot be opened."""
        self._folder, self._snap_bytes, self._lanes, self._follower = folder, snap_bytes, lanes, follow
        self._ports, self._done, self._taken = dict[int, _TappedPort](), list[CapturedFile](), dict[str, int]()
        self._open, self._stopping, self._failed = dict[str, int](), False, ""
        self._lock, self._wake, self._epoll = threading.Lock(), os.eventfd(0, os.EFD_CLOEXEC), select.epoll()
        self._epoll.register(self._wake, select.EPOLLIN)
        work = [self._read, *([self._follow] if follow else [])]
        self._watch: Watch | None = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if follow:
                # Before the first look at the lanes: nothing that changes in between is missed.
                appliance.state_dir.mkdir(parents=True, exist_ok=True)
                self._watch = Watch(appliance.state_dir / INTENT_FILE)
            self._take_lanes(appliance)
        except OSError as error:
            for port in self._ports.values():
                self._end(port)
            self._close()
            raise MeasureError(f"cannot capture into {folder}: {error.strerror}") from None
        self._threads = [threading.Thread(target=one, name=f"capture {one.__name__}", daemon=True) for one in work]
        for thread in self._threads:
            thread.start()

    def stop(self) -> tuple[CapturedFile, ...]:
        """End the capture: the files in the order of their names. Raises MeasureError when one could not be
        written."""
        self._stopping = True
        # Stays readable: it wakes both threads.
        os.eventfd_write(self._wake, 1)
        for thread in self._threads:
            thread.join()
        for port in self._ports.values():
            try:
                if not self._failed:
                    port.read()
            except OSError as error:
                self._failed = self._unwritten(error)
            self._end(port)
        self._close()
        if self._failed:
            raise MeasureError(self._failed)
        return tuple(sorted(self._done, key=lambda file: file.name))

    def _end(self, port: _TappedPort) -> None:
        """End a port's files."""
        try:
            self._done += port.close()
        except OSError as error:
            self._failed = self._failed or self._unwritten(error)

    def _close(self) -> None:
        self._epoll.close()
        os.close(self._wake)
        if self._watch:
            self._watch.close()

    def _unwritten(self, error: OSError) -> str:
        return f"the capture in {self._folder} is not complete: {error.strerror}; free space or lower --snap"

    def _read(self) -> None:
        """Write the frames of all ports as they come."""
        while not self._stopping:
            for fd, _ in self._epoll.poll():
                with self._lock:
                    try:
                        if (port := self._ports.get(fd)) and not port.read():
                            self._drop(fd)
                    except OSError as error:
                        self._failed = self._unwritten(error)
                        return

    def _drop(self, fd: int) -> None:
        """End the files of a port that is gone."""
        port = self._ports.pop(fd)
        self._epoll.unregister(fd)
        del self._open[port.tap.port]
        self._end(port)

    def _follow(self) -> None:
        """Take the lanes that come up."""
        assert self._watch
        assert self._follower
        with closing(self._follower()) as appliance:
            while not self._stopping:
                self._watch.wait(CHECK_S, self._wake)
                # While lanes change, they may be seen half made: the next change is heard too.
                with suppress(LonghaulError, OSError), self._lock:
                    self._take_lanes(appliance)

    def _take_lanes(self, appliance: Appliance) -> None:
        """Open a tap for every port that has none. Raises OSError."""
        status = appliance.status()
        for lane in status.lanes:
            if not self._lanes or lane.lane.name in self._lanes:
                self._take(lane, bypassed=status.datapath == WIRE)

    def _take(self, lane: LaneStatus, *, bypassed: bool) -> None:
        ways = (("outbound", lane.inbound.port, "inbound"), ("inbound", lane.outbound.port, "outbound"))
        for entering, port, leaving in ways:
            if (fd := self._open.get(port)) is not None:
                if self._ports[fd].read():
                    continue
                self._drop(fd)
            tap = PacketTap(port, self._snap_bytes)
            received = self._file(lane, port, entering, "in")
            sent = None if bypassed else self._file(lane, port, leaving, "out")
            self._ports[tap.fileno()], self._open[port] = _TappedPort(tap, received, sent), tap.fileno()
            self._epoll.register(tap.fileno(), select.EPOLLIN)

    def _file(self, lane: LaneStatus, port: str, direction: str, side: str) -> CaptureWriter:
        stem = f"{lane.lane.name}.{direction}.{side}"
        self._taken[stem] = number = self._taken.get(stem, 0) + 1
        name = f"{stem}.pcapng" if number == 1 else f"{stem}-{number}.pcapng"
        passes = {"in": "enters the emulator", "out": "leaves the emulator, with the lane's delay"}[side]
        settings = json.dumps({lane.lane.name: writer.lane_tree(lane.lane)})
        return CaptureWriter(
            self._folder / name, port, f"{direction} of {lane.lane.name}: what {passes}", settings, self._snap_bytes
        )


@contextmanager
def capturing(
    appliance: Appliance, folder: Path, snap_bytes: int, lanes: Collection[str] = ()
) -> Iterator[list[CapturedFile]]:
    """Capture lanes for the time of a block; the list holds the files after it. Raises MeasureError."""
    capture, found = Capture(appliance, folder, snap_bytes=snap_bytes, lanes=lanes), list[CapturedFile]()
    try:
        yield found
    finally:
        found += capture.stop()
