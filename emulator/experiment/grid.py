"""Makes the cells of an experiment from its axes: every combination, in the table's order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from msgspec.structs import replace

from emulator import units
from emulator.analysis import request_figures, tcp_path
from emulator.errors import InputError, Mistake, no_such
from emulator.experiment import further_sites
from emulator.experiment.build_result import wanted_duration_s
from emulator.experiment.cell_spec import KERNEL_BUFFERS, CellSpec
from emulator.experiment.flows_result import contest_of
from emulator.experiment.requests_result import load_of, paths_of
from emulator.hosts import tcp_profiles
from emulator.hosts.flows.workload import FlowsWorkload
from emulator.hosts.requests.workload import RequestsWorkload
from emulator.hosts.tools import workloads
from emulator.hosts.tools.program import ProgramWorkload
from emulator.hosts.tools.workload import Workload
from emulator.model import bottleneck, flow_group, sweep_axes
from emulator.model.buffer_depth import BufferDepth
from emulator.model.lane_patch import LanePatch
from emulator.model.sweep_axes import BOTH, INBOUND, OUTBOUND, Axes
from emulator.model.tcp_profile import LARGEST_BUFFER_BYTES, Profile
from emulator.model.topology import Lane, Topology

SHORTEST_S, LONGEST_S = 10, 40
MOST_CELLS = 10_000
"""Of a sweep: more than a month of measuring."""
REQUEST_S = 1e-4
"""The real time of one request in a lab, without its bytes."""
PROGRAM_ROUND_TRIPS = 10
"""A guess at what a program costs, to estimate the time left."""
ECHOES_S = 6.0
"""The real time of a cell besides its streams: the echoes before them, and the set-up."""
DEFAULT_PROFILES = (tcp_profiles.DEFAULT.name, tcp_profiles.MAXIMUM)
WINDOW_SHARE = 0.72
"""The window's share of a receive buffer that has its full size from the start; measured at MTU 1500 on Linux 6.12."""
LEAST_EXACT_WINDOW_BYTES, EXACT_WINDOWS = 1 << 16, 3
"""A window of 64 KiB or of a power of two above is exact: its route limits it, in a buffer that holds three."""
SEND_WINDOWS = 4
_CALLED = {"lane": "lane", "tcp_profile": "TCP profile", "cc": "congestion control"}


def by_option(key: str) -> tuple[str, str]:
    """Where an axis stands on the command line, as `where` and `path` of a mistake."""
    return sweep_axes.BY_KEY[key].option, ""


def cells(
    base: Topology,
    axes: Axes,
    known: Mapping[str, Profile],
    at: Callable[[str], tuple[str, str]] = by_option,
    algorithms: Collection[str] | None = None,
    loads: Sequence[Workload] = (workloads.STREAMS,),
) -> list[CellSpec]:
    """Every combination, lane by lane. Raises InputError with all unknown names and impossible values.

    Each cell is measured with every workload of `loads`. `at` returns where an axis was given, for mistakes;
    `algorithms` are the hosts' congestion controls, None when they are unknown.
    """
    if (count := axes.combinations * len(axes.lane or base.lanes) * len(loads)) > MOST_CELLS:
        # Before they are made: the product of all axes has no end that a machine would reach.
        raise InputError.single(f"{count} cells are too many: {MOST_CELLS} at most", "sweep")
    _check_controls(loads, algorithms)
    lanes, impossible = _lanes(base, axes)
    if wrong := [*_unknown(base, axes, known, algorithms), *impossible]:
        raise InputError([Mistake(*at(key), text) for key, text in wrong])
    specs = [
        _carrying(replace(spec, varied=varied), workload, axes)
        for lane, varied in lanes
        for spec in _of_lane(base.alone(lane), axes, known)
        for workload in loads
    ]
    for spec in specs:
        try:
            spec.workload.check(spec.load)
        except ValueError as error:
            raise InputError.single(str(error), spec.id) from None
    if twice := sorted(name for name, count in Counter(spec.id for spec in specs).items() if count > 1):
        raise InputError.single(f"named twice: {', '.join(twice)}", "sweep")
    return specs


