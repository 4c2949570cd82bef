"""A schedule as curves to be drawn: what each track asks for over time, as the timeline evaluates it. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

from emulator.model.impairment_keys import key_of, named
from emulator.model.loss_model import P32, LossModel
from emulator.model.schedule import DOWN, RTT, Track, Value
from emulator.model.timeline import Curve, Timeline, curves_of
from emulator.model.topology import Topology
from emulator.report.schedule_chart import span_ns

MOST_POINTS = 600
"""Of a curve: more than the columns of a screen show no more."""
MOST_STEPS = 120
"""Of a ramp: as many steps of it are drawn at most."""
MOST_HANDLES = 200
"""A curve with more keys is a trace: its keys are not drawn one by one."""

Number = float | None
Points = list[tuple[int, Number]]


class DrawnCurve(Struct, frozen=True):
    """One setting of one track, which all its lanes share.

    `unit` is ns, bit/s, share (0 to 1) or switch (0 or 1). Each of `points` is a time in ns and the value from then on;
    None stands for no bottleneck. `handles` are the keys: time, value, and whether a ramp leads to it; a trace has
    none. `before` is what the lanes have before the first key, None where they differ.
    """

    track: int
    key: str
    unit: str
    points: Points
    handles: list[tuple[int, Number, bool]]
    keys: int
    before: Number


def drawn(timeline: Timeline) -> list[DrawnCurve]:
    """Every setting of every track, in the order of the schedule."""
    end_ns = span_ns(timeline)
    found = []
    for number, track in enumerate(timeline.schedule.tracks):
        for key, curves in _by_word(timeline.topology, track).items():
            found.append(_drawn(timeline, number, key, curves, end_ns))
    return found


def _by_word(topology: Topology, track: Track) -> dict[str, list[Curve]]:
    """The curves of a track's first lane and direction by the words of a file: loss has two fields."""
    every = list(curves_of(topology, track))
    first, found = every[0], dict[str, list[Curve]]()
    for curve in every:
        if (curve.lane, curve.direction) == (first.lane, first.direction):
            found.setdefault(word(curve.field), []).append(curve)
    return found


def word(field: str) -> str:
    """The word of a file for a field of a keyframe."""
    return field if field == DOWN else "rtt" if field == RTT else key_of(field).name


def _drawn(timeline: Timeline, number: int, key: str, curves: list[Curve], end_ns: int) -> DrawnCurve:
    first, step_ns = curves[0], timeline.schedule.step_ns
    times = sorted(set(_times(first, step_ns, end_ns)))
    points: Points = [(at_ns, _number(key, [one.at(at_ns, step_ns) for one in curves])) for at_ns in times]
    count = len(first.times)
    values = [_number(key, [one.values[i] for one in curves]) for i in range(count)]
    handles = list(zip(first.times, values, first.ramps, strict=True)) if count <= MOST_HANDLES else []
    before = _before(timeline.topology, timeline.schedule.tracks[number], key)
    return DrawnCurve(number, key, _unit(key), _thinned(points, end_ns), handles, count, before)


def _times(curve: Curve, step_ns: int, end_ns: int) -> Iterator[int]:
    """When a curve has another value, as far as it can be seen; every ramp ends just before its key."""
    yield from (at_ns for at_ns in curve.times if at_ns <= end_ns)
    for number, (one, other) in enumerate(pairwise(curve.times), 1):
        if curve.ramps[number]:
            every = -(-(other - one) // (step_ns * MOST_STEPS)) * step_ns
            yield from range(one - one % step_ns + step_ns, other, every)


def _number(key: str, values: list[Value]) -> Number:
    """The value of a setting as one number: a loss model as its mean."""
    model = next((value for value in values if isinstance(value, LossModel)), None)
    value = next((value for value in values if isinstance(value, int)), None)
    if key == "loss":
        return model.mean_loss if model else (value or 0) / P32
    return value


def _unit(key: str) -> str:
    if key in ("rtt", DOWN):
        return "ns" if key == "rtt" else "switch"
    return {"time": "ns", "rate": "bit/s", "loss": "share"}[named(key).kind]


def _before(topology: Topology, track: Track, key: str) -> Number:
    """What the lanes of a track have without it; None where they differ, or have no bottleneck."""
    ways = ("outbound", "inbound") if track.direction == "both" else (track.direction,)
    found: set[Number] = set()
    for lane in (topology.lane(name) for name in track.lanes or topology.sites):
        for way in (getattr(lane, way) for way in ways):
            own = {"rtt": lane.rtt_ns, DOWN: 0, "loss": way.mean_loss}
            found.add(own[key] if key in own else getattr(way, named(key).fields[0]))
    return found.pop() if len(found) == 1 else None


def _thinned(points: Points, end_ns: int) -> Points:
    """At most MOST_POINTS: the first, the least and the greatest value of each interval."""
    if len(points) <= MOST_POINTS:
        return points
    times, columns = [at_ns for at_ns, _ in points], MOST_POINTS // 3
    edges = [bisect_left(times, end_ns * column // columns) for column in range(columns)] + [len(points)]
    found: Points = []
    for some in (points[a:b] for a, b in pairwise(edges) if b > a):
        extremes = {some[0], min(some, key=_height), max(some, key=_height)}
        found += sorted(extremes, key=lambda point: point[0])
    return found


def _height(point: tuple[int, Number]) -> float:
    return float("inf") if point[1] is None else point[1]
