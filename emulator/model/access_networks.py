"""Access networks: what the last mile to a site adds to a lane. Pure data, each figure with its source.

They are single round figures for a first emulation, not a standard and no average of today's networks: a real line
differs from another by more than they differ from each other. Use measured values where you have them.
"""

from __future__ import annotations

from msgspec import Struct

_MS, _MBIT = 1_000_000, 1_000_000


class AccessNetwork(Struct, frozen=True):
    """One access network. `rtt_ns` is added to the whole round trip, `jitter_ns` holds in each direction;
    `down_bps` is the bottleneck towards the site, `up_bps` that from it. `source` says where the figures are from."""

    name: str
    label: str
    rtt_ns: int
    down_bps: int
    up_bps: int
    jitter_ns: int
    source: str


ACCESS_NETWORKS = (
    AccessNetwork(
        "dsl", "DSL (VDSL2)", 30 * _MS, 50 * _MBIT, 10 * _MBIT, 2 * _MS,
        "rates of a usual VDSL2 product; RTT (with interleaving) and jitter are our round figures",
    ),
    AccessNetwork(
        "cable", "cable (DOCSIS)", 15 * _MS, 250 * _MBIT, 25 * _MBIT, 3 * _MS,
        "our round figures for a DOCSIS 3 product",
    ),
    AccessNetwork(
        "5g", "5G", 20 * _MS, 200 * _MBIT, 30 * _MBIT, 4 * _MS,
        "our round figures for a mid-band cell with other users",
    ),
    # Ofcom, "Measuring mobile broadband performance in the UK", April 2015: on 4G, over four operators in five places,
    # 14.7 Mbit/s down, 13.6 Mbit/s up, and 53.1 ms of latency on average.
    AccessNetwork(
        "lte", "LTE (4G)", 50 * _MS, 15 * _MBIT, 13_600_000, 5 * _MS,
        "RTT and rates: Ofcom's averages on British 4G, October to December 2014 (53.1 ms, 14.7 and 13.6 Mbit/s); "
        "jitter is our round figure",
    ),
    # Starlink told the users of its test in 2020 and 2021 to expect 50 to 150 Mbit/s and 20 to 40 ms.
    AccessNetwork(
        "leo", "LEO satellite", 40 * _MS, 100 * _MBIT, 10 * _MBIT, 6 * _MS,
        "RTT and rate towards the site: within what Starlink announced for its test of 2020 (20 to 40 ms, 50 to "
        "150 Mbit/s); the other figures are our round ones",
    ),
    # RFC 2488, section 2: at least 558 ms for a message and its reply by way of a satellite at 36,000 km.
    AccessNetwork(
        "geo", "GEO satellite", 600 * _MS, 25 * _MBIT, 3 * _MBIT, 10 * _MS,
        "RTT: at least 558 ms by RFC 2488, rounded up for the medium access; rates: the FCC's threshold of broadband "
        "from 2015 on, 25 and 3 Mbit/s; jitter is our round figure",
    ),
)  # fmt: skip
"""In the order in which a user meets them: on the ground, mobile, satellites."""
