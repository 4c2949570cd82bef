"""Interfaces and queues as Longhaul reads them, against what iproute2 reads of the same kernel."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from emulator.kernel import link_messages, netns
from emulator.kernel.link_messages import LinkMessage
from emulator.kernel.netlink import NetlinkKernel
from emulator.kernel.rtnl_socket import RtnlSocket

SPACE = "read-back"
MADE = f"""
ip netns add {SPACE}
ip link add near type veth peer name far netns {SPACE}
ip link add one type veth peer name two
ip link add span type bridge ageing_time 12300 stp_state 1 mcast_snooping 0
ip link set one master span mtu 9000 alias "to the east"
bridge link set dev one learning off
ip link set one type bridge_slave group_fwd_mask 16384
ip link property add dev one altname another altname yet-another
ip link set two addrgenmode none up
ip link set span up
ip link set one up
ip link add link two name tagged type vlan id 77
ip address add 10.9.8.7/21 dev two
ip -6 address add fd00::7/64 dev two nodad
sysctl -q -w net.ipv6.conf.span.disable_ipv6=1
"""


@pytest.fixture
def interfaces() -> Iterator[None]:
    """Some of each kind."""
    subprocess.run(["sh", "-e", "-c", MADE], check=True)
    yield
    ends = "ip link del near; ip link del tagged; ip link del one; ip link del span; ip netns del " + SPACE
    subprocess.run(["sh", "-c", ends], check=True)


def shown(*arguments: str) -> Any:
    """What a program of iproute2 prints as JSON."""
    return json.loads(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout or "[]")


def as_shown(one: LinkMessage, names: dict[int, str]) -> dict[str, Any]:
    """An interface in iproute2's words."""
    return {
        "ifname": one.name,
        "mtu": one.mtu,
        "up": one.up,
        "noarp": not one.arp,
        "lower_up": one.carrier,
        "operstate": {0: "UNKNOWN", 2: "DOWN", 3: "LOWERLAYERDOWN", 6: "UP"}[one.operstate],
        "master": names.get(one.master or 0),
        "kind": one.kind or None,
        "alias": one.alias or None,
        "altnames": list(one.altnames),
        "address": one.mac,
        "tx_queues": one.tx_queues,
        "rx_queues": one.rx_queues,
        "segments": one.segments,
        "vlan": one.vlan_id,
        "bridge": one.bridge and (int(one.bridge.stp), int(one.bridge.snooping), one.bridge.ageing_cs),
        "bridge_port": one.bridge_port and (one.bridge_port.learning, one.bridge_port.forward_mask),
        "netns": one.lower_netns_id,
        "lower": names.get(one.lower or 0) if one.lower_netns_id is None else one.lower,
        "addrgen": {0: "eui64", 1: "none"}[one.addrgen],
    }


def by_iproute2(one: dict[str, Any]) -> dict[str, Any]:
    """The same fields of `ip -d -j link`."""
    info = one.get("linkinfo", {})
    data, port = info.get("info_data", {}), info.get("info_slave_data")
    flags, kind = one["flags"], info.get("info_kind")
    return {
        "ifname": one["ifname"],
        "mtu": one["mtu"],
        "up": "UP" in flags,
        "noarp": "NOARP" in flags,
        "lower_up": "LOWER_UP" in flags,
        "operstate": one["operstate"],
        "master": one.get("master"),
        "kind": kind,
        "alias": one.get("ifalias"),
        "altnames": one.get("altnames", []),
        "address": one["address"],
        "tx_queues": one["num_tx_queues"],
        "rx_queues": one.get("num_rx_queues", 1),
        "segments": one["gso_max_segs"],
        "vlan": data["id"] if kind == "vlan" else None,
        "bridge": (data["stp_state"], data["mcast_snooping"], data["ageing_time"]) if kind == "bridge" else None,
        "bridge_port": (port["learning"], int(port["group_fwd_mask"], 0)) if port else None,
        "netns": one.get("link_netnsid"),
        "lower": one.get("link_index") if "link_netnsid" in one else one.get("link"),
        "addrgen": one["inet6_addr_gen_mode"],
    }


@pytest.mark.usefixtures("interfaces")
def test_every_interface_is_read_as_iproute2_reads_it() -> None:
    with RtnlSocket() as rtnl:
        links = link_messages.links(rtnl)
        assert [link_messages.link(rtnl, one.name) for one in links] == links
        assert [link_messages.link(rtnl, one.index) for one in links] == links
        assert link_messages.link(rtnl, "no-such") is None
        assert [rtnl.name_of(one.index) for one in links] == [one.name for one in links]
    names = {one.index: one.name for one in links}
    assert {"near", "one", "two", "span", "tagged", "lo"} <= {one.name for one in links}
    expected = [by_iproute2(one) for one in shown("ip", "-d", "-j", "link")]
    assert [as_shown(one, names) for one in links] == expected
    assert {one.name: one.ipv6 for one in links if one.name in ("span", "two")} == {"span": False, "two": True}


@pytest.mark.usefixtures("interfaces")
def test_every_address_is_read_as_iproute2_reads_it() -> None:
    with RtnlSocket() as rtnl:
        found = {
            (rtnl.name_of(one.index), one.address, one.prefix_bits, one.scope) for one in link_messages.addresses(rtnl)
        }
    scopes = {"global": 0, "link": 253, "host": 254}
    expected = {
        (link["ifname"], one["local"], one["prefixlen"], scopes[one["scope"]])
        for link in shown("ip", "-j", "address")
        for one in link["addr_info"]
    }
    assert found == expected
    assert ("two", "fd00::7", 64, 0) in found
    assert ("two", "10.9.8.7", 21, 0) in found


@pytest.mark.usefixtures("interfaces")
def test_a_socket_stays_in_the_namespace_where_it_was_opened() -> None:
    with netns.inside(SPACE), RtnlSocket() as rtnl:
        inside = {one.name for one in link_messages.links(rtnl)}
        assert inside == {"lo", "far"}
        far = link_messages.link(rtnl, "far")
    assert far and far.lower_netns_id is not None


@pytest.mark.usefixtures("interfaces")
def test_the_queues_are_counted_as_tc_counts_them() -> None:
    queues = """
        tc qdisc add dev two root handle 1: netem delay 1ms limit 20
        tc qdisc add dev two parent 1:1 handle 10: tbf rate 1mbit burst 2kb limit 3kb
        ip neighbour add 10.9.8.9 dev two lladdr 02:00:00:00:00:09 nud permanent
        ping -q -l 50 -c 50 -W 1 -s 1000 10.9.8.9 || true
    """
    subprocess.run(["sh", "-e", "-c", queues], check=True, stdout=subprocess.DEVNULL)
    with closing(NetlinkKernel()) as kernel:
        read = kernel.counters()
    netem, tbf = shown("tc", "-s", "-j", "qdisc", "show", "dev", "two")
    counted = read["two"]
    assert set(read) == {"two"}
    assert (counted.packets, counted.bytes, counted.drops) == (netem["packets"], netem["bytes"], netem["drops"])
    assert (counted.queued_packets, counted.queued_bytes) == (netem["qlen"], netem["backlog"])
    assert counted.shaper_drops == tbf["drops"] > 0
    assert counted.drops > counted.shaper_drops
