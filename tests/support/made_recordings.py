"""Recordings made up for tests: probes of a path that is known."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import cast

from emulator.errors import LonghaulError
from emulator.hosts.tools.process import Completed, Running
from emulator.model.topology import Topology
from emulator.record import file, recording
from emulator.record.path_profile import ONE_CLOCK, ROUND_TRIPS, PathProfile, RecordingSource
from emulator.record.probes import BACK, SOMEWHERE, THERE, RecordedProbe
from emulator.record.recording import Target
from support.waiting import PATIENCE_S

MS = 10**6
EVERY_NS = 20 * MS


def one_way(seed: int, count: int, leave: float = 0.25) -> list[RecordedProbe]:
    """Answered by irtt on one clock: 40 ms and up to 8 more there, in bursts lost; 30 ms back, some lost by chance."""
    rng, bad, found = random.Random(seed), False, []
    for number in range(count):
        lost = THERE if bad else BACK if rng.random() < 0.01 else ""
        there, back = 40 * MS + rng.randrange(8 * MS), 30 * MS
        known = (None, None, None) if lost else (there + back, there, back)
        found.append(RecordedProbe(number // 1000, number % 1000, number * EVERY_NS, *known, lost))
        bad = rng.random() >= leave if bad else rng.random() < 0.01
    return found


def round_trips(delays_ms: list[float | None]) -> list[RecordedProbe]:
    """Answered by ping: None for an echo that was lost. The first one is answered."""
    return [
        RecordedProbe(0, n, n * EVERY_NS, None if ms is None else round(ms * MS), lost=SOMEWHERE if ms is None else "")
        for n, ms in enumerate(delays_ms)
    ]


def source(split: str = ONE_CLOCK) -> RecordingSource:
    """Of a made-up recording."""
    return RecordingSource(
        "paris", "ping" if split == ROUND_TRIPS else "irtt", "2026-01-31T06:00:00+00:00", EVERY_NS, split
    )


def folder(path: Path, probes: list[RecordedProbe], split: str = ONE_CLOCK) -> PathProfile:
    """A recording on disk, worked out."""
    file.begin(path, source(split))
    with (path / file.PROBES).open("a") as lines:
        lines.writelines(f"{probe.line()}\n" for probe in probes)
    return recording.finish(path, recording.STEP_NS)


class HeldPing:
    """A ping that prints what a test says, when it says it; it ends when somebody interrupts it."""

    def __init__(self) -> None:
        self._lines: Queue[str | None] = Queue()
        self.count = 0

    def __enter__(self) -> HeldPing:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def answer(self, ms: float = 80.0) -> None:
        """One more echo is answered, 20 ms after the one before; ping's first does not count."""
        self.count += 1
        at = 1000 + self.count / 50
        self._lines.put(f"[{at:.6f}] 64 bytes from 1: icmp_seq={self.count} time={ms:.3f} ms\n")

    def interrupt(self) -> None:
        """It ends, after its summary."""
        self._lines.put(f"{self.count + 1} packets transmitted, {self.count} received\n")
        self._lines.put(None)

    def lines(self) -> Iterator[str]:
        """Line by line, as they come."""
        yield from iter(self._lines.get, None)

    def wait(self, timeout_s: float) -> Completed:
        """It has ended."""
        return Completed(("ping",), "", "", 0)


class MadeUpPaths:
    """Paths without a network: each is one ping, the last of `pings`. `wrong` is the error that a path begins with."""

    def __init__(self) -> None:
        self.pings: list[HeldPing] = []
        self.asked: list[str] = []
        self.begun = threading.Semaphore(0)
        self.wrong: LonghaulError | None = None

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """No program says anything."""
        return Completed(tuple(argv), "", "", 0)

    def start(self, argv: Sequence[str]) -> Running:
        """A ping begins."""
        self.pings.append(HeldPing())
        self.begun.release()
        return cast(Running, self.pings[-1])

    @contextmanager
    def to_host(self, address: str, by: str) -> Iterator[Target]:
        """From here to an address."""
        self.asked.append(address)
        if self.wrong:
            raise self.wrong
        yield Target(self, address, has_irtt=False, one_clock=False)

    @contextmanager
    def over_lane(self, topology: Topology, name: str, by: str) -> Iterator[Target]:
        """Over a lane."""
        with self.to_host(f"{topology.name}/{name}", by) as target:
            yield target

    def ping(self) -> HeldPing:
        """The ping of the recording that was just started, once it has begun."""
        assert self.begun.acquire(timeout=PATIENCE_S)
        return self.pings[-1]


class Ended:
    """A program that has ended: what it printed, and an interruption in the middle of it if there was one."""

    def __init__(self, out: str, exit_code: int = 0, err: str = "", cut_after: int | None = None) -> None:
        self._said, self._cut_after = Completed(("tool",), out, err, exit_code), cut_after
        self.interrupted = False

    def __enter__(self) -> Ended:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def lines(self):  # type: ignore[no-untyped-def]
        """Line by line, until it is cut off."""
        for number, line in enumerate(self._said.stdout.splitlines(keepends=True)):
            if number == self._cut_after:
                raise KeyboardInterrupt
            yield line

    def wait(self, timeout_s: float) -> Completed:
        """Its output; the first time, an interruption comes before it."""
        if self._cut_after is not None and not self.interrupted:
            raise KeyboardInterrupt
        return self._said

    def interrupt(self) -> None:
        """Noted."""
        self.interrupted = True
