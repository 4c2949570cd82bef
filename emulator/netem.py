"""From a wish to what the kernel stores: netem and its bottleneck (tbf) in the kernel's own integers. Pure.

Everything that sch_netem and sch_tbf round, count or forget in odd ways is known here and nowhere else, so that
the planner may compare wish and kernel with `==`. Sources: net/sched/sch_netem.c and sch_tbf.c of Linux 6.12.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from . import aqm, distributions
from .bursts import canonical_burst, wire_bytes
from .model import P32, Buffer, Impairment, Lane

ETHERNET_HEADER_BYTES = 14
"""What a qdisc counts on top of the MTU: the Ethernet header, neither FCS nor preamble."""

ORDER_RATE_BYTES_PER_S = 10**15
"""Netem keeps packets in order only when it has a rate: each packet then leaves no earlier than the one before.

At 10^15 byte/s even a 64 KiB super-frame takes 65536 * 10^9 // 10^15 = 0 ns (packet_time_ns), so order costs no time.
It is also what makes a live cut of the RTT safe: without it the packets in flight are overtaken.
"""

MAX_BURST_BYTES = 128 * 1024
"""Above one GSO super-frame with its headers (about 68 kB), so that tbf need not segment it."""

SUPER_FRAME_BYTES = 65_550
"""The largest GSO/GRO skb with an Ethernet header (65,536 + 14): tbf cuts what is above its burst into packets."""

MIN_BUFFER_NS = 1_000_000
"""The smallest default buffer, in time at the rate: what a switch port has at the very least."""


@dataclass(frozen=True)
class Netem:
    """A netem qdisc as the kernel stores it; every field is sent every time, for `change` keeps what it is not told.

    Probabilities and correlations are u32 parts (P32 is one), times ns, rates bytes/s, `limit` packets (skbs).
    `slot` is (min_ns, max_ns, packets, bytes, dist_delay_ns, dist_jitter_ns); `gemodel` is (p, r, h, k1) in the
    kernel's sense of h and k1, `four_state` (p13, p31, p32, p23, p14). `seed` None: the kernel has no seed (before
    6.6). The kernel does not dump `distribution`, so it is not compared: its fingerprint stands in `cell_overhead`,
    which netem keeps, dumps and, with no `cell_size`, never uses.
    """

    delay_ns: int = 0
    jitter_ns: int = 0
    limit: int = 1000
    rate_bytes_per_s: int = ORDER_RATE_BYTES_PER_S
    loss_p32: int = 0
    duplicate_p32: int = 0
    reorder_p32: int = 0
    corrupt_p32: int = 0
    gap: int = 0
    delay_corr: int = 0
    loss_corr: int = 0
    duplicate_corr: int = 0
    reorder_corr: int = 0
    corrupt_corr: int = 0
    packet_overhead: int = 0
    cell_size: int = 0
    cell_overhead: int = 0
    ecn: bool = False
    slot: tuple[int, int, int, int, int, int] = (0, 0, 0, 0, 0, 0)
    gemodel: tuple[int, int, int, int] | None = None
    seed: int | None = None
    four_state: tuple[int, int, int, int, int] | None = None
    distribution: distributions.Table | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """As the arguments of tc; what has no say is left out."""
        words = ["netem", f"delay {self.delay_ns}ns"]
        if self.jitter_ns:
            words[-1] += f" {self.jitter_ns}ns"
            if self.distribution:
                words.append(f"distribution {distributions.name_of(self.distribution)}")
        words += self._loss_words()
        for word, p32 in (
            ("loss", self.loss_p32),
            ("duplicate", self.duplicate_p32),
            ("corrupt", self.corrupt_p32),
        ):
            if p32:
                words.append(f"{word} {p32 * 100 / P32:.8g}%")
        if self.reorder_p32:
            words.append(f"reorder {self.reorder_p32 * 100 / P32:.8g}% gap {self.gap}")
        if self.rate_bytes_per_s:
            words.append(f"rate {self.rate_bytes_per_s * 8}bit")
        words.append(f"limit {self.limit}")
        if self.seed is not None:
            words.append(f"seed {self.seed}")
        return " ".join(words)

    def _loss_words(self) -> list[str]:
        words = []
        for name, model in (("gemodel", self.gemodel), ("state", self.four_state)):
            if model:
                words.append(f"loss {name} " + " ".join(f"{p32 * 100 / P32:.8g}%" for p32 in model))
        return [*words, "ecn"] if self.ecn else words

    @property
    def lossy(self) -> bool:
        """Whether it drops or marks by chance."""
        return bool(self.loss_p32 or self.gemodel or self.four_state)


@dataclass(frozen=True)
class Shaper:
    """The bottleneck: a tbf below netem. `burst_bytes` is canonical (`canonical_burst`), `limit_bytes` the buffer.

    `overhead_bytes` count with every packet, and with `atm` the packet fills cells of 53 bytes for 48 of its own.
    """

    rate_bytes_per_s: int
    burst_bytes: int
    limit_bytes: int
    overhead_bytes: int = 0
    atm: bool = False

    def __str__(self) -> str:
        words = [f"tbf rate {self.rate_bytes_per_s * 8}bit burst {self.burst_bytes} limit {self.limit_bytes}"]
        if self.overhead_bytes:
            words.append(f"overhead {self.overhead_bytes}")
        return " ".join([*words, "linklayer atm"] if self.atm else words)

    @property
    def burst_wire_bytes(self) -> int:
        """What the burst takes on the wire, overhead and cells counted."""
        return wire_bytes(self.burst_bytes, self.overhead_bytes, atm=self.atm)


@dataclass(frozen=True)
class Egress:
    """All that acts on what leaves one port: delay and loss first, then the bottleneck, if there is one.

    `aqm` None: the bottleneck's own queue, which drops what comes when it is full.
    `queues` above 1: below a root mq, every TX queue has a netem of its own with its own seed (`netem_of_queue`).
    `alike` False, only ever observed: they differ from each other, or some are missing.
    """

    netem: Netem
    shaper: Shaper | None = None
    aqm: aqm.Aqm | None = None
    queues: int = 1
    alike: bool = True


def lower(lane: Lane, *, seed: int, has_seed: bool) -> tuple[Egress, Egress]:
    """A lane's two egresses, (outbound on the site port, inbound on the hub port).

    `seed` is the topology's; each direction derives its own from it. `has_seed` says whether this kernel takes one.
    """
    return (
        _egress(lane, lane.outbound, derive_seed(seed, lane.name, "outbound") if has_seed else None),
        _egress(lane, lane.inbound, derive_seed(seed, lane.name, "inbound") if has_seed else None),
    )


def _egress(lane: Lane, wish: Impairment, seed: int | None) -> Egress:
    table = distributions.table_of(wish.distribution) if wish.jitter_ns else None
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
        cell_overhead=distributions.fingerprint(table) if table else 0,
    )
    shaper = _shaper(lane, wish)
    return Egress(netem, shaper, _aqm(lane, wish, shaper) if shaper else None)


def _aqm(lane: Lane, wish: Impairment, shaper: Shaper) -> aqm.Aqm | None:
    return aqm.lower(
        wish.queue,
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
    if tx_queues < 2 or egress.shaper or wish.per_packet:
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
    return distributions.reach_ns(wish.jitter_ns, distributions.table_of(wish.distribution))


def buffer_bytes(lane: Lane, wish: Impairment) -> int:
    """The bottleneck's queue in bytes: as wished, or one BDP of the lane and at least 1 ms; never below two frames."""
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
