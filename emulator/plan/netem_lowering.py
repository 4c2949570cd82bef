"""Converts impairments to netem and its bottleneck (tbf) in the kernel's own integers. Pure.

Only this module knows what sch_netem and sch_tbf round, count or omit. The planner can therefore compare the intent
with the kernel by `==`. Sources: net/sched/sch_netem.c and sch_tbf.c of Linux 6.12.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from emulator.model import jitter_distribution
from emulator.model.bottleneck import (  # fmt: skip
    BETWEEN_FRAMES_BYTES,
    BURST_FRAMES,
    MIN_BUFFER_NS,
    MOST_BUFFER_BYTES,
    SMALLEST_FRAME_BYTES,
    frame_bytes,
    wire_bytes,
)
from emulator.model.flow_match import filters
from emulator.model.impairment import Buffer, Impairment
from emulator.model.loss_model import P32
from emulator.model.topology import Lane
from emulator.plan import aqm
from emulator.plan.qdisc_values import ORDER_RATE_BYTES_PER_S, Band, Egress, Netem, Shaper
from emulator.plan.tbf_burst import canonical_burst

MAX_BURST_BYTES = 128 * 1024
"""More than one GSO super-frame with its headers (about 68 kB), so that tbf need not segment it."""

SUPER_FRAME_BYTES = 65_550
"""The largest GSO/GRO skb with an Ethernet header (65,536 + 14): tbf segments skbs that are larger than its burst."""

LIMIT_RESERVE_PACKETS = 1000
"""What the limit has room for besides all that may be in flight: netem's own default."""

SKB_OVERHEAD_BYTES = 384
"""The head room and shared info of a packet, in one slab with its data."""


class LoweredLane(Struct, frozen=True):
    """A lane in the kernel's integers: `outbound` on the site port's egress, `inbound` on the hub port's.

    `single_packets`: an egress would treat super-frames (GRO, LRO, GSO) differently from their packets.
    """

    outbound: Egress
    inbound: Egress
    single_packets: bool

    @property
    def both(self) -> tuple[Egress, Egress]:
        """(outbound, inbound)."""
        return self.outbound, self.inbound


def lower(lane: Lane, *, seed: int, has_seed: bool, smallest: int = SMALLEST_FRAME_BYTES) -> LoweredLane:
    """Convert a lane to the kernel's integers.

    `seed` is the topology's; each direction derives its own from it. `has_seed`: this kernel's netem takes a seed.
    The delay line holds frames of `smallest` bytes at full rate (see `limit_packets`).
    """
    outbound, inbound = (
        _banded(lane, seed if has_seed else None, direction, smallest) for direction in ("outbound", "inbound")
    )
    parts = [
        (impairment, part)
        for whole, side in ((outbound, "outbound"), (inbound, "inbound"))
        for impairment, (_, part) in zip((getattr(way, side) for way in lane.ways), whole.places, strict=True)
    ]
    return LoweredLane(outbound, inbound, any(needs_single_packets(impairment, part) for impairment, part in parts))


def _banded(lane: Lane, seed: int | None, direction: str, smallest: int) -> Egress:
    """One direction of the lane, with a band for each flow; each has its own seed."""
    outbound = direction == "outbound"
    names = [lane.name, *(f"{lane.name}/{flow.name}" for flow in lane.flows)]
    first, *rest = (
        _egress(
            way,
            way.outbound if outbound else way.inbound,
            None if seed is None else derive_seed(seed, name, direction),
            smallest,
        )
        for way, name in zip(lane.ways, names, strict=True)
    )
    found = (filters(flow.match, outbound=outbound) for flow in lane.flows)
    return replace(first, bands=tuple(Band(*band) for band in zip(found, rest, strict=True)))


