"""Executes one cell on this machine: brings its lane up, applies the profile, pings, runs the workload, and judges.

`python3 -m emulator.experiment.run_cell SPEC [SNAP]` reads the spec as JSON and prints the result as JSON; the lab runs
it. With SNAP it captures that many bytes of each frame (0: all) into the current folder.
"""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from emulator.analysis.latency_histogram import Latency
from emulator.analysis.observed import Delays, Sockets
from emulator.analysis.tcp_path import NS
from emulator.analysis.transfer import Transfer
from emulator.control.capture import capturing
from emulator.errors import LonghaulError, MeasureError, RefusedError
from emulator.experiment import flows_cell, observe_cell, program_cell, requests_cell
from emulator.experiment.attempts import NO_IRTT, NO_LOADED_RTT, NO_SOCKET_FIGURES, Attempts
from emulator.experiment.both_directions import joined
from emulator.experiment.build_result import Measured, conclude
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.lane_watch import LaneWatch
from emulator.experiment.run_folder import Execution
from emulator.hosts import resolve, tcp_profiles
from emulator.hosts.flows.workload import FlowsWorkload
from emulator.hosts.host import Host
from emulator.hosts.requests.workload import RequestsWorkload
from emulator.hosts.tools import cpu_load, machine_facts, ping, rtt_prober, ss
from emulator.hosts.tools.program import ProgramWorkload
from emulator.hosts.tools.rtt_prober import Prober
from emulator.hosts.tools.workload import Ends, RunningWorkload, StreamWorkload
from emulator.model.sweep_axes import OUTBOUND
from emulator.model.tcp_profile import Profile
from emulator.model.topology import Topology

if TYPE_CHECKING:
    from emulator.control.appliance import Appliance

LOOKS, MOST_LOOKS = 16, 64
"""On a busy machine some looks come before the streams are there; those do not count."""

STREAMS_START_ROUND_TRIPS = 5
ODD_PHASE = 0.618
"""Samples at different phases of the round trip cover a window that changes periodically with the round trip."""
_TIMEOUT_S = 30.0


class CaptureTo(Struct, frozen=True):
    """Where to capture a cell's frames, and how many bytes of each (0: all)."""

    folder: Path
    snap_bytes: int


def execute(
    spec: CellSpec, appliance: Appliance, *, instead: bool = False, captures: CaptureTo | None = None
) -> Execution:
    """Bring the cell's lane up on this machine, measure, and remove it.

    A lane with ports that is up is changed for that time. With `instead` a virtual lane that is up is changed too, and
    a lane that is not up takes the place of what is; else RefusedError is raised.
    Raises MeasureError and whatever bringing up raises.
    """
    # The lease comes first: to connect takes time, in which somebody else could take the lanes.
    with lane_up(spec, appliance, instead), resolve.reached(spec.topology) as hosts:
        hub, site = (hosts[end.host] for end in spec.topology.ends(spec.lane.name))
        ends = [hosts[name] for name in dict.fromkeys(end.host for end in spec.topology.all_ends)]
        with tcp_profiles.applied(_profile(spec), *ends) as unset:
            with Attempts().explained():
                for host in ends:
                    observe_cell.forget_connections(host)
            measure = MEASURES.get(spec.workload.kind, measure_streams)
            if captures is None:
                return measure(spec, appliance, hub, site, unset)
            with capturing(appliance, captures.folder, captures.snap_bytes, [spec.lane.name]) as files:
                done = measure(spec, appliance, hub, site, unset)
            return replace(done, result=replace(done.result, captures=tuple(files)))


def _profile(spec: CellSpec) -> Profile:
    """The hosts' profile; a program takes its congestion control from it, streams ask for theirs."""
    if isinstance(spec.workload, ProgramWorkload) and spec.congestion_control:
        return replace(spec.profile, congestion_control=spec.congestion_control)
    return spec.profile


@contextmanager
def lane_up(spec: CellSpec, appliance: Appliance, instead: bool) -> Iterator[None]:
    """The cell's lane for the time of a block: alone, or as a change to the topology that is up and has this lane."""
    with appliance.lease(_leased(spec, appliance.topology(), instead)):
        yield


