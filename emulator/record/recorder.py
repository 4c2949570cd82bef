"""Records a path: ping or irtt sends probes at a fixed interval, and each probe is written when it completes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from emulator.errors import MeasureError, MissingError
from emulator.hosts.tools import irtt, ping, process
from emulator.hosts.tools.process import Completed, ProgramHost, Running
from emulator.record.file import PROBES
from emulator.record.probes import BACK, SOMEWHERE, THERE, RecordedProbe

FASTEST_NS = 10_000_000
"""The shortest interval between two probes: 100 probes/s add no relevant load to a path."""

SERIES_NS = 10 * 10**9
"""irtt prints its results when it ends, and none when it is interrupted: whoever stops a recording loses one series."""

_PATIENCE_S = 30.0
_LOST = {"true_up": THERE, "true_down": BACK, "true": SOMEWHERE}
_PING_FAILED = 2


class Here:
    """This machine, in the current network namespace."""

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Run a program to its end. Raises MissingError, MeasureError."""
        return process.run(argv, timeout_s)

    def start(self, argv: Sequence[str]) -> Running:
        """Start a program."""
        return process.start(argv)


class Notebook:
    """Appends each probe to the folder's file as soon as it is known. A context manager."""

    def __init__(self, folder: Path, reported: Callable[[RecordedProbe], None]) -> None:
        self.probes: list[RecordedProbe] = []
        self._file, self._reported = (folder / PROBES).open("a", encoding="utf-8"), reported

    def add(self, probe: RecordedProbe) -> None:
        """Save one probe."""
        self.probes.append(probe)
        self._file.write(probe.line() + "\n")
        self._file.flush()
        self._reported(probe)

    def __enter__(self) -> Notebook:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


class RecordingStopped(Exception):
    """Somebody stopped the recording before its time was over."""


class Stoppable:
    """A host that runs one program at a time, which another thread may end early."""

    def __init__(self, host: ProgramHost) -> None:
        self._host, self._turn = host, threading.Lock()
        self._program: Running | None = None
        self.stopped = False

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Run a program to its end. Raises MissingError, MeasureError."""
        return self._host.run(argv, timeout_s)

    def start(self, argv: Sequence[str]) -> Running:
        """Start a program. Raises RecordingStopped once somebody has stopped the host."""
        with self._turn:
            if self.stopped:
                raise RecordingStopped
            self._program = self._host.start(argv)
            return self._program

    def stop(self) -> None:
        """Interrupt what runs; nothing starts any more."""
        with self._turn:
            self.stopped = True
            if self._program:
                self._program.interrupt()


class Task(Struct, frozen=True):
    """What to probe: the sending end, the address, the interval and the duration, in ns."""

    end: ProgramHost
    address: str
    every_ns: int
    for_ns: int


class EchoNumbers:
    """The numbers of a ping's echoes, from 1 on, by ICMP's sequence numbers and when the echoes were sent.

    The time tells how many echoes an outage took, which may be more than there are sequence numbers.
    """

    def __init__(self, every_ns: int) -> None:
        self._every_ns = every_ns
        self._newest, self._newest_ns = 1, 0

    def number(self, sequence: int, sent_ns: int) -> int:
        """The number of the echo of this sequence number that was sent then."""
        since_ns = sent_ns - self._newest_ns if self._newest_ns else 0
        number = ping.echo_number(sequence, self._newest + round(since_ns / self._every_ns))
        if number > self._newest or not self._newest_ns:
            self._newest, self._newest_ns = number, sent_ns
        return number


def by_ping(task: Task, notebook: Notebook) -> None:
    """Record with one ping. Raises MeasureError when ping fails; probes answered before stay recorded."""
    precise = ping.is_precise(task.end)
    count = max(1, task.for_ns // task.every_ns)
    argv = ping.stamped_argv(task.address, count, task.every_ns / 1e9, precise)
    begin_ns: int | None = None
    numbers, seen, last = EchoNumbers(task.every_ns), {1}, ""
    with task.end.start(argv) as program:
        for line in program.lines():
            reply, last = ping.parse_stamped(line), line if ping.sent(line) else last
            if reply is None:
                continue
            sequence, sent_ns, rtt_ns = reply
            echo = numbers.number(sequence, sent_ns)
            if echo in seen:
                continue
            seen.add(echo)
            number = echo - 2
            begin_ns = sent_ns - number * task.every_ns if begin_ns is None else begin_ns
            notebook.add(RecordedProbe(0, number, max(0, sent_ns - begin_ns), rtt_ns))
        done = program.wait(_PATIENCE_S)
    if done.exit_code >= _PING_FAILED:
        done.checked()
    # ping still had probes to send: it was cut off, and its last probes were still in flight.
    if notebook.probes and max(seen) <= count and ping.sent(last) == count + 1:
        final = max(notebook.probes, key=lambda probe: probe.number)
        late_ns = (count - 1 - final.number) * task.every_ns
        notebook.add(RecordedProbe(0, count - 1, final.sent_ns + late_ns, lost=SOMEWHERE))


def by_irtt(task: Task, notebook: Notebook) -> None:
    """Record with irtt, series by series. Raises MeasureError when the first fails; a later failure counts as an
    outage. RecordingStopped or KeyboardInterrupt end it: the series that runs then is lost."""
    begin_ns: int | None = None
    started_ns, run = time.monotonic_ns(), 0
    while (passed_ns := time.monotonic_ns() - started_ns) < task.for_ns:
        said = _series(task, min(SERIES_NS, task.for_ns - passed_ns))
        if not said.stdout and isinstance(task.end, Stoppable) and task.end.stopped:
            raise RecordingStopped
        if said.exit_code and begin_ns is None:
            said.checked()
        trips = [] if said.exit_code else irtt.parse_trips(said.stdout)
        for number, trip in enumerate(trips):
            begin_ns = trip.sent_ns if begin_ns is None else begin_ns
            lost = _LOST.get(trip.lost, "")
            notebook.add(
                RecordedProbe(run, number, trip.sent_ns - begin_ns, trip.rtt_ns, trip.there_ns, trip.back_ns, lost)
            )
        if not trips:
            # irtt could not connect: probes would have been lost. A refused connection returns at once, so wait.
            time.sleep(1)
            now_ns = time.monotonic_ns() - started_ns
            notebook.add(RecordedProbe(run, (now_ns - passed_ns) // task.every_ns, now_ns, lost=SOMEWHERE))
        run += 1


def _series(task: Task, series_ns: int) -> Completed:
    """Run one series to its end."""
    seconds = series_ns / 1e9
    with task.end.start(irtt.client_argv(task.address, seconds, task.every_ns / 1e9)) as program:
        return program.wait(irtt.longest_s(seconds, 0))


def answers_irtt(end: ProgramHost, address: str) -> bool:
    """Whether irtt is installed here and an irtt server answers at the address."""
    try:
        said = end.run(irtt.client_argv(address, 0.1, 0.05), _PATIENCE_S)
    except (MissingError, MeasureError):
        return False
    return said.exit_code == 0
