"""A schedule over a topology: the lanes at any time, and when they change next. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from emulator.model.impairment import Impairment
from emulator.model.impairment_keys import KEYS, at_rest, key_of, schedulable_keys
from emulator.model.lane_patch import LanePatch
from emulator.model.loss_model import P32
from emulator.model.schedule import DOWN, MOST_KEYS, RTT, Schedule, Track, Value
from emulator.model.topology import Lane, Topology, split_rtt
from emulator.units import format_duration

DIRECTIONS = ("outbound", "inbound")


class Curve(Struct, frozen=True):
    """One field of one direction of one lane over time; `ramps[i]` says whether a ramp leads to its i-th value."""

    lane: str
    direction: str
    field: str
    times: tuple[int, ...]
    values: tuple[Value, ...]
    ramps: tuple[bool, ...]

    def at(self, t_ns: int, step_ns: int) -> Value:
        """The value at that time, at or after the first keyframe."""
        i = bisect_right(self.times, t_ns) - 1
        now = self.values[i]
        goal = self.values[i + 1] if i + 1 < len(self.times) and self.ramps[i + 1] else now
        if now == goal or not (isinstance(now, int) and isinstance(goal, int)):
            return now
        passed, whole = (t_ns - self.times[i]) // step_ns * step_ns, self.times[i + 1] - self.times[i]
        return now + (goal - now) * passed // whole

    def next_after(self, t_ns: int, step_ns: int) -> int | None:
        """When the value may change next; None when never."""
        i = bisect_right(self.times, t_ns)
        if i == len(self.times):
            return None
        if i and self.ramps[i]:
            return min(self.times[i], t_ns - (t_ns - self.times[i - 1]) % step_ns + step_ns)
        return self.times[i]


class Timeline:
    """The lanes of a topology under its schedule. Raises ValueError when a lane is invalid at any time."""

    def __init__(self, topology: Topology, schedule: Schedule) -> None:
        self.topology, self.schedule = topology, schedule
        count = sum(len(track.keys) * len(track.lanes or topology.sites) for track in schedule.tracks)
        if count > MOST_KEYS:
            raise ValueError(f"{count} keys, counted for each lane, are too many: {MOST_KEYS} at most")
        self.curves = [curve for track in schedule.tracks for curve in curves_of(topology, track)]
        for t_ns in self.breakpoints():
            try:
                self._lanes_at(t_ns)
            except ValueError as error:
                raise ValueError(f"at {format_duration(t_ns)} of the schedule: {error}") from None

    def breakpoints(self) -> list[int]:
        """Every time at which a curve bends or jumps, and the time just before: between them all curves are
        straight."""
        times = {t for curve in self.curves for t in curve.times}
        return sorted({0} | times | {t - 1 for t in times if t})

    def at(self, t_ns: int) -> Topology:
        """The topology `t_ns` after the start; before the start, as its file says."""
        return self.topology if t_ns < 0 else replace(self.topology, lanes=self._lanes_at(t_ns))

    def _lanes_at(self, t_ns: int) -> tuple[Lane, ...]:
        """The lanes at or after the start. Raises ValueError where they would be contradictory."""
        phase = t_ns % self.schedule.loop_ns if self.schedule.loop_ns else t_ns
        said: dict[str, dict[str, dict[str, Any]]] = {}
        for curve in self.curves:
            if phase >= curve.times[0]:
                value = curve.at(phase, self.schedule.step_ns)
                said.setdefault(curve.lane, {}).setdefault(curve.direction, {})[curve.field] = value
        return tuple(_changed(lane, said[lane.name]) if lane.name in said else lane for lane in self.topology.lanes)

    @cached_property
    def extremes(self) -> tuple[Topology, Topology]:
        """The topology with the largest values of each direction, and the same at its lowest rate.

        The first needs the longest queue; both together show whether packets must ever pass one by one.
        """
        scheduled = [self.at(t_ns) for t_ns in self.breakpoints()]
        most, least = [], []
        for lane in self.topology.lanes:
            seen = [each.lane(lane.name) for each in scheduled]
            out, back = [one.outbound for one in seen], [one.inbound for one in seen]
            most.append(replace(lane, outbound=_most(out), inbound=_most(back)))
            least.append(replace(lane, outbound=_slowest(out), inbound=_slowest(back)))
        return replace(self.topology, lanes=tuple(most)), replace(self.topology, lanes=tuple(least))

    def envelope(self) -> Topology:
        """The topology with the largest values of each direction."""
        return self.extremes[0]

    def next_change(self, t_ns: int) -> int | None:
        """The next time at which a lane may change; None when nothing changes any more."""
        if t_ns < 0:
            return 0
        loop = self.schedule.loop_ns
        phase = t_ns % loop if loop else t_ns
        found = [curve.next_after(phase, self.schedule.step_ns) for curve in self.curves]
        coming = [t for t in found if t is not None]
        if coming:
            return t_ns - phase + min(coming)
        return t_ns - phase + loop if loop else None


def overruled(old: Topology, new: Topology) -> list[str]:
    """What to tell whoever changes the lanes of `old` to those of `new`: the values that the schedule sets as well."""
    if new.schedule is None:
        return []
    curves, texts = [curve for track in new.schedule.tracks for curve in curves_of(new, track)], []
    for lane in (one for one in new.lanes if one.name in old.sites):
        before, said = old.lane(lane.name), dict[str, int]()
        for curve in (one for one in curves if one.lane == lane.name):
            was, now = (getattr(one, curve.direction) for one in (before, lane))
            if any(getattr(was, name) != getattr(now, name) for name in _of_impairment(curve.field)):
                word = {RTT: "rtt", DOWN: DOWN}.get(curve.field) or key_of(curve.field).name
                said[word] = min(curve.times[0], said.get(word, curve.times[0]))
        if said:
            since = {word: f" from {format_duration(at_ns)} on" if at_ns else "" for word, at_ns in said.items()}
            words = " and ".join(word + text for word, text in since.items())
            texts.append(f"{lane.name}: the schedule sets {words}, in place of this change: change the schedule, too")
    return texts


def _of_impairment(field: str) -> Sequence[str]:
    """The fields of Impairment that a curve of this field sets."""
    return {RTT: ("delay_ns",), DOWN: ("loss_p32", "loss_model", "ecn")}.get(field, (field,))


def _most(seen: list[Impairment]) -> Impairment:
    rates = [one.rate_bps for one in seen if one.rate_bps]
    most = _worst(seen)
    if len(rates) == len(seen):
        return replace(most, rate_bps=max(rates))
    # A lane without a bottleneck at times: the ports' own speed determines the queue.
    return replace(most, rate_bps=None, ecn=False, **at_rest(key for key in KEYS if key.needs_rate))


def _slowest(seen: list[Impairment]) -> Impairment:
    rates = [one.rate_bps for one in seen if one.rate_bps]
    return replace(_worst(seen), rate_bps=min(rates)) if rates else _most(seen)


def _worst(seen: list[Impairment]) -> Impairment:
    """The values at the time with the most loss, and the largest value of each other schedulable field."""
    lossy = max(seen, key=lambda one: one.mean_loss)
    apart = ("loss_p32", "loss_model", "rate_bps")
    names = [name for key in schedulable_keys() for name in key.fields if name not in apart]
    return replace(lossy, **{name: max(getattr(one, name) for one in seen) for name in names})


def curves_of(topology: Topology, track: Track) -> Iterator[Curve]:
    """What a track says, field by field, of each lane and direction that it changes."""
    for name in dict.fromkeys(field for key in track.keys for field, _ in key.values):
        keys = [(key, value) for key in track.keys for field, value in key.values if field == name]
        times, values = tuple(key.at_ns for key, _ in keys), tuple(value for _, value in keys)
        ramps = tuple(key.ramp for key, _ in keys)
        for lane in track.lanes or topology.sites:
            for direction in DIRECTIONS if track.direction == "both" else (track.direction,):
                yield Curve(lane, direction, name, times, values, ramps)


def _changed(lane: Lane, said: Mapping[str, Mapping[str, Any]]) -> Lane:
    """The lane with its curves' values for each direction. A lane that is off stays off."""
    ways = {way: dict(said.get(way, {})) for way in DIRECTIONS}
    rtt_ns = next((fields[RTT] for fields in ways.values() if RTT in fields), None)
    if rtt_ns is not None:
        for way, half_ns in zip(DIRECTIONS, split_rtt(rtt_ns), strict=True):
            ways[way].setdefault("delay_ns", half_ns)
    return LanePatch(outbound=_fields(ways["outbound"]), inbound=_fields(ways["inbound"]), off=lane.off).apply(lane)


def _fields(said: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of Impairment that a direction's curves set."""
    fields = {name: value for name, value in said.items() if name not in (RTT, DOWN)}
    return fields | ({"loss_p32": P32, "loss_model": None, "ecn": False} if said.get(DOWN) else {})
