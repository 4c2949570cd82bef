"""An appliance's ports on the real kernel: found by any name, shared by VLANs, fanned out, and returned exactly."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.failing_kernel import FailingKernel, go
from support.handmade_nics import cards, mac, oracle, ping_ms, sh

from emulator.control.appliance import Appliance
from emulator.errors import KernelError, RefusedError
from emulator.kernel import netns
from emulator.kernel.fake import FakeKernel
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Ports, Topology
from emulator.plan.desired_state import wanted
from emulator.plan.planner import plan

MS = 10**6
SLOW = Impairment(16 * MS)
LOSSY = Impairment(16 * MS, loss_p32=2**16)
SHAPED = Impairment(16 * MS, rate_bps=10**9)
PAIR, OTHER = Ports("nic0", "nic1"), Ports("nic2", "nic3")
TOPOLOGIES = [
    Topology("names", "hub", (Lane("near", SLOW, SLOW, ports=Ports(mac(0).upper(), "uplink")),)),
    Topology("lossy", "hub", (Lane("near", LOSSY, SLOW, ports=PAIR), Lane("far", SHAPED, SLOW, ports=OTHER))),
    Topology("crossed", "hub", (Lane("near", SHAPED, SLOW, ports=Ports("nic1", "nic2")),)),
    Topology(
        "vlans",
        "hub",
        (
            Lane("near", SLOW, SLOW, ports=Ports("nic0", "nic1", 10)),
            Lane("far", Impairment(40 * MS), SHAPED, ports=Ports("nic0", "nic1", 20)),
        ),
    ),
    Topology("vlan-lossy", "hub", (Lane("far", LOSSY, SHAPED, ports=Ports("nic0", "nic1", 20)),)),
]


@pytest.fixture(scope="module", autouse=True)
def hardware() -> Iterator[None]:
    with cards():
        yield


@pytest.fixture
def kernel() -> Iterator[FailingKernel]:
    door = FailingKernel()
    yield door
    go(door, Topology("nothing", "hub"))
    door.close()


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda t: t.name)
def test_down_gives_the_ports_back_exactly(kernel: FailingKernel, tmp_path: Path, topology: Topology) -> None:
    before = oracle()
    appliance = Appliance(kernel, tmp_path)
    assert appliance.up(topology)
    assert appliance.up(topology) == []
    assert appliance.status().drift == []
    assert oracle() != before
    appliance.down()
    for now, then in zip(oracle(), before, strict=True):
        assert now == then


def test_from_any_to_any_other_as_the_fake_promises(kernel: FailingKernel) -> None:
    """Real kernel and fake side by side: the same steps leave the same state in both."""
    rng, before, fresh = random.Random(3), oracle(), kernel.observe()
    fake = FakeKernel(dict(fresh.machine.links), dict(fresh.machine.nics), fresh.machine.nf_call)
    for topology in [*(rng.choice(TOPOLOGIES) for _ in range(10)), Topology("nothing", "hub")]:
        have, seen = kernel.observe(), fake.observe()
        assert plan(wanted(topology, have), have) == plan(wanted(topology, seen), seen)
        go(kernel, topology)
        go(fake, topology)
        assert kernel.observe() == fake.observe()
    assert oracle() == before


@pytest.mark.parametrize(("old", "new"), [(0, 1), (2, 3)], ids=["queues-to-one", "ports-to-vlans"])
def test_a_failure_at_any_step_leaves_the_ports_as_they_were(kernel: FailingKernel, old: int, new: int) -> None:
    go(kernel, TOPOLOGIES[old])
    before = kernel.observe()
    for step in range(len(plan(wanted(TOPOLOGIES[new], before), before))):
        kernel.fail_at = step
        with pytest.raises(KernelError, match="injected"):
            go(kernel, TOPOLOGIES[new])
        assert kernel.observe() == before


def test_super_frames_are_off_where_loss_is(kernel: FailingKernel, tmp_path: Path) -> None:
    appliance = Appliance(kernel, tmp_path)
    appliance.up(TOPOLOGIES[0])
    gro = "ethtool -k nic0 | grep generic-receive"
    assert sh(gro) == "generic-receive-offload: on\n"
    appliance.up(TOPOLOGIES[1])
    assert sh(gro) == "generic-receive-offload: off\n"
    sh("ethtool -K nic0 gro on")
    assert [type(step.op).__name__ for step in appliance.status().drift] == ["SetOffloads"]
    appliance.up(TOPOLOGIES[0])
    assert sh(gro) == "generic-receive-offload: on\n"


def test_the_step_to_one_queue_loses_what_is_in_flight_and_lets_none_pass_unimpaired(
    kernel: FailingKernel, tmp_path: Path
) -> None:
    appliance = Appliance(kernel, tmp_path)
    appliance.up(TOPOLOGIES[0])
    with netns.inside("host1"):
        into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        into.bind(("10.0.0.2", 7000))
        into.settimeout(1)
    with netns.inside("host0"):
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        out.connect(("10.0.0.2", 7000))
    ping_ms("host0", "10.0.0.2")  # both know each other's MAC
    stop, delays = threading.Event(), []

    def send() -> None:
        while not stop.wait(0.001):
            out.send(str(time.monotonic_ns()).encode())

    def receive() -> None:
        while True:
            try:
                delays.append(-int(into.recv(99)) + time.monotonic_ns())
            except TimeoutError:
                return

    threads = [threading.Thread(target=work) for work in (send, receive)]
    for thread in threads:
        thread.start()
    changed = replace(TOPOLOGIES[0], lanes=(replace(TOPOLOGIES[0].lanes[0], outbound=SHAPED),))
    time.sleep(0.2)
    reasons = [step.why for step in appliance.up(changed)]
    time.sleep(0.2)
    stop.set()
    for thread in threads:
        thread.join()
    out.close(), into.close()
    assert any("nic1 changes to one queue: packets in flight are lost" in why for why in reasons)
    assert len(delays) > 300
    assert 16 * MS <= min(delays) <= max(delays) < 17 * MS


def test_what_is_somebody_elses_is_refused_by_name(kernel: FailingKernel, tmp_path: Path) -> None:
    sh("ip link add link nic0 name nic0.5 type vlan id 5; ip addr add 2001:db8::1/64 dev nic1")
    sh("tc qdisc add dev nic2 clsact; ip link add mine type bridge; ip link set nic3 master mine")
    sh("ip link set nic0.5 up; ip addr add 192.0.2.1/24 dev nic0.5; ip route add default via 192.0.2.9")
    before = oracle()
    with pytest.raises(RefusedError) as error:
        Appliance(kernel, tmp_path, ["192.0.2.1"]).up(TOPOLOGIES[1])
    reported = [line.removesuffix("; free it or name another port") for line in str(error.value).splitlines()]
    assert reported == [
        "port nic0: carries the session you work in, on 192.0.2.1",
        "port nic0: carries the default route, by nic0.5",
        "port nic0: carries nic0.5",
        "port nic1: has the address 2001:db8::1",
        "port nic2: has a clsact qdisc of somebody else's",
        "port nic3: belongs to mine",
    ]
    assert oracle() == before
    sh("ip link del nic0.5; ip addr flush dev nic1 scope global; tc qdisc del dev nic2 clsact; ip link del mine")


def test_a_mark_that_nobody_of_ours_wrote_is_refused(kernel: FailingKernel) -> None:
    sh("ip link property add dev nic3 altname longhaul.x")
    with pytest.raises(RefusedError, match=r"ip link property del dev nic3 altname longhaul\.x"):
        kernel.observe()
    sh("ip link property del dev nic3 altname longhaul.x")


def test_every_queue_delays_by_the_same(kernel: FailingKernel, tmp_path: Path) -> None:
    Appliance(kernel, tmp_path).up(TOPOLOGIES[0])
    assert ping_ms("host0", "10.0.0.2") == pytest.approx(32, abs=0.005)
    delays = {}
    with netns.inside("host1"):
        into = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        into.bind(("10.0.0.2", 7000))
        into.settimeout(5)
    for port in range(8000, 8040):
        with netns.inside("host0"):
            out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            out.bind(("", port))
        with out:
            sent = time.monotonic_ns()
            out.sendto(b"x", ("10.0.0.2", 7000))
        into.recv(10)
        delays[port] = time.monotonic_ns() - sent
    into.close()
    assert all(16 * MS <= delay <= 16 * MS + 50_000 for delay in delays.values()), delays
    queues = [q for q in json.loads(sh("tc -s -j qdisc show dev nic1")) if q["kind"] == "netem"]
    assert [q["parent"] for q in sorted(queues, key=lambda q: q["handle"])] == ["1:1", "1:2", "1:3", "1:4"]
    assert all(q["packets"] > 0 for q in queues), queues
    counted = kernel.counters()["nic1"]
    assert counted.packets == sum(q["packets"] for q in queues)
    assert len({q["options"]["seed"] for q in queues}) == 4


def test_a_queue_that_somebody_took_is_put_back_alone(kernel: FailingKernel, tmp_path: Path) -> None:
    appliance = Appliance(kernel, tmp_path)
    appliance.up(TOPOLOGIES[0])
    sh("tc qdisc del dev nic1 parent 1:3")
    assert [type(step.op).__name__ for step in appliance.status().drift] == ["Together"]
    appliance.up(TOPOLOGIES[0])
    assert sh("tc qdisc show dev nic1").count("netem") == 4
    assert ping_ms("host0", "10.0.0.2") == pytest.approx(32, abs=0.005)


def test_many_lanes_share_one_pair_by_vlans(kernel: FailingKernel, tmp_path: Path) -> None:
    for host, last in (("host0", 1), ("host1", 2)):
        for tag in (10, 20, 30):
            sh(f"ip -n {host} link add link eth0 name v{tag} type vlan id {tag}")
            sh(f"ip -n {host} addr add 10.{tag}.0.{last}/24 dev v{tag}; ip -n {host} link set v{tag} up")
    Appliance(kernel, tmp_path).up(TOPOLOGIES[3])
    assert ping_ms("host0", "10.10.0.2") == pytest.approx(32, abs=0.005)
    assert ping_ms("host0", "10.20.0.2") == pytest.approx(56, abs=0.005)
    for elsewhere in ("10.30.0.2", "10.0.0.2"):
        said = sh(f"ip netns exec host0 ping -q -c 2 -W 2 {elsewhere} || true")
        assert "0 received" in said
    sh("for tag in 10 20 30; do for h in host0 host1; do ip -n $h link del v$tag; done; done")
