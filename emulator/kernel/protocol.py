"""What every kernel can do: observe what Longhaul owns, apply one operation, read the counters of its queues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from emulator.plan.ops import Op
from emulator.plan.state import State


@dataclass(frozen=True)
class QueueCounters:
    """What one egress counted since Longhaul created its queue: packets are skbs, a super-frame counts once.

    `drops` are all; `lost` the configured random ones, where the datapath can tell. `lateness`: how many frames left
    less than so many ns after they were due, and not less than the entry before, where it can tell that.
    `flows` are the flows' own, which are in none of the other figures.
    `not_permitted` says what the kernel refused the wire engine's thread that serves this direction.
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

    `ports_of` is `observe` for these interfaces alone, as far as they are ports of ours and have no flows. `prepare`
    is `apply` in two halves: what it answers does the operation, in as little time as can be.
    """

    def observe(self) -> State: ...

    def ports_of(self, names: frozenset[str]) -> State: ...

    def apply(self, op: Op) -> None: ...

    def prepare(self, op: Op) -> Callable[[], None]: ...

    def counters(self) -> dict[str, QueueCounters]: ...

    def close(self) -> None: ...