def _egress(lane: Lane, impairment: Impairment, seed: int | None, smallest: int) -> Egress:
    table = jitter_distribution.table_of(impairment.distribution) if impairment.jitter_ns else None
    model = impairment.loss_model.kernel() if impairment.loss_model else ()
    netem = Netem(
        delay_ns=impairment.delay_ns,
        jitter_ns=impairment.jitter_ns,
        rate_bytes_per_s=ORDER_RATE_BYTES_PER_S if impairment.keep_order else 0,
        loss_p32=impairment.loss_p32,
        gemodel=model if len(model) == 4 else None,
        four_state=model if len(model) == 5 else None,
        duplicate_p32=impairment.duplicate_p32,
        corrupt_p32=impairment.corruption_p32(frame_bytes(lane.mtu)),
        reorder_p32=impairment.reorder_p32,
        gap=1 if impairment.reorder_p32 else 0,
        ecn=impairment.ecn and bool(impairment.mean_loss),
        limit=limit_packets(lane, impairment, smallest),
        seed=seed if seed is None or impairment.seed is None else impairment.seed,
        distribution=table,
        cell_overhead=jitter_distribution.fingerprint(table) if table else 0,
    )
    shaper = _shaper(lane, impairment)
    return Egress(netem, shaper, _aqm(lane, impairment, shaper) if shaper else None)


def _aqm(lane: Lane, impairment: Impairment, shaper: Shaper) -> aqm.Aqm | None:
    frame = frame_bytes(lane.mtu)
    space = aqm.Space(shaper.limit_bytes, frame, skb_bytes(frame), shaper.rate_bytes_per_s, lane.rtt_ns)
    return aqm.lower(impairment.aqm, space, ecn=impairment.ecn)


def needs_single_packets(impairment: Impairment, egress: Egress) -> bool:
    """Whether this egress would treat super-frames (GRO, LRO) differently from single packets."""
    burst = egress.shaper.burst_bytes if egress.shaper else SUPER_FRAME_BYTES
    return impairment.per_packet or burst < SUPER_FRAME_BYTES


def spread(impairment: Impairment, egress: Egress, tx_queues: int) -> Egress:
    """The same egress with a netem for each TX queue of its port, if it is only a delay; else unchanged.

    All queues share one bottleneck and one sequence of random losses: both need a single netem at the root.
    """
    if tx_queues < 2 or egress.shaper or egress.bands or impairment.per_packet:
        return egress
    return replace(egress, queues=tx_queues)


def netem_of_queue(netem: Netem, queue: int) -> Netem:
    """The netem of one TX queue, counted from 0; each has its own seed for its jitter."""
    return netem if netem.seed is None else replace(netem, seed=(netem.seed + queue) % 2**64)


def common_netem(netems: list[Netem]) -> Netem | None:
    """The common netem of these, one for each TX queue (the inverse of `netem_of_queue`); None when they differ."""
    if not netems or netems != [netem_of_queue(netems[0], queue) for queue in range(len(netems))]:
        return None
    return netems[0]


@lru_cache(maxsize=4096)
def limit_packets(lane: Lane, impairment: Impairment, smallest: int = SMALLEST_FRAME_BYTES) -> int:
    """Netem's `limit` for one direction: everything in flight on the lane, plus the buffer, in frames of `smallest`
    bytes (with the Ethernet header, without the FCS); never less than in full-size frames.

    It includes the whole *round-trip* BDP, not half of it: one direction may hold a sender's entire window. Netem
    counts its child's queue as its own (sch->q.qlen). An unused limit costs nothing.
    """
    return _limit(lane, impairment, flight_bytes(lane, impairment), buffer_bytes(lane, impairment), smallest)


