"""The part of a plan for active ports: new numbers for the existing queues. Pure.

One message carries all changes of both directions and never a delete: no packet is lost, and none overtakes
another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from emulator.model.jitter_distribution import name_of
from emulator.plan.netem_lowering import holding
from emulator.plan.ops import Step
from emulator.plan.qdisc_ops import DelShaper, Drain, SetNetem, SetQueue, SetShaper, Together
from emulator.plan.qdisc_values import TOLD_BY_NETEM, Egress, Netem

DRAIN_MARGIN_NS = 1_000_000_000

JITTER_REACH = 4
"""The longest delay of any distribution is this many jitters above the delay."""

Changed = tuple[str, int | None, Egress, Egress]
"""A port, its band if it has flows, its present queues and its new ones, which have the same form."""


def change_live(changed: list[Changed]) -> Iterator[Step]:
    """All live changes in one message; then the clean-up that a smaller queue needs."""
    changed = [(port, band, now, goal.remembering(now)) for port, band, now, goal in changed]
    ops = [
        op for port, band, now, goal in changed for op in _queue_ops(port, band, now, holding(goal, now.netem.limit))
    ]
    if ops:
        yield Step(Together(tuple(ops)), "; ".join(_differences(changed)))
    for name, band, now, goal in changed:
        if now.shaper and not goal.shaper:
            yield Step(DelShaper(name, band), f"{_called(name, band)} no longer has a bottleneck")
    shrunk = [one for one in changed if one[3].netem.limit < one[2].netem.limit]
    for name, band, now, goal in shrunk:
        within_ns = now.netem.delay_ns + JITTER_REACH * now.netem.jitter_ns + DRAIN_MARGIN_NS
        yield Step(Drain(name, goal.netem.limit, within_ns, band), "the queued packets must fit the smaller limit")
    if shrunk:
        tidy = tuple(SetNetem(name, goal.netem, goal.queues, reseed=False, band=band) for name, band, _, goal in shrunk)
        yield Step(Together(tidy), "the limit for the new RTT")


def _called(name: str, band: int | None) -> str:
    """A port, or a flow's band of it, for people."""
    return f"{name} flow {band}" if band else name


def _queue_ops(name: str, band: int | None, now: Egress, goal: Egress) -> Iterable[SetNetem | SetShaper | SetQueue]:
    if goal.netem != now.netem or not now.alike:
        reseed = goal.netem.seed != now.netem.seed or not now.alike
        yield SetNetem(name, goal.netem, goal.queues, reseed=reseed, band=band)
    if goal.shaper and goal.shaper != now.shaper:
        yield SetShaper(name, goal.shaper, band)
    if goal.shaper and goal.aqm != now.aqm:
        yield SetQueue(name, goal.aqm, goal.shaper, band)
    if now.shaper and not goal.shaper:
        # Drain at a rate that leaves no queue behind, so that deleting the shaper loses nothing.
        yield SetShaper(name, replace(now.shaper, rate_bytes_per_s=10**12, burst_bytes=2**27), band)


def _differences(changed: list[Changed]) -> Iterator[str]:
    """What changes on each port, by the names of the fields."""
    for name, band, now, goal in changed:
        words = [] if now.alike else ["its TX queues differ"]
        words += _netem_differences(now.netem, goal.netem) if now.alike else []
        if now.shaper != goal.shaper:
            words.append(f"{now.shaper or 'no bottleneck'} -> {goal.shaper or 'no bottleneck'}")
        if goal.shaper and now.aqm != goal.aqm:
            words.append(f"{now.aqm or 'drop-tail'} -> {goal.aqm or 'drop-tail'}")
        yield f"{_called(name, band)}: {', '.join(words)}"


def _netem_differences(now: Netem, goal: Netem) -> Iterator[str]:
    for setting in TOLD_BY_NETEM:
        old, new = (getattr(netem, setting) for netem in (now, goal))
        if setting == "cell_overhead" and old != new:
            yield f"distribution {_shape(now)} -> {_shape(goal)}"
        elif old != new and not (setting == "loss_corr" and (now.lost_before or goal.lost_before)):
            yield f"{setting} {old} -> {new}"


def _shape(netem: Netem) -> str:
    """What the fingerprint in `cell_overhead` means."""
    return (name_of(netem.distribution) if netem.distribution else "table") if netem.cell_overhead else "none"
