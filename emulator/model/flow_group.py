"""Groups of flows that share a bottleneck, and contests of several groups. Values, and their text; pure.

A group is `CC:N` and settings: `cubic:2:start=5s:stop=20s`. A contest is one group or several, with commas between.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations_with_replacement
from typing import Any

from msgspec import Struct

from emulator import units
from emulator.errors import no_such
from emulator.model.sweep_axes import ALGORITHM_PATTERN, LONGEST_RTT_NS, LONGEST_THINK_NS

MOST_FLOWS_OF_A_GROUP, MOST_GROUPS = 256, 8
MOST_CONTESTS = 64
LARGEST_TRANSFER_BYTES = 1 << 40
EXAMPLE = "cubic:1,bbr:1"


class FlowGroup(Struct, frozen=True):
    """`flows` TCP connections of one congestion control, which send from `start_ns` to `stop_ns` (None: to the end).

    Without `bytes` each sends as much as it can. With `bytes` each sends so many over a new connection, waits for the
    receiver's answer, thinks for `think_ns`, and sends again; with `keeps` it does so over one connection. `rtt_ns`
    None: the lane's; a longer RTT is that of a further site, whose flows cross the lane too. `paced`: TCP spreads the
    segments over the round trip, as bbr always does (SO_MAX_PACING_RATE, net/core/sock.c).
    """

    congestion_control: str
    flows: int = 1
    start_ns: int = 0
    stop_ns: int | None = None
    rtt_ns: int | None = None
    bytes: int | None = None
    think_ns: int = 0
    keeps: bool = False
    paced: bool = False

    def __post_init__(self) -> None:
        if not re.fullmatch(ALGORITHM_PATTERN, self.congestion_control):
            raise ValueError(f"{self.congestion_control!r} is not the name of a congestion control: use cubic or bbr")
        if not 1 <= self.flows <= MOST_FLOWS_OF_A_GROUP:
            raise ValueError(f"{self.flows} flows are not within 1..{MOST_FLOWS_OF_A_GROUP}")
        if self.stop_ns is not None and self.stop_ns <= self.start_ns:
            raise ValueError("a group stops after its start: use stop above start")
        if self.rtt_ns is not None and not 0 < self.rtt_ns <= LONGEST_RTT_NS:
            raise ValueError(f"an RTT is above 0 and up to {units.format_duration(LONGEST_RTT_NS)}")
        if self.bytes is None and (self.think_ns or self.keeps):
            raise ValueError("only transfers have pauses and keep a connection: add bytes, such as bytes=100KiB")
        if self.bytes is not None and not 1 <= self.bytes <= LARGEST_TRANSFER_BYTES:
            raise ValueError(f"{self.bytes} bytes are not within 1 B..{units.format_size(LARGEST_TRANSFER_BYTES)}")
        if not 0 <= self.think_ns <= LONGEST_THINK_NS:
            raise ValueError(f"a pause is not longer than {units.format_duration(LONGEST_THINK_NS)}")

    @classmethod
    def parse(cls, text: str) -> FlowGroup:
        """The group of a text such as "cubic:2:start=5s". Raises ValueError."""
        name, *settings = (part.strip() for part in text.split(":"))
        given: dict[str, Any] = {}
        if settings and "=" not in settings[0] and settings[0] not in FLAGS:
            given["flows"] = units.parse_count(settings.pop(0))
        for setting in settings:
            key, value = _setting(setting)
            if key in given:
                raise ValueError(f"{text!r} names {setting.partition('=')[0]} twice")
            given[key] = value
        return cls(name, **given)

    def __str__(self) -> str:
        """The text that `parse` reads."""
        settings = (one.replace(" ", "") for one in self._settings("="))
        return ":".join((self.congestion_control, str(self.flows), *settings))

    @property
    def part(self) -> str:
        """Its part of a cell's name."""
        return "-".join([f"{self.congestion_control}{self.flows}", *(units.compact(one) for one in self._settings(""))])

    @property
    def title(self) -> str:
        """Its name in tables: "2 cubic", "8 cubic of 100 KiB"."""
        own = [one.replace("=", " ") for one in self._settings("=")]
        return " ".join([f"{self.flows} {self.congestion_control}", *own])

    def _settings(self, mark: str) -> list[str]:
        return [
            *([f"start{mark}{units.format_duration(self.start_ns)}"] if self.start_ns else []),
            *([f"stop{mark}{units.format_duration(self.stop_ns)}"] if self.stop_ns is not None else []),
            *([f"rtt{mark}{units.format_duration(self.rtt_ns)}"] if self.rtt_ns is not None else []),
            *([f"bytes{mark}{units.format_size(self.bytes)}"] if self.bytes is not None else []),
            *([f"think{mark}{units.format_duration(self.think_ns)}"] if self.think_ns else []),
            *(word for word, field in FLAGS.items() if getattr(self, field)),
        ]

    @property
    def is_endless(self) -> bool:
        """Whether its flows send as much as they can, without pauses."""
        return self.bytes is None