def _leased(spec: CellSpec, present: Topology | None, instead: bool) -> Topology:
    """What is up while the cell is measured. Raises RefusedError when what is `present` is in the way.

    The other lanes stay as they are, their schedule included; the lane that is measured follows none.
    """
    if present is None:
        return spec.topology
    lane = spec.lane
    if len(spec.topology.lanes) == 1 and _is_same_lane(spec, present) and (instead or lane.ports):
        schedule = present.schedule.sparing(lane.name, present.sites) if present.schedule else None
        return replace(present, schedule=schedule, seed=spec.topology.seed).with_lane(lane)
    if not instead:
        raise RefusedError(f"{present.name} is up here: take it down first (longhaul down), or sweep with --in-lab")
    return spec.topology


def _is_same_lane(spec: CellSpec, present: Topology) -> bool:
    """Whether a lane of what is up joins the hosts of the cell: by its ports, or by namespaces and their addresses."""
    lane = spec.lane
    if lane.name not in present.sites or present.lane(lane.name).ports != lane.ports:
        return False
    return lane.ports is not None or present.ends(lane.name) == spec.topology.ends(lane.name)


def measure_streams(
    spec: CellSpec, appliance: Appliance, hub: Host, site: Host, unset: tuple[str, ...] = ()
) -> Execution:
    """Measure over an active lane, between prepared hosts; data flows in the spec's direction.

    `unset` is what of the profile could not be set, for the result's notes. Raises MeasureError with what to do next.
    """
    attempts = Attempts()
    with attempts.explained():
        return _measure(spec, appliance, hub, site, unset, attempts)


def _measure(
    spec: CellSpec, appliance: Appliance, hub: Host, site: Host, unset: tuple[str, ...], attempts: Attempts
) -> Execution:
    ends = [(hub, site) if way.direction == OUTBOUND else (site, hub) for way in spec.ways]
    sender, receiver = ends[0]
    address, precise = observe_cell.address(spec, receiver), ping.is_precise(sender)
    rtt_ns = observe_cell.idle_rtt_ns(spec, sender, receiver, attempts)
    cached = [observe_cell.cached(one) for one, _ in ends]
    with rtt_prober.between(sender, receiver, address, spec.lane.rtt_ns, precise) as prober:
        probes, idle = _idle(prober, attempts)
        watch = LaneWatch(spec, appliance, hub, site, rtt_ns=rtt_ns, cached_metrics=cached[0])
        with probes.beside(spec.duration_s) as loaded:
            transfers, answer, watched = _stream(spec, sender, receiver, attempts)
    if loaded.latency is None:
        attempts.note(NO_LOADED_RTT, f"the RTT beside the streams is not known: {loaded.failure}")
    sockets = [_sockets(looks, watched, attempts) for looks in watched.looks]
    lane = watch.ended(watched.core_percent)
    common = Measured(
        transfer=transfers[0],
        sockets=sockets[0],
        lane=replace(lane.evidence, queues=lane.queues[0]),
        delays=Delays(rtt_ns, idle, loaded.latency),
        sender=observe_cell.buffers(sender, spec.profile),
        receiver=observe_cell.buffers(receiver, spec.profile),
        late=lane.late,
        unset=unset,
        caveats=tuple(attempts.caveats),
    )
    results = [conclude(spec.ways[0], common)]
    if len(spec.ways) > 1:
        back = replace(
            common,
            transfer=transfers[1],
            sockets=sockets[1],
            lane=replace(lane.evidence, queues=lane.queues[1], cached_metrics=cached[1]),
            sender=observe_cell.buffers(receiver, spec.profile),
            receiver=observe_cell.buffers(sender, spec.profile),
        )
        results.append(conclude(spec.ways[1], back))
    raw = machine_facts.beside(sender, {spec.workload.kind: answer})
    return Execution(results[0] if len(results) == 1 else joined(spec, results), raw)


def _idle(prober: Prober, attempts: Attempts) -> tuple[Prober, Latency]:
    """The RTT of the idle lane, and the prober that measured it: ping where irtt gets no answer."""
    try:
        return prober, attempts(prober.what, lambda patience: replace(prober, patience=patience).idle())
    except MeasureError as error:
        if not prober.by_irtt:
            raise
        attempts.note(NO_IRTT, f"{error}; ping measured instead, which knows no one-way delays")
        return _idle(replace(prober, by_irtt=False), attempts)


def _sockets(looks: list[list[ss.Socket]], watched: _Watched, attempts: Attempts) -> Sockets | None:
    """What the looks at one direction's streams add up to; None, with a caveat, when they did not see them."""
    found = ss.summarize(looks)
    if found is None:
        why = watched.trouble or "their connections were too short, or this machine too slow to look"
        attempts.note(
            NO_SOCKET_FIGURES,
            f"ss did not see the streams at work: {why}; whether a window or buffer limited them is not known",
        )
    return found


