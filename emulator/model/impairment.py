"""The impairment of one direction of a lane, in integers. Pure; valid once built."""

from __future__ import annotations

import math

from msgspec import Struct

from emulator.model.jitter_distribution import NAMES, DistributionTable, checked
from emulator.model.loss_model import P32, LossModel
from emulator.units import format_duration, format_rate

LONGEST_DELAY_NS = 86_400 * 10**9
"""A day: the kernel adds the delay to a clock of 63 bits of ns, and holds all that is in flight."""

MOST_RATE_BPS = 10**13
"""10 Tbit/s: above it a packet takes less than the kernel's clock can tell."""

MAX_JITTER_NS = 2**31 - 1
"""The longest jitter: sch_netem would truncate a longer one silently."""

AQMS = ("drop-tail", "codel", "fq-codel", "red", "pie", "fq-pie", "cake", "fq", "dualpi2")
"""How a buffer drops: arriving packets when it is full (fq: of each flow in turn), or earlier by an active queue
management. New ones go to the end: the handles of the kernel's queues follow this order."""

AQM_SINCE = {"dualpi2": (6, 17)}
"""The queue managements that older kernels lack, with the version of Linux that brought them."""

MARKING = tuple(name for name in AQMS if name not in ("drop-tail", "fq"))
"""Those that can mark packets instead of dropping them. CAKE and DualPI2 do so whether `ecn` is set or not."""

IN_TURN = ("fq-codel", "fq-pie", "cake", "fq")
"""Those that serve each flow in turn, so that flows share evenly whatever controls them."""


