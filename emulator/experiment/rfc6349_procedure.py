"""The procedure of RFC 6349 over an active lane: path MTU, baseline RTT, bottleneck, then TCP in each direction and
in both."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from emulator.analysis import tcp_path
from emulator.analysis.rfc6349_metrics import PathDirection, Survey, TcpTest
from emulator.analysis.transfer import Transfer
from emulator.errors import MeasureError
from emulator.experiment.attempts import Attempts
from emulator.hosts.host import Host
from emulator.hosts.tools import ping, rtt_prober
from emulator.hosts.tools.workload import Ends, Load
from emulator.hosts.tools.workloads import DATAGRAMS, STREAMS
from emulator.model.bottleneck import ETHERNET_HEADER_BYTES
from emulator.model.sweep_axes import INBOUND, OUTBOUND
from emulator.model.topology import LEAST_MTU, Lane, Topology

IP_ICMP_BYTES = 28
ECHOES = 10
UDP_SECONDS = 2
UDP_EXCESS = 1.05
"""The offered share of the configured rate: it keeps the bottleneck busy without filling its queue."""
INTERVAL_S = 0.1
_TIMEOUT_S = 60.0

Say = Callable[[str], None]


def run(topology: Topology, lane: Lane, ends: tuple[Host, Host], duration_s: int, streams: int, say: Say) -> Survey:
    """Run the whole procedure between `ends`, hub and site; report each step to `say`, and what was tried again.

    Raises MeasureError with what to do next.
    """
    attempts = Attempts()
    with attempts.explained():
        found = _run(topology, lane, ends, duration_s, streams, say, attempts)
    for caveat in attempts.caveats:
        say(f"note: {caveat.text}")
    return found


def _run(
    topology: Topology, lane: Lane, ends: tuple[Host, Host], duration_s: int, streams: int, say: Say, attempts: Attempts
) -> Survey:
    hub, site = ends
    addresses = {end.host: str(end.address.ip) for end in topology.ends(lane.name)}
    say("path MTU")
    mtu = attempts("the path MTU", lambda _: path_mtu(hub, addresses[site.name]))
    say("baseline RTT")
    precise = ping.is_precise(hub)
    echoes = attempts(
        "the baseline RTT",
        lambda patience: ping.echoes(hub, addresses[site.name], ECHOES, lane.rtt_ns, precise, patience),
    )
    say("bottleneck bandwidth")
    there = Ends(hub, site, addresses[hub.name], addresses[site.name])
    back = Ends(site, hub, addresses[site.name], addresses[hub.name])
    directions = {
        name: _direction(pair, way.rate_bps or lane.line_rate_bps, mtu)
        for name, pair, way in ((OUTBOUND, there, lane.outbound), (INBOUND, back, lane.inbound))
    }
    fastest_bps = max(one.bottleneck_bps for one in directions.values())
    tests: list[TcpTest] = []
    for name, pairs in ((OUTBOUND, [there]), (INBOUND, [back]), ("both ways", [there, back])):
        for count in (1, streams):
            say(f"TCP {name}, {_connections(count)}")
            load = Load(
                duration_s=duration_s, streams=count, congestion_control=None, both=False, interval_s=INTERVAL_S,
                expected_bytes_per_s=fastest_bps / 8, rtt_ns=lane.rtt_ns,
            )  # fmt: skip
            tests += _tests(name, pairs, load, mtu, attempts, precise=precise)
    return Survey(lane.name, mtu, min(echoes.rtts_ns), directions, tuple(tests))


def _direction(ends: Ends, asked_bps: int, mtu: int) -> PathDirection:
    rate_bps = bottleneck_bps(ends, asked_bps, mtu)
    return PathDirection(rate_bps, round(tcp_path.line_bytes_per_s(rate_bps, mtu) * 8))


def path_mtu(host: Host, address: str) -> int:
    """The largest packet that returns unfragmented (RFC 4821's search, with echoes). Raises MeasureError."""
    if not _passes(host, address, LEAST_MTU):
        raise MeasureError(f"{address} does not answer packets of {LEAST_MTU} bytes")
    low, high = LEAST_MTU, 65535
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _passes(host, address, middle) else (low, middle - 1)
    return low


def _passes(host: Host, address: str, mtu: int) -> bool:
    argv = ["ping", "-q", "-c", "1", "-W", "2", "-M", "do", "-s", str(mtu - IP_ICMP_BYTES), address]
    return host.run(argv, _TIMEOUT_S).exit_code == 0


def bottleneck_bps(ends: Ends, asked_bps: int, mtu: int) -> int:
    """The rate of the bottleneck with link headers, by UDP a little above what was asked for. Raises MeasureError."""
    payload = mtu - IP_ICMP_BYTES
    offered = round(asked_bps * UDP_EXCESS * payload / (mtu + ETHERNET_HEADER_BYTES))
    received = DATAGRAMS(offered, payload, UDP_SECONDS, INTERVAL_S).received_bytes_per_s(ends)
    return round(received * 8 * (mtu + ETHERNET_HEADER_BYTES) / payload)


def _connections(count: int) -> str:
    return "1 connection" if count == 1 else f"{count} connections"


def _tests(
    name: str, pairs: Sequence[Ends], load: Load, mtu: int, attempts: Attempts, *, precise: bool
) -> list[TcpTest]:
    """One TCP test, or one in each direction at the same time, while the RTT is measured."""
    first = pairs[0]
    with contextlib.ExitStack() as stack:
        probes = stack.enter_context(
            rtt_prober.between(first.sender, first.receiver, first.receiver_address, load.rtt_ns, precise)
        )
        attempts(probes.what, lambda patience: replace(probes, patience=patience).idle())
        with probes.beside(load.duration_s) as loaded:
            works = [stack.enter_context(STREAMS.start(ends, load)) for ends in pairs]
            transfers = [work.wait()[0] for work in works]
    rtts_ns = tuple(value for value, count in loaded.known().histogram for _ in range(count))
    alone = len(pairs) == 1
    return [
        _test(f"{name if alone else f'{name}, {way}'}, {_connections(load.streams)}", way, transfer, mtu, rtts_ns)
        for way, transfer in zip([name] if alone else [OUTBOUND, INBOUND], transfers, strict=True)
    ]


def _test(name: str, direction: str, transfer: Transfer, mtu: int, rtts_ns: tuple[int, ...]) -> TcpTest:
    again = (transfer.retransmits or 0) * tcp_path.mss_bytes(mtu)
    received = transfer.received_bytes
    return TcpTest(name, direction, received, transfer.received_s, received + again, again, rtts_ns)
