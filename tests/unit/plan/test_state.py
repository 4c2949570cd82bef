"""The names and addresses that Longhaul gives to what it owns in the kernel."""

from __future__ import annotations

from ipaddress import IPv4Network
from itertools import combinations

import pytest

from emulator.model.topology import MOST_LANES
from emulator.plan.state import mac_of

BITS = range(48)


@pytest.mark.parametrize("subnet", ["10.77.0.0/16", "192.168.0.0/16", "10.0.255.0/24"])
def test_a_corrupted_mac_address_is_no_other_hosts(subnet: str) -> None:
    """`corrupt` flips one bit of a frame; a bit error rate may flip a few."""
    hosts = [f"{host}/24" for _, host in zip(range(MOST_LANES + 1), IPv4Network(subnet).hosts(), strict=False)]
    macs = [int(mac_of(host).replace(":", ""), 16) for host in hosts]
    assert len(set(macs)) == len(macs)
    flipped = [1 << one | 1 << other for one, other in combinations(BITS, 2)] + [1 << bit for bit in BITS]
    for mask in flipped:
        assert not {mac ^ mask for mac in macs} & set(macs)


def test_a_mac_address_is_locally_administered_and_of_one_host() -> None:
    first = int(mac_of("10.77.0.2/24").split(":")[0], 16)
    assert first & 0b11 == 0b10
