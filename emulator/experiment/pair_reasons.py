"""Why the RTT between two hosts is not as asked: what the lanes between them held and counted meanwhile. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from emulator.control.status import DirectionStatus, LaneStatus, Status
from emulator.experiment import engine_lateness
from emulator.experiment.rtt_certificate import Pair, Unanswered
from emulator.units import format_size


def reasons(pair: Pair | Unanswered, before: Status, after: Status, machine: str = "") -> tuple[str, ...]:
    """What differs, and the causes that are known; nothing of a pair that passed.

    `before` and `after` are the status around the measurement; `machine` says how busy the machine is, "" if it is not.
    """
    if isinstance(pair, Pair) and pair.passed:
        return ()
    lanes = [lane for lane in after.lanes if lane.lane.name in (pair.one, pair.other)]
    causes = list(chain(_drift(lanes, before, after), _counted(lanes, before), _late(lanes, before, pair)))
    if machine:
        causes.append(f"This machine is busy ({machine}): let other programs end and measure again.")
    if not causes:
        causes.append(_unexplained(pair))
    said = [pair.why] if isinstance(pair, Unanswered) else list(_differences(pair))
    return (*said, *causes)


def _differences(pair: Pair) -> Iterator[str]:
    """The first figure that is out of tolerance (where the median is, the others say nothing new), and lost echoes."""
    for name, value in (("median", pair.median_ns), ("minimum", pair.min_ns), ("99th percentile", pair.p99_ns)):
        off_ns = value - pair.asked_ns
        if abs(off_ns) > pair.allowed_ns:
            side = "above" if off_ns > 0 else "below"
            yield f"The {name} is {_ms(abs(off_ns))} {side} what is asked; {_ms(pair.allowed_ns)} are allowed."
            break
    if pair.lost and not pair.lossy:
        yield f"{_echoes(pair.lost)} lost although no lane between them loses packets."


def _drift(lanes: Sequence[LaneStatus], before: Status, after: Status) -> Iterator[str]:
    for lane in lanes:
        name = lane.lane.name
        if blocked := after.blocked.get(name):
            yield f"{name} cannot be repaired: {blocked}"
        ports = {lane.outbound.port, lane.inbound.port}
        steps = [step for step in (*before.drift, *after.drift) if ports & {*str(step.op).split()}]
        for command in dict.fromkeys(str(step.op) for step in steps):
            yield f"{name} has drifted from the topology. This repairs it, as bringing the topology up does: {command}"


def _counted(lanes: Sequence[LaneStatus], before: Status) -> Iterator[str]:
    """Queues that other traffic filled, and drops that nobody asked for."""
    earlier = {lane.lane.name: lane for lane in before.lanes}
    for lane in lanes:
        old = earlier.get(lane.lane.name, lane)
        for way, was, now in (("outbound", old.outbound, lane.outbound), ("inbound", old.inbound, lane.inbound)):
            yield from _of_direction(f"{lane.lane.name} {way}", was, now)


def _of_direction(where: str, was: DirectionStatus, now: DirectionStatus) -> Iterator[str]:
    dropped = now.counters.dropped_since(was.counters)
    if dropped.buffer > 0:
        depth = f" of {format_size(now.shaper.limit_bytes)}" if now.shaper else ""
        filled = f"{where}: other traffic filled the bottleneck, whose buffer{depth}"
        yield f"{filled} dropped {dropped.buffer} packets meanwhile."
    if (limited := dropped.limit or 0) > 0:
        yield f"{where}: the emulator's own queue was too short for the traffic and dropped {limited} packets."


def _late(lanes: Sequence[LaneStatus], before: Status, pair: Pair | Unanswered) -> Iterator[str]:
    allowed_ns = pair.allowed_ns if isinstance(pair, Pair) else 0
    for late in engine_lateness.between(before.lanes, lanes, allowed_ns) if allowed_ns else ():
        if not late.passed:
            yield f"{late}: this machine is too busy, or its engine lacks a processor of its own."


def _unexplained(pair: Pair | Unanswered) -> str:
    """What to look at where no counter of the lanes explains it."""
    lanes = "The lanes are as asked and dropped nothing"
    if isinstance(pair, Unanswered):
        return f"{lanes}: look whether both hosts are up, and answer echoes."
    if pair.median_ns < pair.asked_ns - pair.allowed_ns:
        return f"{lanes}: look for another path between the hosts that does not lead through them."
    if pair.min_ns > pair.asked_ns + pair.allowed_ns:
        return (
            f"{lanes}: even the fastest echo was late, so something beside them delays all (cables, switches, hosts)."
        )
    if abs(pair.median_ns - pair.asked_ns) > pair.allowed_ns:
        return f"{lanes}: some echoes were in time, so something queued them or a host answered late."
    return f"{lanes}: single echoes were late or lost, so a host was busy; measure again."


def _echoes(count: int) -> str:
    return f"{count} echo was" if count == 1 else f"{count} echoes were"


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.6g} ms"