class Buffer(Struct, frozen=True):
    """The depth of the bottleneck's queue: exactly one of bytes, packets (of full MTU) or ns at the rate."""

    bytes: int | None = None
    packets: int | None = None
    ns: int | None = None

    def __post_init__(self) -> None:
        given = [v for v in (self.bytes, self.packets, self.ns) if v is not None]
        if len(given) != 1 or given[0] <= 0:
            raise ValueError("a buffer of 0 holds no packet: use bytes (8MiB), packets (100p) or time (5ms)")

    def to_bytes(self, rate_bps: int, frame_bytes: int) -> int:
        """The depth in bytes, before a link of `rate_bps` that carries frames of `frame_bytes`."""
        if self.bytes is not None:
            return self.bytes
        if self.packets is not None:
            return self.packets * frame_bytes
        assert self.ns is not None
        return -(-rate_bps * self.ns // 8_000_000_000)


class Impairment(Struct, frozen=True, cache_hash=True):
    """The impairment of one direction of a lane.

    `rate_bps` None: the direction has no bottleneck but the ports' own speed. `buffer` needs a rate; None means one BDP
    of the lane, at least 1 ms. Jitter keeps the packets' order unless `keep_order` is False; `reorder_p32` of the
    packets overtake all packets in flight. `loss_model` replaces `loss_p32`. `ber_e15` counts bit errors in 10^15 bits
    and replaces `corrupt_p32`, which is per packet. `ecn` marks packets of ECN-capable flows instead of losing or
    dropping them early. `overhead_bytes` per packet and `atm` cells (53 bytes for 48) count against the rate. `seed`
    None: the seed is derived from the topology's.
    """

    delay_ns: int = 0
    jitter_ns: int = 0
    loss_p32: int = 0
    rate_bps: int | None = None
    buffer: Buffer | None = None
    distribution: str | DistributionTable = "uniform"
    keep_order: bool = True
    loss_model: LossModel | None = None
    duplicate_p32: int = 0
    corrupt_p32: int = 0
    ber_e15: int = 0
    reorder_p32: int = 0
    ecn: bool = False
    overhead_bytes: int = 0
    atm: bool = False
    aqm: str = "drop-tail"
    seed: int | None = None

    def __post_init__(self) -> None:
        self._check_times()
        self._check_probabilities()
        self._check_bottleneck()
        if self.seed is not None and not 0 <= self.seed < 2**64:
            raise ValueError(f"seed {self.seed} is not within 0..2^64-1")

    def _check_times(self) -> None:
        if self.delay_ns < 0 or self.jitter_ns < 0:
            raise ValueError("delay and jitter cannot be negative")
        if self.delay_ns > LONGEST_DELAY_NS:
            delay, longest = format_duration(self.delay_ns), format_duration(LONGEST_DELAY_NS)
            raise ValueError(f"a one-way delay of {delay} is above the longest, {longest}")
        if self.jitter_ns > self.delay_ns:
            jitter, delay = format_duration(self.jitter_ns), format_duration(self.delay_ns)
            raise ValueError(f"jitter {jitter} exceeds the one-way delay of {delay}")
        if self.jitter_ns > MAX_JITTER_NS:
            raise ValueError(f"jitter {format_duration(self.jitter_ns)} is above the kernel's 2.147483647 s")
        if isinstance(self.distribution, str):
            if self.distribution not in NAMES:
                raise ValueError(f"distribution {self.distribution!r} is not one of {', '.join(NAMES)}")
        else:
            checked(self.distribution)
        if self.reorder_p32 and not self.delay_ns:
            raise ValueError("reordering needs a delay: packets can only overtake packets that wait")

    def _check_probabilities(self) -> None:
        for name in ("loss", "duplicate", "corrupt", "reorder"):
            value = getattr(self, f"{name}_p32")
            if not 0 <= value <= P32:
                raise ValueError(f"{name} {value} is not within 0..{P32}")
        if self.loss_p32 and self.loss_model:
            raise ValueError("loss is given as a probability and as a model: use one of them")
        if self.corrupt_p32 and self.ber_e15:
            raise ValueError("corruption is given per packet and per bit: use one of them")
        if not 0 <= self.ber_e15 <= 10**15:
            raise ValueError(f"a bit error rate of {self.ber_e15} in 10^15 is not within 0..1")
        if self.ecn and not (self.mean_loss or self.aqm in MARKING):
            raise ValueError(f"ecn has no packets to mark: add loss, or an aqm that marks ({', '.join(MARKING)})")

    def _check_bottleneck(self) -> None:
        if self.rate_bps is not None and self.rate_bps < 8:
            raise ValueError(f"rate {self.rate_bps} bit/s is below one byte a second")
        if self.rate_bps is not None and self.rate_bps > MOST_RATE_BPS:
            raise ValueError(f"rate {format_rate(self.rate_bps)} is above the highest, {format_rate(MOST_RATE_BPS)}")
        if self.aqm not in AQMS:
            raise ValueError(f"aqm {self.aqm!r} is not one of {', '.join(AQMS)}")
        if not 0 <= self.overhead_bytes <= 65535:
            raise ValueError(f"an overhead of {self.overhead_bytes} bytes is not within 0..65535")
        if self.rate_bps is not None:
            return
        if self.buffer is not None:
            raise ValueError("a buffer needs a rate: without a bottleneck there is no queue")
        if self.overhead_bytes or self.atm or self.aqm != "drop-tail":
            raise ValueError("overhead, cells and aqm need a rate: they are settings of the bottleneck")

    @property
    def mean_loss(self) -> float:
        """The share of packets lost (or marked) at random in the long run, excluding drops of a full buffer."""
        return self.loss_model.mean_loss if self.loss_model else self.loss_p32 / P32

    @property
    def per_packet(self) -> bool:
        """Whether packets must pass singly: the packets of a super-frame would share one random draw or overhead."""
        return bool(
            self.mean_loss or self.duplicate_p32 or self.corrupt_p32 or self.ber_e15 or self.reorder_p32
            or self.overhead_bytes or self.atm or self.aqm != "drop-tail"
        )  # fmt: skip

    @property
    def bottleneck(self) -> Impairment:
        """The bottleneck alone, with all its settings."""
        ecn = self.ecn and self.aqm in MARKING
        return Impairment(
            rate_bps=self.rate_bps, buffer=self.buffer, overhead_bytes=self.overhead_bytes, atm=self.atm,
            aqm=self.aqm, ecn=ecn, seed=self.seed,
        )  # fmt: skip

    def corruption_p32(self, frame_bytes: int) -> int:
        """The probability that a frame of that size has a flipped bit. The kernel flips one bit at most."""
        if not self.ber_e15:
            return self.corrupt_p32
        if self.ber_e15 == 10**15:
            return P32
        return round(-math.expm1(8 * frame_bytes * math.log1p(-self.ber_e15 / 1e15)) * P32)
