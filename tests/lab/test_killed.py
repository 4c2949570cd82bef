"""kill -9 at random points of random walks: after the last `down` the machine is exactly what it was."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import killed_walks, oracle

WALKS = 10
ACTIONS = 3


@pytest.fixture(scope="module")
def before() -> Iterator[dict[str, Any]]:
    killed_walks.make_nics()
    time.sleep(30)  # of virtual time: until IPv6 has found its addresses to be free
    yield oracle.snapshot()
    oracle.sh("ip netns del far")


@pytest.mark.parametrize("seed", range(WALKS))
def test_a_walk_with_deaths_leaves_no_trace(seed: int, before: dict[str, Any], tmp_path: Path) -> None:
    walk = killed_walks.Walk(random.Random(seed), tmp_path)
    assert walk.take(ACTIONS, before) == []


def test_the_oracle_sees_what_a_leak_would_be(before: dict[str, Any]) -> None:
    for leak, repair in (
        ("tc qdisc add dev nic0 root netem delay 1ms", "tc qdisc del dev nic0 root"),
        ("tc qdisc add dev nic1 root netem delay 1ms", "tc qdisc del dev nic1 root"),  # is down: leaves a noop
        ("ethtool -K nic0 tso off", "ethtool -K nic0 tso on"),
        ("ip link set nic0 mtu 1400", "ip link set nic0 mtu 1500"),
        ("ip link set nic0 promisc on", "ip link set nic0 promisc off"),
        ("ip link property add dev nic0 altname longhaul.x", "ip link property del dev nic0 altname longhaul.x"),
        ("sysctl -q net.ipv6.conf.nic0.disable_ipv6=1", "sysctl -q net.ipv6.conf.nic0.disable_ipv6=0"),
        ("ip netns add left-over", "ip netns del left-over"),
        ("ip route add 192.0.2.0/24 dev nic0", "ip route del 192.0.2.0/24 dev nic0"),
    ):
        oracle.sh(leak)
        assert oracle.difference(before, oracle.snapshot()), leak
        oracle.sh(repair)
    assert oracle.difference(before, oracle.snapshot()) == []
