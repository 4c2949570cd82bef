"""What changes when: keyframes of lanes and directions on one clock. Pure values; `timeline` evaluates them.

Times are ns from the schedule's start. Before a track's first key, the lane is as the topology has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from emulator.model.impairment_keys import key_of
from emulator.model.loss_model import LossModel
from emulator.units import format_duration

DAY_NS = 86_400 * 10**9
STEP_NS = 10**9
"""The default interval between changes of a ramp."""

RTT, DOWN = "rtt_ns", "down"
"""What a keyframe may set besides the fields of impairments: the round trip, and 1 for losing every packet."""

Value = int | str | LossModel | None
"""A value of a field."""


@dataclass(frozen=True)
class Keyframe:
    """What holds from `at_ns` on; with `ramp`, the value changes linearly from the keyframe before.

    `values` are fields of Impairment (those of the table's schedulable keys), RTT or DOWN, each with its value.
    """

    at_ns: int
    values: tuple[tuple[str, Value], ...]
    ramp: bool = False


@dataclass(frozen=True)
class Track:
    """The keyframes of some lanes, all of them when `lanes` is empty, in one direction or "both"."""

    lanes: tuple[str, ...]
    keys: tuple[Keyframe, ...]
    direction: str = "both"

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("a track needs at least one key")
        for before, key in pairwise(self.keys):
            if key.at_ns <= before.at_ns:
                here, there = format_duration(key.at_ns), format_duration(before.at_ns)
                raise ValueError(f"keys must be in time order: {here} comes after {there}")
        for key in self.keys:
            self._check(key)

    def _check(self, key: Keyframe) -> None:
        at = format_duration(key.at_ns)
        names = [name for name, _ in key.values]
        if not names:
            raise ValueError(f"the key at {at} sets nothing")
        if RTT in names and (self.direction != "both" or "delay_ns" in names):
            raise ValueError(f"the key at {at}: rtt is for both directions at once; write delay for one of them")
        if key.ramp and key is self.keys[0]:
            raise ValueError(f"the key at {at} is the first: there is nothing to ramp from")
        if key.ramp:
            self._check_ramp(key, at)

    def _check_ramp(self, key: Keyframe, at: str) -> None:
        for name, value in key.values:
            before = self.last_before(name, key)
            if name == "rate_bps" and None in (value, before):
                raise ValueError(f"the key at {at}: a rate of none is no number to ramp to or from")
            if name == DOWN or not _on_a_line(before, value):
                word = name if name in (RTT, DOWN) else key_of(name).name
                raise ValueError(f"the key at {at}: {word.split('_')[0]} can only step from what stands before it")

    def last_before(self, name: str, key: Keyframe) -> Value:
        """The latest value that the track set before a keyframe; UNSAID when it set none."""
        earlier = [k for k in self.keys if k.at_ns < key.at_ns]
        return next((v for k in reversed(earlier) for n, v in k.values if n == name), UNSAID)


UNSAID = "unsaid"
"""Not a value of a field: a track has set nothing."""


def _on_a_line(one: Value, other: Value) -> bool:
    """Whether a ramp leads from one value to the other: between numbers, or where nothing changes."""
    return (isinstance(one, int) and isinstance(other, int)) or (one == other and one is None)


@dataclass(frozen=True)
class Start:
    """When a schedule's time is 0: `ns` after the run begins ("now"), at an instant ("at", ns since 1970), or every day
    at that time of day, UTC ("daily")."""

    kind: str = "now"
    ns: int = 0

    def epoch_ns(self, now_ns: int) -> int:
        """The schedule's time 0, in ns since 1970, for a run that begins now."""
        if self.kind == "now":
            return now_ns + self.ns
        if self.kind == "at":
            return self.ns
        return (now_ns - self.ns) // DAY_NS * DAY_NS + self.ns


NOW = Start()


@dataclass(frozen=True)
class Schedule:
    """Tracks on one clock, played once or in a loop; ramps change every `step_ns`."""

    tracks: tuple[Track, ...]
    loop_ns: int | None = None
    step_ns: int = STEP_NS
    start: Start = NOW

    def __post_init__(self) -> None:
        if not self.tracks:
            raise ValueError("a schedule needs at least one track")
        if self.step_ns < 1_000_000:
            raise ValueError("a step is at least 1 ms")
        if self.loop_ns is not None and self.loop_ns <= self.last_ns:
            loop, last = format_duration(self.loop_ns), format_duration(self.last_ns)
            raise ValueError(f"the loop of {loop} ends before the last key at {last}")

    @property
    def last_ns(self) -> int:
        """The time of the last key."""
        return max(track.keys[-1].at_ns for track in self.tracks)
