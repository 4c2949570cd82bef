"""From an impairment to what the kernel stores: netem and its bottleneck (tbf) in the kernel's own integers. Pure.

Only this module knows what sch_netem and sch_tbf round, count or forget, so that the planner can compare intent and
kernel with `==`. Sources: net/sched/sch_netem.c and sch_tbf.c of Linux 6.12.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from emulator.model import jitter_distribution
from emulator.model.flow_match import filters
from emulator.model.impairment import Buffer, Impairment
from emulator.model.loss_model import P32
from emulator.model.topology import Lane
from emulator.plan import aqm
from emulator.plan.qdisc_values import ORDER_RATE_BYTES_PER_S, Band, Egress, Netem, Shaper
from emulator.plan.tbf_burst import canonical_burst

ETHERNET_HEADER_BYTES = 14
"""What a qdisc counts on top of the MTU: the Ethernet header, neither FCS nor preamble."""

MAX_BURST_BYTES = 128 * 1024
"""Above one GSO super-frame with its headers (about 68 kB), so that tbf need not segment it."""

SUPER_FRAME_BYTES = 65_550
"""The largest GSO/GRO skb with an Ethernet header (65,536 + 14): tbf cuts what is above its burst into packets."""

MIN_BUFFER_NS = 1_000_000
"""The smallest default buffer, in time at the rate: what a switch port has at the very least."""


@dataclass(frozen=True)
class LoweredLane:
    """A lane in the kernel's integers: `outbound` on the site port's egress, `inbound` on the hub port's.

    `single_packets`: super-frames (GRO, LRO, GSO) would make an egress do something else than it does to packets.
    """

    outbound: Egress
    inbound: Egress
    single_packets: bool

    @property
    def both(self) -> tuple[Egress, Egress]:
        """(outbound, inbound)."""
        return self.outbound, self.inbound


def lower(lane: Lane, *, seed: int, has_seed: bool) -> LoweredLane:
    """What a lane becomes in the kernel.

    `seed` is the topology's; each direction derives its own from it. `has_seed` says whether this kernel takes one.
    """
    outbound = _banded(lane, seed, "outbound", has_seed=has_seed)
    inbound = _banded(lane, seed, "inbound", has_seed=has_seed)
    parts = [
        (wish, part)
        for whole, side in ((outbound, "outbound"), (inbound, "inbound"))
        for wish, (_, part) in zip((getattr(way, side) for way in lane.ways), whole.places, strict=True)
    ]
    return LoweredLane(outbound, inbound, any(needs_single_packets(wish, part) for wish, part in parts))


def _banded(lane: Lane, seed: int, direction: str, *, has_seed: bool) -> Egress:
    """What the lane does in one direction, and what to each of its flows; each draws by a seed of its own."""
    outbound = direction == "outbound"
    names = [lane.name, *(f"{lane.name}/{flow.name}" for flow in lane.flows)]
    first, *rest = (
        _egress(
            way, way.outbound if outbound else way.inbound, derive_seed(seed, name, direction) if has_seed else None
        )
        for way, name in zip(lane.ways, names, strict=True)
    )
    found = (filters(flow.match, outbound=outbound) for flow in lane.flows)
    return replace(first, bands=tuple(Band(*band) for band in zip(found, rest, strict=True)))


def _egress(lane: Lane, wish: Impairment, seed: int | None) -> Egress:
    table = jitter_distribution.table_of(wish.distribution) if wish.jitter_ns else None
    model = wish.loss_model.kernel() if wish.loss_model else ()
    netem = Netem(
        delay_ns=wish.delay_ns,
        jitter_ns=wish.jitter_ns,
        rate_bytes_per_s=ORDER_RATE_BYTES_PER_S if wish.keep_order else 0,
        loss_p32=wish.loss_p32,
        gemodel=model if len(model) == 4 else None,
        four_state=model if len(model) == 5 else None,
        duplicate_p32=wish.duplicate_p32,
        corrupt_p32=wish.corruption_p32(frame_bytes(lane.mtu)),
        reorder_p32=wish.reorder_p32,
        gap=1 if wish.reorder_p32 else 0,
        ecn=wish.ecn and bool(wish.mean_loss),
        limit=limit_packets(lane, wish),
        seed=seed if seed is None or wish.seed is None else wish.seed,
        distribution=table,
        cell_overhead=jitter_distribution.fingerprint(table) if table else 0,
    )
    shaper = _shaper(lane, wish)
    return Egress(netem, shaper, _aqm(lane, wish, shaper) if shaper else None)


def _aqm(lane: Lane, wish: Impairment, shaper: Shaper) -> aqm.Aqm | None:
    return aqm.lower(
        wish.aqm,
        buffer_bytes=shaper.limit_bytes,
        frame=frame_bytes(lane.mtu),
        rate_bytes_per_s=shaper.rate_bytes_per_s,
        rtt_ns=lane.rtt_ns,
        ecn=wish.ecn,
    )


def needs_single_packets(wish: Impairment, egress: Egress) -> bool:
    """Whether super-frames (GRO, LRO) would make this egress do something else than it does to single packets."""
    burst = egress.shaper.burst_bytes if egress.shaper else SUPER_FRAME_BYTES
    return wish.per_packet or burst < SUPER_FRAME_BYTES


def spread(wish: Impairment, egress: Egress, tx_queues: int) -> Egress:
    """The same egress over all TX queues of its port, where that is the same: a delay alone.

    A bottleneck is one for all queues, and loss is one sequence of lots: both need the one netem at the root.
    """
    if tx_queues < 2 or egress.shaper or egress.bands or wish.per_packet:
        return egress
    return replace(egress, queues=tx_queues)


def netem_of_queue(netem: Netem, queue: int) -> Netem:
    """The netem of one TX queue, counted from 0: each draws its jitter by a seed of its own."""
    return netem if netem.seed is None else replace(netem, seed=(netem.seed + queue) % 2**64)


def common_netem(netems: list[Netem]) -> Netem | None:
    """The netem that these of all TX queues are (the inverse of `netem_of_queue`); None when they are not alike."""
    if not netems or netems != [netem_of_queue(netems[0], queue) for queue in range(len(netems))]:
        return None
    return netems[0]


def limit_packets(lane: Lane, wish: Impairment) -> int:
    """Netem's `limit` for one direction: all that may be in flight on the lane, and the buffer, in full-size packets.

    The whole *round-trip* BDP counts, not half of it: a sender's window may stand in one direction at once, and the
    child's queue counts as netem's own (sch->q.qlen). A limit that is not used costs nothing.
    """
    rate_bps = wish.rate_bps or lane.line_rate_bps
    flight_ns = lane.rtt_ns + sum(jitter_reach_ns(direction) for direction in (lane.outbound, lane.inbound))
    flight_bytes = -(-rate_bps * flight_ns // 8_000_000_000)
    packets = -(-(flight_bytes + buffer_bytes(lane, wish)) // frame_bytes(lane.mtu))
    return packets + -(-packets * wish.duplicate_p32 // P32) + 1000


def jitter_reach_ns(wish: Impairment) -> int:
    """By how much a packet may be later than the delay: the jitter, or as far as its distribution goes."""
    if not wish.jitter_ns or wish.distribution == "uniform":
        return wish.jitter_ns
    return jitter_distribution.reach_ns(wish.jitter_ns, jitter_distribution.table_of(wish.distribution))


def buffer_bytes(lane: Lane, wish: Impairment) -> int:
    """The bottleneck's queue in bytes: as set, or one BDP of the lane and at least 1 ms; never below two frames."""
    rate_bps = wish.rate_bps or lane.line_rate_bps
    frame = frame_bytes(lane.mtu)
    queue = wish.buffer or Buffer(ns=max(lane.rtt_ns, MIN_BUFFER_NS))
    return max(queue.to_bytes(rate_bps, frame), 2 * frame)


