"""Why a machine is left alone: one scenario is a topology, a machine and the exact text. Nothing is changed then."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fake_machines import described
from support.folders import GOLDEN

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.control.protected_sessions import ssh_addresses
from emulator.errors import RefusedError

SCENARIOS = GOLDEN / "refusals"
NAMES = sorted(path.name.removesuffix(".txt") for path in SCENARIOS.glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_refused_with_the_reason_and_left_as_it_was(name: str, tmp_path: Path) -> None:
    kernel, sessions = described(SCENARIOS / f"{name}.machine.yaml")
    appliance = Appliance(kernel, tmp_path)
    topology = loader.load(SCENARIOS / f"{name}.yaml")
    expected = (SCENARIOS / f"{name}.txt").read_text()
    if expected.startswith("warning: "):
        assert "".join(f"warning: {line}\n" for line in appliance.warnings(topology)) == expected
        appliance.up(topology, sessions=sessions)
        return
    with pytest.raises(RefusedError) as error:
        appliance.up(topology, sessions=sessions)
    assert f"{error.value}\n" == expected
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
