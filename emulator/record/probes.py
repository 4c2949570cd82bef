"""Recorded probes: the lines of a file that grows during the recording, and both directions derived from them. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from msgspec import Struct

HEADER = "run,number,sent_ns,rtt_ns,there_ns,back_ns,lost"
MOST_PROBES = 5_000_000
"""Of a recording: 14 hours at 100 probes a second."""
THERE, BACK, SOMEWHERE = "there", "back", "somewhere"


class RecordedProbe(Struct, frozen=True):
    """One probe. `run` counts the uninterrupted series, `number` the probes in it; `sent_ns` is since the recording
    began. `there_ns` and `back_ns` compare the clocks of both ends. `lost` says in which direction, "" when
    answered."""

    run: int
    number: int
    sent_ns: int
    rtt_ns: int | None = None
    there_ns: int | None = None
    back_ns: int | None = None
    lost: str = ""

    def line(self) -> str:
        """The probe as one line of the file."""
        values = (self.run, self.number, self.sent_ns, self.rtt_ns, self.there_ns, self.back_ns, self.lost)
        return ",".join("" if value is None else str(value) for value in values)


def parse(text: str) -> list[RecordedProbe]:
    """Read the probes of a file, without a truncated last line. Raises ValueError with the number of a bad line."""
    lines = text.split("\n")
    if lines[0] != HEADER:
        raise ValueError(f"line 1 is not the header {HEADER}")
    found = []
    for number, line in enumerate(lines[1:-1], 2):
        try:
            run, place, sent, rtt, there, back, lost = line.split(",")
            delays = (_maybe(rtt), _maybe(there), _maybe(back))
            found.append(_in_range(RecordedProbe(int(run), int(place), int(sent), *delays, lost)))
        except ValueError:
            raise ValueError(f"line {number}: {line[:40]!r} is not a probe") from None
    return found


def _in_range(probe: RecordedProbe) -> RecordedProbe:
    """The probe. Raises ValueError for one that no recording holds: those before it are filled in."""
    if not (0 <= probe.run < MOST_PROBES and 0 <= probe.number < MOST_PROBES):
        raise ValueError
    return probe


def _maybe(text: str) -> int | None:
    return int(text) if text else None


def complete(probes: Iterable[RecordedProbe], every_ns: int) -> list[list[RecordedProbe]]:
    """Group the probes into series in the order of sending. A probe that left no line counts as lost somewhere."""
    return [
        list(_filled(sorted(group, key=lambda p: p.number), every_ns))
        for _, group in groupby(sorted(probes, key=lambda p: p.run), key=lambda p: p.run)
    ]


def _filled(run: Sequence[RecordedProbe], every_ns: int) -> Iterator[RecordedProbe]:
    """Fill the gap between two recorded probes at even intervals: a tool may send more slowly than requested."""
    before = RecordedProbe(run[0].run, -1, max(0, run[0].sent_ns - run[0].number * every_ns) - every_ns)
    for probe in run:
        apart = probe.number - before.number
        for number in range(before.number + 1, probe.number):
            sent_ns = before.sent_ns + (probe.sent_ns - before.sent_ns) * (number - before.number) // apart
            yield RecordedProbe(probe.run, number, max(0, sent_ns), lost=SOMEWHERE)
        if apart:
            yield probe
        before = probe


class PacketRecord(Struct, frozen=True):
    """One packet in one direction: when it was sent, whether it was lost, and its delay where known."""

    sent_ns: int
    lost: bool
    delay_ns: int | None


class DirectionSeries(Struct, frozen=True):
    """One direction: its uninterrupted series of packets."""

    runs: tuple[tuple[PacketRecord, ...], ...]

    @property
    def delays(self) -> list[list[int]]:
        """The known delays of each series, in ns."""
        return [[p.delay_ns for p in run if p.delay_ns is not None] for run in self.runs]

    @property
    def lost(self) -> list[list[bool]]:
        """Whether each packet was lost."""
        return [[p.lost for p in run] for run in self.runs]


def ways(runs: Sequence[Sequence[RecordedProbe]], *, one_clock: bool) -> tuple[DirectionSeries, DirectionSeries]:
    """Derive both directions, outbound first. Raises ValueError when no probe was answered.

    With `one_clock` the one-way delays are used as measured. With two clocks, each series sets their offset such that
    the least delay is equal in both directions. Where only round trips are known, every inbound delay is half the least
    round trip and the outbound delay is the rest, so that their sum is the measured round trip.
    """
    answered = [p for run in runs for p in run if p.rtt_ns is not None]
    if not answered:
        raise ValueError("no probe was answered")
    if any(p.there_ns is None or p.back_ns is None for p in answered):
        half = min(p.rtt_ns for p in answered if p.rtt_ns is not None) // 2
        both = [(_outward(run, half), _homeward(run, half)) for run in runs]
    else:
        both = [_apart(run, one_clock=one_clock) for run in runs]
    return tuple(DirectionSeries(tuple(tuple(one[side]) for one in both if one[side])) for side in (0, 1))  # type: ignore[return-value]


def _outward(run: Sequence[RecordedProbe], half_ns: int) -> list[PacketRecord]:
    return [PacketRecord(p.sent_ns, p.rtt_ns is None, None if p.rtt_ns is None else p.rtt_ns - half_ns) for p in run]


def _homeward(run: Sequence[RecordedProbe], half_ns: int) -> list[PacketRecord]:
    return [PacketRecord(p.sent_ns, False, half_ns) for p in run if p.rtt_ns is not None]


def _apart(run: Sequence[RecordedProbe], *, one_clock: bool) -> tuple[list[PacketRecord], list[PacketRecord]]:
    both = [(p.there_ns, p.back_ns) for p in run if p.there_ns is not None and p.back_ns is not None]
    ahead = 0 if one_clock or not both else (min(t for t, _ in both) - min(b for _, b in both)) // 2
    # A packet lost on the way back arrived outbound, at an unknown time.
    there = [
        PacketRecord(p.sent_ns, p.lost in (THERE, SOMEWHERE), None if p.there_ns is None else p.there_ns - ahead)
        for p in run
    ]
    back = [
        PacketRecord(p.sent_ns, p.lost == BACK, None if p.back_ns is None else p.back_ns + ahead)
        for p in run
        if p.lost not in (THERE, SOMEWHERE)
    ]
    return there, back


class TraceStep(Struct, frozen=True):
    """One step of a trace: mean and spread of the delays (None: no packet arrived), and the share of lost packets."""

    at_ns: int
    delay_ns: int | None
    jitter_ns: int | None
    lost: float


def trace_steps(way: DirectionSeries, step_ns: int) -> list[TraceStep]:
    """The direction over time. The jitter is that of the uniform shape with the measured variance."""
    steps: dict[int, list[PacketRecord]] = defaultdict(list)
    for run in way.runs:
        for point in run:
            steps[point.sent_ns // step_ns].append(point)
    return [_moment(number * step_ns, steps[number]) for number in sorted(steps)]


def _moment(at_ns: int, points: Sequence[PacketRecord]) -> TraceStep:
    came = [point.delay_ns for point in points if point.delay_ns is not None]
    lost = sum(point.lost for point in points) / len(points)
    if not came:
        return TraceStep(at_ns, None, None, lost)
    mean = sum(came) / len(came)
    spread = math.sqrt(3 * sum((delay - mean) ** 2 for delay in came) / len(came))
    return TraceStep(at_ns, round(mean), min(round(mean), round(spread)), lost)


def trace(trace_steps: Sequence[TraceStep]) -> str:
    """The trace in the format of `traces.read_csv`."""
    lines = ["time_ns,delay_ns,jitter_ns,loss_percent"]
    for one in trace_steps:
        delay, jitter = ("" if value is None else str(value) for value in (one.delay_ns, one.jitter_ns))
        lines.append(f"{one.at_ns},{delay},{jitter},{one.lost * 100:.7f}")
    return "\n".join(lines) + "\n"
