"""Places and the round trips between them: measured where a table has them, else estimated from the map. Pure.

An estimate is the great circle, there and back, at the speed of light in fibre, times a stated factor for the detours
of real cables. The physical minimum (`least_ns`) omits the factor.
"""

from __future__ import annotations

import difflib
import math
from functools import cache

from msgspec import Struct

from emulator.errors import no_such
from emulator.model.access_networks import ACCESS_NETWORKS
from emulator.model.cities import CITIES

EARTH_RADIUS_KM = 6371.0088
"""The mean radius (IUGG)."""

FIBRE_KM_PER_S = 299_792.458 / 1.4682
"""Light in standard single-mode fibre (G.652, group index 1.4682 at 1550 nm): 204,191 km/s."""

PATH_FACTOR = 1.5
"""The ratio of a typical long-distance path to the great circle: New York to London is 82 ms with it and 70 to 76 ms on
the best cables; to Tokyo it is 159 ms and about 165 ms."""

STEP_NS = 10_000
"""Estimates are rounded to 10 us: more digits would suggest a false precision."""

_MS = 1_000_000

FOUNDING = "the founding star (topologies/new-york.yaml)"
MEASURED: dict[frozenset[str], tuple[int, str]] = {
    frozenset(("new-york", "california")): (32 * _MS, FOUNDING),
    frozenset(("new-york", "london")): (80 * _MS, FOUNDING),
    frozenset(("new-york", "japan")): (346 * _MS, FOUNDING),
}
"""RTTs in ns that somebody measured, with the source; they take precedence over estimates."""

ACCESS_NS = {one.name: one.rtt_ns for one in ACCESS_NETWORKS}
"""What an access network adds to the *whole* round trip, never to each direction."""


class Place(Struct, frozen=True):
    """A city; degrees north and east."""

    name: str
    country: str
    latitude: float
    longitude: float


class Trip(Struct, frozen=True):
    """A round trip: the RTT to emulate, the physical minimum, the great circle, and the source."""

    rtt_ns: int
    least_ns: int
    distance_km: float
    source: str


@cache
def places() -> dict[str, Place]:
    """All places by name."""
    rows = (line.split() for line in CITIES.split("\n") if line)
    return {name: Place(name, country, float(north), float(east)) for name, country, north, east in rows}


def place(name: str) -> Place:
    """The place of that name. Raises ValueError with the nearest names."""
    known = places()
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, 3)
    hint = f"did you mean {' or '.join(close)}?" if close else "longhaul places lists all of them"
    raise ValueError(f"there is no place {name!r}: {hint}")


def distance_km(one: Place, other: Place) -> float:
    """The distance along the great circle (haversine)."""
    north, south = math.radians(one.latitude), math.radians(other.latitude)
    east = math.radians(other.longitude - one.longitude)
    h = math.sin((south - north) / 2) ** 2 + math.cos(north) * math.cos(south) * math.sin(east / 2) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(h)))


def trip(one: str, other: str, factor: float = PATH_FACTOR) -> Trip:
    """The round trip between two places. Raises ValueError on an unknown one."""
    distance = distance_km(place(one), place(other))
    least = 2 * distance / FIBRE_KM_PER_S * 1e9
    if known := MEASURED.get(frozenset((one, other))):
        return Trip(known[0], round(least), distance, known[1])
    estimate = round(least * factor / STEP_NS) * STEP_NS
    return Trip(estimate, round(least), distance, f"estimate: fibre along the great circle x {factor:g}")


def access_ns(name: str) -> int:
    """What an access network adds to the whole round trip. Raises ValueError."""
    if name not in ACCESS_NS:
        raise ValueError(no_such("access network", name, tuple(ACCESS_NS)))
    return ACCESS_NS[name]
