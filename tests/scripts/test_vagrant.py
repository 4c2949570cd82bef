"""The Vagrantfile as Vagrant itself reads it. What its scripts do is tried in tests/lab/test_vagrant_scripts.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.folders import ROOT, TESTS
from support.waiting import PATIENCE_S

OURS = {"LONGHAUL_BOX": "longhaul", "LONGHAUL_SITES": "london"}


def validate(folder: Path, home: Path, **chosen: str) -> subprocess.CompletedProcess[str]:
    ours = {"HOME": str(home), "VAGRANT_HOME": str(home / "vagrant"), "VAGRANT_DOTFILE_PATH": str(home / "dot")}
    settings = {"VAGRANT_CHECKPOINT_DISABLE": "1", "VAGRANT_DEFAULT_PROVIDER": "libvirt", "VAGRANT_CWD": str(folder)}
    environment = {"PATH": os.environ["PATH"], **ours, **settings, **chosen}
    return subprocess.run(
        ["vagrant", "validate"], env=environment, text=True, capture_output=True, timeout=PATIENCE_S, check=False
    )


@pytest.mark.skipif(not shutil.which("vagrant"), reason="Vagrant is not installed: apt-get install vagrant-libvirt")
@pytest.mark.parametrize("chosen", [{}, OURS])
def test_the_vagrantfile_is_valid(tmp_path: Path, chosen: dict[str, str]) -> None:
    done = validate(ROOT, tmp_path, **chosen)
    assert (done.returncode, done.stdout) == (0, "Vagrantfile validated successfully.\n"), done.stdout + done.stderr


@pytest.mark.skipif(not shutil.which("vagrant"), reason="Vagrant is not installed: apt-get install vagrant-libvirt")
def test_a_broken_one_is_not(tmp_path: Path) -> None:
    text = (ROOT / "Vagrantfile").read_text()
    (tmp_path / "Vagrantfile").write_text(text.replace('type: "shell"', 'type: "shells"'))
    assert validate(tmp_path, tmp_path).returncode != 0


def test_every_script_it_names_is_there() -> None:
    named = {
        line.partition("#{SCRIPTS}/")[2].split()[0]
        for line in (ROOT / "Vagrantfile").read_text().splitlines()
        if "#{SCRIPTS}/" in line
    }
    there = {path.name for path in (ROOT / "scripts/vagrant").iterdir() if os.access(path, os.X_OK)}
    assert named == there - {"interface-of", "box"}


@dataclass(frozen=True)
class Evaluated:
    """What a Vagrantfile calls: the names and values of each call, and its options."""

    calls: list[tuple[list[str], dict[str, Any]]]

    def machines(self) -> list[str]:
        return [names[2] for names, _ in self.calls if names[:2] == ["vm", "define"] and len(names) == 3]

    def values(self, *place: str) -> list[str]:
        """The last name of each call that begins like this."""
        return [names[-1] for names, _ in self.calls if names[:-1] == list(place)]

    def networks(self, machine: str) -> list[dict[str, Any]]:
        return self.options("vm", "define", machine, "vm", "network", "private_network")

    def provisioned(self, machine: str, step: str) -> str:
        (only,) = self.options("vm", "define", machine, "vm", "provision", step)
        return str(only["inline"])

    def options(self, *place: str) -> list[dict[str, Any]]:
        return [options for names, options in self.calls if names == list(place)]


def evaluated(**chosen: str) -> Evaluated:
    """The repository's Vagrantfile, evaluated without Vagrant. Raises CalledProcessError when it refuses."""
    if not shutil.which("ruby"):
        pytest.skip("Ruby is not installed: apt-get install vagrant-libvirt")
    command = ["ruby", str(TESTS / "support/vagrantfile.rb"), str(ROOT / "Vagrantfile")]
    environment = {"PATH": os.environ["PATH"], "HOME": "/nowhere", **chosen}
    done = subprocess.run(command, env=environment, text=True, capture_output=True, check=True)
    return Evaluated([(names, options) for names, options in map(json.loads, done.stdout.splitlines())])


