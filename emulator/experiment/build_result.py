"""From what was observed in a cell to its result: figures, prediction, verdict, advice and findings. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.analysis import tcp_path, throughput_models, tuning_advice, validity_checks
from emulator.analysis.latency_histogram import Latency
from emulator.analysis.tcp_path import NS
from emulator.analysis.transfer import Transfer
from emulator.analysis.verdict import Buffers, Evidence, judge
from emulator.control.engine_lateness import Late
from emulator.experiment.cell_result import CellResult, CellSpec
from emulator.hosts import tcp_profiles
from emulator.hosts.tools import ss
from emulator.hosts.tools.nstat import RETRANSMITTED
from emulator.plan.desired_state import segments_of
from emulator.plan.netem_lowering import SUPER_FRAME_BYTES


@dataclass(frozen=True)
class Measured:
    """The raw observations of one cell and direction; `drops` are by limit, by buffer and by the loss asked for."""

    rtt_ns: int
    transfer: Transfer
    seen: ss.SocketSummary
    drops: tuple[int | None, int, int | None]
    counters: dict[str, int]
    memory_short: bool
    core_percent: float
    sender: Buffers
    receiver: Buffers
    cached_metrics: int
    drift: tuple[str, ...]
    idle: Latency
    loaded: Latency
    kernel: str
    rtt_tolerance_ns: int
    datapath: str
    late: tuple[Late, ...]
    unset: tuple[str, ...] = ()
    """What of the profile a host does not have."""

    @property
    def retransmits(self) -> int:
        """Segments that were sent again, as the workload tells, else as the kernels counted them."""
        reported = self.transfer.retransmits
        return self.counters[RETRANSMITTED] if reported is None else reported


def wanted_duration_s(spec: CellSpec) -> float:
    """Ten slow starts and a hundred round trips: up to twice the BDP, or to the receive buffer that a profile sets.

    The kernel's own buffers do not count: autotuning takes longer to settle in them than a slow start up to them.
    """
    window = min(2 * spec.path.bdp_bytes, spec.profile.tcp_rmem[2] if spec.profile.tcp_rmem else 2**62)
    return tuning_advice.wanted_duration_s(spec.path, window, spec.profile.initcwnd or tcp_path.INITCWND_SEGMENTS)


def conclude(spec: CellSpec, measured: Measured) -> CellResult:
    """The result of one cell."""
    path, transfer, seen = spec.path, measured.transfer, measured.seen
    steady, evidence = tcp_path.steady(transfer.intervals), evidence_of(spec, measured)
    initcwnd = spec.profile.initcwnd or tcp_path.INITCWND_SEGMENTS
    windows = tuning_advice.measured_windows(evidence)
    prediction = throughput_models.predict(path, windows, round(transfer.received_s * NS), seen.rtt_ns, initcwnd)
    verdict, findings = judge(path, evidence), validity_checks.find(path, evidence)
    hint = tuning_advice.advise(path, evidence, verdict, prediction)
    drops_limit, drops_buffer, drops_loss = measured.drops
    return CellResult(
        spec=spec,
        rtt_ns=measured.rtt_ns,
        steady_bytes_per_s=steady.bytes_per_s,
        steady_from_s=steady.from_s,
        settled=steady.settled,
        mean_bytes_per_s=transfer.bytes_per_s,
        first_10s_bytes_per_s=tcp_path.mean_until(transfer.intervals, 10),
        predicted_bytes_per_s=prediction.bytes_per_s,
        predicted_mean_bytes_per_s=prediction.mean_bytes_per_s,
        predicted_limit=prediction.limit,
        laws={law.name: law.bytes_per_s for law in prediction.laws if law.bytes_per_s != float("inf")},
        kind=verdict.kind,
        limiter=verdict.limiter,
        evidence=verdict.evidence,
        advice=str(hint) if hint else "",
        invalid=(
            *(finding.text for finding in findings if finding.fatal),
            *(str(late) for late in measured.late if not late.passed),
        ),
        window_bytes=seen.in_flight_bytes,
        peer_window_bytes=seen.peer_window_bytes,
        send_buffer_bytes=seen.send_buffer_bytes,
        rwnd_share=seen.rwnd_share,
        sndbuf_share=seen.sndbuf_share,
        loaded_rtt_ns=seen.rtt_ns,
        idle=measured.idle,
        loaded=measured.loaded,
        retransmits=measured.retransmits,
        sent_bytes=transfer.sent_bytes,
        retransmitted_bytes=measured.retransmits * tcp_path.mss_bytes(path.mtu),
        received_bytes=transfer.received_bytes,
        drops_limit=drops_limit,
        drops_buffer=drops_buffer,
        drops_loss=drops_loss,
        counters=measured.counters,
        sender_cpu_percent=transfer.sender_cpu_percent,
        receiver_cpu_percent=transfer.receiver_cpu_percent,
        core_percent=measured.core_percent,
        kernel=measured.kernel,
        tool=transfer.tool,
        notes=(*tcp_profiles.notes(spec.profile), *measured.unset),
        findings=tuple(f"{finding.check}: {finding.text}" for finding in findings),
        ways=(),
        repeats=(steady.bytes_per_s,),
        intervals=transfer.intervals,
        ramp=transfer.ramp,
        datapath=measured.datapath,
    )


def evidence_of(spec: CellSpec, measured: Measured) -> Evidence:
    """What verdict and detectors look at."""
    transfer, seen, steady = measured.transfer, measured.seen, tcp_path.steady(measured.transfer.intervals)
    return Evidence(
        transfer=transfer,
        steady_bytes_per_s=steady.bytes_per_s,
        settled=steady.settled,
        rwnd_share=seen.rwnd_share,
        sndbuf_share=seen.sndbuf_share,
        peer_window_bytes=seen.peer_window_bytes,
        in_flight_bytes=seen.in_flight_bytes,
        most_in_flight_bytes=seen.most_in_flight_bytes,
        retransmits=measured.retransmits,
        drops_limit=measured.drops[0],
        drops_buffer=measured.drops[1],
        drop_segments=1 if segments_of(spec.lane) == 1 else -(-SUPER_FRAME_BYTES // tcp_path.mss_bytes(spec.lane.mtu)),
        memory_pressures=measured.counters["TcpExtTCPMemoryPressures"],
        memory_short=measured.memory_short,
        rtt_before_ns=measured.rtt_ns,
        rtt_tolerance_ns=measured.rtt_tolerance_ns + spec.lane.outbound.jitter_ns + spec.lane.inbound.jitter_ns,
        wanted_duration_s=wanted_duration_s(spec),
        sender=measured.sender,
        receiver=measured.receiver,
        core_percent=measured.core_percent,
        cached_metrics=measured.cached_metrics,
        drift=measured.drift,
    )
