"""From the axes of an experiment to its cells: every combination, in the order in which they stand in the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from emulator import analysis, units
from emulator.cells import DIRECTIONS, KERNEL_BUFFERS, OUTBOUND, CellSpec
from emulator.conclude import wanted_duration_s
from emulator.errors import InputError
from emulator.hosts import profiles
from emulator.model import Impairment, Lane, Profile, Topology

SHORTEST_S, LONGEST_S = 10, 40
DEFAULT_PROFILES = (profiles.DEFAULT.name, profiles.MAXIMUM)
WINDOW_SHARE = 0.72
"""Of a receive buffer that is full size from the start, at MTU 1500, as measured on Linux 6.12."""
SEND_WINDOWS = 4


@dataclass(frozen=True)
class Axes:
    """What is varied; an empty axis leaves what the lane, the profile or the kernel has. ns, bit/s, p32, bytes, s.

    `window` makes profiles whose receive buffer offers a window of that many bytes; without it and `profile` there
    are default and max. Called as in a topology file's `sweep` section and on the command line.
    """

    rtt: tuple[int, ...] = ()
    lane: tuple[str, ...] = ()
    profile: tuple[str, ...] = ()
    window: tuple[int, ...] = ()
    streams: tuple[int, ...] = (1,)
    cc: tuple[str, ...] = ()
    initcwnd: tuple[int, ...] = ()
    direction: tuple[str, ...] = (OUTBOUND,)
    mtu: tuple[int, ...] = ()
    rate: tuple[int, ...] = ()
    loss: tuple[int, ...] = ()
    duration: int | None = None


def cells(base: Topology, axes: Axes, known: Mapping[str, Profile]) -> list[CellSpec]:
    """Every combination, lane by lane. Raises InputError on unknown names and impossible values."""
    specs = [
        spec
        for lane in _lanes(base, axes)
        for spec in _of_lane(replace(base, lanes=(lane,)), axes, known)
    ]  # fmt: skip
    if twice := {s.id for s in specs if sum(s.id == other.id for other in specs) > 1}:
        raise InputError.single(f"named twice: {', '.join(sorted(twice))}", "sweep")
    return specs


def on_hosts(topology: Topology, chosen: Sequence[str]) -> Topology:
    """The same for cells between the machines that are named in it. Raises InputError when a chosen lane names none.

    `chosen` empty means all. Every lane keeps its address, which would be another in a topology of this lane alone.
    """
    if without := [lane.name for lane in topology.lanes if not lane.host and lane.name in (chosen or topology.sites)]:
        raise InputError.single(f"{', '.join(without)}: no host is given; add one, or choose other lanes", "--lane")
    lanes = tuple(replace(lane, address=topology.address(lane.name).ip) for lane in topology.lanes)
    return replace(topology, lanes=lanes)


def in_namespaces(topology: Topology) -> Topology:
    """The same as virtual lanes between namespaces of ours."""
    lanes = tuple(replace(lane, ports=None, host=None) for lane in topology.lanes)
    return replace(topology, lanes=lanes, hub_host=None)


def _of_lane(base: Topology, axes: Axes, known: Mapping[str, Profile]) -> list[CellSpec]:
    lane = base.lanes[0]
    rate_bps = lane.outbound.rate_bps or lane.line_rate_bps
    buffer = lane.outbound.buffer
    buffer_bytes = buffer.to_bytes(rate_bps, lane.mtu + analysis.ETHERNET_HEADER_BYTES) if buffer else None
    names = axes.profile or (() if axes.window else DEFAULT_PROFILES)
    chosen = [profiles.choose(name, known, rate_bps, lane.rtt_ns, buffer_bytes) for name in names]
    chosen += [of_window(window_bytes) for window_bytes in axes.window]
    found = []
    grid = product(chosen, axes.initcwnd or (None,), axes.streams, axes.cc or (None,), axes.direction)
    for profile, initcwnd, streams, algorithm, direction in grid:
        if direction not in DIRECTIONS:
            raise InputError.single(f"no such direction; there are {', '.join(DIRECTIONS)}", "--direction", direction)
        own = _with_initcwnd(profile, initcwnd) if initcwnd else profile
        spec = CellSpec(base, own, streams, algorithm, axes.duration or LONGEST_S, direction)
        found.append(replace(spec, duration_s=axes.duration or duration_s(spec)))
    return found


def _with_initcwnd(profile: Profile, initcwnd: int) -> Profile:
    try:
        return replace(profile, initcwnd=initcwnd)
    except ValueError as error:
        raise InputError.single(str(error), "--initcwnd") from None


def of_window(window_bytes: int) -> Profile:
    """A profile under which the receiver offers this window from the first moment on, and the sender can fill it."""
    receive = round(window_bytes / WINDOW_SHARE)
    send = max(SEND_WINDOWS * window_bytes, KERNEL_BUFFERS.send_bytes)
    name = f"window-{units.compact(units.format_size(window_bytes))}"
    return Profile(name, (4096, receive, receive), (4096, 131072, send), no_metrics_save=True)


def duration_s(spec: CellSpec) -> int:
    """Long enough for the slow start not to matter: ten times it, and a hundred round trips; 10 to 40 s."""
    return min(LONGEST_S, max(SHORTEST_S, int(-(-wanted_duration_s(spec) // 1))))


def _lanes(base: Topology, axes: Axes) -> list[Lane]:
    """The lanes that are measured, at each RTT, rate, loss and MTU."""
    if unknown := [name for name in axes.lane if name not in base.sites]:
        raise InputError.single(f"no such lane; there are {', '.join(base.sites)}", "--lane", unknown[0])
    lanes = [lane for lane in base.lanes if not axes.lane or lane.name in axes.lane]
    if axes.rtt and len(lanes) > 1:
        raise InputError.single("say of which lane: add --lane NAME", "--rtt")
    try:
        return [
            with_bottleneck(_varied(lane, rtt_ns, loss_p32, mtu), rate_bps)
            for lane in lanes
            for rtt_ns, rate_bps, loss_p32, mtu in product(
                axes.rtt or (None,), axes.rate or (None,), axes.loss or (None,), axes.mtu or (None,)
            )
        ]
    except ValueError as error:
        raise InputError.single(str(error), "sweep") from None


def _varied(lane: Lane, rtt_ns: int | None, loss_p32: int | None, mtu: int | None) -> Lane:
    lane = lane if rtt_ns is None else lane.with_rtt(rtt_ns)
    if loss_p32 is not None:
        outbound, inbound = (replace(way, loss_p32=loss_p32, loss_model=None) for way in (lane.outbound, lane.inbound))
        lane = replace(lane, outbound=outbound, inbound=inbound)
    return lane if mtu is None else replace(lane, mtu=mtu)


def with_bottleneck(lane: Lane, rate_bps: int | None) -> Lane:
    """The lane limited both ways: by `rate_bps`, else by its own rate, else the line's."""

    def limited(direction: Impairment) -> Impairment:
        if rate_bps is not None:
            return replace(direction, rate_bps=rate_bps)
        return direction if direction.rate_bps else replace(direction, rate_bps=lane.line_rate_bps)

    return replace(lane, outbound=limited(lane.outbound), inbound=limited(lane.inbound))


def cost_s(specs: Iterable[CellSpec], repeats: int) -> float:
    """A guess at how long cells take: what they carry decides. Only the time left rests on it."""
    return sum(repeats * (3.0 + spec.expected_bytes_per_s * spec.duration_s / 3e9) for spec in specs)


def virtual_s(specs: Sequence[CellSpec], repeats: int) -> int:
    """How long the streams run altogether."""
    return repeats * sum(spec.duration_s for spec in specs)
