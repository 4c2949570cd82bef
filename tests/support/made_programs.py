"""Runs of a program, made up, for tests of what is done with them."""

from __future__ import annotations

from msgspec.structs import replace

from emulator.analysis import program_verdict
from emulator.analysis.observed import Delays, MachineUse, Queues
from emulator.analysis.program_runs import Frames, ProgramJudgement, ProgramRun, ProgramRuns, TcpConnection
from emulator.analysis.program_time import ProgramFacts
from emulator.analysis.tcp_path import TcpPath
from emulator.analysis.verdict import Buffers
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.program_result import ProgramResult
from emulator.experiment.run_folder import Execution
from emulator.hosts import tcp_profiles
from emulator.hosts.tools.program import ProgramWorkload
from emulator.model.impairment import Impairment
from emulator.model.program import Program
from emulator.model.tcp_profile import Profile
from emulator.model.topology import Lane, Topology
from emulator.report.program_table import ProgramRow

MS, MIB = 10**6, 2**20
RTT_NS = 100 * MS
PATH = TcpPath(10**9, RTT_NS)
BUFFERS = Buffers(6 * MIB, 4 * MIB)
CLEAN = Queues(0, 0, 0)


def connection(
    sent: int = 100,
    received: int = 100,
    *,
    client_ms: float = 0,
    server_ms: float = 0,
    client_rwnd_ms: float = 0,
    client_sndbuf_ms: float = 0,
    server_rwnd_ms: float = 0,
    server_sndbuf_ms: float = 0,
) -> TcpConnection:
    """Busy and limited times in ms; no segment sent again."""
    times = (client_ms, client_rwnd_ms, client_sndbuf_ms, server_ms, server_rwnd_ms, server_sndbuf_ms)
    client, crwnd, csnd, server, srwnd, ssnd = (round(time * MS) for time in times)
    return TcpConnection(sent, received, 0, client, crwnd, csnd, server, srwnd, ssnd)


def run(
    completion_ms: float, *connections: TcpConnection, retransmits: int = 0, timeouts: int = 0, overhead: int = 400
) -> ProgramRun:
    """A run that ended well; each connection costs some bytes of headers."""
    sent = sum(one.sent_bytes * 1514 // 1448 + overhead for one in connections)
    received = sum(one.received_bytes * 1514 // 1448 + overhead for one in connections)
    times = {"completion_ns": round(completion_ms * MS), "timeouts": timeouts}
    return ProgramRun(
        exit_code=0, sent_bytes=sent, received_bytes=received, retransmits=retransmits, connections=connections, **times
    )


def runs(*all: ProgramRun, quiet_ms: float | None = 0, bytes: int | None = None) -> ProgramRuns:
    """Runs of one cell, and a run whose frames were seen, as long as the median one."""
    middle = ProgramRuns(all, None, None).median
    frames = None if quiet_ms is None else Frames(middle.completion_ns, 2 * RTT_NS, round(quiet_ms * MS))
    carried = max(middle.payload_sent_bytes, middle.payload_received_bytes) or None
    return ProgramRuns(all, frames, bytes or carried)


def facts(program: ProgramRuns, path: TcpPath = PATH, queues: Queues = CLEAN) -> ProgramFacts:
    """A cell over 100 ms at 1 Gbit/s, with the kernel's own buffers at both ends."""
    machine = MachineUse("6.12.117", {}, 0.0)
    return ProgramFacts(
        program=program,
        path=path,
        client=BUFFERS,
        server=BUFFERS,
        queues=queues,
        machine=machine,
        memory_short=False,
        rtt_before_ns=path.rtt_ns,
        rtt_tolerance_ns=0,
        cached_metrics=0,
        drift=(),
    )


def chatty(turns: int = 17, rtt_ms: float = 100, quiet_ms: float | None = 0, repeats: int = 1) -> ProgramRuns:
    """One connection with so many turns of a request and an answer; the FIN keeps it busy for one more round trip."""
    busy = (turns + 1) * rtt_ms
    one = connection(turns * 100, turns * 300, client_ms=busy, server_ms=busy)
    return runs(*[run((turns + 1) * rtt_ms + (quiet_ms or 0), one)] * repeats, quiet_ms=quiet_ms)


def judged_with(program: ProgramRuns, **changes: object) -> ProgramJudgement:
    """The judgement of a cell whose facts are changed so."""
    return program_verdict.judge(replace(facts(program), **changes))  # type: ignore[arg-type]


def judged(program: ProgramRuns, rtt_ms: int, rate_bps: int) -> ProgramJudgement:
    """The judgement of a clean cell."""
    return program_verdict.judge(facts(program, replace(PATH, rtt_ns=rtt_ms * MS, rate_bps=rate_bps)))


def row(series: str, rtt_ms: int, program: ProgramRuns, rate_bps: int = 10**9) -> ProgramRow:
    """A cell of a table, judged."""
    found = judged(program, rtt_ms, rate_bps)
    return ProgramRow(series, rtt_ms * MS, rate_bps, program, found, (program.mean_completion_s,))


def result(one: ProgramRow, name: str, profile: Profile = tcp_profiles.DEFAULT) -> ProgramResult:
    """The result of a cell with a row's figures."""
    way = Impairment(rate_bps=one.rate_bps)
    lane = Lane("lane", way, way).with_rtt(one.rtt_ns)
    workload = ProgramWorkload(Program(name, f"{name} {{server}}", bytes=64 * MIB))
    spec = CellSpec(Topology("cell", "hub", (lane,)), profile, 1, None, 10, workload=workload)
    machine, delays = MachineUse("6.12.117", {}, 0.0), Delays(one.rtt_ns, None, None)
    return ProgramResult(
        spec=spec,
        program=one.program,
        queues=CLEAN,
        machine=machine,
        delays=delays,
        judgement=one.judgement,
        notes=(),
        repeats=one.repeats,
    )


def turns_row(series: str, rtt_ms: int, turns: int, quiet_ms: float = 5, rate_bps: int = 10**9) -> ProgramRow:
    """A chatty program: a handshake, so many turns, and some time of its own."""
    return row(series, rtt_ms, chatty(turns, rtt_ms, quiet_ms, repeats=3), rate_bps)


def window_row(series: str, rtt_ms: int, windows: int, rate_bps: int = 10**9) -> ProgramRow:
    """A download in so many windows, one each round trip, after a handshake and a request."""
    time_ms = (windows + 2) * rtt_ms
    one = connection(
        120, 64 * MIB, client_ms=2 * rtt_ms, server_ms=time_ms - rtt_ms, server_rwnd_ms=(windows - 1) * rtt_ms
    )
    return row(series, rtt_ms, runs(run(time_ms, one)), rate_bps)


def execution(spec: CellSpec, turns: int = 17) -> Execution:
    """A cell of a program that takes so many turns at any RTT, and 5 ms of its own."""
    row = turns_row(spec.series, spec.lane.rtt_ns // MS, turns)
    return Execution(replace(result(row, "made"), spec=spec), {})
