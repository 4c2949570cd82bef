"""Applies a path profile to a lane: its statistics as impairments, or its traces as a schedule. Pure.

Impairments draw each delay and loss at random from the profile's table and loss model. A trace keeps their order in
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from emulator.model.lane_patch import LanePatch
from emulator.model.schedule import Keyframe, Schedule, Track
from emulator.model.timeline import Timeline
from emulator.model.topology import Lane, Topology
from emulator.record.path_profile import PathProfile


def onto(lane: Lane, profile: PathProfile) -> Lane:
    """The lane with the profile's delays, jitter and losses, and its rate where it has one; the rest stays.

    Raises ValueError when the resulting lane is contradictory.
    """
    return LanePatch(outbound=profile.outbound.fields, inbound=profile.inbound.fields, off=False).apply(lane)


def scheduled(
    topology: Topology, lane: str, profile: PathProfile, traces: Mapping[str, Sequence[Keyframe]], *, loop: bool
) -> tuple[Topology, int]:
    """The topology with both directions' traces (`outbound`, `inbound`) as a schedule of the lane, and the length in
    ns.

    The length is that of the longer trace; a trace's last key lasts as long as the key before it. With `loop` the
    traces repeat. Raises ValueError when a trace would make the lane invalid.
    """
    tracks = tuple(Track((lane,), tuple(keys), direction) for direction, keys in traces.items())
    calm = topology.with_lane(_uniform(onto(topology.lane(lane), profile)))
    length_ns = max(map(_length_ns, traces.values()))
    schedule = Schedule(tracks, length_ns if loop and length_ns else None)
    Timeline(calm, schedule)
    return replace(calm, schedule=schedule), length_ns


def _length_ns(keys: Sequence[Keyframe]) -> int:
    before_ns = keys[-2].at_ns if len(keys) > 1 else 0
    return 2 * keys[-1].at_ns - before_ns


def _uniform(lane: Lane) -> Lane:
    """The lane without jitter and losses, which the traces set; a trace's jitter has the uniform shape."""
    calm = {"distribution": "uniform", "jitter_ns": 0, "loss_p32": 0, "loss_model": None}
    return LanePatch.both(calm).apply(lane)
