"""The procedure of RFC 6349 over a lane that is up: path MTU, baseline RTT, bottleneck, then TCP each way and both."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

from emulator.analysis import tcp_path
from emulator.analysis.rfc6349_metrics import Survey, Transfer
from emulator.errors import MeasureError
from emulator.hosts.host import Host
from emulator.hosts.tools import iperf3, ping, rtt_prober
from emulator.hosts.tools.process import Running
from emulator.model.topology import LEAST_MTU, Lane, Topology
from emulator.plan.netem_lowering import ETHERNET_HEADER_BYTES

IP_ICMP_BYTES = 28
ECHOES = 10
UDP_SECONDS = 2
UDP_EXCESS = 1.05
"""Offered, of the rate asked for: enough to keep the bottleneck busy, too little to fill its queue."""
INTERVAL_S = 0.1
_TIMEOUT_S = 60.0
_LISTEN_S = 10.0
_POLL_S = 0.001

Say = Callable[[str], None]


def run(topology: Topology, lane: Lane, ends: tuple[Host, Host], duration_s: int, streams: int, say: Say) -> Survey:
    """Go through the whole procedure between `ends`, hub and site; `say` hears of every step. Raises MeasureError."""
    hub, site = ends
    addresses = {host.name: str(topology.address(host.name).ip) for host in ends}
    say("path MTU")
    mtu = path_mtu(hub, addresses[site.name])
    say("baseline RTT")
    precise = hub.run(ping.precise_argv(), _TIMEOUT_S).exit_code == 0
    echoes = hub.run(ping.argv(addresses[site.name], ECHOES, precise), ping.longest_s(ECHOES, lane.rtt_ns))
    baseline_ns = min(ping.parse(echoes.stdout).rtts_ns)
    say("bottleneck bandwidth")
    rate_bps = bottleneck_bps(hub, site, addresses[site.name], lane.outbound.rate_bps or lane.line_rate_bps, mtu)
    ways = (("outbound", [(hub, site)]), ("inbound", [(site, hub)]), ("both ways", [(hub, site), (site, hub)]))
    transfers: list[Transfer] = []
    for name, pairs in ways:
        for count in (1, streams):
            say(f"TCP {name}, {_connections(count)}")
            transfers += _transfers(name, pairs, addresses, lane.rtt_ns, mtu, duration_s, count, rate_bps / 8, precise)
    achievable_bps = round(tcp_path.line_bytes_per_s(rate_bps, mtu) * 8)
    return Survey(lane.name, mtu, baseline_ns, rate_bps, achievable_bps, tuple(transfers))


def path_mtu(host: Host, address: str) -> int:
    """The largest packet that comes back unbroken (RFC 4821's search, with echoes). Raises MeasureError."""
    if not _passes(host, address, LEAST_MTU):
        raise MeasureError(f"{address} does not answer packets of {LEAST_MTU} bytes: is the topology up?")
    low, high = LEAST_MTU, 65535
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _passes(host, address, middle) else (low, middle - 1)
    return low


def _passes(host: Host, address: str, mtu: int) -> bool:
    argv = ["ping", "-q", "-c", "1", "-W", "2", "-M", "do", "-s", str(mtu - IP_ICMP_BYTES), address]
    return host.run(argv, _TIMEOUT_S).exit_code == 0


def bottleneck_bps(sender: Host, receiver: Host, address: str, asked_bps: int, mtu: int) -> int:
    """The rate of the bottleneck with link headers, by UDP a little above what was asked for. Raises MeasureError."""
    payload = mtu - IP_ICMP_BYTES
    offered = round(asked_bps * UDP_EXCESS * payload / (mtu + ETHERNET_HEADER_BYTES))
    argv = iperf3.udp_argv(address, UDP_SECONDS, offered, payload, INTERVAL_S)
    with server(receiver), sender.start(argv) as client:
        text = client.wait(UDP_SECONDS + _TIMEOUT_S).stdout
    # The median: the first interval waits for the first packet, the last ones may find the queue empty.
    received = statistics.median(interval.bytes_per_s for interval in iperf3.received_intervals(text))
    return round(received * 8 * (mtu + ETHERNET_HEADER_BYTES) / payload)


@contextlib.contextmanager
def server(host: Host) -> Iterator[Running]:
    """iperf3's at that host for one test, ready when the block begins. Raises MeasureError."""
    with host.start(iperf3.server_argv(INTERVAL_S)) as one:
        deadline_s = time.monotonic() + _LISTEN_S
        while not host.is_listening(iperf3.PORT):
            if not one.running() or time.monotonic() > deadline_s:
                raise MeasureError(f"iperf3 -s in {host.name} does not listen on port {iperf3.PORT}")
            time.sleep(_POLL_S)
        yield one


def _connections(count: int) -> str:
    return "1 connection" if count == 1 else f"{count} connections"


def _transfers(
    name: str,
    pairs: Sequence[tuple[Host, Host]],
    addresses: dict[str, str],
    rtt_ns: int,
    mtu: int,
    duration_s: int,
    streams: int,
    expected_bytes_per_s: float,
    precise: bool,
) -> list[Transfer]:
    """One test of TCP, or one each way at the same time, with the RTT watched beside it."""
    first_sender, first_receiver = pairs[0]
    with contextlib.ExitStack() as stack:
        probes = stack.enter_context(
            rtt_prober.between(first_sender, first_receiver, addresses[first_receiver.name], rtt_ns, precise)
        )
        probes.idle()
        for _, receiver in pairs:
            stack.enter_context(server(receiver))
        clients: list[Running] = []
        with probes.beside(duration_s) as loaded:
            for sender, receiver in pairs:
                argv = iperf3.client_argv(
                    addresses[receiver.name], duration_s, streams, None, expected_bytes_per_s, INTERVAL_S
                )
                clients.append(stack.enter_context(sender.start(argv)))
            runs = [iperf3.parse(client.wait(iperf3.longest_s(duration_s, rtt_ns)).stdout) for client in clients]
    counted = _connections(streams)
    rtts_ns = tuple(value for value, count in loaded[0].histogram for _ in range(count))
    labels = [name] if len(pairs) == 1 else [f"{name}, outbound", f"{name}, inbound"]
    return [
        Transfer(
            f"{label}, {counted}", run.received_bytes, run.received_s, run.received_bytes
            + run.retransmits * tcp_path.mss_bytes(mtu), run.retransmits * tcp_path.mss_bytes(mtu), rtts_ns,
        )
        for label, run in zip(labels, runs, strict=True)
    ]  # fmt: skip
