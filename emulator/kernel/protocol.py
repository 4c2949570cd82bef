"""The interface of every kernel: observe what Longhaul owns, apply one operation, read the counters of its queues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from emulator.plan.ops import Op
from emulator.plan.state import State


class QueueCounters(Struct, frozen=True):
    """The counters of one egress since Longhaul created its queue; packets are skbs, a super-frame counts once.

    `drops` are all drops, `lost` the configured random ones; None where the datapath does not count them separately.
    `lateness` is a histogram, where the datapath has one: (upper bound in ns, number of frames that left so long after
    they were due). `flows` are the flows' counters, which no other figure includes. `not_permitted` names what the
    kernel refused the wire engine's thread for this direction.
    """

    packets: int
    bytes: int
    drops: int
    queued_packets: int
    queued_bytes: int
    shaper_drops: int
    lost: int | None = None
    lateness: tuple[tuple[int, int], ...] = ()
    flows: tuple[QueueCounters, ...] = ()
    not_permitted: tuple[str, ...] = ()


class Kernel(Protocol):
    """`apply` raises KernelError and changes nothing when the operation is refused.

    `ports_of` is `observe` for these interfaces only, without those that have flows or are not Longhaul's. `prepare`
    is the first half of `apply`: it returns a function that performs the operation in the least time.
    """

    def observe(self) -> State: ...

    def ports_of(self, names: frozenset[str]) -> State: ...

    def apply(self, op: Op) -> None: ...

    def prepare(self, op: Op) -> Callable[[], None]: ...

    def counters(self) -> dict[str, QueueCounters]: ...

    def close(self) -> None: ...
