"""No two things that Longhaul makes have one name in the kernel."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.errors import InputError
from emulator.kernel.fake import FakeKernel
from emulator.model import device_names
from emulator.model.device_names import IFNAMSIZ, SWITCH, interface_name
from emulator.model.topology import Lane, Ports, Topology
from emulator.plan.desired_state import wanted

ROLES = ("", "h", "s", "x", "vh", "vs")
LABEL = st.from_regex(r"\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z") | st.from_regex(r"\A(switch|abcdef)(-[0-9a-f]{4})?\Z")


def topology(*names: str, hub: str = "hub") -> Topology:
    return Topology("t", hub, tuple(Lane(name) for name in names))


def test_a_lane_called_switch_has_a_bridge_of_its_own(tmp_path: Path) -> None:
    kernel = FakeKernel()
    Appliance(kernel, tmp_path).up(topology("switch", "tokyo"))
    assert interface_name("", "switch") != SWITCH
    assert kernel.bridges.keys() == {SWITCH, interface_name("", "switch"), "lh-tokyo"}
    assert {kernel.ports[name].bridge for name in ("lhs-switch", "lhh-switch")} == {interface_name("", "switch")}


@pytest.mark.parametrize(
    ("one", "other", "device"),
    [
        ("alongname-00381", "alongname-00545", None),
        ("abcdefghijklmno", "abcdef-41c7", "lhh-abcdef-41c7"),
        ("switch", f"switch-{interface_name('', 'switch')[-4:]}", interface_name("", "switch")),
    ],
)
def test_two_names_with_one_device_are_refused(one: str, other: str, device: str | None) -> None:
    device = device or interface_name("", one)
    assert device in [interface_name(role, other) for role in ROLES]
    said = f"names {one} and {other} would both be {device} in the kernel: rename one of them"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        topology(one, other)
    with pytest.raises(InputError, match=re.escape(f": lanes: {said}")):
        loader.loads(json.dumps({"name": "t", "hub": "hub", "lanes": {one: {}, other: {}}}))


def test_the_hub_is_one_of_them() -> None:
    with pytest.raises(ValueError, match="alongname-00545 and alongname-00381 would both be lhx-alongn-"):
        topology("alongname-00381", hub="alongname-00545")


@pytest.mark.parametrize("port", [SWITCH, "lhs-tokyo", "lh-london", "lhx-hub"])
def test_a_port_is_no_interface_that_longhaul_makes(port: str) -> None:
    with pytest.raises(ValueError, match=f"port {port} of lane london is the name of an interface that Longhaul makes"):
        Topology("t", "hub", (Lane("tokyo"), Lane("london", ports=Ports(port, "eth1"))))


@given(st.lists(LABEL, min_size=1, max_size=8, unique=True), LABEL)
def test_a_topology_that_is_taken_has_a_device_of_its_own_for_everything(names: list[str], hub: str) -> None:
    try:
        asked = topology(*names, hub=hub)
    except ValueError:
        return
    state = wanted(asked, FakeKernel().observe())
    assert len(state.bridges) == len(names) + 1
    assert len(state.veths) == 2 * len(names) + 1
    assert len(state.ports) == 3 * len(names) + 1
    assert len(state.namespaces) == len(names) + 1


@given(LABEL, st.sampled_from(ROLES))
def test_a_name_fits_the_kernel_and_no_role_takes_anothers(name: str, role: str) -> None:
    made = interface_name(role, name)
    assert len(made) <= IFNAMSIZ
    assert made.startswith(f"{device_names.PREFIX}{role}-")
