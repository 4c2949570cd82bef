"""A cell and its result, made up, for tests of what is done with them."""

from __future__ import annotations

from emulator.analysis import Interval
from emulator.hosts import profiles
from emulator.model import Impairment, Lane, Profile, Topology
from emulator.results import CellResult, CellSpec

MS = 10**6
MIB = 2**20


def cell_spec(
    rtt_ns: int = 32 * MS,
    streams: int = 1,
    congestion_control: str | None = None,
    profile: Profile = profiles.DEFAULT,
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
        rtt_ns=spec.lane.rtt_ns,
        steady_bytes_per_s=steady_bytes_per_s,
        steady_from_s=1.0,
        settled=True,
        mean_bytes_per_s=steady_bytes_per_s * 0.98,
        first_10s_bytes_per_s=steady_bytes_per_s * 0.97,
        predicted_bytes_per_s=steady_bytes_per_s * 1.01,
        predicted_limit="window",
        limiter="send buffer, 2.8 MiB in flight",
        evidence="the sender waited for its own buffer 100% of the time",
        invalid=(),
        window_bytes=2_936_012,
        peer_window_bytes=4_713_600,
        send_buffer_bytes=4_194_304,
        rwnd_share=0.0,
        sndbuf_share=1.0,
        loaded_rtt_ns=32_100_000,
        retransmits=0,
        sent_bytes=920 * MIB,
        received_bytes=917 * MIB,
        drops_limit=0,
        drops_buffer=0,
        drops_loss=0,
        counters={"TcpRetransSegs": 0},
        sender_cpu_percent=0.0,
        receiver_cpu_percent=0.0,
        kernel="6.12.117",
        tool="iperf 3.18",
        notes=(),
        intervals=(Interval(0, 1, 40 * MIB), Interval(1, 2, 88 * MIB)),
    )
