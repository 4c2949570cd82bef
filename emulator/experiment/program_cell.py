"""Measures one cell whose workload is a program: its server, and its client's runs, over an active lane."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict, replace

from emulator.analysis import lane_use, program_verdict
from emulator.analysis.observed import LISTEN_DROPS, LOSS_PROBES, TIMEOUTS
from emulator.analysis.program_runs import Frames, ProgramRun, ProgramRuns
from emulator.analysis.program_time import ProgramFacts
from emulator.analysis.tcp_path import INITCWND_SEGMENTS, NS
from emulator.control.capture import WIRE
from emulator.control.frame_log import FrameLog
from emulator.errors import MeasureError
from emulator.experiment import observe_cell
from emulator.experiment.attempts import Attempts
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.lane_watch import LaneWatch
from emulator.experiment.program_result import ProgramResult, busier_path
from emulator.experiment.run_folder import Execution
from emulator.hosts import tcp_profiles
from emulator.hosts.host import Host
from emulator.hosts.tools import connection_log, machine_facts, nstat, program_ends
from emulator.hosts.tools.connection_log import ConnectionLog
from emulator.hosts.tools.nstat import RETRANSMITTED
from emulator.hosts.tools.program import ProgramWorkload
from emulator.hosts.tools.program_ends import ProgramEnd, TimedRun
from emulator.model.program import Program
from emulator.model.sweep_axes import OUTBOUND

if TYPE_CHECKING:
    from emulator.control.appliance import Appliance
    from emulator.control.status import DirectionCounters

SETTLE_ROUND_TRIPS, SETTLE_S = 3, 0.1
"""After a client's exit its kernel still closes connections."""


def measure(spec: CellSpec, appliance: Appliance, hub: Host, site: Host, unset: tuple[str, ...] = ()) -> Execution:
    """Run the program over an active lane, between prepared hosts. Raises MeasureError, which names the program."""
    client, server = (hub, site) if spec.direction == OUTBOUND else (site, hub)
    attempts = Attempts()
    with attempts.explained():
        rtt_ns = observe_cell.idle_rtt_ns(spec, client, server, attempts)
    cached = observe_cell.cached(hub) + observe_cell.cached(site)
    watch = LaneWatch(spec, appliance, hub, site, rtt_ns=rtt_ns, cached_metrics=cached)
    program, raw, files = _run(spec, appliance, client, server)
    lane = watch.ended()
    facts = ProgramFacts(
        **asdict(lane.evidence),
        program=program,
        path=busier_path(spec, program),
        client=observe_cell.buffers(client, spec.profile),
        server=observe_cell.buffers(server, spec.profile),
        initcwnd=spec.profile.initcwnd or INITCWND_SEGMENTS,
    )
    judgement = program_verdict.judge(facts)
    result = ProgramResult(
        spec=spec,
        program=program,
        queues=facts.queues,
        machine=facts.machine,
        delays=lane.delays,
        judgement=replace(judgement, invalid=(*judgement.invalid, *lane.too_late)),
        notes=(*tcp_profiles.notes(spec.profile), *unset, *(one.text for one in attempts.caveats)),
        repeats=(program.mean_completion_s,),
    )
    return Execution(result, machine_facts.beside(client, raw), files)


def _run(
    spec: CellSpec, appliance: Appliance, client: Host, server: Host
) -> tuple[ProgramRuns, dict[str, Any], dict[str, bytes]]:
    """All runs of the client against one server, and one more whose frames are looked at; outputs; files to keep."""
    assert isinstance(spec.workload, ProgramWorkload)
    program, values = spec.workload.program, _values(spec, client, server)
    addresses = observe_cell.address(spec, client), observe_cell.address(spec, server)
    with ExitStack() as stack:
        ends = [stack.enter_context(program_ends.opened(host, program, values)) for host in (client, server)]
        try:
            ends[1].prepare("prepare", program.timeout_ns / NS)
            ends[0].prepare("prepare_client", program.timeout_ns / NS)
            logs = [
                stack.enter_context(connection_log.watched(end, other))
                for end, other in zip(ends, reversed(addresses), strict=True)
            ]
            stack.enter_context(program_ends.serving(ends[1]))
            for log in logs:
                log.new()  # A server that connected to the client's end in order to get ready is no part of a run.
            cell = _ClientRuns(spec, appliance, program, ends[0], (logs[0], logs[1]))
            runs = tuple(cell.run(number) for number in range(program.repeat))
            frames = cell.look(program.repeat)
            files = cell.files | {f"server/{name}": data for name, data in ends[1].kept(ends[1].folder).items()}
        except MeasureError as error:
            raise _with(MeasureError(f"{program.name}: {error}"), getattr(error, "__notes__", ())) from None
        raw = {"outputs": cell.outputs, "server": {name: ends[1].tail(f"server.{name}") for name in ("out", "err")}}
    return ProgramRuns(runs, frames, program.bytes or _carried_bytes(runs)), {ProgramWorkload.kind: raw}, files


