"""The real door: what the fake promises, the real kernel keeps; `ip -j` and `tc -j` are the witnesses."""

from __future__ import annotations

import json
import random
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.failing_kernel import FailingKernel, go
from support.folders import TOPOLOGIES
from support.handmade_nics import plain, sh

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.control.reconcile import apply
from emulator.errors import KernelError, RefusedError
from emulator.model.flow_match import Match
from emulator.model.impairment import AQM_SINCE, AQMS, Buffer, Impairment
from emulator.model.loss_model import P32, FourState, GilbertElliott
from emulator.model.topology import Flow, Lane, Ports, Topology
from emulator.plan.desired_state import nothing, wanted
from emulator.plan.planner import plan

FAT = Impairment(delay_ns=125_000_001, rate_bps=10_000_000_000)
LOSSY = Impairment(delay_ns=300_000_000, jitter_ns=5, loss_p32=42, rate_bps=50_000_000, buffer=Buffer(packets=64))
EVERYTHING = Impairment(
    100_000_000, 5_000_000, 0, 20_000_000, Buffer(packets=64), "normal", False, GilbertElliott(P32 // 100, P32 // 5),
    1, 2, 0, 3, True, 22, True, "codel", 5,
)  # fmt: skip
OTHERWISE = Impairment(
    90_000_000, 7_000_000, 0, 10**9, Buffer(bytes=10**6), (-8192, 0, 16384), True, FourState(4, 5, 6, 7, 8),
    0, 0, 1000, 0, True, 0, False, "red",
)  # fmt: skip
WALK = [
    Topology("empty", "hub"),
    Topology("one", "hub", (Lane("japan", FAT, FAT),)),
    Topology("one-lossy", "hub", (Lane("japan", FAT, LOSSY),)),
    Topology("one-unshaped", "hub", (Lane("japan", Impairment(7), Impairment(9)),)),
    Topology("jumbo", "hub", (Lane("japan", FAT, FAT, mtu=9000), Lane("england", LOSSY, FAT, mtu=9000))),
    Topology("real", "hub", (Lane("japan", FAT, FAT, ports=Ports("nic0", "nic1")),)),
    Topology("crossed", "hub", (Lane("japan", FAT, LOSSY, ports=Ports("nic1", "nic2")), Lane("california", FAT))),
    Topology("all", "hub", (Lane("japan", EVERYTHING, OTHERWISE),)),
    Topology("all-else", "hub", (Lane("japan", replace(OTHERWISE, aqm="fq-codel"), EVERYTHING),)),
    Topology("fast", "hub", (Lane("japan", Impairment(1000, rate_bps=100_000_000_000), FAT),)),
]


NOISE = re.compile("ifindex|.*address|link_index|carrier_changes|.*_timer|.*_id|designated_.*|root_.*")
"""What differs each time an interface is made: numbers, MAC addresses, timers."""


def oracle() -> Any:
    """All that iproute2 sees, less what merely counts or differs from boot to boot."""
    time.sleep(2)  # of virtual time: link watch tells of a carrier up to a second late
    links = plain(json.loads(sh("ip -d -j link show")), NOISE)
    files = sh("sysctl -a 2>/dev/null | grep -E 'bridge-nf-call|disable_ipv6|tcp_mem' || true")
    # The bottleneck's own queue is hidden; the same one that came back after another kind is not.
    texts = (
        sh("tc qdisc show | grep -v 'qdisc bfifo'"),
        sh("ip -br addr"),
        sh("ls /run/netns 2>/dev/null || true"),
        files,
    )
    return [sorted(map(str, links)), *(sorted(re.sub("@if[0-9]+", "", text).splitlines()) for text in texts)]


@pytest.fixture
def kernel() -> Iterator[FailingKernel]:
    for name in ("nic0", "nic1", "nic2"):
        sh(f"ip link add {name} type dummy; ip link set {name} up")
    door = FailingKernel()
    yield door
    have = door.observe()
    apply(door, nothing(have), have)
    for name in ("nic0", "nic1", "nic2"):
        sh(f"ip link del {name}")
    door.close()


def test_from_any_topology_to_any_other(kernel: FailingKernel) -> None:
    rng = random.Random(7)
    for _ in range(16):
        go(kernel, rng.choice(WALK))


def test_a_look_at_some_ports_sees_what_the_look_at_all_sees(kernel: FailingKernel) -> None:
    # Of virtual lanes alone, and without flows: a real port's offloads, and bands, take a look at everything.
    names = frozenset({"lhs-japan", "lhh-japan", "lhh-california", "eth7"})
    assert kernel.ports_of(names).ports == {}
    for topology in WALK:
        go(kernel, topology)
        ours = kernel.observe().ports
        plain = [name for name in names & ours.keys() if not ((egress := ours[name].egress) and egress.bands)]
        expected = {name: replace(ours[name], offloads=None) for name in plain}
        assert kernel.ports_of(names).ports == expected


def test_every_kind_of_queue_to_every_other(kernel: FailingKernel) -> None:
    """Live, on one lane: what netem, tbf and the queue in it are told is what they give back."""
    for impairment in (FAT, EVERYTHING, OTHERWISE, EVERYTHING, replace(OTHERWISE, aqm="fq-codel"), FAT, LOSSY):
        go(kernel, Topology("t", "hub", (Lane("japan", impairment, FAT),)))


def test_every_queue_management_changes_live(kernel: FailingKernel) -> None:
    """Into it from another one, then another depth and RTT under it, on a lane and on a flow of it."""
    here = kernel.observe().machine.kernel
    for aqm in (name for name in AQMS if AQM_SINCE.get(name, here) <= here):
        for depth, delay_ns in ((100, 5_000_000), (1000, 300_000_000)):
            way = Impairment(delay_ns, rate_bps=10**9, buffer=Buffer(packets=depth), aqm=aqm)
            flow = Flow("voice", Match(dscp=46), way, way)
            go(kernel, Topology("t", "hub", (Lane("japan", way, FAT), Lane("england", way, FAT, flows=(flow,)))))


@pytest.mark.parametrize("new", [WALK[2], WALK[6], WALK[7]], ids=lambda t: t.name)
def test_a_failure_at_any_step_leaves_the_kernel_as_it_was(kernel: FailingKernel, new: Topology) -> None:
    go(kernel, WALK[1])
    before, seen = kernel.observe(), oracle()
    for step in range(len(plan(wanted(new, before), before))):
        kernel.fail_at = step
        with pytest.raises(KernelError, match="injected"):
            go(kernel, new)
        assert kernel.observe() == before
    for now, then in zip(oracle(), seen, strict=True):
        assert set(now) ^ set(then) == set()


def test_killed_at_any_step_the_next_up_converges(kernel: FailingKernel) -> None:
    """After each number of steps nothing of ours is left but what the kernel holds, as after kill -9."""
    fresh = kernel.observe()
    for step in range(0, len(plan(wanted(WALK[6], fresh), fresh)), 3):
        have = kernel.observe()
        for done in plan(wanted(WALK[6], have), have)[:step]:
            kernel.apply(done.op)
        go(kernel, WALK[6])
        have = kernel.observe()
        apply(kernel, nothing(have), have)


def test_down_leaves_the_machine_as_it_was(kernel: FailingKernel, tmp_path: Path) -> None:
    appliance, before = Appliance(kernel, tmp_path), oracle()
    for topology in WALK:
        appliance.up(topology)
        appliance.down()
        assert oracle() == before


def test_tc_sees_what_was_asked(kernel: FailingKernel, tmp_path: Path) -> None:
    Appliance(kernel, tmp_path).up(WALK[2])
    netem, tbf = json.loads(sh("tc -j qdisc show dev lhh-japan"))
    assert (netem["kind"], netem["options"]["delay"]["delay"]) == ("netem", pytest.approx(0.3))
    assert netem["options"]["limit"] == kernel.observe().ports["lhh-japan"].egress.netem.limit  # type: ignore[union-attr]
    assert (tbf["kind"], tbf["options"]["rate"], tbf["options"]["lat"] > 0) == ("tbf", 6_250_000, True)
    port = next(link for link in json.loads(sh("ip -d -j link show")) if link["ifname"] == "lhh-japan")
    slave = port["linkinfo"]["info_slave_data"]
    assert (slave["learning"], int(slave["group_fwd_mask"], 16), port["inet6_addr_gen_mode"]) == (False, 0xFFFD, "none")


def test_up_twice_changes_nothing_and_drift_is_seen_and_repaired(kernel: FailingKernel, tmp_path: Path) -> None:
    appliance = Appliance(kernel, tmp_path)
    star = loader.load(TOPOLOGIES / "new-york.yaml")
    assert appliance.up(star) and appliance.up(star) == []
    sh("tc qdisc del dev lhs-japan root")
    assert [type(step.op).__name__ for step in appliance.status().drift] == ["SetNetem", "SetShaper"]
    appliance.up(star)
    assert appliance.status().drift == []


def test_what_is_up_forwards_at_once(kernel: FailingKernel, tmp_path: Path) -> None:
    """Not after link watch, which may be a second late: the first packet of all would be lost."""
    star = loader.load(TOPOLOGIES / "new-york.yaml")
    Appliance(kernel, tmp_path).up(star)
    assert [port["state"] for port in json.loads(sh("bridge -j link show"))] == 10 * ["forwarding"]
    hosts = [json.loads(sh(f"ip -n lh-{name} -j link show eth0"))[0]["operstate"] for name in (star.hub, *star.sites)]
    assert set(hosts) == {"UP"}


def test_what_is_somebody_elses_is_refused_by_name(kernel: FailingKernel, tmp_path: Path) -> None:
    sh("ip addr add 192.0.2.1/24 dev nic0; tc qdisc add dev nic1 root netem delay 1ms")
    before = oracle()
    with pytest.raises(RefusedError) as error:
        Appliance(kernel, tmp_path).up(replace(WALK[5]))
    assert "nic0: has the address 192.0.2.1" in str(error.value)
    assert "nic1: has a netem qdisc of somebody else's" in str(error.value)
    assert oracle() == before


@pytest.mark.parametrize("name", sorted(path.name for path in TOPOLOGIES.glob("*.yaml")))
def test_every_topology_comes_up(kernel: FailingKernel, tmp_path: Path, name: str) -> None:
    topology = loader.load(TOPOLOGIES / name)
    Appliance(kernel, tmp_path).up(topology)
    first, last = topology.sites[0], topology.sites[-1]
    target = str(topology.address(last).ip)
    said = sh(f"ip netns exec lh-{topology.hub} ping -q -c 2 -i 2 {target}")
    lane = topology.lane(last)
    slack_ms = 0.01 + (lane.outbound.jitter_ns + lane.inbound.jitter_ns) / 1e6
    assert abs(float(said.split(" = ")[1].split("/")[0]) - lane.rtt_ns / 1e6) < slack_ms, said
    assert first in topology.sites


def test_netem_is_found_with_net_admin_alone_and_nothing_is_left() -> None:
    """As in a container, which may make no namespace; a queue of somebody else's on the loopback leaves it open."""
    code = "from emulator.kernel import capabilities; print(capabilities.try_netem())"
    asked = f"setpriv --inh-caps=-all --bounding-set=-all,+net_admin {sys.executable} -c '{code}'"
    before = sh("tc qdisc show; ip link")
    assert sh(asked) == "True\n"
    assert sh("tc qdisc show; ip link") == before
    sh("tc qdisc add dev lo root handle 7: pfifo")
    try:
        assert sh(asked) == "None\n"
        assert sh(f"{sys.executable} -c '{code}'") == "True\n", "root tries in a namespace"
        assert "pfifo 7:" in sh("tc qdisc show dev lo")
    finally:
        sh("tc qdisc del dev lo root")
