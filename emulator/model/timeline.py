"""A schedule over a topology: the lanes at any time, and when they change next. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from emulator.model.bottleneck import BETWEEN_FRAMES_BYTES, MIN_BUFFER_NS, SMALLEST_FRAME_BYTES
from emulator.model.impairment import Impairment
from emulator.model.impairment_keys import KEYS, at_rest, key_of, schedulable_keys
from emulator.model.lane_patch import LanePatch
from emulator.model.loss_model import P32
from emulator.model.schedule import DOWN, MOST_KEYS, RTT, Schedule, Track, Value
from emulator.model.topology import Lane, Topology, split_rtt
from emulator.units import format_duration

DIRECTIONS = ("outbound", "inbound")

Said = dict[str, dict[str, dict[str, Any]]]
"""The fields of Impairment, and DOWN, by lane and direction."""


class Curve(Struct, frozen=True):
    """One field of one direction of one lane over time; `ramps[i]` says whether a ramp leads to its i-th value.

    All ramps change at the same times, the multiples of the schedule's step, and each at its own first key.
    """

    lane: str
    direction: str
    field: str
    times: tuple[int, ...]
    values: tuple[Value, ...]
    ramps: tuple[bool, ...]

    def at(self, t_ns: int, step_ns: int) -> Value:
        """The value at that time, at or after the first keyframe; on a ramp it is rounded down."""
        i = bisect_right(self.times, t_ns) - 1
        now = self.values[i]
        goal = self.values[i + 1] if i + 1 < len(self.times) and self.ramps[i + 1] else now
        if now == goal or not (isinstance(now, int) and isinstance(goal, int)):
            return now
        passed, whole = max(0, t_ns - t_ns % step_ns - self.times[i]), self.times[i + 1] - self.times[i]
        return now + (goal - now) * passed // whole

    def next_after(self, t_ns: int, step_ns: int) -> int | None:
        """When the value may change next; None when never."""
        i = bisect_right(self.times, t_ns)
        if i == len(self.times):
            return None
        if i and self.ramps[i]:
            return min(self.times[i], t_ns - t_ns % step_ns + step_ns)
        return self.times[i]


class Timeline:
    """The lanes of a topology under its schedule. Raises ValueError when a lane is invalid at any time."""

    def __init__(self, topology: Topology, schedule: Schedule) -> None:
        self.topology, self.schedule = topology, schedule
        count = sum(len(track.keys) * len(track.lanes or topology.sites) for track in schedule.tracks)
        if count > MOST_KEYS:
            raise ValueError(f"{count} keys, counted for each lane, are too many: {MOST_KEYS} at most")
        self.curves = [curve for track in schedule.tracks for curve in curves_of(topology, track, one_delay=True)]
        for t_ns in self.breakpoints():
            try:
                self._lanes(self._said_at(t_ns))
            except ValueError as error:
                raise ValueError(f"at {format_duration(t_ns)} of the schedule: {error}") from None

    def breakpoints(self) -> list[int]:
        """Every time at which a curve bends or jumps, the time just before, and the first step of a ramp after it.

        From that step on until just before the next bend, all curves are straight: no value is beyond those at both
        ends.
        """
        times, step = {0, *(t for curve in self.curves for t in curve.times)}, self.schedule.step_ns
        steps = {t - t % step + step for t in times} if any(any(curve.ramps) for curve in self.curves) else set()
        end = self.schedule.loop_ns or self.schedule.last_ns
        return sorted(times | {t - 1 for t in times if t} | {t for t in steps if t < end})

    def at(self, t_ns: int) -> Topology:
        """The topology `t_ns` after the start; before the start, as its file says."""
        if t_ns < 0:
            return self.topology
        said = self._said_at(t_ns)
        for lane in (one for one in self.topology.lanes if one.name in said):
            for direction, fields in said[lane.name].items():
                # Both are rounded, each from its own ramp: the jitter may then exceed the delay by one nanosecond.
                if "jitter_ns" in fields:
                    delay_ns = fields.get("delay_ns", getattr(lane, direction).delay_ns)
                    fields["jitter_ns"] = min(fields["jitter_ns"], delay_ns)
        return replace(self.topology, lanes=self._lanes(said))

    def _said_at(self, t_ns: int) -> Said:
        """What the schedule says at or after the start, by lane, direction and field; later tracks go before."""
        phase = t_ns % self.schedule.loop_ns if self.schedule.loop_ns else t_ns
        said: Said = {}
        for curve in self.curves:
            if phase >= curve.times[0]:
                field, value = _as_delay(curve.field, curve.at(phase, self.schedule.step_ns), curve.direction)
                said.setdefault(curve.lane, {}).setdefault(curve.direction, {})[field] = value
        return said

    def _lanes(self, said: Said) -> tuple[Lane, ...]:
        """The lanes with what the schedule says. Raises ValueError where they would be contradictory."""
        return tuple(_changed(lane, said[lane.name]) if lane.name in said else lane for lane in self.topology.lanes)

    @cached_property
    def extremes(self) -> tuple[Topology, Topology]:
        """The topology with the largest values of each direction, and the same at its lowest rate.

        The first needs the longest queue; both together show whether packets must ever pass one by one.
        """
        scheduled = [self.at(t_ns).lanes for t_ns in self.breakpoints()]
        seen = list(zip(*scheduled, strict=True))
        most, least = (tuple(_extreme(lanes, of) for lanes in seen) for of in (_most, _slowest))
        return replace(self.topology, lanes=most), replace(self.topology, lanes=least)

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


def _extreme(seen: Sequence[Lane], of: Callable[[Sequence[Lane], str], Impairment]) -> Lane:
    """The lane at many times as one lane, with an extreme of each direction, of its flows, too."""
    ways = zip(*(lane.ways for lane in seen), strict=True)
    own, *others = ({direction: of(way, direction) for direction in DIRECTIONS} for way in ways)
    flows = (replace(flow, **found) for flow, found in zip(seen[0].flows, others, strict=True))
    return replace(seen[0], **own, flows=tuple(flows))


def _most(seen: Sequence[Lane], direction: str) -> Impairment:
    impairments = [getattr(lane, direction) for lane in seen]
    most, rates = _worst(impairments), [one.rate_bps for one in impairments if one.rate_bps]
    if len(rates) == len(seen):
        return replace(most, rate_bps=max(rates))
    if rates and _needs_longer_queue(max(rates), seen):
        return replace(most, rate_bps=max(*rates, seen[0].line_rate_bps))
    # A lane without a bottleneck at times: the ports' own speed determines the queue.
    return replace(most, rate_bps=None, ecn=False, **at_rest(key for key in KEYS if key.needs_rate))


def _needs_longer_queue(rate_bps: int, seen: Sequence[Lane]) -> bool:
    """Whether a bottleneck of this rate may hold more packets than the lane without one.

    In flight is what the rate or the ports' speed carries in a round trip. As much again waits in the bottleneck's
    buffer, and small frames have no gap there.
    """
    rtt_ns = max(lane.outbound.delay_ns for lane in seen) + max(lane.inbound.delay_ns for lane in seen)
    held = rate_bps * (rtt_ns + max(rtt_ns, MIN_BUFFER_NS)) * (SMALLEST_FRAME_BYTES + BETWEEN_FRAMES_BYTES)
    return held > seen[0].line_rate_bps * rtt_ns * SMALLEST_FRAME_BYTES


def _slowest(seen: Sequence[Lane], direction: str) -> Impairment:
    impairments = [getattr(lane, direction) for lane in seen]
    rates = [one.rate_bps for one in impairments if one.rate_bps]
    return replace(_worst(impairments), rate_bps=min(rates)) if rates else _most(seen, direction)


def _worst(seen: list[Impairment]) -> Impairment:
    """The values at the time with the most loss, and the largest value of each other schedulable field."""
    lossy = max(seen, key=lambda one: one.mean_loss)
    apart = ("loss_p32", "loss_model", "rate_bps")
    names = [name for key in schedulable_keys() for name in key.fields if name not in apart]
    return replace(lossy, **{name: max(getattr(one, name) for one in seen) for name in names})


def curves_of(topology: Topology, track: Track, *, one_delay: bool = False) -> Iterator[Curve]:
    """What a track says, field by field, of each lane and direction that it changes.

    With `one_delay`, keys of a track that set the RTT and others that set the delay make one curve of the delay.
    """
    names = list(dict.fromkeys(field for key in track.keys for field, _ in key.values))
    mixed = one_delay and {RTT, "delay_ns"} <= set(names)
    for name in (one for one in names if not (mixed and one == RTT)):
        for direction in DIRECTIONS if track.direction == "both" else (track.direction,):
            pairs = ((key, pair) for key in track.keys for pair in key.values)
            said = [(key, _as_delay(*pair, direction) if mixed else pair) for key, pair in pairs]
            keys = [(key, value) for key, (field, value) in said if field == name]
            times, values = tuple(key.at_ns for key, _ in keys), tuple(value for _, value in keys)
            ramps = tuple(key.ramp for key, _ in keys)
            for lane in track.lanes or topology.sites:
                yield Curve(lane, direction, name, times, values, ramps)


def _as_delay(field: str, value: Value, direction: str) -> tuple[str, Value]:
    """An RTT as the delay of one direction; any other field as it is."""
    if field == RTT and isinstance(value, int):
        return "delay_ns", split_rtt(value)[DIRECTIONS.index(direction)]
    return field, value


def _changed(lane: Lane, said: Mapping[str, Mapping[str, Value]]) -> Lane:
    """The lane with its curves' values for each direction. A lane that is off stays off; one that is down loses the
    packets of its flows, too."""
    outbound, inbound = (said.get(way, {}) for way in DIRECTIONS)
    lost = LanePatch(outbound=_lost(outbound), inbound=_lost(inbound))
    flows = {flow.name: lost for flow in lane.flows} if lost.outbound or lost.inbound else {}
    return LanePatch(outbound=_fields(outbound), inbound=_fields(inbound), off=lane.off, flows=flows).apply(lane)


def _fields(said: Mapping[str, Value]) -> dict[str, Any]:
    """The fields of Impairment that a direction's curves set."""
    return {name: value for name, value in said.items() if name != DOWN} | _lost(said)


def _lost(said: Mapping[str, Value]) -> dict[str, Any]:
    """The fields of Impairment that lose every packet, while the curves of a direction say that it is down."""
    return {"loss_p32": P32, "loss_model": None, "ecn": False} if said.get(DOWN) else {}