def _values(spec: CellSpec, client: Host, server: Host) -> dict[str, str]:
    """What the placeholders stand for in this cell, but for `run`."""
    assert isinstance(spec.workload, ProgramWorkload)
    return {
        "server": observe_cell.address(spec, server),
        "client": observe_cell.address(spec, client),
        "rtt_ms": f"{spec.lane.rtt_ns / 1e6:g}",
        "rate": str(spec.path.rate_bps),
        "seed": str(spec.topology.seed),
        "bytes": str(spec.workload.program.bytes),
        "run": "0",
    }


@dataclass
class _ClientRuns:
    """Runs the client, and keeps what it prints and the files that it leaves."""

    spec: CellSpec
    appliance: Appliance
    program: Program
    client: ProgramEnd
    logs: tuple[ConnectionLog, ConnectionLog]

    def __post_init__(self) -> None:
        self.outputs: list[dict[str, str]] = []
        self.files: dict[str, bytes] = {}

    def run(self, number: int) -> ProgramRun:
        """One run: its time, and what the lane and the kernels counted meanwhile. Raises MeasureError."""
        queues, kernels = _both_queues(self.spec, self.appliance), self._counters()
        timed = self._timed(number)
        time.sleep(SETTLE_S + SETTLE_ROUND_TRIPS * self.spec.lane.rtt_ns / NS)
        after, grown = _both_queues(self.spec, self.appliance), nstat.increase(kernels, self._counters())
        sent, received = (later.bytes - earlier.bytes for earlier, later in zip(queues, after, strict=True))
        return ProgramRun(
            completion_ns=timed.ended_ns - timed.began_ns,
            exit_code=timed.exit_code,
            sent_bytes=sent,
            received_bytes=received,
            retransmits=grown[RETRANSMITTED],
            connections=connection_log.connections(*(log.new() for log in self.logs)),
            listen_drops=grown[LISTEN_DROPS],
            timeouts=grown[TIMEOUTS] + grown[LOSS_PROBES],
        )

    def look(self, number: int) -> Frames | None:
        """One more run, whose frames are looked at; None where they cannot be seen."""
        lane = self.appliance.status().lane(self.spec.lane.name)
        outbound = self.spec.direction == OUTBOUND
        end = self.spec.topology.ends(lane.lane.name)[0 if outbound else 1]
        if not end.is_namespace or self.appliance.status().datapath == WIRE:
            return None
        ways = (lane.lane.outbound.delay_ns, lane.lane.inbound.delay_ns)
        with FrameLog((lane.inbound if outbound else lane.outbound).port) as log:
            timed = self._timed(number)
            time.sleep(self.spec.lane.rtt_ns / NS)
        if log.dropped:
            return None
        return lane_use.of_run(log.times, timed.began_ns, timed.ended_ns, *(ways if outbound else ways[::-1]))

    def _timed(self, number: int) -> TimedRun:
        for log in self.logs:
            observe_cell.forget_connections(log.host)
        with program_ends.run_folder(self.client, number) as folder:
            timed = program_ends.timed(self.client, folder, number)
            where = f"run-{number}"
            said = {name: self.client.tail(f"{where}/client.{name}") for name in ("out", "err")}
            if timed.exit_code:
                words = self.client.last_words(f"{where}/client")
                which = f"run {number + 1} of {self.program.repeat}" if number < self.program.repeat else "the last run"
                failure = MeasureError(f"the client ended with {timed.exit_code} in {which}: {words}")
                raise _with(failure, [f"its std{name}:\n{text.rstrip()}" for name, text in said.items() if text])
            self.outputs.append(said)
            kept = self.client.kept(folder)
            self.files |= {f"client/{where}/{name}": data for name, data in kept.items()}
        return timed

    def _counters(self) -> dict[str, int]:
        return observe_cell.counters(self.logs[0].host, self.logs[1].host)


def _with(error: MeasureError, notes: Iterable[str]) -> MeasureError:
    """The error with these notes."""
    for note in notes:
        error.add_note(note)
    return error


def _both_queues(spec: CellSpec, appliance: Appliance) -> tuple[DirectionCounters, DirectionCounters]:
    """The counters of the lane from the client and to it."""
    lane = appliance.status().lane(spec.lane.name)
    there, back = lane.outbound.counters, lane.inbound.counters
    return (there, back) if spec.direction == OUTBOUND else (back, there)


def _carried_bytes(runs: tuple[ProgramRun, ...]) -> int | None:
    """The payload of the larger direction, of the median run; None when no TCP connection carried any."""
    run = ProgramRuns(runs, None, None).median
    return max(run.payload_sent_bytes, run.payload_received_bytes) or None
