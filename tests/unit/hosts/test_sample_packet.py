"""Packets that take a given way of a lane: by what the user says, and as the kernel's filters would find them."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.hosts.tools.sample_packet import EXPERIMENT, Packet, belongs, specimen, taken
from emulator.model.flow_match import IPV4, IPV6, MOST_FLOWS, Filter, Match, filters

MINE = Packet(ip_address("10.77.0.1"), ip_address("10.77.0.2"), 6, 40_000, 873, dscp=46)


@pytest.mark.parametrize(
    ("match", "is_so"),
    [
        (Match(site=ip_network("10.77.0.0/24"), site_port=873), True),
        (Match(hub=ip_network("10.77.0.0/24"), hub_port=873), False),
        (Match(site=ip_network("10.77.0.1")), False),
        (Match(port=40_000, protocol=6), True),
        (Match(port=40_000, protocol=17), False),
        (Match(dscp=46), True),
        (Match(dscp=46, vlan=7), False),
        (Match(dscp=0), False),
    ],
    ids=str,
)
def test_all_that_a_match_says_must_be_so(match: Match, is_so: bool) -> None:
    assert belongs(MINE, match) == is_so


def test_the_first_flow_counts() -> None:
    wide, narrow = Match(protocol=6), Match(site_port=873)
    assert (taken(MINE, [wide, narrow]), taken(MINE, [narrow, wide]), taken(MINE, [Match(vlan=1)])) == (0, 0, None)


def test_without_flows_the_plainest_packet_will_do() -> None:
    nobody = ip_address("198.18.0.1")
    assert specimen([], None) == Packet(nobody, nobody, EXPERIMENT)


@pytest.mark.parametrize(
    ("earlier", "own"),
    [
        ([Match(protocol=6)], Match(protocol=6, site_port=1)),
        ([Match(port=9)], Match(hub_port=9)),
        (
            [Match(site=ip_network("10.0.0.0/9")), Match(site=ip_network("10.128.0.0/9"))],
            Match(site=ip_network("10.0.0.0/8")),
        ),
    ],
    ids=["protocol", "port", "halves"],
)
def test_a_flow_that_earlier_ones_leave_nothing_has_no_packet(earlier: list[Match], own: Match) -> None:
    assert specimen([*earlier, own], len(earlier)) is None
    assert specimen([own, *earlier], 0) is not None


def test_what_earlier_flows_leave_of_a_network_is_found() -> None:
    whole = ip_network("10.0.0.0/29")
    claimed = [Match(site=ip_network(f"10.0.0.{host}")) for host in (0, 1, 2, 3, 5, 6, 7)]
    found = specimen([*claimed, Match(site=whole)], len(claimed))
    assert found
    assert str(found.site) == "10.0.0.4"


def found_by(one: Filter, packet: Packet, *, outbound: bool) -> bool:
    """Whether flower would find it: the packet in its direction, by what tc-flower(8) says of the keys."""
    turn = 1 if outbound else -1
    source, target = (packet.hub, packet.site)[::turn]
    source_port, target_port = (packet.hub_port, packet.site_port)[::turn]
    has = (packet.vlan, packet.protocol, source_port, target_port, packet.dscp)
    asked = (one.vlan, one.protocol, one.source_port, one.target_port, one.dscp)
    return (
        one.ethertype in (None, IPV4 if packet.hub.version == 4 else IPV6)
        and (one.source is None or source in one.source)
        and (one.target is None or target in one.target)
        and packet.vlan == one.vlan
        and all(wanted is None or value == wanted for value, wanted in zip(has, asked, strict=True))
    )


few_ports = st.none() | st.integers(1, 4)
fours = st.sampled_from([None, *map(ip_network, ("10.0.0.0/8", "10.128.0.0/9", "10.0.0.1", "0.0.0.0/0"))])
sixes = st.sampled_from([None, *map(ip_network, ("fd00::/8", "fd00::1", "::/0"))])


@st.composite
def matches(draw: st.DrawFn) -> Match:
    """A match, often overlapping with others."""
    networks, icmp = draw(st.sampled_from([(fours, 1), (sixes, 58)]))
    said: dict[str, Any] = {
        "hub": draw(networks), "site": draw(networks), "protocol": draw(st.sampled_from([None, icmp, 6, 17, 132])),
        "dscp": draw(st.sampled_from([None, None, 0, 46])), "vlan": draw(st.sampled_from([None, None, 1, 2])),
    }  # fmt: skip
    if said["protocol"] in (None, 6, 17):
        either = draw(few_ports)
        said |= {"port": either} if either else {"hub_port": draw(few_ports), "site_port": draw(few_ports)}
    return Match(**said) if any(value is not None for value in said.values()) else Match(dscp=1)


@given(st.lists(matches(), max_size=MOST_FLOWS), st.booleans())
def test_a_specimen_takes_its_way_by_the_kernels_filters_too(several: list[Match], outbound: bool) -> None:
    for index in (None, *range(len(several))):
        packet = specimen(several, index)
        if packet is None:
            continue
        by_filters = [
            number
            for number, match in enumerate(several)
            if any(found_by(one, packet, outbound=outbound) for one in filters(match, outbound=outbound))
        ]
        assert by_filters[:1] == ([] if index is None else [index])


@given(st.lists(matches(), max_size=MOST_FLOWS))
def test_there_is_always_a_packet_of_none_and_of_the_first(several: list[Match]) -> None:
    assert specimen(several, None) is not None
    if several:
        assert specimen(several, 0) is not None
