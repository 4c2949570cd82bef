"""Golden plans: from the kernel state, on a machine, to the intent: the exact steps with their reasons.

After a change that is meant: LONGHAUL_GOLDEN=write pytest tests/unit/plan/test_planner.py, and read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from msgspec.structs import replace
from support.fake_machines import appliance_box
from support.folders import GOLDEN
from support.golden import golden

from emulator.config import loader
from emulator.control.reconcile import apply
from emulator.kernel.fake import FakeKernel
from emulator.model.topology import Topology
from emulator.plan.desired_state import nothing, wanted
from emulator.plan.ops import DelNamespace, DelVeth, Release, SetNfCall, Step
from emulator.plan.planner import plan
from emulator.plan.preconditions import refuse
from emulator.plan.qdisc_ops import DelEgress, DelShaper, SetNetem

GOLDEN = GOLDEN / "plans"
Drift = Callable[[FakeKernel], None]


@dataclass(frozen=True)
class Case:
    """Lanes that are up, what happened to them since, and the intended lanes; both as in a topology file."""

    have: str
    want: str
    drift: Drift | None = None
    nf_call: tuple[int, int, int] | None = None


def topology(lanes: str) -> Topology:
    """A star of these lanes; "" is nothing at all."""
    return loader.loads(f"{{name: star, hub: hub, lanes: {{{lanes}}}}}")


def lane(name: str, words: str, ports: str = "") -> str:
    """One lane in a topology file."""
    return f"{name}: {{{words}{f', ports: {{{ports}}}' if ports else ''}}}, "


def eth(hub: int, site: int, vlan: int | None = None) -> str:
    """A lane's ports."""
    return f"hub: eth{hub}, site: eth{site}" + (f", vlan: {vlan}" if vlan else "")


def no_queue(port: str) -> Drift:
    """Somebody deletes the queue of a port."""
    return lambda kernel: kernel.apply(DelEgress(port))


def missing_queue(kernel: FakeKernel) -> None:
    """Somebody deletes the netem of one of the TX queues of eth6."""
    egress = kernel.ports["eth6"].egress
    assert egress
    kernel.ports["eth6"] = replace(kernel.ports["eth6"], egress=replace(egress, alike=False))


def noisy(port: str) -> Drift:
    """Somebody switches IPv6 and ARP of a port on, and merging too."""

    def drift(kernel: FakeKernel) -> None:
        kernel.ports[port] = replace(
            kernel.ports[port], ipv6=True, arp=True, up=False, offloads=frozenset({"rx-gro", "rx-lro"})
        )

    return drift


def foreign_change(kernel: FakeKernel) -> None:
    """Somebody changes a delay with tc."""
    egress = kernel.ports["lhs-japan"].egress
    assert egress
    kernel.apply(SetNetem("lhs-japan", replace(egress.netem, delay_ns=1_000_000)))


JAPAN = lane("japan", "rtt: 346ms, rate: 10Gbit")
DELAY = lane("japan", "rtt: 346ms")
REAL = lane("japan", "rtt: 346ms, rate: 10Gbit", eth(1, 2))
FANNED = lane("japan", "rtt: 346ms", eth(5, 6))
VLANS = lane("japan", "rtt: 346ms", eth(1, 2, 10)) + lane("peru", "rtt: 90ms", eth(1, 2, 20))
FLOWS = lane(
    "far",
    "rtt: 8ms, flows: {ef: {match: {dscp: ef}, rtt: 80ms, loss: 1%}, "
    "iperf: {match: {site: 10.77.0.2, port: 5201, protocol: tcp}, rate: 1Mbit}}",
)

