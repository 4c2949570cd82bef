"""How late the changes of a schedule were, counted by size."""

from __future__ import annotations

from emulator.control.schedule_lateness import Lateness

MS, S = 10**6, 10**9


def test_lateness_falls_into_buckets() -> None:
    late = Lateness()
    for ns in (0, 999, 9_999, 10_000, 5 * MS, 2 * S):
        late.add(ns)
    assert late.histogram == [2, 1, 1, 0, 1, 0, 0, 1]
    assert (late.changes, late.max_ns, late.mean_ns) == (6, 2 * S, (20_998 + 5 * MS + 2 * S) / 6)
