"""Lanes that come to a star, change and go from it, while every other lane stays as it is. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from ipaddress import IPv4Address

from msgspec.structs import replace

from emulator.errors import no_such
from emulator.model.schedule import Schedule
from emulator.model.timeline import Timeline
from emulator.model.topology import Lane, Topology


def added(topology: Topology, lanes: Sequence[Lane]) -> Topology:
    """The topology with these lanes behind its own. A lane without an address gets a free one of the subnet.

    Raises ValueError when a name is taken, and for contradictions between the lanes.
    """
    for lane in lanes:
        if why := taken(topology, lane.name):
            raise ValueError(why)
        topology = replace(topology, lanes=(*topology.lanes, _addressed(topology, lane)))
    if topology.schedule:
        Timeline(topology, topology.schedule)
    return topology


def taken(topology: Topology, name: str) -> str:
    """Why no new lane can have this name; "" when one can."""
    if name == topology.hub:
        return f"{name} is the hub: use another name"
    return f"there is a lane {name} already: use another name" if name in topology.sites else ""


def replaced(topology: Topology, lane: Lane) -> Topology:
    """The topology with this lane in place of its own of the same name.

    Raises ValueError when the schedule contradicts the lane at any time.
    """
    changed, schedule = topology.with_lane(lane), topology.schedule
    named = [one for one in schedule.tracks if not one.lanes or lane.name in one.lanes] if schedule else []
    if schedule and named:
        tracks = tuple(replace(track, lanes=(lane.name,)) for track in named)
        Timeline(changed.alone(lane), replace(schedule, tracks=tracks))
    return changed


def removed(topology: Topology, name: str) -> Topology:
    """The topology without this lane. The others keep their addresses, and the schedule forgets it.

    Raises ValueError when there is no such lane.
    """
    if name not in topology.sites:
        raise ValueError(no_such("lane", name, topology.sites))
    later = topology.sites[topology.sites.index(name) + 1 :]
    kept = tuple(_pinned(topology, lane) if lane.name in later else lane for lane in topology.lanes)
    schedule = _without(topology.schedule, name) if topology.schedule else None
    return replace(topology, lanes=tuple(lane for lane in kept if lane.name != name), schedule=schedule)


def lost_with(topology: Topology, name: str) -> list[str]:
    """What else goes when this lane is removed, as sentences: its flows, and its part of the schedule."""
    lane, told = topology.lane(name), []
    if flows := [flow.name for flow in lane.flows]:
        told.append(f"{name} loses {_many(len(flows), 'flow')}: {', '.join(flows)}")
    named = [track for track in topology.schedule.tracks if name in track.lanes] if topology.schedule else []
    alone = [track for track in named if track.lanes == (name,)]
    if alone:
        told.append(f"the schedule loses {_many(len(alone), 'track')}, which changed only {name}")
    if rest := len(named) - len(alone):
        told.append(f"{_many(rest, 'track')} of the schedule will change the others without {name}")
    return told


def _addressed(topology: Topology, lane: Lane) -> Lane:
    """The lane with an address of its own where the next one in order is another lane's already."""
    used = {topology.address(host).ip for host in (topology.hub, *topology.sites)}
    place = len(topology.lanes) + 2
    if lane.address or place >= topology.subnet.num_addresses - 1 or topology.subnet[place] not in used:
        return lane
    return replace(lane, address=_free(topology, used))


def _free(topology: Topology, used: Collection[IPv4Address]) -> IPv4Address | None:
    """The first free address of a host; None when there is none."""
    return next((ip for ip in topology.subnet.hosts() if ip not in used), None)


def _pinned(topology: Topology, lane: Lane) -> Lane:
    return replace(lane, address=topology.address(lane.name).ip)


def _without(schedule: Schedule, name: str) -> Schedule | None:
    """The schedule whose tracks no longer name the lane; None when no track is left."""
    pruned = (replace(one, lanes=tuple(n for n in one.lanes if n != name)) for one in schedule.tracks)
    both = zip(schedule.tracks, pruned, strict=True)
    tracks = tuple(new for old, new in both if new.lanes or not old.lanes)
    return replace(schedule, tracks=tracks) if tracks else None


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
