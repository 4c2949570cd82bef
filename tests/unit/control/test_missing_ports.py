"""Changes, reverts and repairs while a port of a lane is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.clocked_appliance import MS, PAIR, Machine, drift

from emulator.kernel.fake import FakeKernel
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Ports, Topology
from emulator.plan.desired_state import wanted
from emulator.plan.qdisc_ops import SetNetem
from emulator.plan.state import Link


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_lane_whose_port_is_gone_blocks_no_other(machine: Machine) -> None:
    star = Topology("star", "hub", (PAIR, Lane("japan", Impairment(MS))), on_drift="restore")
    machine.appliance().up(star)
    before = machine.kernel.observe()
    taken = machine.kernel.ports.pop("nic1")
    machine.kernel.marked.pop("nic1")
    drift(machine, "lhs-japan")
    found = machine.appliance().repair()
    assert found.blocked == {"california": "port nic1: there is no such interface; 'longhaul nics' lists them"}
    assert [op.port for op in machine.kernel.log if isinstance(op, SetNetem)] == ["lhs-japan"]
    assert machine.kernel.observe().ports == {n: p for n, p in before.ports.items() if n != "nic1"}
    assert taken.altname
    status = machine.appliance().status()
    assert (status.drift, list(status.blocked), status.as_asked) == ([], ["california"], False)
    machine.kernel.links["nic1"] = Link(1500, up=True, ipv6=True, addrgen=0, addresses=("192.0.2.1",))
    assert "has the address 192.0.2.1" in machine.appliance().repair().blocked["california"]
    machine.kernel.links["nic1"] = Link(1500, up=True, ipv6=True, addrgen=0)
    assert machine.appliance().repair().blocked == {}
    assert machine.kernel.observe() == before
    machine.appliance().down()
    assert machine.kernel.links == {f"nic{n}": Link(1500, up=True, ipv6=True, addrgen=0) for n in range(2)}


QUAD = Topology("quad", "hub", (PAIR, Lane("japan", Impairment(MS), Impairment(MS), ports=Ports("nic2", "nic3"))))
NIC = Link(1500, up=True, ipv6=True, addrgen=0)
NIC3_GONE = "port nic3: there is no such interface; 'longhaul nics' lists them"


@pytest.fixture
def quad(machine: Machine) -> Machine:
    """Two lanes over four NICs are up."""
    machine.kernel.links |= dict.fromkeys(("nic2", "nic3"), NIC)
    machine.appliance().up(QUAD)
    return machine


def unplug(machine: Machine, port: str) -> None:
    for table in (machine.kernel.ports, machine.kernel.marked, machine.kernel.links):
        table.pop(port, None)  # type: ignore[attr-defined]


def delays_ms(machine: Machine, *ports: str) -> list[int]:
    egresses = [machine.kernel.ports[port].egress for port in ports]
    return [egress.netem.delay_ns // MS for egress in egresses if egress]


@pytest.mark.parametrize("how", ["expire", "undo", "repair"])
def test_a_change_is_reverted_although_a_port_of_another_lane_is_gone(quad: Machine, how: str) -> None:
    quad.appliance().set_lane(PAIR.with_rtt(5000 * MS), confirm_s=30)
    unplug(quad, "nic3")
    quad.clock.pass_s(29 if how == "undo" else 30)
    one = quad.appliance()
    outcome = getattr(one, how)()
    assert delays_ms(quad, "nic0", "nic1", "nic2") == [1, 1, 1]
    assert (one.topology(), one.pending_ns()) == (QUAD, None)
    assert one.status().blocked == {"japan": NIC3_GONE}
    if how == "repair":
        assert (outcome.reverted, outcome.blocked, list(outcome.notes)) == (True, {"japan": NIC3_GONE}, [])
    else:
        assert one.take_notes() == [f"lane japan cannot be reverted and stays as it is: {NIC3_GONE}"]
    one.remove_lane("japan")
    assert quad.is_(replace(QUAD, lanes=(PAIR,)))


def test_after_a_reboot_the_lanes_of_before_the_change_come_up_but_for_the_one_without_its_port(quad: Machine) -> None:
    quad.appliance().set_lane(PAIR.with_rtt(5000 * MS), confirm_s=3600)
    quad.clock.reboot()
    quad.kernel = FakeKernel(dict.fromkeys(("nic0", "nic1", "nic2"), NIC))
    found = quad.appliance().repair(restore=True)
    assert (found.reverted, found.blocked) == (True, {"japan": NIC3_GONE})
    assert (delays_ms(quad, "nic0", "nic1"), set(quad.kernel.bridges)) == ([1, 1], {"lh-california"})
    quad.kernel.links["nic3"] = NIC
    quad.appliance().repair(restore=True)
    assert quad.is_(QUAD)


def test_a_port_that_the_reverted_change_gave_to_another_lane_leaves_it(quad: Machine) -> None:
    """The lane of before lacks its other port, so nothing takes the port's place."""
    osaka = Lane("osaka", Impairment(9 * MS), ports=Ports("nic2", "nic4"))
    quad.kernel.links["nic4"] = NIC
    quad.appliance().up(replace(QUAD, lanes=(PAIR, osaka)), confirm_s=30)
    unplug(quad, "nic3")
    quad.clock.pass_s(30)
    assert quad.appliance().expire()
    assert set(quad.kernel.bridges) == {"lh-california"}
    assert quad.kernel.links["nic2"] == quad.kernel.links["nic4"] == NIC
    assert quad.appliance().topology() == QUAD


def test_leased_lanes_are_returned_although_a_port_of_another_lane_is_gone(quad: Machine) -> None:
    with quad.appliance().lease(QUAD.with_lane(PAIR.with_rtt(5000 * MS))):
        unplug(quad, "nic3")
    assert delays_ms(quad, "nic0", "nic1", "nic2") == [1, 1, 1]
    assert (quad.appliance().topology(), quad.appliance().pending_ns()) == (QUAD, None)


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_vlan_lane_whose_port_is_gone_leaves_the_shared_port_to_the_others(machine: Machine, names: Any) -> None:
    link = Link(1500, up=True, ipv6=True, addrgen=0)
    ports = {"a": Ports("nic0", "nic1", 10), "b": Ports("nic0", "nic2", 20)}
    lanes = {name: Lane(name, Impairment(MS), Impairment(MS), ports=ports[name]) for name in names}
    machine.kernel = FakeKernel({f"nic{n}": link for n in range(3)})
    machine.appliance().up(Topology("star", "hub", tuple(lanes.values())))
    machine.kernel = FakeKernel({"nic0": link, "nic2": link})
    machine.clock.reboot()
    gone = {"a": "port nic1: there is no such interface; 'longhaul nics' lists them"}
    for repaired in (True, False):
        found = machine.appliance().repair(restore=True)
        assert (bool(found.repaired), found.drift, found.blocked) == (repaired, [], gone)
    alone = Topology("star", "hub", (lanes["b"],))
    have = machine.kernel.observe()
    assert have == wanted(alone, have)
    machine.kernel.links["nic1"] = link
    assert machine.appliance().repair(restore=True).blocked == {}
    assert machine.is_(Topology("star", "hub", tuple(lanes.values())))