@dataclass
class _Watched:
    """Each direction's looks at the sender's sockets over the last half of a run, and how busy the cores were then.

    `trouble` is the last failure of ss.
    """

    looks: list[list[list[ss.Socket]]]
    core_percent: float = 0.0
    trouble: str = ""


def _stream(
    spec: CellSpec, sender: Host, receiver: Host, attempts: Attempts
) -> tuple[tuple[Transfer, ...], Any, _Watched]:
    """Run the workload between the two ends: what each direction carried, the tool's own answer, what was seen."""
    ends = Ends(sender, receiver, observe_cell.address(spec, sender), observe_cell.address(spec, receiver))
    workload = cast("StreamWorkload", spec.workload)
    with ExitStack() as stack:
        work = attempts(
            f"the start of {spec.workload.kind}", lambda _: stack.enter_context(workload.start(ends, spec.load))
        )
        watched = _watch(spec, ends, work)
        return work.wait(), work.raw(), watched


def _cores(*hosts: Host) -> list[dict[str, tuple[int, int]]]:
    return [cpu_load.parse(host.read(cpu_load.FILE)) for host in hosts]


def look_interval_s(duration_s: int, rtt_ns: int) -> float:
    """The pause between two samples: they fill the last half of the run, each at another phase of the round trip."""
    pause_s, rtt_s = duration_s / 2 / (LOOKS + 1), rtt_ns / NS
    return (pause_s // rtt_s + ODD_PHASE) * rtt_s if rtt_s and rtt_s <= pause_s else pause_s


def _watch(spec: CellSpec, ends: Ends, work: RunningWorkload) -> _Watched:
    """Sample each direction's data streams in the last half of the run."""
    senders = [(ends.sender, ss.argv(ends.receiver_address, work.port))]
    if len(spec.ways) > 1:
        senders.append((ends.receiver, ss.argv(ends.sender_address, work.port, server=True)))
    hosts = (ends.sender, ends.receiver)
    time.sleep(spec.duration_s / 2 + STREAMS_START_ROUND_TRIPS * spec.lane.rtt_ns / NS)
    watched, before = _Watched([[] for _ in senders]), _cores(*hosts)
    for number in range(MOST_LOOKS):
        if number >= LOOKS and not (min(map(len, watched.looks)) < LOOKS and work.is_running()):
            break
        for seen, (sender, argv) in zip(watched.looks, senders, strict=True):
            try:
                sockets = ss.parse(sender.run(argv, _TIMEOUT_S).checked().stdout)
            except MeasureError as error:
                watched.trouble = str(error)
                continue
            # Idle connections, and streams that are received here, send next to nothing.
            if len(sockets) == work.connections:
                data = sorted(sockets, key=lambda socket: socket.bytes_sent)[-spec.streams :]
                seen.append(sorted(data, key=lambda socket: socket.local))
        time.sleep(look_interval_s(spec.duration_s, spec.lane.rtt_ns))
    watched.core_percent = max(starmap(cpu_load.busiest_percent, zip(before, _cores(*hosts), strict=True)))
    return watched


MEASURES: dict[str, Callable[[CellSpec, Appliance, Host, Host, tuple[str, ...]], Execution]] = {
    ProgramWorkload.kind: program_cell.measure,
    RequestsWorkload.kind: requests_cell.measure,
    FlowsWorkload.kind: flows_cell.measure,
}
"""How a cell is measured whose workload is no streams."""


def main(argv: list[str]) -> int:
    """Execute the spec given as JSON; print the result, or the failure, as one JSON document."""
    from emulator.control.local import local

    try:
        # No guard: this process is alone in its lab, and both are killed together.
        captures = CaptureTo(Path.cwd(), int(argv[1])) if len(argv) > 1 else None
        done = execute(CellSpec.from_json(json.loads(argv[0])), local(guard=lambda _: None), captures=captures)
    except LonghaulError as error:
        notes = getattr(error, "__notes__", [])
        print(json.dumps({"error": str(error), "kind": type(error).__name__, "notes": notes}))  # noqa: T201
        return error.exit_code
    files = {path: base64.b64encode(content).decode() for path, content in done.files.items()}
    print(json.dumps({"result": done.result.for_lab(), "raw": done.raw, "files": files}))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