def test_without_variables_it_is_the_founding_lab_of_debians_box() -> None:
    whole = evaluated()
    assert whole.machines() == ["new-york", "california", "london", "japan", "appliance"]
    assert whole.values("vm", "box") == ["debian/bookworm64"]
    assert whole.provisioned("appliance", "longhaul") == "/vagrant/scripts/install --appliance"
    assert whole.values("ENV", "VAGRANT_NO_PARALLEL") == [""]
    assert len(whole.networks("appliance")) == 1 + 2 * 3


def test_our_box_has_nothing_to_install_and_comes_up_one_by_one() -> None:
    ours = evaluated(LONGHAUL_BOX="longhaul")
    assert ours.values("vm", "box") == ["longhaul"]
    assert ours.provisioned("appliance", "longhaul") == "systemctl enable --now longhaul"
    assert ours.values("ENV", "VAGRANT_NO_PARALLEL") == ["1"]


def test_another_box_is_installed_on() -> None:
    assert "install --appliance" in evaluated(LONGHAUL_BOX="debian/trixie64").provisioned("appliance", "longhaul")


def test_one_site_comes_with_hub_and_appliance() -> None:
    one = evaluated(LONGHAUL_SITES="london")
    assert one.machines() == ["new-york", "london", "appliance"]
    assert len(one.networks("appliance")) == 1 + 2
    measured = one.provisioned("appliance", "measure")
    assert "topology new-york new-york london 80ms 52:54:00:77:02:01 52:54:00:77:03:01 >" in measured
    assert "new-york 192.168.77.11 london 192.168.77.12\n" in measured


@pytest.mark.parametrize("sites", ["", "london", "japan", "london,japan"])
def test_hosts_have_the_addresses_of_the_topology(sites: str) -> None:
    """Which numbers hub and sites in their order, where a lane names no address."""
    some = evaluated(**({"LONGHAUL_SITES": sites} if sites else {}))
    for number, host in enumerate(some.machines()[:-1], 1):
        assert some.provisioned(host, "network").endswith(f" 10.77.0.{number}/24")


@pytest.mark.parametrize("sites", ["paris", "london,paris", ""])
def test_a_site_that_does_not_exist_is_refused(sites: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refused:
        evaluated(LONGHAUL_SITES=sites)
    assert f"LONGHAUL_SITES is '{sites}': name one or more of california,london,japan" in refused.value.stderr


SAID = "warning: the latency of QEMU without KVM is in the figures above"
SHORTER = " --rate 10Mbit --repeats 1"


@pytest.mark.parametrize(
    ("virt", "verify", "sweep", "code", "swept", "warnings"),
    [
        ("kvm", 0, 0, 0, True, 0),
        ("kvm", 8, 0, 8, False, 0),
        ("none", 8, 0, 8, False, 0),
        ("qemu", 0, 0, 0, True, 0),
        ("qemu", 8, 0, 0, True, 1),
        ("qemu", 8, 8, 0, True, 2),
        ("qemu", 6, 0, 6, False, 0),
    ],
)
def test_a_failed_check_is_a_warning_under_tcg_alone(
    tmp_path: Path, virt: str, verify: int, sweep: int, code: int, swept: bool, warnings: int
) -> None:
    programs = {
        "longhaul": f'echo "$@"; case "$1" in verify) exit {verify} ;; sweep) exit {sweep} ;; esac',
        # It fails where there is no virtual machine.
        "systemd-detect-virt": f"echo {virt}; test {virt} != none",
    }
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    command = [str(ROOT / "scripts/vagrant/measure"), "lab.yaml", "runs", "--streams", "1"]
    done = subprocess.run(command, env=environment, text=True, capture_output=True, check=False)
    line = f"sweep lab.yaml --runs runs --streams 1{SHORTER if virt == 'qemu' else ''}"
    assert done.stdout.splitlines() == ["up lab.yaml", "verify", *([line] if swept else [])]
    assert done.returncode == code
    assert done.stderr.count(SAID) == warnings
