"""What the Vagrantfile's scripts do to its machines, done to namespaces with sshd: from bare ports to a sweep."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.folders import ROOT
from support.ssh_machines import Machines, machines, sh

SCRIPTS = ROOT / "scripts/vagrant"
SITES = {"near": "20ms", "far": "40ms"}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    with machines(tmp_path_factory.mktemp("keys"), "hub", tuple(SITES), addressed=False) as made:
        yield made


def test_a_mac_address_that_nobody_has_is_said() -> None:
    done = subprocess.run([SCRIPTS / "interface-of", "52:54:00:00:00:00"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("no interface has the MAC address 52:54:00:00:00:00")


def test_from_bare_ports_to_a_sweep(three: Machines, tmp_path: Path) -> None:
    for _ in range(2):  # as at every boot
        for number, name in enumerate(three.names, 1):
            three.inside(name, f"{SCRIPTS}/host-network {three.mac(name)} 10.77.0.{number}/24")
        hosts = " ".join(f"{name} {three.management(name)}" for name in three.names)
        sh(f"{SCRIPTS}/ssh-access {three.folder}/key root {hosts}")
    macs = {port: Path(f"/sys/class/net/{port}/address").read_text().strip() for port in ports()}
    lanes = " ".join(f"{site} {SITES[site]} {macs[f'hub-{n}']} {macs[f'site-{n}']}" for n, site in enumerate(SITES, 2))
    sh(f"{SCRIPTS}/topology here hub {lanes} >{tmp_path}/lab.yaml")
    try:
        sh(f"{SCRIPTS}/measure {tmp_path}/lab.yaml {tmp_path}/runs --lane far --tcp-profile founding --duration 2")
        # Once more, with the ports in bridges that have their MAC addresses.
        again = sh(f"{SCRIPTS}/topology here hub {lanes}")
        assert again == (tmp_path / "lab.yaml").read_text()
    finally:
        sh("longhaul down")
    (results,) = tmp_path.glob("runs/*/results.json")
    cells = json.loads(results.read_text())["cells"]
    assert [round(cell["delays"]["rtt_ns"] / 1e6) for cell in cells] == [40]
    assert all(cell["throughput"]["mean_bytes_per_s"] > 20e6 and not cell["judgement"]["invalid"] for cell in cells)


def ports() -> list[str]:
    return [f"{side}-{number}" for side in ("hub", "site") for number in range(2, 2 + len(SITES))]
