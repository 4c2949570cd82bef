"""One topology through netem and through the wire engine: the same certificate, loss, jitter, rate and buffer.

In the lab both have virtual time, so the engine's own part of a delay shows: what it takes to read the clock.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.lab_proofs import proved

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.experiment import rtt_certificate
from emulator.kernel import netns
from emulator.kernel.netlink import NetlinkKernel
from emulator.model.impairment import Buffer, Impairment
from emulator.model.loss_model import P32
from emulator.model.topology import Lane, Topology

MS = 10**6
PORT = 7000
TOLERANCE_NS = 10_000
PACKETS = 1500
SLACK_NS = 50_000
CHANCE = """
name: chance
hub: hub
seed: 11
lanes:
  losses: {rtt: 80ms, outbound: {loss: 8%}, inbound: {loss: 12% burst 4}}
  copies: {rtt: 80ms, outbound: {duplicate: 2%, corrupt: 3%, reorder: 1%}, inbound: {loss: 5%, ecn: yes}}
  shapes: {rtt: 200ms, outbound: {jitter: 3ms, order: free}, inbound: {jitter: 2ms}}
  tables:
    rtt: 200ms
    outbound: {jitter: 3ms, order: free, distribution: normal}
    inbound: {jitter: 2ms, order: free, distribution: pareto}
  states:
    rtt: 60ms
    outbound: {loss: 4-state 4% 30% 20% 30% 2%}
    inbound: {jitter: 1ms, order: free, distribution: paretonormal}
  thin: {rtt: 40ms, outbound: {rate: 2Gbit, buffer: 200p}, inbound: {rate: 10Mbit, buffer: 50ms}}
  cells:
    rtt: 20ms
    outbound: {rate: 8Mbit, overhead: 22B, cells: atm}
    inbound: {rate: 20Mbit, overhead: 38B}
"""
ROWS = {
    "loss", "loss in a row", "lengths of these (chi2)", "ECN marks", "duplicates", "corruption", "overtaking", "delay",
    "jitter's shape (KS)", "rate", "buffer",
}  # fmt: skip


@pytest.fixture(params=["netem", "wire"])
def datapath(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@contextmanager
def up(lane: Lane, datapath: str, folder: Path) -> Iterator[tuple[Appliance, Topology]]:
    kernel = NetlinkKernel()
    appliance = Appliance(kernel, folder)
    topology = Topology("pair", "hub", (lane,), datapath=datapath)
    appliance.up(topology)
    try:
        assert appliance.status().datapath == datapath
        yield appliance, topology
    finally:
        appliance.down()
        kernel.close()


def arrivals(topology: Topology, count: int, every_s: float, size: int) -> list[tuple[int, int, int]]:
    """(number, sent, received) in ns of those of `count` datagrams from the hub that arrive at the site."""
    with netns.inside("lh-far"):
        into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with netns.inside("lh-hub"):
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with into, out:
        into.bind(("", PORT))
        into.settimeout(1)
        into.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
        into.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS: when the kernel had it
        out.connect((str(topology.address("far").ip), PORT))
        # Let the kernel finish with links that have just come up: until then it drops what is sent.
        time.sleep(1)
        out.send(b"arp")
        into.recv(100)
        sent = []
        for number in range(count):
            sent.append(time.time_ns())
            out.send(str(number).encode().ljust(size))
            if every_s:
                time.sleep(every_s)
        found = []
        try:
            while len(found) < count:
                data, extra, *_ = into.recvmsg(2000, 100)
                number = int(data)
                seconds, nanoseconds = (int.from_bytes(extra[0][2][n : n + 8], "little") for n in (0, 8))
                found.append((number, sent[number], seconds * 10**9 + nanoseconds))
        except TimeoutError:
            return found
    return found


def test_both_earn_the_same_certificate(tmp_path: Path) -> None:
    lane = Lane("far", Impairment(180 * MS, rate_bps=10**8), Impairment(166 * MS, rate_bps=10**8))
    certificates = []
    for name in ("netem", "wire"):
        with up(lane, name, tmp_path) as (appliance, topology):
            before = appliance.status()
            pairs = list(rtt_certificate.measure(topology, 5, TOLERANCE_NS, at_once=1))
            certificates.append(rtt_certificate.certificate(before, appliance.status(), 5, TOLERANCE_NS, pairs))
    netem, wire = (one.to_json() for one in certificates)
    assert (netem["passed"], wire["passed"]) == (True, True), (netem, wire)
    assert (netem["datapath"], wire["datapath"]) == ("netem", "wire")
    assert netem["installed"] == wire["installed"]
    assert [one["direction"] for one in wire["lateness"]] == ["outbound", "inbound"]
    assert (netem["lateness"], all(one["frames"] >= 5 for one in wire["lateness"])) == ([], True)


def test_both_lose_as_often_as_asked(datapath: str, tmp_path: Path) -> None:
    count, share = 1000, 0.05
    lane = Lane("far", Impairment(5 * MS, loss_p32=int(P32 * share)))
    with up(lane, datapath, tmp_path) as (appliance, topology):
        lost = count - len(arrivals(topology, count, 0.0002, 100))
        counted = appliance.status().lane("far").outbound.counters.drops_loss
    # Five standard deviations of a binomial distribution.
    assert abs(lost - count * share) < 5 * (count * share * (1 - share)) ** 0.5
    assert counted == (lost if datapath == "wire" else None)


def test_both_do_what_chance_is_asked_to_do(datapath: str, tmp_path: Path) -> None:
    """The same rows, each with its interval of 99.9 %, by the same numbered packets."""
    topology = replace(loader.loads(CHANCE), datapath=datapath)
    found = proved(topology, tmp_path, PACKETS, SLACK_NS)
    assert [one for one in found if not one.row.passed] == []
    assert {one.row.what for one in found} == ROWS


def test_both_have_the_same_bottleneck_and_buffer(datapath: str, tmp_path: Path) -> None:
    # A byte a microsecond: a datagram of 1000 bytes takes 1042 us; 19 of them fit into the buffer, two into the burst.
    lane = Lane("far", Impairment(2 * MS, rate_bps=8_000_000, buffer=Buffer(bytes=20_000)))
    with up(lane, datapath, tmp_path) as (appliance, topology):
        found = arrivals(topology, 60, 0, 1000)
        dropped = appliance.status().lane("far").outbound.counters.drops_buffer
    times = [received for _, _, received in found]
    gaps = [b - a for a, b in pairwise(times[3:])]
    assert all(abs(gap - 1_042_000) < 50_000 for gap in gaps), gaps
    assert [number for number, _, _ in found] == list(range(len(found)))
    assert 20 <= len(found) <= 22
    assert dropped == 60 - len(found)
