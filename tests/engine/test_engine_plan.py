"""Lanes through the wire engine, planned on the fake kernel: from any datapath to any other, whatever fails."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.engine_topologies import FAT, LANES, LOSSY, MS, TOPOLOGIES, machine
from support.fake_machines import appliance_box
from support.fault_injection import failed, go, killed

from emulator.control.appliance import Appliance
from emulator.control.reconcile import apply
from emulator.kernel.fake import FakeKernel
from emulator.model.topology import Lane, Ports, Topology
from emulator.plan import ops
from emulator.plan.desired_state import nothing, wanted
from emulator.plan.engine_lane import DEAD
from emulator.plan.planner import plan
from emulator.plan.state import State


def names(topology: Topology, have: State) -> list[str]:
    """The operations of a plan, by name."""
    return [type(step.op).__name__ for step in plan(wanted(topology, have), have)]


def test_from_any_datapath_to_any_other() -> None:
    kernel, rng = machine(), random.Random(7)
    for _ in range(300):
        topology = rng.choice(TOPOLOGIES)
        state = go(kernel, topology)
        assert state == wanted(topology, state)
        if state.wires and rng.random() < 0.3:
            kernel.wires[rng.choice(sorted(state.wires))] = DEAD


@pytest.mark.parametrize("old", TOPOLOGIES, ids=lambda t: t.name)
@pytest.mark.parametrize("new", TOPOLOGIES, ids=lambda t: t.name)
def test_a_failure_at_any_step_leaves_all_as_it_was(old: Topology, new: Topology) -> None:
    kernel = machine()
    before = go(kernel, old)
    for failing in failed(kernel, new):
        assert failing.observe() == before


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda t: t.name)
def test_killed_at_any_step_the_next_up_converges_and_down_gives_all_back(topology: Topology) -> None:
    for kernel in killed(machine(), topology):
        state = go(kernel, topology)
        assert state == wanted(topology, state)
        apply(kernel, nothing(state), state)
        assert dataclasses.replace(kernel, log=[]) == machine()


BOX = Topology(
    "box", "hub", (
        Lane("queues", FAT, LOSSY, ports=Ports("eth5", "eth6")),
        Lane("tokyo", LOSSY, LOSSY, ports=Ports("uplink", "eth2", 10)),
        Lane("seoul", FAT, FAT, ports=Ports("uplink", "eth2", 20)),
    ), datapath="wire",
)  # fmt: skip


def test_nics_and_vlans_have_an_engine_for_each_lane_on_its_own_ports() -> None:
    kernel = appliance_box()
    fresh = kernel.observe()
    state = go(kernel, BOX)
    assert {name: (wire.hub, wire.site) for name, wire in state.wires.items()} == {
        "lh-queues": ("eth5", "eth6"),
        "lh-tokyo": ("lhvh-tokyo", "lhvs-tokyo"),
        "lh-seoul": ("lhvh-seoul", "lhvs-seoul"),
    }  # fmt: skip
    assert [name for name, port in state.ports.items() if port.egress] == []
    assert state.ports["eth1"].offloads == {"rx-gro", "rx-gro-hw"}
    assert names(BOX, state) == []
    for path in ("netem", "wire"):
        other = replace(BOX, datapath=path)
        assert wanted(other, go(kernel, other)) == kernel.observe()
    apply(kernel, nothing(kernel.observe()), kernel.observe())
    assert kernel.observe() == fresh
    assert kernel.nics == appliance_box().nics


def test_a_lane_whose_port_is_gone_ends_its_engine_and_no_other(tmp_path: Path) -> None:
    kernel = appliance_box()
    appliance = Appliance(kernel, tmp_path)
    appliance.up(replace(BOX, on_drift="restore"))
    before = kernel.observe()
    lost = kernel.ports.pop("eth6"), kernel.marked.pop("eth6")
    del kernel.nics["eth6"]
    kernel.wires["lh-seoul"] = DEAD
    kernel.log.clear()
    found = appliance.repair()
    assert list(found.blocked) == ["queues"]
    assert [str(op).split()[1] for op in kernel.log] == ["stop", "stop", "start"]
    assert kernel.wires == {n: w for n, w in before.wires.items() if n != "lh-queues"}
    kernel.links["eth6"], kernel.nics["eth6"] = lost[1], appliance_box().nics["eth6"]
    assert appliance.repair().blocked == {}
    assert kernel.observe() == before


def test_a_failure_does_not_bring_back_an_engine_that_was_dead() -> None:
    base = machine()
    before = go(base, TOPOLOGIES[2])
    base.wires["lh-japan"] = DEAD
    for kernel in failed(base, TOPOLOGIES[5]):
        wires = {"lh-england": before.wires["lh-england"]}
        assert {n: w for n, w in kernel.wires.items() if w.running} == wires


def test_a_set_looks_at_the_engine_and_not_at_queues(tmp_path: Path) -> None:
    kernel = machine()
    appliance = Appliance(kernel, tmp_path)
    appliance.up(TOPOLOGIES[2])
    steps = appliance.set_lane(LANES[0].with_rtt(7 * MS))
    assert [type(step.op).__name__ for step in steps] == ["SetWire"]
    kernel.wires["lh-england"] = DEAD
    steps = appliance.set_lane(LANES[0])
    assert [type(step.op).__name__ for step in steps] == ["StopWire", "StartWire", "SetWire"]


class Watching(FakeKernel):
    """A fake that fails the test as soon as any frame could cross a lane unimpaired."""

    def apply(self, op: ops.Op) -> None:
        super().apply(op)
        for name, bridge in self.bridges.items():
            inside = {n: p for n, p in self.ports.items() if p.bridge == name and p.up and not n.startswith("lhx")}
            if bridge.up and len(inside) == 2:
                assert all(port.egress for port in inside.values()), op


@pytest.mark.parametrize("new", TOPOLOGIES[1:3] + TOPOLOGIES[6:], ids=lambda t: t.name)
@pytest.mark.parametrize("old", TOPOLOGIES, ids=lambda t: t.name)
def test_no_frame_ever_passes_unimpaired(old: Topology, new: Topology) -> None:
    known = machine()
    kernel = Watching(known.links, nf_call=known.nf_call)
    go(kernel, old)
    go(kernel, new)


def test_new_numbers_are_one_step_and_another_failure_mode_a_new_engine() -> None:
    kernel = machine()
    state = go(kernel, TOPOLOGIES[2])
    assert names(TOPOLOGIES[3], state) == ["SetWire"]
    assert names(replace(TOPOLOGIES[2], on_failure="pass"), state) == ["StopWire", "StopWire", "StartWire", "StartWire"]


def test_an_engine_that_died_is_started_again_and_its_bridge_closed_first() -> None:
    kernel = machine()
    go(kernel, TOPOLOGIES[4])
    kernel.wires["lh-japan"] = DEAD
    kernel.bridges["lh-japan"] = replace(kernel.bridges["lh-japan"], up=True)
    assert kernel.observe().egress("lhs-japan") is None
    assert names(TOPOLOGIES[4], kernel.observe()) == ["StopWire", "WireBridge", "StartWire"]
