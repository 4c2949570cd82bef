"""The round trips of a recording over time, in so few steps that a chart shows each of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from emulator.record.probes import RecordedProbe, complete

STEPS = 120


@dataclass
class CurveStep:
    """The probes sent in one step: the extremes of their round trips, None without an answer, and the lost ones."""

    least_ns: int | None = None
    most_ns: int | None = None
    lost: int = 0

    def add(self, rtt_ns: int | None) -> None:
        """Count one probe; None is a lost one."""
        if rtt_ns is None:
            self.lost += 1
            return
        self.least_ns = rtt_ns if self.least_ns is None else min(self.least_ns, rtt_ns)
        self.most_ns = rtt_ns if self.most_ns is None else max(self.most_ns, rtt_ns)


class RttCurve:
    """A curve that grows probe by probe, in at most STEPS steps of `step_ns`; what is sent later belongs to the last.

    A probe whose number is missing when a later one of its series is added was lost; those that are still on their way
    are not counted.
    """

    def __init__(self, for_ns: int, every_ns: int) -> None:
        self.step_ns = max(every_ns, -(-for_ns // STEPS), 1)
        self.steps: list[CurveStep] = []
        self._last = (0, -1)

    def add(self, probe: RecordedProbe) -> None:
        """Count one probe, and those before it in its series that are missing."""
        number = min(probe.sent_ns // self.step_ns, STEPS - 1)
        while len(self.steps) <= number:
            self.steps.append(CurveStep())
        step, (run, last) = self.steps[number], self._last
        before = last if probe.run == run else -1
        missing = probe.number - before - 1
        # An answer that comes after a later one's had been counted as lost.
        step.lost += missing if missing >= 0 else -min(1, step.lost)
        step.add(probe.rtt_ns)
        self._last = (probe.run, max(before, probe.number))


def curve_of(probes: Iterable[RecordedProbe], every_ns: int) -> RttCurve:
    """The curve of a whole recording."""
    sent = [probe for series in complete(probes, every_ns) for probe in series]
    curve = RttCurve(max((probe.sent_ns for probe in sent), default=0) + every_ns, every_ns)
    for probe in sent:
        curve.add(probe)
    return curve
