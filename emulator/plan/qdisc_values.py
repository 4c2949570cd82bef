"""The queues of one direction as the kernel stores them: netem, its bottleneck, and a flow's own. Pure values.

`netem_lowering` computes them from impairments.
"""

from __future__ import annotations

from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from emulator.model import jitter_distribution
from emulator.model.bottleneck import wire_bytes
from emulator.model.flow_match import Filter
from emulator.model.loss_model import P32
from emulator.plan import aqm

ORDER_RATE_BYTES_PER_S = 10**15
"""Netem keeps packets in order only with a rate: each packet then leaves no earlier than the one before.

At 10^15 byte/s even a 64 KiB super-frame takes 65536 * 10^9 // 10^15 = 0 ns (packet_time_ns), so order costs no time.
It also makes a live reduction of the RTT safe: without it new packets would overtake those in flight.
"""


class Netem(Struct, frozen=True):
    """A netem qdisc as the kernel stores it; every message holds every field, since `change` keeps omitted ones.

    Probabilities and correlations are u32 parts (P32 is one), times ns, rates bytes/s, `limit` packets (skbs).
    `slot` is (min_ns, max_ns, packets, bytes, dist_delay_ns, dist_jitter_ns); `gemodel` is (p, r, h, k1) in the
    kernel's sense of h and k1, `four_state` (p13, p31, p32, p23, p14). `seed` None: the kernel has no seed (before
    6.6). The kernel does not dump `distribution`, so it is not compared: `cell_overhead` holds its fingerprint, which
    netem keeps, dumps and, without `cell_size`, never uses. Without `loss_p32` it never uses `loss_corr` either, which
    is then not compared: it remembers earlier loss (`lost_before`).
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
    distribution: jitter_distribution.DistributionTable | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Netem) and _told(self) == _told(other)

    def __hash__(self) -> int:
        return hash(_told(self))

    def __str__(self) -> str:
        """The arguments of tc, without those that have no effect."""
        words = ["netem", f"delay {self.delay_ns}ns"]
        if self.jitter_ns:
            words[-1] += f" {self.jitter_ns}ns"
            if self.distribution:
                words.append(f"distribution {jitter_distribution.name_of(self.distribution)}")
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
        """Whether it drops or marks packets at random."""
        return bool(self.loss_p32 or self.gemodel or self.four_state)

    @property
    def lost_before(self) -> bool:
        """Whether it does not drop or mark packets at random now, but did: its counter of drops holds those, too."""
        return not self.lossy and self.loss_corr != 0

    def remembering(self, before: Netem) -> Netem:
        """The same netem after `before`; it remembers whether that dropped or marked packets at random."""
        if self.lossy or not (before.lossy or before.lost_before):
            return self
        return replace(self, loss_corr=LOST_BEFORE)


LOST_BEFORE = 1
"""The correlation of no loss that remembers earlier loss."""
TOLD_BY_NETEM = tuple(name for name in Netem.__struct_fields__ if name != "distribution")
"""The settings that the kernel dumps."""
_settings = attrgetter(*(name for name in TOLD_BY_NETEM if name != "loss_corr"))


def _told(netem: Netem) -> tuple[object, ...]:
    """What two netems are compared by."""
    return (*_settings(netem), netem.loss_corr if netem.loss_p32 else 0)


class Shaper(Struct, frozen=True):
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
        """The size of a burst on the wire, including overhead and cells."""
        return wire_bytes(self.burst_bytes, self.overhead_bytes, atm=self.atm)


class Egress(Struct, frozen=True):
    """Everything that acts on packets leaving one port: delay and loss first, then the bottleneck, if there is one.

    `aqm` None: the bottleneck's own queue drops arriving packets when it is full.
    `queues` above 1: below a root mq, every TX queue has its own netem with its own seed (`netem_of_queue`).
    `alike` False (observed only): the TX queues differ, or some are missing.
    `bands` are the flows': below a root prio each has its own netem and children; the first band takes the rest.
    """

    netem: Netem
    shaper: Shaper | None = None
    aqm: aqm.Aqm | None = None
    queues: int = 1
    alike: bool = True
    bands: tuple[Band, ...] = ()

    @property
    def places(self) -> tuple[tuple[int | None, Egress], ...]:
        """Every netem with its children and its band, which is None without bands."""
        if not self.bands:
            return ((None, self),)
        return ((0, replace(self, bands=())), *((i, band.egress) for i, band in enumerate(self.bands, 1)))

    @property
    def form(self) -> tuple[int, tuple[tuple[Filter, ...], ...]]:
        """What cannot change while packets are in flight."""
        return self.queues, tuple(band.filters for band in self.bands)

    def remembering(self, before: Egress) -> Egress:
        """The same queues after `before`; each netem remembers earlier loss. Queues of another form are new."""
        if self.form != before.form:
            return self
        pairs = zip(self.bands, before.bands, strict=True)
        bands = tuple(Band(band.filters, band.egress.remembering(old.egress)) for band, old in pairs)
        return replace(self, netem=self.netem.remembering(before.netem), bands=bands)


class Band(Struct, frozen=True):
    """A flow's part of an egress, and the match that selects its packets."""

    filters: tuple[Filter, ...]
    egress: Egress