CASES = {
    "nothing": Case("", ""),
    "up-virtual": Case("", JAPAN),
    "up-virtual-with-loss": Case("", lane("japan", "rtt: 346ms, loss: 1%")),
    "up-beside-br-netfilter": Case("", JAPAN, nf_call=(1, 1, 0)),
    "up-two-lanes": Case("", JAPAN + lane("peru", "rtt: 90ms")),
    "up-real": Case("", REAL),
    "up-real-by-other-names": Case("", lane("japan", "rtt: 346ms", "hub: uplink, site: '02:00:00:00:00:02'")),
    "up-real-that-was-down": Case("", lane("japan", "rtt: 346ms", eth(3, 4))),
    "up-real-with-loss": Case("", lane("japan", "rtt: 346ms, loss: 1%", eth(1, 2))),
    "up-real-with-a-small-burst": Case("", lane("japan", "rtt: 346ms, rate: 100Mbit", eth(1, 2))),
    "up-queues": Case("", FANNED),
    "up-queues-but-rate": Case("", lane("japan", "rtt: 346ms, rate: 10Gbit", eth(5, 6))),
    "up-queues-one-direction": Case("", lane("japan", "rtt: 346ms, outbound: {loss: 1%}", eth(5, 6))),
    "up-vlans": Case("", VLANS),
    "up-jumbo": Case("", lane("japan", "rtt: 346ms, mtu: 9000")),
    "down-virtual": Case(JAPAN, ""),
    "down-beside-br-netfilter": Case(JAPAN, "", nf_call=(1, 1, 0)),
    "down-real": Case(REAL, ""),
    "down-queues": Case(FANNED, ""),
    "down-vlans": Case(VLANS, ""),
    "again": Case(JAPAN, JAPAN),
    "again-real": Case(REAL, REAL),
    "again-queues": Case(FANNED, FANNED),
    "again-vlans": Case(VLANS, VLANS),
    "rtt-longer": Case(JAPAN, lane("japan", "rtt: 400ms, rate: 10Gbit")),
    "rtt-shorter": Case(JAPAN, lane("japan", "rtt: 40ms, rate: 10Gbit")),
    "rtt-one-direction": Case(DELAY, lane("japan", "outbound: {delay: 200ms}, inbound: {delay: 173ms}")),
    "rtt-on-queues": Case(FANNED, lane("japan", "rtt: 40ms", eth(5, 6))),
    "rate-added": Case(DELAY, lane("japan", "rtt: 346ms, rate: 1Gbit")),
    "rate-removed": Case(JAPAN, DELAY),
    "rate-changed": Case(JAPAN, lane("japan", "rtt: 346ms, rate: 1Gbit")),
    "rate-added-on-queues": Case(FANNED, lane("japan", "rtt: 346ms, rate: 10Gbit", eth(5, 6))),
    "rate-removed-on-queues": Case(lane("japan", "rtt: 346ms, inbound: {rate: 10Gbit}", eth(5, 6)), FANNED),
    "buffer-smaller": Case(JAPAN, lane("japan", "rtt: 346ms, rate: 10Gbit, buffer: 8MiB")),
    "loss-on": Case(DELAY, lane("japan", "rtt: 346ms, loss: 0.1%")),
    "loss-off": Case(lane("japan", "rtt: 346ms, loss: 0.1%"), DELAY),
    "loss-on-real": Case(lane("japan", "rtt: 346ms", eth(1, 2)), lane("japan", "rtt: 346ms, loss: 1%", eth(1, 2))),
    "loss-off-real": Case(lane("japan", "rtt: 346ms, loss: 1%", eth(1, 2)), lane("japan", "rtt: 346ms", eth(1, 2))),
    "loss-on-one-vlan": Case(VLANS, VLANS.replace("90ms", "90ms, loss: 1%")),
    "jitter-added": Case(DELAY, lane("japan", "rtt: 346ms, jitter: 2ms")),
    "lane-added": Case(JAPAN, JAPAN + lane("peru", "rtt: 90ms")),
    "lane-removed": Case(JAPAN + lane("peru", "rtt: 90ms"), JAPAN),
    "lane-real-removed": Case(REAL + lane("peru", "rtt: 90ms", eth(3, 4)), REAL),
    "lane-vlan-added": Case(lane("japan", "rtt: 346ms", eth(1, 2, 10)), VLANS),
    "lane-vlan-removed": Case(VLANS, lane("japan", "rtt: 346ms", eth(1, 2, 10))),
    "vlan-retagged": Case(VLANS, VLANS.replace("vlan: 20", "vlan: 30")),
    "mtu-of-virtual": Case(JAPAN, lane("japan", "rtt: 346ms, rate: 10Gbit, mtu: 9000")),
    "virtual-renumbered": Case(lane("peru", "rtt: 90ms") + JAPAN, JAPAN),
    "mtu-of-one-lane": Case(JAPAN + lane("peru", "rtt: 90ms"), JAPAN + lane("peru", "rtt: 90ms, mtu: 9000")),
    "virtual-to-real": Case(JAPAN, REAL),
    "real-to-vlan": Case(REAL, lane("japan", "rtt: 346ms, rate: 10Gbit", eth(1, 2, 10))),
    "ports-swapped": Case(REAL, lane("japan", "rtt: 346ms, rate: 10Gbit", eth(2, 1))),
    "ports-moved": Case(REAL, lane("japan", "rtt: 346ms, rate: 10Gbit", eth(1, 4))),
    "renamed": Case(REAL, REAL.replace("japan", "nippon")),
    "drifted-queue-gone": Case(JAPAN, JAPAN, no_queue("lhs-japan")),
    "drifted-bottleneck-gone": Case(JAPAN, JAPAN, lambda kernel: kernel.apply(DelShaper("lhs-japan"))),
    "drifted-delay": Case(JAPAN, JAPAN, foreign_change),
    "drifted-out-of-the-bridge": Case(JAPAN, JAPAN, lambda kernel: kernel.apply(Release("lhh-japan"))),
    "drifted-veth-gone": Case(JAPAN, JAPAN, lambda kernel: kernel.apply(DelVeth("lhs-japan"))),
    "drifted-host-gone": Case(JAPAN, JAPAN, lambda kernel: kernel.apply(DelNamespace("lh-japan"))),
    "drifted-br-netfilter": Case(JAPAN, JAPAN, lambda kernel: kernel.apply(SetNfCall((1, 1, 1))), (0, 0, 0)),
    "drifted-one-of-the-queues": Case(FANNED, FANNED, missing_queue),
    "drifted-noisy-port": Case(REAL, REAL, noisy("eth1")),
    "up-flows": Case("", FLOWS),
    "flow-changed": Case(FLOWS, FLOWS.replace("1%", "2%").replace("rate: 1Mbit", "rate: 2Mbit")),
    "flow-without-rate": Case(FLOWS, FLOWS.replace(", rate: 1Mbit", "")),
    "flows-other": Case(FLOWS, lane("far", "rtt: 8ms, flows: {web: {match: {site_port: 443}, loss: 1%}}")),
    "down-flows": Case(FLOWS, ""),
    "drifted-noisy-trunk": Case(VLANS, VLANS, noisy("eth2")),
}


