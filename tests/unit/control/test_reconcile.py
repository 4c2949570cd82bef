"""From any topology to any other, whatever fails on the way. On the fake kernel, with real interfaces in the mix."""

from __future__ import annotations

import dataclasses
import random

import pytest
from msgspec.structs import replace
from support.fault_injection import failed, go, killed

from emulator.control.reconcile import apply
from emulator.kernel.fake import FakeKernel
from emulator.model.impairment import Buffer, Impairment
from emulator.model.topology import Lane, Ports, Topology
from emulator.plan.desired_state import nothing, wanted
from emulator.plan.planner import plan
from emulator.plan.state import MERGING, Link, Nic

FAT = Impairment(delay_ns=125_000_001, rate_bps=10_000_000_000)
LOSSY = Impairment(delay_ns=300_000_000, jitter_ns=5, loss_p32=42, rate_bps=50_000_000, buffer=Buffer(packets=64))
REAL = Ports("nic0", "nic1")
MAC = "02:00:00:00:00:00"


def vlan(tag: int, hub: str = "nic0") -> Ports:
    return Ports(hub, "nic1", tag)


TOPOLOGIES = [
    Topology("empty", "hub"),
    Topology("one", "hub", (Lane("japan", FAT, FAT),)),
    Topology("one-lossy", "hub", (Lane("japan", FAT, LOSSY),)),
    Topology("one-unshaped", "hub", (Lane("japan", Impairment(7), Impairment(9)),)),
    Topology("jumbo", "hub", (Lane("japan", FAT, FAT, mtu=9000), Lane("england", LOSSY, FAT, mtu=9000))),
    Topology("real", "hub", (Lane("japan", FAT, FAT, ports=REAL),)),
    Topology("crossed", "hub", (Lane("japan", FAT, LOSSY, ports=Ports("nic1", "nic2")), Lane("california", FAT))),
    Topology("away", "hub", (Lane("england", FAT, LOSSY, ports=REAL),)),
    Topology("other-hub", "pivot", (Lane("england", LOSSY, LOSSY), Lane("japan", FAT, FAT, ports=REAL))),
    Topology("queues", "hub", (Lane("japan", Impairment(7), Impairment(9, loss_p32=5), ports=REAL),)),
    Topology("queues-both", "hub", (Lane("japan", Impairment(8), Impairment(9), ports=Ports(MAC, "nic2")),)),
    Topology("vlans", "hub", (Lane("japan", FAT, FAT, ports=vlan(10)), Lane("england", FAT, FAT, ports=vlan(20)))),
    Topology("vlan-lossy", "hub", (Lane("japan", FAT, LOSSY, ports=vlan(10, MAC)), Lane("peru", FAT))),
    Topology("vlan-moved", "hub", (Lane("japan", FAT, FAT, ports=vlan(11)), Lane("peru", FAT, ports=vlan(10)))),
]


def machine() -> FakeKernel:
    links = {f"nic{n}": Link(mtu=1500, up=n == 1, ipv6=n != 2, addrgen=0) for n in range(3)}
    links["nic2"] = replace(links["nic2"], arp=False)
    nics = {"nic0": Nic(mac=MAC, tx_queues=4, offloads=frozenset({"rx-gro"})), "nic1": Nic(offloads=frozenset(MERGING))}
    return FakeKernel(links, nics, nf_call=(1, 1, 0))


def test_from_any_topology_to_any_other() -> None:
    kernel, rng = machine(), random.Random(7)
    for _ in range(300):
        topology = rng.choice(TOPOLOGIES)
        state = go(kernel, topology)
        assert state == wanted(topology, state)
        assert plan(wanted(topology, state), state) == []


@pytest.mark.parametrize("old", TOPOLOGIES, ids=lambda t: t.name)
@pytest.mark.parametrize("new", TOPOLOGIES, ids=lambda t: t.name)
def test_a_failure_at_any_step_leaves_the_kernel_as_it_was(old: Topology, new: Topology) -> None:
    kernel = machine()
    before = go(kernel, old)
    for failing in failed(kernel, new):
        assert failing.observe() == before
        assert (failing.links, failing.nics, failing.nf_call) == (kernel.links, kernel.nics, kernel.nf_call)


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda t: t.name)
def test_killed_at_any_step_the_next_up_converges(topology: Topology) -> None:
    for kernel in killed(machine(), topology):
        state = go(kernel, topology)
        assert state == wanted(topology, state)


@pytest.mark.parametrize("old", TOPOLOGIES, ids=lambda t: t.name)
@pytest.mark.parametrize("new", TOPOLOGIES, ids=lambda t: t.name)
def test_killed_between_any_two_everything_is_returned(old: Topology, new: Topology) -> None:
    """The kernel alone remembers how the machine was; no step may take the last memory of it away."""
    kernel = machine()
    go(kernel, old)
    for left in killed(kernel, new):
        have = left.observe()
        apply(left, nothing(have), have)
        assert dataclasses.replace(left, log=[]) == machine()


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda t: t.name)
def test_down_gives_everything_back(topology: Topology) -> None:
    kernel, untouched = machine(), machine()
    have = go(kernel, topology)
    apply(kernel, nothing(have), have)
    assert dataclasses.replace(kernel, log=[]) == untouched


def test_the_walk_notices_a_kernel_that_forgets() -> None:
    """The proof that the walk can fail: a queue lost behind our back is a plan to put it back."""
    kernel = machine()
    state = go(kernel, TOPOLOGIES[1])
    kernel.ports["lhs-japan"] = replace(kernel.ports["lhs-japan"], egress=None)
    assert [type(step.op).__name__ for step in plan(state, kernel.observe())] == ["SetNetem", "SetShaper"]
