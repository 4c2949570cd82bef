"""A path profile onto a lane: its statistics as impairments, or its trace as a schedule. Pure.

Netem draws each delay and loss anew, by the profile's table and model; a trace keeps their order in time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from emulator.model.schedule import Key, Schedule, Track
from emulator.model.timeline import Timeline
from emulator.model.topology import Lane, Topology
from emulator.record.path_profile import PathProfile


def onto(lane: Lane, profile: PathProfile) -> Lane:
    """The lane with the delays, jitter and losses of the profile, and the rate where it has one; the rest stays.

    Raises ValueError when that would contradict itself.
    """
    return replace(
        lane, outbound=profile.outbound.onto(lane.outbound), inbound=profile.inbound.onto(lane.inbound), off=False
    )


def scheduled(
    topology: Topology, lane: str, profile: PathProfile, traces: Mapping[str, Sequence[Key]], *, loop: bool
) -> tuple[Topology, int]:
    """The topology with a schedule: the traces of both directions (`outbound`, `inbound`) on a lane, from now on. And
    how long the longer one is: its last key lasts as long as the one before. With `loop` they then begin anew.

    Raises ValueError when a trace would make the lane impossible.
    """
    tracks = tuple(Track((lane,), tuple(keys), direction) for direction, keys in traces.items())
    calm = topology.with_lane(_uniform(onto(topology.lane(lane), profile)))
    length_ns = max(map(_length_ns, traces.values()))
    schedule = Schedule(tracks, length_ns if loop and length_ns else None)
    Timeline(calm, schedule)
    return replace(calm, schedule=schedule), length_ns


def _length_ns(keys: Sequence[Key]) -> int:
    before_ns = keys[-2].at_ns if len(keys) > 1 else 0
    return 2 * keys[-1].at_ns - before_ns


def _uniform(lane: Lane) -> Lane:
    """The traces' jitter is that of the uniform shape; everything else that a profile says changes with them."""
    halves = [
        replace(one, distribution="uniform", jitter_ns=0, loss_p32=0, loss_model=None)
        for one in (lane.outbound, lane.inbound)
    ]
    return replace(lane, outbound=halves[0], inbound=halves[1])
