"""Schedules go on for the other lanes while a port of one is gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.schedule_box import MS, Box, S

from emulator.config import loader
from emulator.errors import KernelError, RefusedError
from emulator.kernel.fake import FakeKernel
from emulator.model.topology import Topology
from emulator.plan.ops import Op
from emulator.plan.qdisc_ops import Together
from emulator.plan.state import Link


@pytest.fixture
def box(tmp_path: Path) -> Box:
    return Box(tmp_path)


LINK = Link(1500, True, True, 0)
BOTH = "{keys: [{at: 1s, rtt: 120ms}, {at: 15s, rtt: 40ms}, {at: 35s, rtt: 60ms}]}"


class Nics(FakeKernel):
    """Refuses every operation on a port that was pulled out."""

    def apply(self, op: Op) -> None:
        for one in op.ops if isinstance(op, Together) else (op,):
            if getattr(one, "port", "nic0") not in self.links.keys() | self.ports.keys() | self.bridges.keys():
                raise KernelError(op, 19, "No such device")
        super().apply(op)

    def pull(self, port: str) -> None:
        """Take a port of a lane out of the machine."""
        del self.ports[port], self.marked[port]


def on_nics(more: str = "") -> Topology:
    """The lanes a and b on ports of the machine, nic0 to nic3."""
    a, b = (f"{{rtt: 80ms, ports: {{hub: nic{n}, site: nic{n + 1}}}}}" for n in (0, 2))
    text = f"{{name: x, hub: h, {more} lanes: {{a: {a}, b: {b}}}, schedule: {{tracks: [{BOTH}]}}}}"
    return loader.loads(text)


def site_delays(box: Box) -> list[float | None]:
    """The delay of each lane's site port in ms; None where the port is not up."""
    egresses = [port and port.egress for port in map(box.kernel.ports.get, ("nic1", "nic3"))]
    return [egress.netem.delay_ns / MS if egress else None for egress in egresses]


def test_a_lane_whose_port_is_missing_after_a_reboot_does_not_end_the_schedule_of_the_others(box: Box) -> None:
    box.kernel = Nics({f"nic{n}": LINK for n in range(4)})
    box.up(on_nics("on_drift: restore,"))
    box.kernel = Nics({f"nic{n}": LINK for n in range(3)})
    box.watch(2)
    assert (site_delays(box), box.events) == ([60, None], ["repaired", "blocked", "watching"])
    box.kernel.links["nic3"] = LINK
    box.watch(15)
    assert site_delays(box) == [20, 20]


def test_the_coming_changes_are_told_though_a_port_is_missing(box: Box) -> None:
    box.kernel = Nics({f"nic{n}": LINK for n in range(3)})
    (first,) = box.appliance().coming(on_nics(), 1)
    assert (first.at_ns, first.words) == (S, ("a, each way: delay 40ms -> 60ms", "b, each way: delay 40ms -> 60ms"))
    with pytest.raises(RefusedError, match="port nic3: there is no such interface"):
        box.appliance().plan(on_nics())


@pytest.mark.parametrize("drift", ["restore", "report"])
def test_a_port_that_is_pulled_out_does_not_end_the_schedule_of_the_others(box: Box, drift: str) -> None:
    box.kernel = kernel = Nics({f"nic{n}": LINK for n in range(4)})
    box.up(on_nics(f"on_drift: {drift},")).watch(2)
    assert site_delays(box) == [60, 60]
    waits = 0

    def wait(timeout_s: float, wake_fd: int | None = None) -> bool:
        nonlocal waits
        waits += 1
        if waits == 1:
            kernel.pull("nic3")
        elif box.clock.now_ns > 20 * S and "nic3" not in kernel.ports:
            kernel.links["nic3"] = LINK
            box.appliance().up(on_nics(f"on_drift: {drift},"))
        return heard_nothing(timeout_s)

    heard_nothing = box.wait
    box.wait = wait  # type: ignore[method-assign]
    box.watch(15)
    assert site_delays(box) == [20, None]
    box.watch(25)
    assert site_delays(box) == [30, 30]
    assert not set(box.events) & {"drift"}
