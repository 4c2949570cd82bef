"""Schedules: keyframes of lanes and directions on one clock. Pure values; `timeline` evaluates them.

Times are ns from the schedule's start. Before a track's first key, the lane is as the topology has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from emulator.model.impairment_keys import key_of
from emulator.model.loss_model import LossModel
from emulator.units import format_duration

DAY_NS = 86_400 * 10**9
STEP_NS = 10**9
"""The default interval between changes of a ramp."""

LONGEST_NS = 366 * DAY_NS
"""A year: the latest time of a key, the longest loop and the latest start."""
MOST_KEYS = 250_000
"""Of all tracks, counted for each lane that they change: a day of seconds in both directions, and some."""
SHORTEST_NS = 1_000_000
"""The shortest loop and step: the lanes cannot follow faster."""
LAST_EPOCH_NS = 2**63 - 1 - LONGEST_NS
"""The last start, in the year 2261: the kernel's clock ends in April 2262."""

RTT, DOWN = "rtt_ns", "down"
"""The values of a keyframe besides the fields of impairments: the round trip, and 1 for losing every packet."""

Value = int | str | LossModel | None
"""A value of a field."""


class Keyframe(Struct, frozen=True):
    """The values from `at_ns` on; with `ramp`, they change linearly from the keyframe before.

    `values` are fields of Impairment (those of the table's schedulable keys), RTT or DOWN, each with its value.
    """

    at_ns: int
    values: tuple[tuple[str, Value], ...]
    ramp: bool = False


class KeyframeMistake(ValueError):
    """What is wrong with the keyframe of number `key`, from 0, of a track."""

    def __init__(self, text: str, key: int) -> None:
        super().__init__(text)
        self.key = key


class Track(Struct, frozen=True):
    """The keyframes of some lanes, all of them when `lanes` is empty, in one direction or "both"."""

    lanes: tuple[str, ...]
    keys: tuple[Keyframe, ...]
    direction: str = "both"

    def __post_init__(self) -> None:
        if not self.keys:
            raise ValueError("a track needs at least one key: add one")
        for number, (before, key) in enumerate(pairwise(self.keys), 1):
            if key.at_ns <= before.at_ns:
                here, there = format_duration(key.at_ns), format_duration(before.at_ns)
                raise KeyframeMistake(f"keys must be in time order: {here} comes after {there}", number)
        for number, key in enumerate(self.keys):
            try:
                self._check(key)
            except ValueError as error:
                raise KeyframeMistake(str(error), number) from None

    def _check(self, key: Keyframe) -> None:
        at = format_duration(key.at_ns)
        if key.at_ns > LONGEST_NS:
            raise ValueError(f"the key at {at} is later than {format_duration(LONGEST_NS)}")
        names = [name for name, _ in key.values]
        if not names:
            raise ValueError(f"the key at {at} sets nothing: add a setting such as loss")
        if RTT in names and (self.direction != "both" or "delay_ns" in names):
            raise ValueError(f"the key at {at}: rtt sets both directions; use delay for one of them")
        if key.ramp and key is self.keys[0]:
            raise ValueError(f"the key at {at} is the first and cannot ramp: add an earlier key")
        if key.ramp:
            self._check_ramp(key, at)

    def _check_ramp(self, key: Keyframe, at: str) -> None:
        for name, value in key.values:
            before = self.last_before(name, key)
            if name == "rate_bps" and None in (value, before):
                raise ValueError(f"the key at {at}: a rate cannot ramp to or from none: use a number")
            if name == DOWN or not _on_a_line(before, value):
                word = name if name in (RTT, DOWN) else key_of(name).name
                raise ValueError(
                    f"the key at {at}: {word.split('_')[0]} cannot ramp from the value before: remove ramp"
                )

    def last_before(self, name: str, key: Keyframe) -> Value:
        """The latest value that the track set before a keyframe; UNSAID when it set none."""
        earlier = [k for k in self.keys if k.at_ns < key.at_ns]
        return next((v for k in reversed(earlier) for n, v in k.values if n == name), UNSAID)


UNSAID = "unsaid"
"""Stands for the value of a field that the track has not set."""


def _on_a_line(one: Value, other: Value) -> bool:
    """Whether a ramp leads from one value to the other: between numbers, or where nothing changes."""
    return (isinstance(one, int) and isinstance(other, int)) or (one == other and one is None)


class Start(Struct, frozen=True):
    """When a schedule's time is 0: `ns` after the run begins ("now"), at an instant ("at", ns since 1970), or every day
    at that time of day, UTC ("daily")."""

    kind: str = "now"
    ns: int = 0

    def __post_init__(self) -> None:
        if self.kind == "at" and not 0 <= self.ns <= LAST_EPOCH_NS:
            raise ValueError("a start is within the years 1970..2260")
        if self.kind == "now" and self.ns > LONGEST_NS:
            raise ValueError(f"a start in {format_duration(self.ns)} is later than {format_duration(LONGEST_NS)}")

    def epoch_ns(self, now_ns: int) -> int:
        """The schedule's time 0, in ns since 1970, for a run that begins now."""
        if self.kind == "now":
            return now_ns + self.ns
        if self.kind == "at":
            return self.ns
        return (now_ns - self.ns) // DAY_NS * DAY_NS + self.ns


NOW = Start()


class Schedule(Struct, frozen=True):
    """Tracks on one clock, played once or in a loop; ramps change every `step_ns`."""

    tracks: tuple[Track, ...]
    loop_ns: int | None = None
    step_ns: int = STEP_NS
    start: Start = NOW

    def __post_init__(self) -> None:
        if not self.tracks:
            raise ValueError("a schedule needs at least one track: add one")
        for name, ns in (("step", self.step_ns), ("loop", self.loop_ns)):
            if ns is not None and not SHORTEST_NS <= ns <= LONGEST_NS:
                low, high = format_duration(SHORTEST_NS), format_duration(LONGEST_NS)
                raise ValueError(f"a {name} of {format_duration(ns)} is not within {low}..{high}")
        times = {key.at_ns for track in self.tracks for key in track.keys}
        if self.loop_ns is not None and self.loop_ns < len(times) * SHORTEST_NS:
            loop, least = format_duration(self.loop_ns), format_duration(len(times) * SHORTEST_NS)
            raise ValueError(f"a loop of {loop} is too short for {len(times)} times of keys: use {least} or more")
        if self.loop_ns is not None and self.loop_ns <= self.last_ns:
            loop, last = format_duration(self.loop_ns), format_duration(self.last_ns)
            raise ValueError(f"the loop of {loop} ends before the last key at {last}")

    def sparing(self, lane: str, sites: Sequence[str]) -> Schedule | None:
        """The schedule without this lane of the topology's `sites`; None when it changes no other lane."""
        rest = (replace(one, lanes=tuple(n for n in one.lanes or sites if n != lane)) for one in self.tracks)
        tracks = tuple(track for track in rest if track.lanes)
        return replace(self, tracks=tracks) if tracks else None

    @property
    def last_ns(self) -> int:
        """The time of the last key."""
        return max(track.keys[-1].at_ns for track in self.tracks)
