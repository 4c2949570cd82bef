"""One cell, executed where it is: bring its lane up, put the profile on, ping, run the workload, watch, judge.

`python3 -m emulator.experiment.run_cell SPEC` takes the spec as JSON and prints the result as JSON; the lab runs it so.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import starmap
from typing import TYPE_CHECKING, Any

from emulator.analysis.observed import Delays, MachineUse, Queues
from emulator.analysis.tcp_path import NS
from emulator.analysis.transfer import Transfer
from emulator.analysis.verdict import Buffers
from emulator.errors import LonghaulError, MissingError, RefusedError
from emulator.experiment import engine_lateness
from emulator.experiment.build_result import Measured, conclude
from emulator.experiment.cell_result import CellSpec
from emulator.experiment.merge import joined
from emulator.experiment.run_folder import Execution
from emulator.hosts import resolve, tcp_profiles
from emulator.hosts.host import Host
from emulator.hosts.tools import cpu_load, machine_facts, nstat, ping, rtt_prober, ss, time_tolerance
from emulator.hosts.tools.workload import Ends, RunningWorkload
from emulator.model.sweep_axes import OUTBOUND

if TYPE_CHECKING:
    from emulator.control.appliance import Appliance
    from emulator.control.status import DirectionCounters, Status

LOOKS = 16
PING_COUNT = 3
STREAMS_START_ROUND_TRIPS = 5
ODD_PHASE = 0.618
"""Looks at odd phases of the round trip see all of a window that breathes once a round trip."""
_TIMEOUT_S = 30.0


def execute(spec: CellSpec, appliance: Appliance, *, instead: bool = False) -> Execution:
    """Bring the cell's lane up on this machine, measure, and take it down again.

    A topology that is up already makes room and comes back if `instead` says so, else RefusedError is raised.
    Raises MeasureError and whatever bringing up raises.
    """
    with resolve.reached(spec.topology) as hosts, lane_up(spec, appliance, instead):
        hub, site = (hosts[end.host] for end in spec.topology.ends(spec.lane.name))
        with tcp_profiles.applied(spec.profile, hub, site) as unset:
            for host in (hub, site):
                # What the kernel remembers of earlier connections would shorten the slow start.
                host.run(["ip", "tcp_metrics", "flush"], _TIMEOUT_S, as_root=True).checked()
            return measure(spec, appliance, hub, site, unset)


@contextmanager
def lane_up(spec: CellSpec, appliance: Appliance, instead: bool) -> Iterator[None]:
    """The cell's lane for the time of a block: alone, or as a change to the topology that holds its ports already."""
    present, lane = appliance.topology(), spec.lane
    if present is None or instead:
        with appliance.lease(spec.topology):
            yield
        return
    if lane.ports is None or lane.name not in present.sites or present.lane(lane.name).ports != lane.ports:
        raise RefusedError(f"{present.name} is up here: take it down first (longhaul down), or sweep with --in-lab")
    with appliance.lease(replace(present.with_lane(lane), seed=spec.topology.seed)):
        yield


