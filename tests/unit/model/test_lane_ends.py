"""Both ends of a lane: who is there, at which address, how one gets there, and through which port."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Interface

import pytest

from emulator.hosts import resolve
from emulator.model.topology import Lane, LaneEnd, Ports, Topology

PLUGGED = Lane("paris", ports=Ports("eth1", "eth2"), host="root@paris", address=IPv4Address("10.77.0.99"))


def test_the_ends_of_a_virtual_lane_are_namespaces() -> None:
    ends = Topology("t", "here", (Lane("london"), Lane("paris"))).ends("paris")
    assert ends.hub == LaneEnd("here", IPv4Interface("10.77.0.1/24"))
    assert ends.site == LaneEnd("paris", IPv4Interface("10.77.0.3/24"))
    assert ends.hub.is_namespace and ends.site.is_namespace


def test_the_ends_of_a_lane_with_ports_know_ports_and_destinations() -> None:
    topology = Topology("t", "here", (PLUGGED,), hub_host="hub.example")
    assert topology.ends("paris") == (
        LaneEnd("here", IPv4Interface("10.77.0.1/24"), "hub.example", "eth1"),
        LaneEnd("paris", IPv4Interface("10.77.0.99/24"), "root@paris", "eth2"),
    )
    assert not any(end.is_namespace for end in topology.all_ends)
    assert resolve.destinations(topology) == {"here": "hub.example", "paris": "root@paris"}
    assert resolve.namespaces(topology) == []


def test_each_host_knows_who_is_at_the_other_end() -> None:
    ends = Topology("t", "here", (PLUGGED,)).ends("paris")
    assert (ends.other("here").host, ends.other("paris").host) == ("paris", "here")
    with pytest.raises(KeyError):
        ends.other("london")


def test_the_hub_of_a_mixed_topology_is_a_namespace_for_its_virtual_lanes() -> None:
    topology = Topology("t", "here", (PLUGGED, Lane("london")))
    assert resolve.namespaces(topology) == ["here", "london"]
    assert resolve.destinations(topology) == {"paris": "root@paris"}
