"""The queue below the bottleneck: its active queue management in the kernel's own integers. Pure.

Sources: net/sched/sch_codel.c, sch_fq_codel.c, sch_pie.c, sch_fq_pie.c, sch_cake.c, sch_fq.c (Linux 6.12),
sch_dualpi2.c (7.2); RFC 8289 (CoDel), RFC 8033 (PIE), RFC 9332 (DualQ).
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from emulator.plan.red import Red, red

CODEL_INTERVAL_US = 100_000
"""CoDel's interval for paths up to this RTT; on a longer one it is the RTT (RFC 8289, 4.2)."""

INTERVAL_TARGETS = 20
"""CoDel's target is the interval's twentieth (RFC 8289, 4.3)."""

TICK_NS = 1024
FLOWS = 1024
"""The queues of fq_codel and fq_pie: the kernel's default."""

PIE_TARGET_US = 15_000
"""PIE's target (RFC 8033, 4.2), and that of DualPI2's classic queue."""

L4S_STEP_US = 1_000
"""DualPI2 marks every packet of its low-latency queue that waited longer (RFC 9332, appendix A)."""

MOST_MEMORY_BYTES = 2**31
"""What a queue may take of the memory, so that its limit in packets decides alone: the kernel's default of 32 MB would
drop long before 10 Gbit/s x 346 ms. The kernel's sums have 32 bits."""


class Space(Struct, frozen=True):
    """The room and the path of a bottleneck's queue: its depth, a full-size packet and the memory of one, the rate."""

    buffer_bytes: int
    frame: int
    skb_bytes: int
    rate_bytes_per_s: int
    rtt_ns: int

    @property
    def packets(self) -> int:
        """The depth in full-size packets, at least two."""
        return max(2, self.buffer_bytes // self.frame)

    @property
    def interval_us(self) -> int:
        """The time within which a flow answers: CoDel's interval."""
        return max(CODEL_INTERVAL_US, self.rtt_ns // 1000)


class Codel(Struct, frozen=True):
    """codel, or with `flows` fq_codel: `limit` packets, times in ticks of 1024 ns (CODEL_SHIFT)."""

    limit: int
    target_ticks: int
    interval_ticks: int
    ecn: bool = False
    flows: int = 0

    @property
    def kind(self) -> str:
        """The kernel's name."""
        return "fq_codel" if self.flows else "codel"

    def __str__(self) -> str:
        flows = f" memory_limit {MOST_MEMORY_BYTES}" if self.flows else ""
        times = f"target {ticks_to_us(self.target_ticks)}us interval {ticks_to_us(self.interval_ticks)}us"
        return f"{self.kind} limit {self.limit}{flows} {times} {_ecn(self.ecn)}"


class Pie(Struct, frozen=True):
    """pie, or with `flows` fq_pie: `limit` packets."""

    limit: int
    target_us: int
    ecn: bool = False
    flows: int = 0

    @property
    def kind(self) -> str:
        """The kernel's name."""
        return "fq_pie" if self.flows else "pie"

    def __str__(self) -> str:
        flows = f" memory_limit {MOST_MEMORY_BYTES}" if self.flows else ""
        return f"{self.kind} limit {self.limit}{flows} target {self.target_us}us {_ecn(self.ecn)}"


class Cake(Struct, frozen=True):
    """cake without a rate of its own. It counts memory, not packets, and marks ECN-capable packets always."""

    memory_bytes: int
    target_us: int
    interval_us: int

    kind = "cake"
    """The kernel's name."""

    def __str__(self) -> str:
        return f"cake unlimited rtt {self.interval_us}us memlimit {self.memory_bytes}"


class Fq(Struct, frozen=True):
    """fq without pacing, which is the sender's: it serves each flow in turn, and drops what arrives when it is full."""

    limit: int
    flow_limit: int

    kind = "fq"
    """The kernel's name."""

    def __str__(self) -> str:
        return f"fq limit {self.limit} flow_limit {self.flow_limit} nopacing"


class DualPi2(Struct, frozen=True):
    """dualpi2: PI2 for classic packets, marks after `step_us` for those of L4S, which it serves first. It marks
    ECN-capable packets always."""

    limit: int
    target_us: int
    step_us: int

    kind = "dualpi2"
    """The kernel's name."""

    def __str__(self) -> str:
        times = f"target {self.target_us}us step_thresh {self.step_us}us"
        return f"dualpi2 limit {self.limit} memlimit {MOST_MEMORY_BYTES} {times}"


Aqm = Codel | Red | Pie | Cake | Fq | DualPi2


def _ecn(ecn: bool) -> str:
    return "ecn" if ecn else "noecn"


def _codel(space: Space, ecn: bool, flows: int = 0) -> Codel:
    interval_ns = space.interval_us * 1000
    return Codel(space.packets, interval_ns // INTERVAL_TARGETS // TICK_NS, interval_ns // TICK_NS, ecn, flows)


def _cake(space: Space, _: bool) -> Cake:
    memory = min(space.packets * space.skb_bytes, MOST_MEMORY_BYTES)
    return Cake(memory, space.interval_us // INTERVAL_TARGETS, space.interval_us)


_QUEUES: dict[str, Callable[[Space, bool], Aqm]] = {
    "codel": _codel,
    "fq-codel": lambda space, ecn: _codel(space, ecn, FLOWS),
    "red": lambda space, ecn: red(space.buffer_bytes, space.frame, space.rate_bytes_per_s, ecn=ecn),
    "pie": lambda space, ecn: Pie(space.packets, PIE_TARGET_US, ecn),
    "fq-pie": lambda space, ecn: Pie(space.packets, PIE_TARGET_US, ecn, FLOWS),
    "cake": _cake,
    "fq": lambda space, _: Fq(space.packets, space.packets),
    "dualpi2": lambda space, _: DualPi2(space.packets, PIE_TARGET_US, L4S_STEP_US),
}


def lower(queue: str, space: Space, *, ecn: bool) -> Aqm | None:
    """The queue of this name with the buffer's depth; None for drop-tail, the bottleneck's default."""
    return None if queue == "drop-tail" else _QUEUES[queue](space, ecn)


def ticks_to_us(ticks: int) -> int:
    """The time in us to send, so that the kernel stores these ticks: it rounds down."""
    return -(-ticks * TICK_NS // 1000)


def us_to_ticks(us: int) -> int:
    """The ticks behind a time in us that the kernel reports: it rounded down again."""
    return -(-us * 1000 // TICK_NS)
