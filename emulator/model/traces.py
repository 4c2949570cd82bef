"""Traces of real paths as keyframes of a schedule: CSV (time, delay, jitter, loss, rate) and mahimahi's. Pure."""

from __future__ import annotations

import csv
import re
from collections import Counter

from emulator import units
from emulator.model.impairment_keys import named, schedulable_keys
from emulator.model.schedule import MOST_KEYS, RTT, Keyframe, Value

MTU_BYTES = 1500
"""What one line of a mahimahi trace may deliver (mm-link(1): one MTU-sized packet)."""

BIN_NS = 100_000_000
"""A mahimahi trace becomes one rate per bin."""

STALLED_BPS = 1_000
"""The rate of a bin without any delivery: not zero, because queued packets must not be lost."""

_UNITS = {"percent": "%"}


def read_csv(text: str) -> tuple[Keyframe, ...]:
    """Keyframes from a CSV with a header: `time`, and any of `rtt` and the table's schedulable keys.

    Values have units ("40ms"), or the header has them for its column ("delay_ms", "loss_percent"). An empty cell
    leaves the value as it was. Raises ValueError with the line.
    """
    try:
        rows = [row for row in csv.reader(text.splitlines()) if row and not row[0].startswith("#")]
    except csv.Error as error:
        raise ValueError(f"is not CSV: {error}") from None
    if not rows:
        raise ValueError("the trace is empty: begin it with a header such as time,delay,loss,rate")
    columns = ("rtt", *(key.name for key in schedulable_keys()))
    header = [name.strip().lower().partition("_") for name in rows[0]]
    names = [name for name, _, _ in header]
    if "time" not in names or len(names) < 2 or set(names) - {"time", *columns}:
        raise ValueError(f"the header is {','.join(rows[0])[:80]!r}: use time and one or more of {', '.join(columns)}")
    suffixes = [_UNITS.get(unit, unit) for _, _, unit in header]
    keys = []
    for number, row in enumerate(rows[1:], 2):
        try:
            cells = {n: v.strip() + s for n, s, v in zip(names, suffixes, row, strict=True) if v.strip()}
            at_ns = units.parse_duration_ns(cells.pop("time"))
            values = tuple(setting for name, text in cells.items() for setting in _read(name, text))
        except KeyError:
            raise ValueError(f"row {number} has no time") from None
        except ValueError as error:
            raise ValueError(f"row {number}: {error}") from None
        if values:
            keys.append(Keyframe(at_ns, values))
        if len(keys) > MOST_KEYS:
            raise ValueError(f"row {number}: a schedule has {MOST_KEYS} keys at most")
    return tuple(keys)


def _read(column: str, text: str) -> list[tuple[str, Value]]:
    """What a cell sets: the round trip, or the fields of a key. Raises ValueError."""
    return [(RTT, units.parse_duration_ns(text))] if column == "rtt" else list(named(column).read(text).items())


def read_mahimahi(text: str, bin_ns: int = BIN_NS) -> tuple[tuple[Keyframe, ...], int]:
    """Keyframes of one rate per bin from a link trace (a line: a ms at which 1500 bytes may go), and the loop's length.

    The trace repeats after its last line, as mahimahi repeats it. Raises ValueError with the line.
    """
    deliveries: list[int] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not re.fullmatch(r"\s*[0-9]{1,15}\s*", line):
            raise ValueError(f"line {number}: {line[:20]!r} is not a whole number of milliseconds")
        deliveries.append(int(line) * 1_000_000)
    if not deliveries or deliveries != sorted(deliveries) or not deliveries[-1]:
        raise ValueError("a link trace is milliseconds in rising order, the last above 0")
    length = -(-deliveries[-1] // bin_ns) * bin_ns
    # A delivery at the very end of a bin belongs to it: the first line is often 1, the last the trace's length.
    counted = Counter(max(0, at - 1) // bin_ns for at in deliveries)
    keys: list[Keyframe] = []
    # A bin without a delivery matters only behind one with some: a gap may be as long as anybody writes.
    for number in sorted({0, *counted, *(number + 1 for number in counted)}):
        bps = max(STALLED_BPS, counted[number] * MTU_BYTES * 8 * 10**9 // bin_ns)
        if number * bin_ns < length and (not keys or keys[-1].values != (("rate_bps", bps),)):
            keys.append(Keyframe(number * bin_ns, (("rate_bps", bps),)))
    if len(keys) > MOST_KEYS:
        raise ValueError(f"{len(keys)} changes of the rate are too many: a schedule has {MOST_KEYS} keys at most")
    return tuple(keys), length
