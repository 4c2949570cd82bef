"""A cell and its result, made up, for tests of what is done with them."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from emulator.analysis.latency_histogram import Latency
from emulator.analysis.observed import MEMORY_PRESSURES, Delays, MachineUse, Queues, Sockets
from emulator.analysis.tcp_path import Interval, TcpPath
from emulator.analysis.transfer import SenderSample, Transfer
from emulator.analysis.verdict import Buffers, Evidence, Judgement, Throughput
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution
from emulator.hosts import tcp_profiles
from emulator.model.impairment import Impairment
from emulator.model.tcp_profile import Profile
from emulator.model.topology import Lane, Topology

T = TypeVar("T", bound=Struct)
MS = 10**6
MIB = 2**20
PATH = TcpPath(10**10, 32 * MS)
TRANSFER = Transfer(
    program="iperf3",
    tool="iperf 3.18",
    received_bytes=849 * MIB,
    received_s=10.0,
    sent_bytes=850 * MIB,
    duration_s=10,
    intervals=(Interval(0, 1, 40 * MIB), Interval(1, 2, 88 * MIB)),
    retransmits=0,
    sender_cpu_percent=20.0,
    receiver_cpu_percent=30.0,
)
SEEN = Evidence(
    transfer=TRANSFER,
    throughput=Throughput(85 * MIB, 1.0, settled=True, mean_bytes_per_s=84.9 * MIB, first_10s_bytes_per_s=84.9 * MIB),
    sockets=Sockets(
        in_flight_bytes=5 * MIB // 2,
        most_in_flight_bytes=3 * MIB,
        peer_window_bytes=3 * MIB,
        send_buffer_bytes=4 * MIB,
        rtt_ns=32 * MS,
        rwnd_share=0.1,
        sndbuf_share=0.2,
    ),
    queues=Queues(drops_limit=0, drops_buffer=0, drops_loss=0),
    machine=MachineUse("6.12.117", {}, core_percent=40.0),
    drop_segments=1,
    memory_short=False,
    rtt_before_ns=32 * MS,
    rtt_tolerance_ns=10_000,
    wanted_duration_s=9.5,
    sender=Buffers(6 * MIB, 4 * MIB),
    receiver=Buffers(6 * MIB, 4 * MIB),
    cached_metrics=0,
    drift=(),
)
"""A sound cell at 32 ms, with nothing against it and no clear limit."""


def seen(**changes: Any) -> Evidence:
    """`SEEN` with some fields changed, each in the group that has it."""
    return changed(SEEN, **changes)


def changed(one: T, /, **changes: Any) -> T:
    """A value with some fields changed, each in itself or in the group of its that has it."""
    if (times := changes.pop("memory_pressures", None)) is not None:
        changes["counters"] = {MEMORY_PRESSURES: times}
    own = {name: changes.pop(name) for name in list(changes) if name in one.__struct_fields__}
    for name, group in asdict(one).items():
        has = group.__struct_fields__ if isinstance(group, Struct) else ()
        inside = {key: changes.pop(key) for key in list(changes) if key in has}
        own |= {name: replace(group, **inside)} if inside else {}
    assert not changes, changes
    return replace(one, **own)


def cell_spec(
    rtt_ns: int = 32 * MS,
    streams: int = 1,
    congestion_control: str | None = None,
    profile: Profile = tcp_profiles.DEFAULT,
    name: str = "lane",
) -> CellSpec:
    """10 s over a lane of 10 Gbit/s."""
    limited = Impairment(rate_bps=10**10)
    lane = Lane(name, limited, limited).with_rtt(rtt_ns)
    return CellSpec(Topology("cell", "hub", (lane,)), profile, streams, congestion_control, 10)


def cell_result(spec: CellSpec | None = None, steady_bytes_per_s: float = 87.5 * MIB) -> CellResult:
    """As a default profile does at 32 ms."""
    spec = spec or cell_spec()
    return CellResult(
        spec=spec,
        throughput=Throughput(
            steady_bytes_per_s=steady_bytes_per_s,
            steady_from_s=1.0,
            settled=True,
            mean_bytes_per_s=steady_bytes_per_s * 0.98,
            first_10s_bytes_per_s=steady_bytes_per_s * 0.97,
        ),
        transfer=Transfer(
            program="iperf3",
            tool="iperf 3.18",
            received_bytes=917 * MIB,
            received_s=10.0,
            sent_bytes=920 * MIB,
            duration_s=10,
            intervals=(Interval(0, 1, 40 * MIB), Interval(1, 2, 88 * MIB)),
            retransmits=0,
            retransmitted_bytes=0,
            ramp=(SenderSample(1.0, 2 * MIB, spec.lane.rtt_ns), SenderSample(2.0, 3 * MIB, spec.lane.rtt_ns)),
        ),
        sockets=Sockets(
            in_flight_bytes=2_936_012,
            most_in_flight_bytes=2_936_012,
            peer_window_bytes=4_713_600,
            send_buffer_bytes=4_194_304,
            rtt_ns=32_100_000,
            rwnd_share=0.0,
            sndbuf_share=1.0,
        ),
        queues=Queues(drops_limit=0, drops_buffer=0, drops_loss=0),
        machine=MachineUse("6.12.117", {"TcpRetransSegs": 0}, core_percent=0.0),
        delays=Delays(spec.lane.rtt_ns, latency(spec.lane.rtt_ns), latency(spec.lane.rtt_ns + MS)),
        judgement=Judgement(
            predicted_bytes_per_s=steady_bytes_per_s * 1.01,
            predicted_mean_bytes_per_s=steady_bytes_per_s * 0.99,
            predicted_limit="send buffer",
            laws={"send buffer": steady_bytes_per_s * 1.01, "line": 1140 * MIB},
            kind="send buffer",
            limiter="send buffer, 2.8 MiB in flight",
            evidence="the sender waited for its own buffer 100% of the time",
            advice="tcp_wmem max from 4 MiB to 55 MiB: 1140 MiB/s, then line",
            invalid=(),
            findings=(
                "sender-figure: the sender counted 3.0 MiB more than arrived: only the receiver's figure is valid",
            ),
        ),
        notes=(),
        ways=(),
        repeats=(steady_bytes_per_s,),
    )


def latency(rtt_ns: int) -> Latency:
    """Ten probes that all took the same."""
    return Latency("irtt", 10, 0, 0, rtt_ns, rtt_ns, rtt_ns, rtt_ns, rtt_ns // 2, rtt_ns // 2, ((rtt_ns, 10),))


def execution(spec: CellSpec, steady_bytes_per_s: float = 87.5 * MIB) -> Execution:
    """A measurement as a runner returns it."""
    return Execution(cell_result(spec, steady_bytes_per_s), {"iperf3": {"end": {}}, "machine": {"cpus": 1}})
