"""Recorded probes: the lines of a file that grows while it is measured, and the two directions they tell of. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

HEADER = "run,number,sent_ns,rtt_ns,there_ns,back_ns,lost"
THERE, BACK, SOMEWHERE = "there", "back", "somewhere"


@dataclass(frozen=True)
class Probe:
    """One probe. `run` counts the uninterrupted series, `number` the probes in it, `sent_ns` is since the recording
    began. Each way stands in the clocks of both ends. `lost` says where, "" for what was answered."""

    run: int
    number: int
    sent_ns: int
    rtt_ns: int | None = None
    there_ns: int | None = None
    back_ns: int | None = None
    lost: str = ""

    def line(self) -> str:
        """As it stands in a file."""
        values = (self.run, self.number, self.sent_ns, self.rtt_ns, self.there_ns, self.back_ns, self.lost)
        return ",".join("" if value is None else str(value) for value in values)


def parse(text: str) -> list[Probe]:
    """The probes of a file; a last line that was cut off is left out. Raises ValueError with the line."""
    lines = text.split("\n")
    if lines[0] != HEADER:
        raise ValueError(f"line 1: {HEADER} was expected")
    found = []
    for number, line in enumerate(lines[1:-1], 2):
        try:
            run, place, sent, rtt, there, back, lost = line.split(",")
            delays = (_maybe(rtt), _maybe(there), _maybe(back))
            found.append(Probe(int(run), int(place), int(sent), *delays, lost))
        except ValueError:
            raise ValueError(f"line {number}: {line[:40]!r} is no probe") from None
    return found


def _maybe(text: str) -> int | None:
    return int(text) if text else None


def complete(probes: Iterable[Probe], every_ns: int) -> list[list[Probe]]:
    """The series, each in the order of sending, with the probes that left no line: they were lost somewhere."""
    return [
        list(_filled(sorted(group, key=lambda p: p.number), every_ns))
        for _, group in groupby(sorted(probes, key=lambda p: p.run), key=lambda p: p.run)
    ]


def _filled(run: Sequence[Probe], every_ns: int) -> Iterator[Probe]:
    """Between two that are there, the missing ones left at even distances: a tool may be slower than it was asked."""
    before = Probe(run[0].run, -1, max(0, run[0].sent_ns - run[0].number * every_ns) - every_ns)
    for probe in run:
        apart = probe.number - before.number
        for number in range(before.number + 1, probe.number):
            sent_ns = before.sent_ns + (probe.sent_ns - before.sent_ns) * (number - before.number) // apart
            yield Probe(probe.run, number, max(0, sent_ns), lost=SOMEWHERE)
        if apart:
            yield probe
        before = probe


@dataclass(frozen=True)
class Point:
    """One packet in one direction: sent when, whether it was lost, and its delay where that is known."""

    sent_ns: int
    lost: bool
    delay_ns: int | None


@dataclass(frozen=True)
class Way:
    """One direction: its uninterrupted series."""

    runs: tuple[tuple[Point, ...], ...]

    @property
    def delays(self) -> list[list[int]]:
        """Of what arrived at a known time."""
        return [[p.delay_ns for p in run if p.delay_ns is not None] for run in self.runs]

    @property
    def lost(self) -> list[list[bool]]:
        """Whether each packet was lost."""
        return [[p.lost for p in run] for run in self.runs]


def ways(runs: Sequence[Sequence[Probe]], *, one_clock: bool) -> tuple[Way, Way]:
    """There and back. Raises ValueError when no probe was answered.

    Where each way is known, it is taken as it is on `one_clock`; else the clocks are set so that in every series the
    shortest way there is as long as the shortest back. Where only round trips are known, the way back is half the
    shortest one and the way there has all the rest, so that together they are what was seen.
    """
    answered = [p for run in runs for p in run if p.rtt_ns is not None]
    if not answered:
        raise ValueError("no probe was answered")
    if any(p.there_ns is None or p.back_ns is None for p in answered):
        half = min(p.rtt_ns for p in answered if p.rtt_ns is not None) // 2
        both = [(_outward(run, half), _homeward(run, half)) for run in runs]
    else:
        both = [_apart(run, one_clock=one_clock) for run in runs]
    return tuple(Way(tuple(tuple(one[side]) for one in both if one[side])) for side in (0, 1))  # type: ignore[return-value]


def _outward(run: Sequence[Probe], half_ns: int) -> list[Point]:
    return [Point(p.sent_ns, p.rtt_ns is None, None if p.rtt_ns is None else p.rtt_ns - half_ns) for p in run]


def _homeward(run: Sequence[Probe], half_ns: int) -> list[Point]:
    return [Point(p.sent_ns, False, half_ns) for p in run if p.rtt_ns is not None]


def _apart(run: Sequence[Probe], *, one_clock: bool) -> tuple[list[Point], list[Point]]:
    both = [(p.there_ns, p.back_ns) for p in run if p.there_ns is not None and p.back_ns is not None]
    ahead = 0 if one_clock or not both else (min(t for t, _ in both) - min(b for _, b in both)) // 2
    # What is lost on the way back was there, though nobody knows when.
    there = [
        Point(p.sent_ns, p.lost in (THERE, SOMEWHERE), None if p.there_ns is None else p.there_ns - ahead) for p in run
    ]
    back = [
        Point(p.sent_ns, p.lost == BACK, None if p.back_ns is None else p.back_ns + ahead)
        for p in run
        if p.lost not in (THERE, SOMEWHERE)
    ]
    return there, back


@dataclass(frozen=True)
class Moment:
    """One step of a time trace: mean and spread of the delays (None: none arrived), and the share lost."""

    at_ns: int
    delay_ns: int | None
    jitter_ns: int | None
    lost: float


def moments(way: Way, step_ns: int) -> list[Moment]:
    """The direction over time. The jitter is that of the uniform shape with the same variance as was seen."""
    steps: dict[int, list[Point]] = defaultdict(list)
    for run in way.runs:
        for point in run:
            steps[point.sent_ns // step_ns].append(point)
    return [_moment(number * step_ns, steps[number]) for number in sorted(steps)]


def _moment(at_ns: int, points: Sequence[Point]) -> Moment:
    came = [point.delay_ns for point in points if point.delay_ns is not None]
    lost = sum(point.lost for point in points) / len(points)
    if not came:
        return Moment(at_ns, None, None, lost)
    mean = sum(came) / len(came)
    spread = math.sqrt(3 * sum((delay - mean) ** 2 for delay in came) / len(came))
    return Moment(at_ns, round(mean), min(round(mean), round(spread)), lost)


def trace(moments: Sequence[Moment]) -> str:
    """As a schedule reads it (`traces.read_csv`)."""
    lines = ["time_ns,delay_ns,jitter_ns,loss_percent"]
    for one in moments:
        delay, jitter = ("" if value is None else str(value) for value in (one.delay_ns, one.jitter_ns))
        lines.append(f"{one.at_ns},{delay},{jitter},{one.lost * 100:.7f}")
    return "\n".join(lines) + "\n"