def _carrying(spec: CellSpec, workload: Workload, axes: Axes) -> CellSpec:
    """The cell with this workload, and, where the user names no duration, long enough for it."""
    if isinstance(workload, FlowsWorkload):
        return _sharing(replace(spec, workload=workload), axes)
    if isinstance(workload, ProgramWorkload | RequestsWorkload) and spec.profile.name == tcp_profiles.MAXIMUM:
        # What a request asks for, and what a program sends, goes in both directions.
        roomy = tcp_profiles.maximum_for(spec.lane, spec.lane.outbound, spec.lane.inbound)
        spec = replace(spec, profile=replace(roomy, initcwnd=spec.profile.initcwnd))
    if axes.duration or not isinstance(workload, RequestsWorkload):
        return replace(spec, workload=workload)
    least_s = request_figures.least_duration_s(workload.requests, spec.lane.rtt_ns)
    return replace(spec, workload=workload, duration_s=min(max(spec.duration_s, least_s), sweep_axes.LONGEST_S))


def _check_controls(loads: Sequence[Workload], algorithms: Collection[str] | None) -> None:
    """Raise InputError when the hosts lack a congestion control of a group of flows."""
    contests = [one.contest for one in loads if isinstance(one, FlowsWorkload)]
    names = dict.fromkeys(group.congestion_control for contest in contests for group in contest.groups)
    if algorithms is not None and (unknown := [name for name in names if name not in algorithms]):
        raise InputError(
            [Mistake("sweep", "workload", no_such(_CALLED["cc"], name, tuple(algorithms))) for name in unknown]
        )


def for_flows(axes: Axes) -> Axes:
    """The axes of groups of flows: where the user names no TCP profile, buffers that limit no flow."""
    return axes if axes.tcp_profile or axes.window else replace(axes, tcp_profile=(tcp_profiles.MAXIMUM,))


def for_one_cell(axes: Axes) -> Axes:
    """The axes of a single cell: where the user names no TCP profile, the kernel's own settings alone."""
    return axes if axes.tcp_profile or axes.window else replace(axes, tcp_profile=(tcp_profiles.DEFAULT.name,))


def _sharing(spec: CellSpec, axes: Axes) -> CellSpec:
    """The cell of groups of flows, long enough, and with room in the largest buffers for a window that overfills the
    queue: what each flow gets is the matter of its congestion control alone."""
    try:
        spec = further_sites.with_further_sites(spec)
    except ValueError as error:
        raise InputError.single(str(error), spec.id) from None
    least_s = min(flow_group.least_duration_s(contest_of(spec), spec.lane.rtt_ns), sweep_axes.LONGEST_S)
    if spec.profile.name == tcp_profiles.MAXIMUM:
        path = replace(spec.path, rtt_ns=contest_of(spec).longest_rtt_ns(spec.lane.rtt_ns))
        queue = 2 * (path.bdp_bytes + (path.bdp_bytes if path.buffer_bytes is None else path.buffer_bytes))
        roomy = tcp_profiles.maximum(path.rate_bps, path.rtt_ns, queue)
        spec = replace(spec, profile=replace(roomy, initcwnd=spec.profile.initcwnd))
    return replace(spec, duration_s=axes.duration or least_s)


def _unknown(
    base: Topology, axes: Axes, known: Mapping[str, Profile], algorithms: Collection[str] | None
) -> list[tuple[str, str]]:
    """The unknown names, each as (axis, mistake)."""
    there = {
        "lane": base.sites,
        "tcp_profile": (*known, tcp_profiles.MAXIMUM),
        "cc": axes.cc if algorithms is None else tuple(algorithms),
    }
    wrong = [
        (key, no_such(_CALLED[key], name, names))
        for key, names in there.items()
        for name in getattr(axes, key)
        if name not in names
    ]
    for name in axes.tcp_profile:
        algorithm = known[name].congestion_control if name in known else None
        if algorithm and algorithms is not None and algorithm not in algorithms:
            wrong.append(("tcp_profile", f"{name} needs the congestion control {algorithm!r}, which the kernel lacks"))
    return wrong


