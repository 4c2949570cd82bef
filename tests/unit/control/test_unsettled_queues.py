"""A NIC that decides how many queues it uses when it first comes up, as igb does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.clocked_appliance import Machine

from emulator.errors import VerifyError
from emulator.kernel.fake import FakeKernel
from emulator.model.impairment import Impairment
from emulator.model.topology import Lane, Ports, Topology
from emulator.plan.ops import Op, UpPort
from emulator.plan.state import Link, Nic

PAIR = Ports("nic0", "nic1")
DELAY = Impairment(8_000_000)
LANES = Topology("pair", "hub", (Lane("japan", DELAY, DELAY, ports=PAIR),))


def settling(kernel: FakeKernel, monkeypatch: pytest.MonkeyPatch, counts: Callable[[int], int]) -> None:
    """Ports of 8 TX queues use `counts(N)` of them when they come up for the Nth time."""
    real, ups = kernel.apply, [0]
    for name in (PAIR.hub, PAIR.site):
        kernel.links[name], kernel.nics[name] = Link(1500, up=False, ipv6=True, addrgen=0), Nic(tx_queues=8)

    def apply(op: Op) -> None:
        real(op)
        if isinstance(op, UpPort):
            ups[0] += 1
            number = counts(ups[0])
            kernel.nics[op.port] = replace(kernel.nics[op.port], tx_queues=number)
            port = kernel.ports[op.port]
            if port.egress:
                kernel.ports[op.port] = replace(port, egress=replace(port.egress, queues=number))

    monkeypatch.setattr(kernel, "apply", apply)


def test_up_plans_again_with_the_queues_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path)
    settling(machine.kernel, monkeypatch, lambda times: 2)
    machine.appliance().up(LANES)
    assert machine.is_(LANES)
    egress = machine.kernel.ports[PAIR.site].egress
    assert egress and egress.queues == 2


def test_the_watchdog_plans_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path)
    machine.appliance().up(LANES)
    machine.kernel.ports.clear()
    machine.kernel.marked.clear()
    settling(machine.kernel, monkeypatch, lambda times: 2)
    machine.appliance().repair(restore=True)
    assert machine.is_(LANES)


def test_a_nic_that_never_settles_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path)
    settling(machine.kernel, monkeypatch, lambda times: 2 + times % 5)
    with pytest.raises(VerifyError, match="reads back differently"):
        machine.appliance().up(LANES)
