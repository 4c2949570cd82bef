"""Flows of a lane through netem and the wire engine: each has its own impairments, and all other packets the lane's."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from msgspec.structs import replace

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.experiment import rtt_certificate
from emulator.experiment.impairment_test import prove
from emulator.hosts.tools import process
from emulator.kernel import netns
from emulator.model.flow_match import Filter, Match, filters
from emulator.model.impairment import Impairment
from emulator.model.topology import Flow, Topology
from emulator.plan import netem_lowering

MS = 10**6
SO_TIMESTAMPNS = 35
SLACK_NS = 50_000
"""The engine reads the clock, which takes time in the lab; netem takes less than 10 us."""

COUNT = 400
EF = 46 << 2
FLOWS = """
name: flows
hub: hub
seed: 3
lanes:
  far:
    rtt: 20ms
    flows:
      bulk: {match: {protocol: udp, site_port: 5000}, rtt: 100ms}
      lossy: {match: {port: 6000}, loss: 30%}
      voice: {match: {dscp: ef, protocol: udp}, outbound: {delay: 30ms}, inbound: {delay: 40ms, rate: 1Mbit}}
      peer: {match: {site: 10.77.0.2, protocol: icmp}, rtt: 60ms}
  near: {rtt: 2ms}
"""


@contextmanager
def datagrams(topology: Topology, sender: str, receiver: str, port: int, source_port: int, tos: int) -> Iterator[
    tuple[socket.socket, socket.socket]
]:  # fmt: skip
    """A socket at each end."""
    with ExitStack() as stack:
        ends = []
        for host, bound in ((sender, source_port), (receiver, port)):
            with netns.inside(f"lh-{host}"):
                one = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                one.bind(("", bound))
                ends.append(one)
        out, into = ends
        out.connect((str(topology.address(receiver).ip), port))
        out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        into.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        into.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
        into.setblocking(False)
        yield out, into


def delays(
    topology: Topology, way: str, port: int, source_port: int = 4000, tos: int = 0, count: int = COUNT
) -> list[int]:
    """What datagrams took from one host to the other ("hub far"), in ns; those that were lost are missing."""
    found = []
    with datagrams(topology, *way.split(), port, source_port, tos) as (out, into):
        for _ in range(count):
            out.send(struct.pack(">Q", time.time_ns()))
            time.sleep(0.001)
        time.sleep(1)
        while True:
            try:
                data, ancillary, _, _ = into.recvmsg(100, 64)
            except BlockingIOError:
                return found
            seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2])
            found.append(seconds * 10**9 + nanoseconds - struct.unpack(">Q", data)[0])


def all_near(found: list[int], asked_ms: float) -> bool:
    """Whether none was lost and each took what was asked for."""
    return len(found) == COUNT and all(0 <= one - asked_ms * MS < SLACK_NS for one in found)


@pytest.fixture(params=["netem", "wire"])
def datapath(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def asked(text: str, datapath: str) -> Topology:
    """The topology of this text through this datapath."""
    return replace(loader.loads(text), datapath=datapath)


@pytest.fixture
def up(appliance: Appliance, datapath: str) -> Topology:
    """The flows' topology, with the hosts' neighbours known."""
    appliance.up(topology := asked(FLOWS, datapath))
    for way in ("hub far", "far hub", "hub near"):
        delays(topology, way, 9, count=2)
    return topology


def test_each_flow_has_its_own_and_the_rest_the_lanes(up: Topology, appliance: Appliance, datapath: str) -> None:
    assert all_near(delays(up, "hub far", 7000), 10)
    assert all_near(delays(up, "far hub", 7000), 10)
    assert all_near(delays(up, "hub far", 5000), 50)
    assert all_near(delays(up, "far hub", 4000, source_port=5000), 50), "the same flow on its way back"
    assert all_near(delays(up, "far hub", 5000), 10), "the port is the site's, not the hub's"
    assert all_near(delays(up, "hub far", 7000, tos=EF), 30)
    assert all_near(delays(up, "hub near", 5000), 1), "another lane has no flows"
    lossy = [delays(up, "hub far", 6000), delays(up, "far hub", 4000, source_port=6000)]
    for kept in lossy:
        assert all(0 <= one - 10 * MS < SLACK_NS for one in kept)
        assert 0.2 < 1 - len(kept) / COUNT < 0.4
    lane = appliance.status().lanes[0]
    assert [one.counters.packets for one in lane.outbound.flows] == [COUNT, len(lossy[0]), COUNT, 0]
    assert [one.shaper is not None for one in lane.inbound.flows] == [False, False, True, False]
    dropped = lane.outbound.flows[1].counters
    if datapath == "netem":
        assert dropped.drops_limit is None, "with loss, netem's one counter cannot tell"
    else:
        assert (dropped.drops_limit, dropped.drops_loss) == (0, COUNT - len(lossy[0]))
    assert lane.outbound.counters.packets >= COUNT


def test_ping_is_known_by_protocol_and_address(up: Topology) -> None:
    with netns.inside("lh-hub"):
        said = process.run(["ping", "-c", "2", "-i", "0.2", "10.77.0.2"], 10).checked().stdout
    assert "min/avg/max/mdev = 60.0" in said
    pairs = list(rtt_certificate.measure(up, 3, SLACK_NS, at_once=1))
    assert [(pair.asked_ns // MS, pair.passed) for pair in pairs] == [(60, True), (2, True), (62, True)]


def test_a_flow_changes_without_a_gap_and_without_its_neighbours(up: Topology, appliance: Appliance) -> None:
    changed = asked(FLOWS.replace("rtt: 100ms", "rtt: 140ms").replace("loss: 30%", "loss: 50%"), up.datapath)
    with datagrams(up, "hub", "far", 5000, 4000, 0) as (out, into), datagrams(up, "hub", "far", 7000, 4001, 0) as rest:
        for number in range(300):
            if number == 150:
                assert len(appliance.up(changed)) == 1, "one message"
            for one in (out, rest[0]):
                one.send(struct.pack(">Q", number))
            time.sleep(0.001)
        time.sleep(1)
        assert received(into) == received(rest[1]) == list(range(300))
    assert appliance.status().as_asked


def test_a_lane_in_use_gets_flows_and_loses_them(up: Topology, appliance: Appliance) -> None:
    near = replace(up.lane("near"), flows=(Flow("slow", Match(port=5000), Impairment(20 * MS), Impairment(20 * MS)),))
    appliance.set_lane(near)
    assert appliance.status().as_asked
    assert all_near(delays(up, "hub near", 5000), 20)
    appliance.set_lane(replace(near, flows=()))
    assert appliance.status().as_asked
    assert all_near(delays(up, "hub near", 5000), 1)


def received(into: socket.socket) -> list[int]:
    found = []
    while True:
        try:
            found.append(struct.unpack(">Q", into.recv(100))[0])
        except BlockingIOError:
            return found


@pytest.mark.parametrize("datapath", ["netem"])
def test_other_flows_are_put_in_place_and_drift_is_seen(up: Topology, appliance: Appliance) -> None:
    tagged = loader.loads(
        "{name: flows, hub: hub, lanes: {far: {rtt: 20ms, flows: {v: {match: {vlan: 7, dscp: 3}, loss: 1%},"
        " six: {match: {hub: 'fd00::/64', hub_port: 80}, rtt: 100ms}, t: {match: {vlan: 9}}}}, near: {rtt: 2ms}}}"
    )
    appliance.up(tagged)
    assert appliance.status().as_asked
    shown = process.run(["tc", "filter", "show", "dev", "lhs-far"], 10).checked().stdout
    for word in ("vlan_id 7", "vlan_ethtype ip", "ip_tos 12/0xfc", "src_ip fd00::/64", "src_port 80", "vlan_id 9"):
        assert word in shown
    process.run(["tc", "filter", "del", "dev", "lhs-far", "prio", "1"], 10).checked()
    assert not appliance.status().as_asked
    assert appliance.repair(restore=True).repaired
    assert appliance.status().as_asked
    appliance.up(up)
    plain = loader.loads("{name: flows, hub: hub, lanes: {far: {rtt: 20ms}, near: {rtt: 2ms}}}")
    appliance.up(plain)
    assert appliance.status().as_asked
    assert all_near(delays(plain, "hub far", 5000), 10)


EVERY_MATCH = """
name: every
hub: hub
seed: 5
lanes:
  far:
    rtt: 20ms
    flows:
      tagged: {match: {vlan: 7}, rtt: 24ms, loss: 5%}
      voice: {match: {dscp: ef, vlan: 9}, rtt: 28ms, outbound: {loss: 10% burst 4}}
      six: {match: {hub: 'fd00::/64', hub_port: 80}, rtt: 32ms}
      bulk: {match: {site: 10.77.0.2, site_port: 873}, rtt: 36ms, inbound: {rate: 5Mbit, buffer: 20p}}
      both: {match: {port: 53, protocol: udp}, rtt: 40ms, corrupt: 5%}
      near: {match: {hub: 10.77.0.0/25, protocol: icmp}, rtt: 44ms}
      marked: {match: {dscp: af41}, rtt: 48ms, loss: 8%, ecn: yes}
      wider: {match: {protocol: tcp}, rtt: 52ms, outbound: {jitter: 2ms, order: free}}