def _shaper(lane: Lane, wish: Impairment) -> Shaper | None:
    if wish.rate_bps is None:
        return None
    rate, frame = wish.rate_bps // 8, frame_bytes(lane.mtu)
    limit = min(buffer_bytes(lane, wish), 2**32 - 1)
    # A burst of more than 1 ms at the rate would let bursts through that the bottleneck is there to stop.
    burst = max(2 * frame, min(MAX_BURST_BYTES, rate // 1000, limit))
    overhead, atm = wish.overhead_bytes, wish.atm
    return Shaper(rate, canonical_burst(rate, burst, overhead, atm=atm), limit, overhead, atm)


def frame_bytes(mtu: int) -> int:
    """A full-size packet as a qdisc counts it."""
    return mtu + ETHERNET_HEADER_BYTES


def skb_bytes(frame: int) -> int:
    """The memory of one queued packet of `frame` bytes: data rounded up to a slab, and the sk_buff itself.

    Head room and shared info are 384 bytes, the sk_buff 256 (measured: 0.77 kB for 60 B, 2.3 kB for 1514 B, 16.6 kB
    for 9014 B).
    """
    return int(2 ** (frame + 384 - 1).bit_length()) + 256


def memory_bytes(egress: Egress, mtu: int) -> int:
    """The memory that one direction may need when its queue is full of full-size packets."""
    return egress.netem.limit * skb_bytes(frame_bytes(mtu))


def derive_seed(seed: int, lane: str, direction: str) -> int:
    """A seed of its own for every direction, the same whenever the topology's seed is the same."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{lane}/{direction}".encode()).digest()[:8], "big")


def holding(egress: Egress, limit: int) -> Egress:
    """The same egress with netem's limit no smaller than `limit`: what is queued already must find room."""
    return replace(egress, netem=replace(egress.netem, limit=max(egress.netem.limit, limit)))
