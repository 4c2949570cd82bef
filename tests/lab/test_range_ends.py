"""The ends of every range on a real kernel: what is taken is what the kernel gives back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from support.failing_kernel import FailingKernel, go

from emulator.control.reconcile import apply
from emulator.hosts.namespace import NamespaceHost
from emulator.model.device_names import SWITCH, interface_name
from emulator.model.impairment import LONGEST_DELAY_NS, MAX_JITTER_NS, MOST_RATE_BPS, Buffer, Impairment
from emulator.model.loss_model import P32, FourState, GilbertElliott
from emulator.model.topology import LEAST_MTU, MOST_MTU, Lane, Topology
from emulator.plan.desired_state import nothing

STILL = Impairment(10**6)
ENDS = {
    "lowest rate": (Impairment(10**6, rate_bps=96), 1500),
    "lowest rate, least MTU": (Impairment(10**6, rate_bps=40), LEAST_MTU),
    "lowest rate, largest MTU": (Impairment(10**6, rate_bps=3816), MOST_MTU),
    "lowest rate, red": (Impairment(10**6, rate_bps=96, aqm="red"), 1500),
    "highest rate": (Impairment(10**6, rate_bps=MOST_RATE_BPS), 1500),
    "highest rate, red": (Impairment(10**6, rate_bps=MOST_RATE_BPS, aqm="red"), 1500),
    "largest overhead": (Impairment(10**6, rate_bps=10**6, overhead_bytes=65_535, atm=True), 1500),
    "largest buffer": (Impairment(10**6, rate_bps=10**6, buffer=Buffer(bytes=2**32 - 1)), 1500),
    "smallest buffer": (Impairment(10**6, rate_bps=10**6, buffer=Buffer(bytes=1), aqm="fq-codel"), 1500),
    "longest delay": (Impairment(LONGEST_DELAY_NS, rate_bps=96), 1500),
    "longest jitter": (Impairment(3 * 10**9, MAX_JITTER_NS, distribution="pareto", seed=2**64 - 1), 1500),
    "longest interval": (Impairment(2 * 10**12, rate_bps=10**6, aqm="codel"), 1500),
    "longest interval, cake": (Impairment(4 * 10**12, rate_bps=10**6, aqm="cake"), 1500),
    "largest buffer, fq": (Impairment(10**6, rate_bps=10**6, buffer=Buffer(bytes=2**32 - 1), aqm="fq"), 1500),
    "largest buffer, cake": (Impairment(10**6, rate_bps=10**6, buffer=Buffer(bytes=2**32 - 1), aqm="cake"), 1500),
    "smallest buffer, fq-pie": (Impairment(10**6, rate_bps=10**6, buffer=Buffer(bytes=1), aqm="fq-pie"), 1500),
    "all lost": (Impairment(1, 1, P32, duplicate_p32=P32, corrupt_p32=P32, reorder_p32=P32, seed=0), 1500),
    "gilbert": (Impairment(1, loss_model=GilbertElliott(P32, P32, P32, P32)), 1500),
    "4-state": (Impairment(1, loss_model=FourState(P32, P32, 0, P32, 0)), 1500),
}


@pytest.fixture
def kernel() -> Iterator[FailingKernel]:
    with closing(FailingKernel()) as door:
        yield door
        have = door.observe()
        apply(door, nothing(have), have)


def test_each_end_is_what_the_kernel_gives_back(kernel: FailingKernel) -> None:
    for impairment, mtu in ENDS.values():
        go(kernel, Topology("t", "hub", (Lane("a", impairment, STILL, mtu=mtu, line_rate_bps=10**6),)))


def test_hosts_stay_silent_when_the_mtu_rises_to_where_ipv6_begins(kernel: FailingKernel) -> None:
    for mtu in (576, 1500):
        go(kernel, Topology("t", "hub", (Lane("a", STILL, STILL, mtu=mtu),)))
    hosts = [NamespaceHost(name) for name in ("hub", "a")]
    assert [host.read_sysctl(f"net.ipv6.conf.{host.interface}.disable_ipv6") for host in hosts] == ["1", "1"]


def test_a_lane_called_switch_and_one_of_the_longest_name(kernel: FailingKernel) -> None:
    longest = "a" * 63
    go(kernel, Topology("t", "hub", (Lane("switch", STILL, STILL), Lane(longest, STILL, STILL))))
    seen = kernel.observe()
    assert seen.bridges.keys() == {SWITCH, interface_name("", "switch"), interface_name("", longest)}
    assert [seen.ports[port].bridge for port in ("lhs-switch", "lhh-switch", "lhx-switch")] == [
        interface_name("", "switch"), interface_name("", "switch"), SWITCH,
    ]  # fmt: skip
