"""How late changes were: scheduled against applied. A value; pure."""

from __future__ import annotations

from msgspec import Struct, field

BUCKETS_NS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000)
"""The upper ends of the histogram's buckets; the last one has no end."""


class Lateness(Struct):
    """How late changes were applied: from the scheduled instant to the kernel's answer, less the time that reading the
    clock takes. `skipped` instants had passed before they could be applied, and a later one replaced them. `drifts`
    counts how often somebody else had changed the lanes."""

    changes: int = 0
    skipped: int = 0
    drifts: int = 0
    max_ns: int = 0
    total_ns: int = 0
    histogram: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_NS) + 1))

    def __post_init__(self) -> None:
        if len(self.histogram) != len(BUCKETS_NS) + 1:
            raise ValueError(f"the histogram has {len(self.histogram)} buckets")

    def add(self, late_ns: int) -> None:
        """Count one change."""
        self.changes += 1
        self.max_ns, self.total_ns = max(self.max_ns, late_ns), self.total_ns + late_ns
        self.histogram[next((i for i, end in enumerate(BUCKETS_NS) if late_ns < end), len(BUCKETS_NS))] += 1

    @property
    def mean_ns(self) -> float:
        """The mean lateness."""
        return self.total_ns / self.changes if self.changes else 0.0