def measure(spec: CellSpec, appliance: Appliance, hub: Host, site: Host, unset: tuple[str, ...] = ()) -> Execution:
    """Measure over the lane that is up, between hosts that are set up; data flows in the spec's direction.

    `unset` is what of the profile could not be set, for the result's notes.
    """
    ends = [(hub, site) if way.direction == OUTBOUND else (site, hub) for way in spec.ways]
    sender, receiver = ends[0]
    address = _address(spec, receiver)
    precise = ping.is_precise(sender)
    if spec.lane.rtt_ns > ping.GRID_S * NS:
        sender.run(ping.warm_up_argv(address), _TIMEOUT_S)
    echo = sender.run(ping.argv(address, PING_COUNT, precise), ping.longest_s(PING_COUNT, spec.lane.rtt_ns))
    cached = [_cached(one) for one, _ in ends]
    with rtt_prober.between(sender, receiver, address, spec.lane.rtt_ns, precise) as probes:
        idle = probes.idle()
        before, status = _counters(hub, site), appliance.status()
        short = any(_short_of_memory(host) for host in ends[0])
        with probes.beside(spec.duration_s) as loaded:
            transfers, answer, watched = _stream(spec, sender, receiver)
    after = appliance.status()
    pairs = zip(_queues(spec, status), _queues(spec, after), strict=True)
    queues = [_increase(earlier, later, after.datapath) for earlier, later in pairs]
    common = Measured(
        transfer=transfers[0],
        sockets=ss.summarize(watched.looks[0]),
        queues=queues[0],
        machine=MachineUse(os.uname().release, nstat.increase(before, _counters(hub, site)), watched.core_percent),
        delays=Delays(min(ping.parse(echo.stdout).rtts_ns), idle, loaded[0]),
        memory_short=short,
        sender=_buffers(sender),
        receiver=_buffers(receiver),
        cached_metrics=cached[0],
        drift=tuple(f"{step.why}; as asked again by: {step.op}" for step in after.drift),
        rtt_tolerance_ns=time_tolerance.rtt_tolerance_ns(),
        late=engine_lateness.between(
            status.lanes, after.lanes, max(time_tolerance.rtt_tolerance_ns(), spec.lane.rtt_ns // 100)
        ),
        unset=unset,
    )
    results = [conclude(spec.ways[0], common)]
    if len(spec.ways) > 1:
        back = replace(
            common,
            transfer=transfers[1],
            sockets=ss.summarize(watched.looks[1]),
            queues=queues[1],
            sender=_buffers(receiver),
            receiver=_buffers(sender),
            cached_metrics=cached[1],
        )
        results.append(conclude(spec.ways[1], back))
    raw = {spec.workload.kind: answer, "machine": machine_facts.record(sender), "queues": machine_facts.queues()}
    return Execution(results[0] if len(results) == 1 else joined(spec, results), raw)


@dataclass(frozen=True)
class _Watched:
    """Each direction's looks at the sender's sockets over the last half of a run, and how busy the cores were then."""

    looks: list[list[list[ss.Socket]]]
    core_percent: float


def _stream(spec: CellSpec, sender: Host, receiver: Host) -> tuple[tuple[Transfer, ...], Any, _Watched]:
    """Run the workload between the two ends: what each direction carried, the tool's own answer, what was seen."""
    ends = Ends(sender, receiver, _address(spec, sender), _address(spec, receiver))
    with spec.workload.start(ends, spec.load) as work:
        watched = _watch(spec, ends, work)
        return work.wait(), work.raw(), watched


def _address(spec: CellSpec, host: Host) -> str:
    return str(spec.topology.address(host.name).ip)


def _queues(spec: CellSpec, status: Status) -> list[DirectionCounters]:
    """Of each direction that is measured."""
    lane = status.lane(spec.lane.name)
    return [(lane.outbound if way.direction == OUTBOUND else lane.inbound).counters for way in spec.ways]


def _cached(host: Host) -> int:
    return len(json.loads(host.run(["ip", "-j", "tcp_metrics", "show"], _TIMEOUT_S).checked().stdout or "[]"))


def _short_of_memory(host: Host) -> bool:
    protocols = host.run(["cat", nstat.PROTOCOLS], _TIMEOUT_S).checked().stdout
    try:
        return nstat.short_of_memory(protocols, host.read_sysctl("net.ipv4.tcp_mem"))
    except MissingError:  # in a container's namespace: then the flag alone must do
        return nstat.short_of_memory(protocols, "0")


def _cores(*hosts: Host) -> list[dict[str, tuple[int, int]]]:
    return [cpu_load.parse(host.run(["cat", cpu_load.FILE], _TIMEOUT_S).checked().stdout) for host in hosts]


def _buffers(host: Host) -> Buffers:
    receive, send = (int(host.read_sysctl(f"net.ipv4.{name}").split()[2]) for name in ("tcp_rmem", "tcp_wmem"))
    return Buffers(receive, send)


def _counters(hub: Host, site: Host) -> dict[str, int]:
    ends = [host.counters() for host in (hub, site)]
    return {name: sum(end[name] for end in ends) for name in nstat.WATCHED}


def _increase(before: DirectionCounters, after: DirectionCounters, datapath: str) -> Queues:
    """What the queues dropped in between."""

    def grown(one: int | None, other: int | None) -> int | None:
        return None if one is None or other is None else other - one

    buffer = after.drops_buffer - before.drops_buffer
    limit, loss = grown(before.drops_limit, after.drops_limit), grown(before.drops_loss, after.drops_loss)
    return Queues(limit, buffer, loss, datapath)


def look_interval_s(duration_s: int, rtt_ns: int) -> float:
    """The pause between two looks: they fill the last half of the run, each at another phase of the round trip."""
    pause_s, rtt_s = duration_s / 2 / (LOOKS + 1), rtt_ns / NS
    return (pause_s // rtt_s + ODD_PHASE) * rtt_s if rtt_s and rtt_s <= pause_s else pause_s


def _watch(spec: CellSpec, ends: Ends, work: RunningWorkload) -> _Watched:
    """Look at each direction's data streams over the last half of the run."""
    senders = [(ends.sender, ss.argv(ends.receiver_address, work.port))]
    if len(spec.ways) > 1:
        senders.append((ends.receiver, ss.argv(ends.sender_address, work.port, server=True)))
    hosts = (ends.sender, ends.receiver)
    time.sleep(spec.duration_s / 2 + STREAMS_START_ROUND_TRIPS * spec.lane.rtt_ns / NS)
    looks: list[list[list[ss.Socket]]] = [[] for _ in senders]
    before = _cores(*hosts)
    for _ in range(LOOKS):
        for seen, (sender, argv) in zip(looks, senders, strict=True):
            sockets = ss.parse(sender.run(argv, _TIMEOUT_S).checked().stdout)
            # Idle connections, and streams that are received here, send next to nothing.
            if len(sockets) == work.connections:
                data = sorted(sockets, key=lambda socket: socket.bytes_sent)[-spec.streams :]
                seen.append(sorted(data, key=lambda socket: socket.local))
        time.sleep(look_interval_s(spec.duration_s, spec.lane.rtt_ns))
    return _Watched(looks, max(starmap(cpu_load.busiest_percent, zip(before, _cores(*hosts), strict=True))))


def main(argv: list[str]) -> int:
    """Execute the spec given as JSON; print the result, or the failure, as one JSON document."""
    from emulator.control.local import local

    try:
        # No guard: when this process is killed, so is the lab that it is alone in.
        done = execute(CellSpec.from_json(json.loads(argv[0])), local(guard=lambda _: None))
    except LonghaulError as error:
        print(json.dumps({"error": str(error), "kind": type(error).__name__}))  # noqa: T201
        return error.exit_code
    print(json.dumps({"result": done.result.to_json(), "raw": done.raw}))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
