"""The axes of a sweep: one table, from which the topology file's section, the options, the API and the web form are
made; and their values. Pure.

It refuses values that would fail in the middle of a run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from emulator import units
from emulator.errors import no_such
from emulator.model.buffer_depth import BufferDepth
from emulator.model.impairment import AQMS
from emulator.model.loss_model import P32
from emulator.model.tcp_profile import LARGEST_BUFFER_BYTES, MOST_SEGMENTS
from emulator.model.topology import LEAST_MTU, MOST_MTU

OUTBOUND, INBOUND = "outbound", "inbound"
BOTH = "both"
DIRECTIONS = (OUTBOUND, INBOUND, BOTH)

MOST_STREAMS, LONGEST_S = 128, 86_400
"""Of one measurement: what a host can carry, and a day. A workload that can do less says so (`Workload.check`)."""
LONGEST_RTT_NS = 3_000_000_000
"""Three requests, one a second (mcast_solicit, retrans_time_ms); then the kernel drops the waiting packets."""
MOST_REPEATS = 30
MOST_VALUES = 64
"""Of one axis."""
SMALLEST_WINDOW_BYTES = 4096
LARGEST_WINDOW_BYTES = LARGEST_BUFFER_BYTES * 2 // 3
"""The least share in flight of a full send buffer: its writer sleeps until a third of it is free."""
LEAST_RATE_BPS = 8
MOST_CONNECTIONS, MOST_IN_FLIGHT = 4096, 1024
LARGEST_MESSAGE_BYTES, LONGEST_THINK_NS = 2**30, 3600 * 10**9
DEFAULT_REQUESTS, MOST_REQUESTS = 100_000, 10_000_000
MOST_OFFERED_PER_S = 1e6
ALGORITHM_PATTERN = r"[a-z0-9_-]{1,15}"
"""The longest name of a congestion control (TCP_CA_NAME_MAX)."""


class SweepAxis(Struct, frozen=True):
    """One axis: how its values are read and written, and its description for users.

    `limits` are the least, the most, how to write them, and what sets them. `single` axes have one value. `default`
    says in words what holds when a file and a command line name no value; `of_a_request` says what holds when a
    request of the API names none, where that differs.
    """

    key: str
    read: Callable[[str], Any]
    expected: str
    metavar: str
    label: str
    help: str
    examples: tuple[str, ...]
    default: str
    limits: tuple[int, int, Callable[[int], str], str] | None = None
    choices: tuple[str, ...] = ()
    single: bool = False
    of_a_request: str = ""

    @property
    def default_of_a_request(self) -> str:
        """What holds when a request of the API names no value, in words."""
        return self.of_a_request or self.default

    @property
    def has_unit(self) -> bool:
        """Whether its values are written with a unit."""
        return self.read in _WITH_UNITS

    @property
    def option(self) -> str:
        """The option on the command line."""
        return f"--{self.key.replace('_', '-')}"

    def check(self, value: Any) -> None:
        """Raise ValueError when no measurement can have this value."""
        if self.limits:
            least, most, written, whose = self.limits
            if not least <= value <= most:
                raise ValueError(f"{written(value)} is not within {written(least)}..{written(most)}, {whose}")
        elif self.choices and value not in self.choices:
            raise ValueError(no_such(self.key, value, self.choices))
        elif self.key in _CHECKS:
            _CHECKS[self.key](value)


_WITH_UNITS: tuple[Callable[[str], Any], ...] = (
    units.parse_duration_ns, units.parse_size_bytes, units.parse_rate_bps, units.parse_probability_p32,
    BufferDepth.parse,
)  # fmt: skip


def _word(text: str) -> str:
    if not text:
        raise ValueError("a value is empty: use a name")
    return text


def _number(value: int) -> str:
    return str(value)


def _whole_seconds(text: str) -> int:
    """A duration in s; a bare number is in s."""
    duration_ns = units.parse_duration_ns(f"{text}s" if text.isdigit() else text)
    if not duration_ns or duration_ns % 10**9:
        raise ValueError(f"{text!r} is not a positive number of whole seconds: use 30s or 2min")
    return duration_ns // 10**9


def _per_second(text: str) -> float:
    """A number of requests a second, which may be a fraction."""
    if not _NUMBER.fullmatch(text.strip()) or not 0 < float(text) <= MOST_OFFERED_PER_S:
        most = f"{MOST_OFFERED_PER_S:.0f}"
        raise ValueError(f"{text!r} is not a number of requests a second above 0 and up to {most}: use 100 or 0.5")
    return float(text)


def _check_algorithm(name: str) -> None:
    if not re.fullmatch(ALGORITHM_PATTERN, name):
        raise ValueError(f"{name!r} is not the name of a congestion control: use cubic or bbr")


def _check_rate(rate_bps: int) -> None:
    if rate_bps < LEAST_RATE_BPS:
        raise ValueError(f"{rate_bps} bit/s is below the minimum of one byte a second")


def _check_loss(loss_p32: int) -> None:
    if loss_p32 >= P32:
        raise ValueError("a loss of 100% lets no packet through: nothing could be measured")


_CHECKS: dict[str, Callable[[Any], None]] = {"cc": _check_algorithm, "rate": _check_rate, "loss": _check_loss}

AXES: tuple[SweepAxis, ...] = (
    SweepAxis(
        "rtt", units.parse_duration_ns, "a time such as 32ms", "RTT,...", "Round-trip times",
        "Round-trip times that the lane gets instead of its own.", ("0ms", "32ms", "346ms"), "the lane's own",
        (0, LONGEST_RTT_NS, units.format_duration, "as long as the kernel waits for an answer to ARP"),
    ),
    SweepAxis(
        "lane", _word, "a name", "NAME,...", "Lanes",
        "Lanes to measure.", ("japan",), "all lanes of the file; without a file, one plain lane",
        of_a_request="one plain lane, of the RTTs that are named",
    ),
    SweepAxis(
        "tcp_profile", _word, "a name", "NAME,...", "TCP profiles",
        "TCP settings of the hosts, by name: default, max, founding, or your own.", ("default", "max", "founding"),
        "default and max; none beside windows", of_a_request="default; none beside windows",
    ),
    SweepAxis(
        "window", units.parse_size_bytes, "a size such as 1MiB", "SIZE,...", "Receive windows",
        "Receive windows, each a TCP profile of its own; 64KiB and its doubles are exact.", ("256KiB", "1MiB"),
        "those of the TCP profiles",
        (SMALLEST_WINDOW_BYTES, LARGEST_WINDOW_BYTES, units.format_size, "what socket buffers can offer"),
    ),
    SweepAxis(
        "streams", units.parse_count, "a whole number", "N,...", "Parallel streams",
        f"Numbers of parallel TCP streams, {MOST_STREAMS} at most.", ("1", "8"), "1",
        (1, MOST_STREAMS, _number, "what one measurement has"),
    ),
    SweepAxis(
        "cc", _word, "a name", "NAME,...", "Congestion controls",
        "Congestion controls, such as cubic, bbr and reno; the lab has all of Linux.", ("cubic", "bbr"),
        "the TCP profile's, else the kernel's",
    ),
    SweepAxis(
        "initcwnd", units.parse_count, "a whole number", "N,...", "Initial congestion windows",
        "Initial congestion windows, in segments.", ("10", "32"), "the TCP profile's, else the kernel's",
        (1, MOST_SEGMENTS, _number, "what a route can hold"),
    ),
    SweepAxis(
        "direction", _word, "a direction", "WAY,...", "Directions",
        "Where the data flows: outbound (hub to site), inbound, or both at once.", DIRECTIONS, OUTBOUND,
        choices=DIRECTIONS,
    ),
    SweepAxis(
        "mtu", units.parse_count, "a whole number", "N,...", "MTUs",
        "MTUs of the lane, in bytes.", ("1500", "9000"), "the lane's own",
        (LEAST_MTU, MOST_MTU, _number, "what a lane can have"),
    ),
    SweepAxis(
        "rate", units.parse_rate_bps, "a rate such as 10Gbit", "RATE,...", "Bottlenecks",
        "Bottleneck rates, the same in both directions.", ("1Gbit", "10Gbit"), "the lane's own, else 10Gbit",
    ),
    SweepAxis(
        "loss", units.parse_probability_p32, "a probability", "LOSS,...", "Losses",
        "Probabilities of losing a packet, in each direction.", ("0", "0.01%"), "the lane's own",
    ),
    SweepAxis(
        "buffer", BufferDepth.parse, "a depth such as 1bdp", "DEPTH,...", "Buffers",
        "Depths of the bottleneck's buffer in both directions, as a share of rate x RTT or fixed.",
        ("0.25bdp", "1bdp", "4bdp", "8MiB"), "the lane's own, else 1bdp",
    ),
    SweepAxis(
        "aqm", _word, "a name", "NAME,...", "Queue management",
        f"What the bottleneck's buffer does: {', '.join(AQMS[:-1])} or {AQMS[-1]}.", AQMS, "the lane's own",
        choices=AQMS,
    ),
    SweepAxis(
        "duration", _whole_seconds, "a time", "TIME", "Duration of a measurement",
        "Duration of each measurement, in whole seconds.", ("30s",), "10 to 40 s, from the RTT",
        (1, LONGEST_S, "{} s".format, "no more than a day"), single=True,
    ),
    SweepAxis(
        "repeats", units.parse_count, "a whole number", "N", "Repeats at most",
        f"Measurements of a cell at most, {MOST_REPEATS} or fewer; three suffice when the mean is known to 2.5 %.",
        ("3",), "10",
        (1, MOST_REPEATS, _number, "what is worth the time"), single=True, of_a_request="1",
    ),
)  # fmt: skip
"""In the order in which users see them. `repeats` belongs to the run and not to its cells."""
REQUEST_AXES: tuple[SweepAxis, ...] = (
    SweepAxis(
        "connections", units.parse_count, "a whole number", "N,...", "Connections",
        "Numbers of connections at a time: the users.", ("1", "8", "64"), "1",
        (1, MOST_CONNECTIONS, _number, "what one measurement has"),
    ),
    SweepAxis(
        "in_flight", units.parse_count, "a whole number", "N,...", "Requests in flight",
        "Numbers of requests that a connection has in flight at a time (pipelining).", ("1", "4"), "1",
        (1, MOST_IN_FLIGHT, _number, "what one connection has"),
    ),
    SweepAxis(
        "request", units.parse_size_bytes, "a size such as 256B", "SIZE,...", "Request sizes",
        "Sizes of a request.", ("256B", "64KiB"), "256B",
        (1, LARGEST_MESSAGE_BYTES, units.format_size, "what a message can be"),
    ),
    SweepAxis(
        "answer", units.parse_size_bytes, "a size such as 100KiB", "SIZE,...", "Answer sizes",
        "Sizes of an answer.", ("1KiB", "100KiB", "1MiB"), "1KiB",
        (1, LARGEST_MESSAGE_BYTES, units.format_size, "what a message can be"),
    ),
    SweepAxis(
        "think", units.parse_duration_ns, "a time such as 100ms", "TIME,...", "Think times",
        "Times between an answer and the next request of the same user.", ("0ms", "1s"), "0ms",
        (0, LONGEST_THINK_NS, units.format_duration, "no more than an hour"),
    ),
    SweepAxis(
        "offered", _per_second, "a number of requests a second", "RATE,...", "Offered rates",
        "Requests a second that are due whether or not earlier ones were answered (an open loop).", ("100", "0.5"),
        "none: each user waits for the answer",
    ),
    SweepAxis(
        "count", units.parse_count, "a whole number", "N", "Requests at most",
        "Requests of a measurement at most, which ends it before its duration.", ("1000",), str(DEFAULT_REQUESTS),
        (1, MOST_REQUESTS, _number, "what is worth the time"), single=True,
    ),
)  # fmt: skip
"""Of the workload that sends requests, in the order in which users see them."""
BY_KEY = {axis.key: axis for axis in (*AXES, *REQUEST_AXES)}
OLD_WORDS = {"profile": "tcp_profile"}
"""The old names of axes, which Longhaul reads for one more release."""


class Axes(Struct, frozen=True):
    """The values of every axis (ns, bit/s, p32, bytes, s); an empty axis keeps the lane's, profile's or kernel's value.

    `window` makes profiles with which a receiver offers a window of that many bytes; without it and `tcp_profile` there
    are default and max. The fields are called as in `AXES`.
    """

    rtt: tuple[int, ...] = ()
    lane: tuple[str, ...] = ()
    tcp_profile: tuple[str, ...] = ()
    window: tuple[int, ...] = ()
    streams: tuple[int, ...] = (1,)
    cc: tuple[str, ...] = ()
    initcwnd: tuple[int, ...] = ()
    direction: tuple[str, ...] = (OUTBOUND,)
    mtu: tuple[int, ...] = ()
    rate: tuple[int, ...] = ()
    loss: tuple[int, ...] = ()
    buffer: tuple[BufferDepth, ...] = ()
    aqm: tuple[str, ...] = ()
    duration: int | None = None

    def __post_init__(self) -> None:
        for key in self.__struct_fields__:
            value = getattr(self, key)
            for one in value if isinstance(value, tuple) else () if value is None else (value,):
                BY_KEY[key].check(one)

    @property
    def combinations(self) -> int:
        """The number of cells for one lane, or for each named lane."""
        values = [getattr(self, key) for key in self.__struct_fields__ if key not in ("tcp_profile", "window")]
        profiles = len(self.tcp_profile) + len(self.window)
        return max(1, profiles) * math.prod(max(1, len(value)) for value in values if isinstance(value, tuple))


def parse(key: str, text: str) -> Any:
    """One value of an axis (or of `repeats`), by its key. Raises ValueError."""
    value = BY_KEY[key].read(text)
    BY_KEY[key].check(value)
    return value


_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)")
_QUANTITY = re.compile(rf"({_NUMBER.pattern})\s*([a-zA-Zµμ/%]+)")


def split(key: str, text: str) -> list[str]:
    """The values of an axis in a text with commas between them.

    Raises ValueError where some numbers have a unit and others have none: the comma of "1,5ms" may be a decimal one.
    """
    parts = [part.strip() for part in text.split(",")]
    units_given = [found[2] for part in parts if (found := _QUANTITY.fullmatch(part))]
    bare = [part for part in parts if _NUMBER.fullmatch(part)]
    decimal = _as_decimals(parts)
    # 0 is the same in every unit, and needs none where no other reading is possible.
    if not BY_KEY[key].has_unit or not units_given or not bare or (decimal == parts and not any(map(float, bare))):
        return parts
    spelt = [
        [f"{part}{units_given[0]}" if _NUMBER.fullmatch(part) else part for part in one] for one in (parts, decimal)
    ]
    readings = dict.fromkeys(",".join(one) for one in spelt)
    raise ValueError(f"{text!r} is ambiguous, for {bare[0]!r} has no unit: write {' or '.join(readings)}")


def _as_decimals(parts: Sequence[str]) -> list[str]:
    """The parts, with each comma between a whole number and digits with a unit read as a decimal point."""
    read: list[str] = []
    for part in parts:
        if read and read[-1].isdigit() and re.fullmatch(r"[0-9]+\s*[a-zA-Zµμ/%]+", part):
            read[-1] += f".{part}"
        else:
            read.append(part)
    return read


def parse_all(texts: Iterable[str], read: Callable[[str], Any]) -> tuple[Any, ...]:
    """Several values of an axis. Raises ValueError with every mistake in them."""
    values, wrong = [], []
    for text in texts:
        try:
            values.append(read(text))
        except ValueError as error:
            wrong.append(str(error))
    if len(values) > MOST_VALUES:
        wrong.append(f"{len(values)} values are too many: {MOST_VALUES} at most")
    if wrong:
        raise ValueError("; ".join(wrong))
    return tuple(values)