def steps_of(case: Case) -> tuple[list[Step], FakeKernel]:
    """The plan, and the machine that it is for."""
    kernel = appliance_box()
    kernel.nf_call = case.nf_call
    have = kernel.observe()
    old = topology(case.have)
    refuse(old, have)
    apply(kernel, wanted(old, have) if case.have else nothing(have), have)
    if case.drift:
        case.drift(kernel)
    have = kernel.observe()
    new = topology(case.want)
    refuse(new, have)
    return plan(wanted(new, have) if case.want else nothing(have), have), kernel


def text_of(steps: list[Step]) -> str:
    """As `longhaul plan` shows it, the reason in a line of its own."""
    return "".join(f"{step.op}\n    # {step.why}\n" for step in steps) or "# nothing to change\n"


@pytest.mark.parametrize("name", CASES)
def test_the_plan_is_as_it_is_written_down(name: str) -> None:
    steps, kernel = steps_of(CASES[name])
    path = GOLDEN / f"{name}.txt"
    assert text_of(steps) == golden(path, text_of(steps))
    for step in steps:
        kernel.apply(step.op)
    have = kernel.observe()
    assert plan(wanted(topology(CASES[name].want), have) if CASES[name].want else nothing(have), have) == []


def test_every_golden_plan_has_its_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == CASES.keys()
