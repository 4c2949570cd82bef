"""Converts the observations of a cell to its result: figures, prediction, verdict, advice and findings. Pure."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import asdict, replace

from emulator.analysis import tcp_path, throughput_models, tuning_advice, validity_checks
from emulator.analysis.observed import Delays, LaneEvidence, Sockets
from emulator.analysis.tcp_path import NS
from emulator.analysis.transfer import Caveat, Transfer, reasons
from emulator.analysis.verdict import Buffers, Evidence, Judgement, Throughput, judge
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.engine_lateness import Late
from emulator.hosts import tcp_profiles
from emulator.hosts.tools.nstat import RETRANSMITTED
from emulator.plan.desired_state import segments_of
from emulator.plan.netem_lowering import SUPER_FRAME_BYTES


class Measured(Struct, frozen=True):
    """What was observed of one cell and direction, whose drops `lane` has. `late` is of the engine; `unset` is what a
    host could not set.

    `sockets` is None when nobody saw the streams at work; `caveats` are how the measuring itself went.
    """

    transfer: Transfer
    sockets: Sockets | None
    lane: LaneEvidence
    delays: Delays
    sender: Buffers
    receiver: Buffers
    late: tuple[Late, ...]
    unset: tuple[str, ...] = ()
    caveats: tuple[Caveat, ...] = ()


def wanted_duration_s(spec: CellSpec) -> float:
    """Ten slow starts and a hundred round trips: up to twice the BDP, or to the receive buffer that a profile sets.

    The kernel's default buffers do not matter: autotuning takes longer than a slow start to reach them.
    """
    most = spec.profile.window or (spec.profile.tcp_rmem[2] if spec.profile.tcp_rmem else 2**62)
    window = min(2 * spec.path.bdp_bytes, most)
    return tuning_advice.wanted_duration_s(spec.path, window, spec.profile.initcwnd or tcp_path.INITCWND_SEGMENTS)


def conclude(spec: CellSpec, measured: Measured) -> CellResult:
    """The result of one cell."""
    transfer = _counted(spec, measured)
    evidence = evidence_of(spec, measured, transfer)
    return CellResult(
        spec=spec,
        throughput=evidence.throughput,
        transfer=transfer,
        sockets=measured.sockets,
        queues=evidence.queues,
        machine=evidence.machine,
        delays=measured.delays,
        judgement=_judgement(spec, evidence, measured),
        notes=(*tcp_profiles.notes(spec.profile), *measured.unset),
        ways=(),
        repeats=(evidence.throughput.steady_bytes_per_s,),
    )


def _counted(spec: CellSpec, measured: Measured) -> Transfer:
    """The transfer with its retransmits: the workload's figure, else the kernels' counters."""
    reported = measured.transfer.retransmits
    again = measured.lane.machine.counters[RETRANSMITTED] if reported is None else reported
    return replace(measured.transfer, retransmits=again, retransmitted_bytes=again * tcp_path.mss_bytes(spec.path.mtu))


def _judgement(spec: CellSpec, evidence: Evidence, measured: Measured) -> Judgement:
    path, initcwnd = spec.path, spec.profile.initcwnd or tcp_path.INITCWND_SEGMENTS
    windows, lasted_ns = tuning_advice.measured_windows(evidence), round(evidence.transfer.received_s * NS)
    loaded_ns = evidence.sockets.rtt_ns if evidence.sockets else None
    prediction = throughput_models.predict(path, windows, lasted_ns, loaded_ns, initcwnd)
    verdict, findings = judge(path, evidence), [*validity_checks.find(path, evidence), *measured.caveats]
    hint = tuning_advice.advise(path, evidence, verdict, prediction)
    return Judgement(
        predicted_bytes_per_s=prediction.bytes_per_s,
        predicted_mean_bytes_per_s=prediction.mean_bytes_per_s,
        predicted_limit=prediction.limit,
        laws={law.name: law.bytes_per_s for law in prediction.laws if law.bytes_per_s != float("inf")},
        kind=verdict.kind,
        limiter=verdict.limiter,
        evidence=verdict.evidence,
        advice=str(hint) if hint else "",
        invalid=(
            *reasons(findings),
            *(str(one) for one in measured.late if not one.passed),
        ),
        findings=tuple(map(str, findings)),
    )


def evidence_of(spec: CellSpec, measured: Measured, transfer: Transfer) -> Evidence:
    """The input of verdict and checks."""
    return Evidence(
        **asdict(measured.lane),
        transfer=transfer,
        throughput=Throughput.of(transfer),
        sockets=measured.sockets,
        drop_segments=_drop_segments(spec, measured),
        wanted_duration_s=wanted_duration_s(spec),
        sender=measured.sender,
        receiver=measured.receiver,
    )


def _drop_segments(spec: CellSpec, measured: Measured) -> int:
    """The segments of one counted drop at most: one, unless super-frames pass. A port to a virtual machine or a
    container hands them over anyway; the shaper then drops more packets than netem sees, whose count by limit is
    unknown for that."""
    handed_over = spec.lane.ports is not None and measured.lane.queues.drops_limit is None
    single = segments_of(spec.lane) == 1 and not handed_over
    return 1 if single else -(-SUPER_FRAME_BYTES // tcp_path.mss_bytes(spec.lane.mtu))