def placed(
    topology: Topology, chosen: Sequence[str], at: Callable[[str], tuple[str, str]] = by_option, *, in_lab: bool
) -> Topology:
    """The topology with the hosts that measure: its own machines, or, without any and in a lab, namespaces.

    Raises InputError when the hub has a machine and a lane of `chosen` (empty: all) has none.
    """
    if topology.hub_host is None or in_lab:
        return in_namespaces(topology)
    if without := [
        name for name in topology.sites if name in (chosen or [name]) and not topology.ends(name).site.destination
    ]:
        raise InputError.single(
            f"{', '.join(without)}: the lane has no host: add one, or choose other lanes", *at("lane")
        )
    return topology


def in_namespaces(topology: Topology) -> Topology:
    """The same topology with virtual lanes between namespaces."""
    lanes = tuple(replace(lane, ports=None, host=None) for lane in topology.lanes)
    return replace(topology, lanes=lanes, hub_host=None)


def _of_lane(base: Topology, axes: Axes, known: Mapping[str, Profile]) -> list[CellSpec]:
    lane = base.lanes[0]
    names = axes.tcp_profile or (() if axes.window else DEFAULT_PROFILES)
    ways = {OUTBOUND: (lane.outbound,), INBOUND: (lane.inbound,), BOTH: (lane.outbound, lane.inbound)}
    found = []
    buffers: tuple[str | int, ...] = (*names, *axes.window)
    grid = product(buffers, axes.initcwnd or (None,), axes.streams, axes.cc or (None,), axes.direction)
    for chosen, initcwnd, streams, algorithm, direction in grid:
        if isinstance(chosen, int):
            profile = of_window(chosen)
        else:
            profile = tcp_profiles.choose(chosen, known, lane, *ways[direction])
        own = replace(profile, initcwnd=initcwnd) if initcwnd else profile
        spec = CellSpec(base, own, streams, algorithm, axes.duration or LONGEST_S, direction)
        found.append(replace(spec, duration_s=axes.duration or duration_s(spec)))
    return found


def of_window(window_bytes: int) -> Profile:
    """A profile with which the receiver offers this window, and the sender can fill it.

    A window that is not exact depends on the kernel: the buffer limits it, or the route.
    """
    receive = round(window_bytes / WINDOW_SHARE)
    if window_bytes >= LEAST_EXACT_WINDOW_BYTES and window_bytes.bit_count() == 1:
        receive = min(EXACT_WINDOWS * window_bytes, LARGEST_BUFFER_BYTES)
    send = min(max(SEND_WINDOWS * window_bytes, KERNEL_BUFFERS.send_bytes), LARGEST_BUFFER_BYTES)
    name = f"window-{units.compact(units.format_size(window_bytes))}"
    triples = (4096, receive, receive), (4096, 131072, send)
    return Profile(name, *triples, no_metrics_save=True, window=window_bytes)


