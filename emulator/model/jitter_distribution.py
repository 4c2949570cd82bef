"""The shapes of jitter: tables of deviations as sch_netem reads them. Pure.

A table holds deviations from the delay in units of jitter / 8192; the kernel picks one evenly for every packet. It
never dumps a table, so a digest of it travels in a field that it stores, dumps and does not use (`fingerprint`).
The named shapes are computed; they are those of iproute2's tables (tc-netem(8)).
"""

from __future__ import annotations

import math
import re
import struct
import zlib
from collections.abc import Callable
from functools import cache, lru_cache
from statistics import NormalDist

DistributionTable = tuple[int, ...]

SCALE = 8192
"""One jitter, in the units of a table (NETEM_DIST_SCALE)."""

SIZE = 4096
"""The entries of a computed table; the kernel takes up to 16384."""

MAX_SIZE = 16384
PARETO_SHAPE = 3.0


def _normal(share: float) -> float:
    return NormalDist().inv_cdf(share)


def _pareto(share: float) -> float:
    # Mean 1.5 and scaled by 4/3, as iproute2 does; what lies beyond four jitters is cut off there.
    return min(4.0, (math.pow(1 - share, -1 / PARETO_SHAPE) - 1.5) * 4 / 3)


_SHAPES: dict[str, Callable[[float], float]] = {
    "uniform": lambda share: 2 * share - 1,
    "normal": _normal,
    "pareto": _pareto,
    "paretonormal": lambda share: 0.25 * _normal(share) + 0.75 * _pareto(share),
}

NAMES = tuple(_SHAPES)
"""The shapes that need no table of the user's: `uniform` within one jitter of the delay, the others beyond it."""


@cache
def named(name: str) -> DistributionTable:
    """The table of a shape. Raises KeyError."""
    shape = _SHAPES[name]
    return tuple(_clipped(round(shape((i + 0.5) / SIZE) * SCALE)) for i in range(SIZE))


def table_of(distribution: str | DistributionTable) -> DistributionTable:
    """The table of a named shape, or the user's own."""
    return named(distribution) if isinstance(distribution, str) else distribution


def _clipped(value: int) -> int:
    return max(-32768, min(32767, value))


def parse(text: str) -> DistributionTable:
    """A table from text: whole numbers of 1/8192 jitter between blanks, comments after # (tc's *.dist files).

    Raises ValueError.
    """
    words = re.sub(r"#.*", "", text).split()
    if strange := next((w for w in words if not re.fullmatch(r"-?[0-9]{1,6}", w)), None):
        raise ValueError(f"{strange[:20]!r} in the table is not a whole number (of 1/8192 jitter)")
    return checked(tuple(map(int, words)))


def checked(table: DistributionTable) -> DistributionTable:
    """Check the table and return it. Raises ValueError when the kernel would not accept it."""
    if not 0 < len(table) <= MAX_SIZE:
        raise ValueError(f"a distribution has 1 to {MAX_SIZE} numbers, not {len(table)}")
    if outside := next((v for v in table if v != _clipped(v)), None):
        raise ValueError(f"{outside} in the distribution is not within -32768..32767 (four jitters each way)")
    return table


def pack(table: DistributionTable) -> bytes:
    """The table in the kernel's form: signed 16-bit numbers."""
    return struct.pack(f"={len(table)}h", *table)


@cache
def fingerprint(table: DistributionTable) -> int:
    """A digest of a table in 31 bits, never 0."""
    return zlib.crc32(struct.pack(f"<{len(table)}h", *table)) & 0x7FFFFFFF or 1


@lru_cache
def from_fingerprint(digest: int) -> DistributionTable | None:
    """The named table with that fingerprint; None for any other."""
    if not digest:  # no table: nothing needs to be computed
        return None
    return next((named(name) for name in NAMES if fingerprint(named(name)) == digest), None)


def name_of(table: DistributionTable) -> str:
    """A table's name, "table" for the user's own."""
    return next((name for name in NAMES if named(name) == table), "table")


def deviation_ns(jitter_ns: int, value: int) -> int:
    """The kernel's result for one entry: `value` jitters / 8192, rounded half away from zero (tabledist)."""
    rest = (jitter_ns % SCALE) * value
    rounded = (abs(rest) + SCALE // 2) // SCALE
    return (rounded if rest >= 0 else -rounded) + jitter_ns // SCALE * value


def reach_ns(jitter_ns: int, table: DistributionTable) -> int:
    """How much the longest delay exceeds the middle one."""
    return max(0, deviation_ns(jitter_ns, max(table)))