def _limit(lane: Lane, impairment: Impairment, flight: int, waiting: int, smallest: int) -> int:
    frame = frame_bytes(lane.mtu)
    size = min(smallest, frame)
    if impairment.rate_bps is None:
        # Nothing waits behind the delay line, and a wire has gaps between the frames.
        small = -(-flight // (size + BETWEEN_FRAMES_BYTES))
    else:
        small = -(-flight // wire_bytes(size, impairment.overhead_bytes, atm=impairment.atm)) + -(-waiting // size)
    return _with_duplicates(max(-(-(flight + waiting) // frame), small), impairment) + LIMIT_RESERVE_PACKETS


def flight_bytes(lane: Lane, impairment: Impairment) -> int:
    """The bytes that a direction carries in a round trip at its rate, jitter included."""
    rate_bps = impairment.rate_bps or lane.line_rate_bps
    flight_ns = lane.rtt_ns + sum(jitter_reach_ns(direction) for direction in (lane.outbound, lane.inbound))
    return -(-rate_bps * flight_ns // 8_000_000_000)


def _with_duplicates(packets: int, impairment: Impairment) -> int:
    return packets + -(-packets * impairment.duplicate_p32 // P32)


def jitter_reach_ns(impairment: Impairment) -> int:
    """The largest deviation above the delay: the jitter, or the reach of its distribution."""
    if not impairment.jitter_ns or impairment.distribution == "uniform":
        return impairment.jitter_ns
    return jitter_distribution.reach_ns(impairment.jitter_ns, jitter_distribution.table_of(impairment.distribution))


def buffer_bytes(lane: Lane, impairment: Impairment) -> int:
    """The bottleneck's queue in bytes: as configured, else one BDP of the lane, at least 1 ms; at least two frames."""
    rate_bps = impairment.rate_bps or lane.line_rate_bps
    frame = frame_bytes(lane.mtu)
    queue = impairment.buffer or Buffer(ns=max(lane.rtt_ns, MIN_BUFFER_NS))
    return max(queue.to_bytes(rate_bps, frame), 2 * frame)


def _shaper(lane: Lane, impairment: Impairment) -> Shaper | None:
    if impairment.rate_bps is None:
        return None
    rate, frame = impairment.rate_bps // 8, frame_bytes(lane.mtu)
    limit = min(buffer_bytes(lane, impairment), MOST_BUFFER_BYTES)
    # A burst of more than 1 ms at the rate would pass the bursts that a bottleneck must delay.
    burst = max(BURST_FRAMES * frame, min(MAX_BURST_BYTES, rate // 1000, limit))
    overhead, atm = impairment.overhead_bytes, impairment.atm
    return Shaper(rate, canonical_burst(rate, burst, overhead, atm=atm), limit, overhead, atm)


def skb_bytes(frame: int) -> int:
    """The memory of one queued packet of `frame` bytes: data rounded up to a slab, and the sk_buff itself.

    Head room and shared info are 384 bytes, the sk_buff 256 (measured: 0.77 kB for 60 B, 2.3 kB for 1514 B, 16.6 kB
    for 9014 B).
    """
    return int(2 ** (frame + SKB_OVERHEAD_BYTES - 1).bit_length()) + 256


@lru_cache(maxsize=4096)
def queue_bytes(lane: Lane, impairment: Impairment, smallest: int = SMALLEST_FRAME_BYTES) -> int:
    """The memory that one direction may need, whatever the size of its frames: the bytes that may be in flight bound
    the number of large ones, the limit for frames of `smallest` bytes that of small ones. A change of one lane asks
    for all lanes, several times."""
    flight, waiting = flight_bytes(lane, impairment), buffer_bytes(lane, impairment)
    limit = _limit(lane, impairment, flight, waiting, smallest)
    content = _with_duplicates(flight + waiting, impairment)
    sizes = _slab_starts(frame_bytes(lane.mtu))
    return max(min(limit, -(-content // size) + LIMIT_RESERVE_PACKETS) * skb_bytes(size) for size in sizes)


def _slab_starts(frame: int) -> Iterator[int]:
    """The smallest frame for each amount of memory that a packet may take (`skb_bytes`): the dearest byte by byte."""
    size, slab = SMALLEST_FRAME_BYTES, 512
    while size <= frame:
        yield size
        size, slab = slab - SKB_OVERHEAD_BYTES + 1, 2 * slab


def derive_seed(seed: int, lane: str, direction: str) -> int:
    """The seed of a direction, derived from the topology's: equal inputs give equal seeds."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{lane}/{direction}".encode()).digest()[:8], "big")


def holding(egress: Egress, limit: int) -> Egress:
    """The same egress with a netem limit of at least `limit`, so that the packets already queued fit."""
    return replace(egress, netem=replace(egress.netem, limit=max(egress.netem.limit, limit)))