"""


def mistaken(wrong: str, match: Match, outbound: bool) -> tuple[Filter, ...]:
    """The filters of a match with one thing wrong."""
    if wrong == "directions":
        return filters(match, outbound=not outbound)
    if wrong == "one end of a port":
        return filters(match, outbound=outbound)[:1]
    if wrong == "protocols" and match.protocol:
        return filters(replace(match, protocol={1: 2, 6: 17, 17: 6}[match.protocol]), outbound=outbound)
    if wrong == "code points" and match.dscp:
        return filters(replace(match, dscp=match.dscp + 1), outbound=outbound)
    if wrong == "tags" and match.vlan:
        return filters(replace(match, vlan=match.vlan + 1), outbound=outbound)
    return filters(match, outbound=outbound)


MISTAKES: dict[str, set[str]] = {
    "nothing": set(),
    "directions": {"six", "bulk", "near"},
    "one end of a port": {"both"},
    "code points": {"voice", "marked"},
    "tags": {"tagged", "voice"},
    "protocols": {"both", "near", "wider"},
}
"""What is wrong with the filters, and the flows at which that shows."""


# That a mistake shows is no matter of the datapath; the engine shows that it has none.
@pytest.mark.parametrize(
    ("datapath", "wrong"), [*(("netem", wrong) for wrong in MISTAKES), ("wire", "nothing")], indirect=["datapath"]
)
def test_verify_sees_whether_each_packet_takes_its_flows_way(
    appliance: Appliance, monkeypatch: pytest.MonkeyPatch, wrong: str, datapath: str
) -> None:
    """What matches is impaired as its flow says and the rest as the lane; what a wrong filter misses is not."""
    monkeypatch.setattr(netem_lowering, "filters", lambda match, *, outbound: mistaken(wrong, match, outbound))
    appliance.up(topology := asked(EVERY_MATCH, datapath))
    found = prove(topology, 1_000, SLACK_NS)
    assert {proof.flow for proof in found} == {None, *(flow.name for flow in topology.lane("far").flows)}
    failed = {proof.flow: proof for proof in found if not proof.row.passed}
    assert failed.keys() == MISTAKES[wrong], failed
