"""What a test run varies: the axes of its grid, as text and as values.

What would fail in the middle of a run is refused here, before anything starts. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

from emulator import units
from emulator.model.loss_model import P32
from emulator.model.tcp_profile import LARGEST_BUFFER_BYTES, MOST_SEGMENTS
from emulator.model.topology import LEAST_MTU, MOST_MTU

OUTBOUND, INBOUND = "outbound", "inbound"
BOTH = "both"
DIRECTIONS = (OUTBOUND, INBOUND, BOTH)

MOST_STREAMS, LONGEST_S = 128, 86_400
"""Of one measurement: what a host can carry, and a day. A workload that can do less says so (`Workload.check`)."""
LONGEST_RTT_NS = 3_000_000_000
"""Three requests, one a second (mcast_solicit, retrans_time_ms); then what waits to be sent is dropped."""
MOST_REPEATS = 30
SMALLEST_WINDOW_BYTES = 4096
LARGEST_WINDOW_BYTES = LARGEST_BUFFER_BYTES * 2 // 3
"""What is in flight of the largest send buffer at the least: its writer sleeps until a third is free."""
LEAST_RATE_BPS = 8
ALGORITHM_PATTERN = r"[a-z0-9_-]{1,15}"
"""What the kernel has room for in the name of a congestion control (TCP_CA_NAME_MAX)."""


def _number(value: int) -> str:
    return str(value)


LIMITS: dict[str, tuple[int, int, Callable[[int], str], str]] = {
    "rtt": (0, LONGEST_RTT_NS, units.format_duration, "as long as the kernel waits for an answer to ARP"),
    "streams": (1, MOST_STREAMS, _number, "what one measurement has"),
    "duration": (1, LONGEST_S, "{} s".format, "no more than a day"),
    "repeats": (1, MOST_REPEATS, _number, "what is worth the time"),
    "window": (SMALLEST_WINDOW_BYTES, LARGEST_WINDOW_BYTES, units.format_size, "what socket buffers can offer"),
    "initcwnd": (1, MOST_SEGMENTS, _number, "what a route can hold"),
    "mtu": (LEAST_MTU, MOST_MTU, _number, "what a lane can have"),
}
"""Of each axis the least, the most, how to write them, and whose limits they are."""


@dataclass(frozen=True)
class Axes:
    """What is varied; an empty axis leaves what the lane, the profile or the kernel has. ns, bit/s, p32, bytes, s.

    `window` makes profiles whose receive buffer offers a window of that many bytes; without it and `profile` there
    are default and max. Called as in a topology file's `sweep` section and on the command line.
    """

    rtt: tuple[int, ...] = ()
    lane: tuple[str, ...] = ()
    profile: tuple[str, ...] = ()
    window: tuple[int, ...] = ()
    streams: tuple[int, ...] = (1,)
    cc: tuple[str, ...] = ()
    initcwnd: tuple[int, ...] = ()
    direction: tuple[str, ...] = (OUTBOUND,)
    mtu: tuple[int, ...] = ()
    rate: tuple[int, ...] = ()
    loss: tuple[int, ...] = ()
    duration: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            for one in value if isinstance(value, tuple) else () if value is None else (value,):
                _check(field.name, one)


def parse(key: str, text: str) -> Any:
    """One value of an axis (or of `repeats`), by its key. Raises ValueError."""
    value = _READERS[key](text)
    _check(key, value)
    return value


def parse_all(texts: Iterable[str], read: Callable[[str], Any]) -> tuple[Any, ...]:
    """Several values of an axis. Raises ValueError with everything that is wrong with them."""
    values, wrong = [], []
    for text in texts:
        try:
            values.append(read(text))
        except ValueError as error:
            wrong.append(str(error))
    if wrong:
        raise ValueError("; ".join(wrong))
    return tuple(values)


def _check(key: str, value: Any) -> None:
    if key in LIMITS:
        least, most, written, whose = LIMITS[key]
        if not least <= value <= most:
            raise ValueError(f"{written(value)} is not within {written(least)}..{written(most)}, {whose}")
    elif key == "direction" and value not in DIRECTIONS:
        raise ValueError(f"no such direction as {value!r}; there are {', '.join(DIRECTIONS)}")
    elif key == "cc" and not re.fullmatch(ALGORITHM_PATTERN, value):
        raise ValueError(f"{value!r} is no name of a congestion control such as cubic or bbr")
    elif key == "rate" and value < LEAST_RATE_BPS:
        raise ValueError(f"{value} bit/s are below one byte a second")
    elif key == "loss" and value >= P32:
        raise ValueError("a loss of 100% lets nothing through that could be measured")


def _word(text: str) -> str:
    if not text:
        raise ValueError("a name was expected")
    return text


def _whole_seconds(text: str) -> int:
    """A duration in s; a bare number is in s."""
    duration_ns = units.parse_duration_ns(f"{text}s" if text.isdigit() else text)
    if not duration_ns or duration_ns % 10**9:
        raise ValueError(f"{text!r} is not understood: whole seconds were expected, such as 30s")
    return duration_ns // 10**9


_READERS: dict[str, Callable[[str], Any]] = {
    "rtt": units.parse_duration_ns,
    "lane": _word,
    "profile": _word,
    "window": units.parse_size_bytes,
    "streams": units.parse_count,
    "cc": _word,
    "initcwnd": units.parse_count,
    "direction": _word,
    "mtu": units.parse_count,
    "rate": units.parse_rate_bps,
    "loss": units.parse_probability_p32,
    "duration": _whole_seconds,
    "repeats": units.parse_count,
}