def duration_s(spec: CellSpec) -> int:
    """Long enough to make the slow start irrelevant: ten slow starts and a hundred round trips; 10 to 40 s."""
    return min(LONGEST_S, max(SHORTEST_S, int(-(-wanted_duration_s(spec) // 1))))


Varied = tuple[Lane, tuple[str, ...]]
"""A lane to measure, and the settings of it that only the axes name, in words."""


def _lanes(base: Topology, axes: Axes) -> tuple[list[Varied], list[tuple[str, str]]]:
    """The lanes to measure, at each value of the axes that vary a lane; and the impossible ones, each as (axis,
    mistake)."""
    # The cells of a lane that is off ask for what is in effect and for what the axes say.
    lanes = [replace(lane.in_effect, off=False) for lane in base.lanes if not axes.lane or lane.name in axes.lane]
    if axes.rtt and len(lanes) > 1:
        return [], [("rtt", "RTTs need a single lane: add --lane NAME")]
    found, wrong = [], dict[tuple[str, str], None]()
    for lane, *values in product(lanes, *(getattr(axes, key) or (None,) for key in _VARY)):
        varied = lane
        try:
            for key, value in zip(_VARY, values, strict=True):
                varied = varied if value is None else _VARY[key](varied, value)
            key = "lane"
            words = [_TOLD[name](value) for name, value in zip(_VARY, values, strict=True) if name in _TOLD and value]
            found.append((_measurable(varied), tuple(words)))
        except ValueError as error:
            wrong[key, f"lane {lane.name}: {error}"] = None
    return found, list(wrong)


def _measurable(lane: Lane) -> Lane:
    if any(way.mean_loss == 1 for way in (lane.outbound, lane.inbound)):
        raise ValueError("loses every packet: nothing could be measured")
    return with_bottleneck(lane)


def _with_buffer(lane: Lane, depth: BufferDepth) -> Lane:
    frame_bytes = bottleneck.frame_bytes(lane.mtu)
    outbound, inbound = (
        {"buffer": depth.before(way.rate_bps or lane.line_rate_bps, lane.rtt_ns, frame_bytes)}
        for way in (lane.outbound, lane.inbound)
    )
    return LanePatch(outbound=outbound, inbound=inbound).apply(with_bottleneck(lane))


def _with_loss(lane: Lane, loss_p32: int) -> Lane:
    return LanePatch.both({"loss_p32": loss_p32, "loss_model": None}).apply(lane)


def with_bottleneck(lane: Lane, rate_bps: int | None = None) -> Lane:
    """The lane with a bottleneck in both directions: `rate_bps`, else its own rate, else the line rate."""
    outbound, inbound = (
        {"rate_bps": rate_bps or way.rate_bps or lane.line_rate_bps} for way in (lane.outbound, lane.inbound)
    )
    return LanePatch(outbound=outbound, inbound=inbound).apply(lane)


_VARY: dict[str, Callable[[Lane, Any], Lane]] = {
    "rtt": lambda lane, rtt_ns: LanePatch(rtt_ns).apply(lane),
    "rate": with_bottleneck,
    "loss": _with_loss,
    "mtu": lambda lane, mtu: replace(lane, mtu=mtu),
    "buffer": _with_buffer,
    "aqm": lambda lane, name: LanePatch.both({"aqm": name}).apply(with_bottleneck(lane)),
}
"""The change that each of these axes makes to a lane; a buffer comes after rate, RTT and MTU, which it depends on."""
_TOLD: dict[str, Callable[[Any], str]] = {"buffer": lambda depth: f"buffer {depth}", "aqm": str}
"""How a cell's name tells the values of axes that it would not tell otherwise."""


def cost_s(specs: Iterable[CellSpec], repeats: int, *, in_lab: bool = True) -> float:
    """Estimate the duration of cells: in a lab it depends on the bytes carried, elsewhere on the clock. Only the
    displayed time left uses it."""
    if not in_lab:
        return sum(repeats * (ECHOES_S + _traffic_s(spec)) for spec in specs)
    return sum(repeats * (3.0 + _carried_s(spec)) for spec in specs)


def _carried_s(spec: CellSpec) -> float:
    """How long a lab takes to carry what the cell sends, about."""
    if not isinstance(spec.workload, RequestsWorkload):
        return spec.expected_bytes_per_s * _traffic_s(spec) / 3e9
    load, paths = load_of(spec), paths_of(spec)
    count = min(load.count, request_figures.ceiling(load, paths) * spec.duration_s)
    return count * (REQUEST_S + (load.request_bytes + load.answer_bytes) / 3e9)


def _traffic_s(spec: CellSpec) -> float:
    """The time of a cell's traffic by its hosts' clocks; for a program, of which only the bytes are known, a guess."""
    if not isinstance(spec.workload, ProgramWorkload):
        return spec.duration_s
    program, rtt_s = spec.workload.program, spec.lane.rtt_ns / tcp_path.NS
    line_s = (program.bytes or 0) * 8 / spec.path.rate_bps
    return (program.repeat + 1) * (PROGRAM_ROUND_TRIPS * rtt_s + line_s)


def virtual_s(specs: Sequence[CellSpec], repeats: int) -> int:
    """The total time of the streams."""
    return repeats * sum(spec.duration_s for spec in specs)
