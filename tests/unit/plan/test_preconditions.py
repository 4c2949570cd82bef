"""Why a machine is left alone: one scenario is a topology, a machine and the exact text. Nothing is changed then."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fake_machines import described
from support.folders import GOLDEN
from support.golden import golden

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.control.protected_sessions import ssh_addresses
from emulator.errors import RefusedError
from emulator.kernel.fake import FakeKernel
from emulator.model.impairment import LONGEST_DELAY_NS, Impairment
from emulator.model.topology import Lane, Ports, Topology
from emulator.plan.netem_lowering import limit_packets
from emulator.plan.preconditions import memory_reasons
from emulator.plan.small_frames import FULL
from emulator.plan.state import Link, Machine

SCENARIOS = GOLDEN / "refusals"
NAMES = sorted(path.name.removesuffix(".txt") for path in SCENARIOS.glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_refused_with_the_reason_and_left_as_it_was(name: str, tmp_path: Path) -> None:
    kernel, sessions = described(SCENARIOS / f"{name}.machine.yaml")
    appliance = Appliance(kernel, tmp_path)
    topology = loader.load(SCENARIOS / f"{name}.yaml")
    file = SCENARIOS / f"{name}.txt"
    if file.read_text().startswith("warning: "):
        warnings = "".join(f"warning: {line}\n" for line in appliance.warnings(topology))
        assert warnings == golden(file, warnings)
        appliance.up(topology, sessions=sessions)
        return
    with pytest.raises(RefusedError) as error:
        appliance.up(topology, sessions=sessions)
    reasons = f"{error.value}\n"
    assert reasons == golden(file, reasons)
    assert kernel.log == []
    assert appliance.topology() is None


def test_every_scenario_is_whole() -> None:
    assert len(NAMES) >= 20
    files = {path.name for path in SCENARIOS.iterdir()}
    assert files == {f"{name}{end}" for name in NAMES for end in (".txt", ".yaml", ".machine.yaml")}


def test_a_free_pair_is_neither_refused_nor_warned_of(tmp_path: Path) -> None:
    kernel, _ = described(SCENARIOS / "no-carrier.machine.yaml")
    kernel.nics = {name: described(SCENARIOS / "bond.machine.yaml")[0].nics["eth1"] for name in kernel.nics}
    topology = loader.load(SCENARIOS / "no-carrier.yaml")
    assert Appliance(kernel, tmp_path).warnings(topology) == []


def test_the_session_is_found_in_the_processes_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sudo takes SSH_CONNECTION away; the shell above it still has it."""
    monkeypatch.setattr("os.getpid", lambda: 30)
    above = {30: (20, b"USER=root"), 20: (10, b"A=1\0SSH_CONNECTION=192.0.2.9 5022 192.0.2.1 22\0B=2"), 10: (1, b"")}
    for process, (parent, environment) in above.items():
        folder = tmp_path / str(process)
        folder.mkdir()
        (folder / "environ").write_bytes(environment)
        (folder / "stat").write_text(f"{process} (a (b) c) S {parent} 1 1")
    assert ssh_addresses(tmp_path) == {"192.0.2.1"}
    (tmp_path / "20/environ").write_bytes(b"SSH_CONNECTION=broken")
    assert ssh_addresses(tmp_path) == frozenset()


def test_a_port_that_longhaul_made_for_another_lane_is_refused(tmp_path: Path) -> None:
    appliance = Appliance(FakeKernel({"eth1": described(SCENARIOS / "bond.machine.yaml")[0].links["eth1"]}), tmp_path)
    appliance.up(Topology("one", "hub", (Lane("tokyo"),)))
    for port in ("lhs-tokyo", "lhx-tokyo", "lhx-hub"):
        with pytest.raises(RefusedError, match=f"port {port}: is made by Longhaul for another lane"):
            appliance.up(Topology("two", "hub", (Lane("london", ports=Ports("eth1", port)),)))


@pytest.mark.parametrize("name", ["lh-tokyo", "lhh-tokyo", "lhs-tokyo", "lhx-tokyo", "lhx-hub", "lh-switch"])
def test_the_name_of_any_interface_that_longhaul_would_make_is_looked_at(name: str, tmp_path: Path) -> None:
    kernel = FakeKernel({name: Link(1500, up=True, ipv6=True, addrgen=0)})
    with pytest.raises(RefusedError, match=f"^{name}: an interface that Longhaul does not own has this name"):
        Appliance(kernel, tmp_path).up(Topology("t", "hub", (Lane("tokyo"),)))
    assert kernel.log == []


def test_a_queue_of_more_packets_than_netem_can_count() -> None:
    fat = Impairment(LONGEST_DELAY_NS)
    said = memory_reasons(Topology("t", "hub", (Lane("mars", fat, fat),)), Machine())
    packets = limit_packets(Lane("mars", fat, fat), fat, FULL)
    assert said[0] == (
        f"lane mars: {packets} packets may be in flight, netem holds 4294967295: use a lower rate, RTT or buffer"
    )