FLAGS = {"keep": "keeps", "paced": "paced"}
"""The settings of a group's text that have no value: the field."""
_READERS: dict[str, tuple[str, Callable[[str], int]]] = {
    "start": ("start_ns", units.parse_duration_ns),
    "stop": ("stop_ns", units.parse_duration_ns),
    "rtt": ("rtt_ns", units.parse_duration_ns),
    "bytes": ("bytes", units.parse_size_bytes),
    "think": ("think_ns", units.parse_duration_ns),
}
"""The settings of a group's text that have a value: the field, and the reader of its value."""
SETTINGS = (*_READERS, *FLAGS)


def _setting(text: str) -> tuple[str, Any]:
    """The field and the value of one setting. Raises ValueError."""
    name, given, value = text.partition("=")
    if name in FLAGS and not given:
        return FLAGS[name], True
    if name not in _READERS:
        raise ValueError(no_such("setting of a group", name, SETTINGS))
    field, read = _READERS[name]
    return field, read(value)


class Contest(Struct, frozen=True):
    """The groups of flows that share a bottleneck; the first is the one of interest. One group alone is one, too."""

    groups: tuple[FlowGroup, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.groups) <= MOST_GROUPS:
            raise ValueError(f"{len(self.groups)} groups are not within 1..{MOST_GROUPS}")

    @classmethod
    def parse(cls, text: str) -> Contest:
        """The contest of a text such as "cubic:1,bbr:1". Raises ValueError with every mistake in it."""
        groups, wrong = [], []
        for part in text.split(","):
            try:
                groups.append(FlowGroup.parse(part.strip()))
            except ValueError as error:
                wrong.append(f"{part.strip()!r}: {error}")
        if wrong:
            raise ValueError("; ".join(wrong))
        return cls(tuple(groups))

    def __str__(self) -> str:
        return ",".join(map(str, self.groups))

    @property
    def title(self) -> str:
        """What distinguishes it from other contests, in words."""
        return " against ".join(group.title for group in self.groups)

    @property
    def part(self) -> str:
        """The same as a part of a cell's name."""
        return "-vs-".join(group.part for group in self.groups)

    def longest_rtt_ns(self, lane_rtt_ns: int) -> int:
        """The longest RTT of a group over a lane of this RTT."""
        return max(group.rtt_ns or lane_rtt_ns for group in self.groups)

    @property
    def alone(self) -> tuple[Contest, ...]:
        """Each different group of it without the others: what the harm to it is measured against."""
        return tuple(Contest((group,)) for group in dict.fromkeys(self.groups)) if len(self.groups) > 1 else ()


SHORTEST_NS, SHORTEST_ROUND_TRIPS = 60 * 10**9, 400
"""How long groups share the lane at the least, where nobody says how long: some periods of CUBIC at 1 Gbit/s."""


def least_duration_s(contest: Contest, rtt_ns: int) -> int:
    """How long a measurement must last so that the groups come to share the lane, in whole s."""
    last_ns = max(max(group.start_ns, group.stop_ns or 0) for group in contest.groups)
    return -(-(last_ns + max(SHORTEST_NS, SHORTEST_ROUND_TRIPS * contest.longest_rtt_ns(rtt_ns))) // 10**9)


def pairs(algorithms: Iterable[str]) -> tuple[Contest, ...]:
    """Every pair of these congestion controls, each against itself too, one flow each."""
    each = [FlowGroup(name) for name in dict.fromkeys(algorithms)]
    return tuple(Contest(pair) for pair in combinations_with_replacement(each, 2))


def with_each_alone(contests: Sequence[Contest]) -> tuple[Contest, ...]:
    """The contests, and after them every group of theirs alone, each once. Raises ValueError when they are too many."""
    every = tuple(dict.fromkeys((*contests, *(one for contest in contests for one in contest.alone))))
    if len(every) > MOST_CONTESTS:
        raise ValueError(f"{len(every)} contests, each group alone included, are too many: {MOST_CONTESTS} at most")
    return every
