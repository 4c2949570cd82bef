"""The operations on the queues of ports; each prints as the tc command that would do the same."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .aqm import Aqm
from .netem import Netem, Shaper, netem_of_queue

QUEUE_MAJOR = 0x100
"""The handle of the netem of the first TX queue below a root mq; the next queues' follow."""

AQM_MAJOR = 0x20
"""The handle of the queue in a bottleneck, if it is not the bottleneck's own; its kind adds to it (AQM_KINDS)."""

AQM_KINDS = ("bfifo", "codel", "fq_codel", "red")


@dataclass(frozen=True)
class AddQueues:
    """A root that gives every TX queue of a port a place for its own netem."""

    port: str
    queues: int

    def __str__(self) -> str:
        return f"tc qdisc add dev {self.port} root handle 1: mq"


@dataclass(frozen=True)
class SetNetem:
    """The port's netem; with `queues` above 1 that of every TX queue, in one message.

    Without `reseed` the random numbers go on where they are: a seed that is sent again starts them anew.
    """

    port: str
    netem: Netem
    queues: int = 1
    reseed: bool = True

    def __str__(self) -> str:
        told = self.netem if self.reseed else replace(self.netem, seed=None)
        if self.queues == 1:
            return f"tc qdisc replace dev {self.port} root handle 1: {told}"
        return "\n".join(
            f"tc qdisc replace dev {self.port} parent 1:{queue + 1:x} handle {QUEUE_MAJOR + queue:x}: {netem}"
            for queue, netem in enumerate(netem_of_queue(told, queue) for queue in range(self.queues))
        )


@dataclass(frozen=True)
class SetShaper:
    port: str
    shaper: Shaper

    def __str__(self) -> str:
        return f"tc qdisc replace dev {self.port} parent 1:1 handle 10: {self.shaper}"


@dataclass(frozen=True)
class SetQueue:
    """What the bottleneck does with a full buffer; `queue` None is drop-tail. What the old queue held is lost."""

    port: str
    queue: Aqm | None
    shaper: Shaper

    def __str__(self) -> str:
        queue = self.queue or f"bfifo limit {self.shaper.limit_bytes}"
        return f"tc qdisc replace dev {self.port} parent 10:1 handle {self.major:x}: {queue}"

    @property
    def major(self) -> int:
        """Every kind has a handle of its own: the kernel takes no new kind under an old one's (tc_modify_qdisc)."""
        return AQM_MAJOR + AQM_KINDS.index(self.queue.kind if self.queue else "bfifo")


@dataclass(frozen=True)
class DelShaper:
    port: str

    def __str__(self) -> str:
        return f"tc qdisc del dev {self.port} parent 1:1 handle 10:"


@dataclass(frozen=True)
class DelEgress:
    port: str

    def __str__(self) -> str:
        return f"tc qdisc del dev {self.port} root"


@dataclass(frozen=True)
class Drain:
    """Wait until at most `packets` stand in the port's queue, so that a smaller limit drops none of them.

    `within_ns` is how long that may take: what stood in the queue leaves within the old delay.
    """

    port: str
    packets: int
    within_ns: int

    def __str__(self) -> str:
        return f"# wait until 'tc -s qdisc show dev {self.port}' shows a backlog of at most {self.packets}p"


@dataclass(frozen=True)
class Together:
    """Changes of queues that reach the kernel in one message, so that no packet travels between two of them."""

    ops: tuple[SetNetem | SetShaper | SetQueue, ...]

    def __str__(self) -> str:
        lines = [line for op in self.ops for line in str(op).splitlines()]
        return "tc -batch - <<END\n" + "\n".join(f"  {line[3:]}" for line in lines) + "\nEND"
