"""The operations on the queues of ports; each prints as the tc command that would do the same."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from emulator.model.flow_match import Filter
from emulator.model.impairment import AQMS
from emulator.plan.aqm import Aqm
from emulator.plan.netem_lowering import netem_of_queue
from emulator.plan.qdisc_values import Netem, Shaper

QUEUE_MAJOR = 0x100
"""The handle of the netem of the first TX queue below a root mq; the next queues' follow."""

AQM_MAJOR = 0x20
"""The handle of the queue below a bottleneck, if it is not the default one; its kind adds to it (AQM_KINDS)."""

AQM_KINDS = ("bfifo", *(name.replace("-", "_") for name in AQMS[1:]))
"""The kernel's names of AQMS, in the same order."""

SHAPER_MAJOR, BAND_SHAPER_MAJOR, BAND_AQM_MAJOR = 0x10, 0x200, 0x400
"""The handles of the bottleneck; with flows, those of every band, and sixteen for the queues of each band."""


def netem_place(band: int | None) -> tuple[int | None, int]:
    """The parent of a netem and its handle's major: at the root (None), or at 1:N for a flow's band from 0."""
    return (None, 1) if band is None else (band + 1, QUEUE_MAJOR + band)


def shaper_major(band: int | None) -> int:
    """The major of a bottleneck's handle."""
    return SHAPER_MAJOR if band is None else BAND_SHAPER_MAJOR + band


def aqm_major(kind: str, band: int | None) -> int:
    """The major of the handle of a bottleneck's queue of this kind.

    Each kind has its own handle: the kernel refuses a new kind under an old one's handle (tc_modify_qdisc).
    """
    number = AQM_KINDS.index(kind)
    return AQM_MAJOR + number if band is None else BAND_AQM_MAJOR + 16 * band + number


class AddBands(Struct, frozen=True):
    """Create a root with one band for each flow after the first band, which takes all packets that no filter
    matches."""

    port: str
    bands: int

    def __str__(self) -> str:
        return f"tc qdisc add dev {self.port} root handle 1: prio bands {self.bands} priomap{' 0' * 16}"


class AddFilters(Struct, frozen=True):
    """Create the flows' filters: by band from 1; the first filter that matches a packet decides."""

    port: str
    bands: tuple[tuple[Filter, ...], ...]

    @property
    def numbered(self) -> tuple[tuple[int, int, Filter], ...]:
        """Every filter with its priority, from 1, and its band."""
        flat = [(band, one) for band, filters in enumerate(self.bands, 1) for one in filters]
        return tuple((number, band, one) for number, (band, one) in enumerate(flat, 1))

    def __str__(self) -> str:
        lines = []
        for number, band, one in self.numbered:
            protocol, rest = str(one).split(" flower", 1)
            lines.append(
                f"tc filter add dev {self.port} parent 1: {protocol} prio {number} flower{rest} classid 1:{band + 1:x}"
            )
        return "\n".join(lines)


class AddQueues(Struct, frozen=True):
    """Create a root that holds one netem for each TX queue of a port."""

    port: str
    queues: int

    def __str__(self) -> str:
        return f"tc qdisc add dev {self.port} root handle 1: mq"


class SetNetem(Struct, frozen=True):
    """Set the port's netem; with `queues` above 1 that of every TX queue, in one message; with `band` that of a flow.

    Without `reseed` the random numbers continue: a seed in the message would restart them.
    """

    port: str
    netem: Netem
    queues: int = 1
    reseed: bool = True
    band: int | None = None

    def __str__(self) -> str:
        reported = self.netem if self.reseed else replace(self.netem, seed=None)
        if self.band is not None:
            place, major = netem_place(self.band)
            return f"tc qdisc replace dev {self.port} parent 1:{place:x} handle {major:x}: {reported}"
        if self.queues == 1:
            return f"tc qdisc replace dev {self.port} root handle 1: {reported}"
        return "\n".join(
            f"tc qdisc replace dev {self.port} parent 1:{queue + 1:x} handle {QUEUE_MAJOR + queue:x}: {netem}"
            for queue, netem in enumerate(netem_of_queue(reported, queue) for queue in range(self.queues))
        )


class SetShaper(Struct, frozen=True):
    port: str
    shaper: Shaper
    band: int | None = None

    def __str__(self) -> str:
        over, own = netem_place(self.band)[1], shaper_major(self.band)
        return f"tc qdisc replace dev {self.port} parent {over:x}:1 handle {own:x}: {self.shaper}"


class SetQueue(Struct, frozen=True):
    """Set what the bottleneck does with a full buffer; `queue` None is drop-tail. The old queue's packets are lost."""

    port: str
    queue: Aqm | None
    shaper: Shaper
    band: int | None = None

    def __str__(self) -> str:
        queue = self.queue or f"bfifo limit {self.shaper.limit_bytes}"
        return f"tc qdisc replace dev {self.port} parent {shaper_major(self.band):x}:1 handle {self.major:x}: {queue}"

    @property
    def major(self) -> int:
        """The major of its handle."""
        return aqm_major(self.queue.kind if self.queue else "bfifo", self.band)


class DelShaper(Struct, frozen=True):
    port: str
    band: int | None = None

    def __str__(self) -> str:
        over, own = netem_place(self.band)[1], shaper_major(self.band)
        return f"tc qdisc del dev {self.port} parent {over:x}:1 handle {own:x}:"


class DelEgress(Struct, frozen=True):
    port: str

    def __str__(self) -> str:
        return f"tc qdisc del dev {self.port} root"


QueueOp = AddQueues | AddBands | AddFilters | SetNetem | SetShaper | SetQueue | DelShaper | DelEgress
"""The changes of one port's queues; each is one or several netlink messages."""


class Drain(Struct, frozen=True):
    """Wait until the port's queue holds at most `packets`, so that a smaller limit drops none of them.

    `within_ns` is how long this may take: the queued packets leave within the old delay.
    """

    port: str
    packets: int
    within_ns: int
    band: int | None = None

    def __str__(self) -> str:
        which = f" handle {netem_place(self.band)[1]:x}:" if self.band is not None else ""
        return f"# wait until 'tc -s qdisc show dev {self.port}{which}' shows a backlog of at most {self.packets}p"


class Together(Struct, frozen=True):
    """Changes of queues that reach the kernel in one message, so that no packet passes between two of them."""

    ops: tuple[SetNetem | SetShaper | SetQueue, ...]

    def __str__(self) -> str:
        lines = [line for op in self.ops for line in str(op).splitlines()]
        return "tc -batch - <<END\n" + "\n".join(f"  {line[3:]}" for line in lines) + "\nEND"
