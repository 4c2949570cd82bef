"""The Vagrantfile as Vagrant itself reads it. What its scripts do is tried in tests/lab/test_vagrant_scripts.py."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support.folders import ROOT
from support.waiting import PATIENCE_S


def validate(folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    ours = {"HOME": str(home), "VAGRANT_HOME": str(home / "vagrant"), "VAGRANT_DOTFILE_PATH": str(home / "dot")}
    settings = {"VAGRANT_CHECKPOINT_DISABLE": "1", "VAGRANT_DEFAULT_PROVIDER": "libvirt", "VAGRANT_CWD": str(folder)}
    environment = {"PATH": os.environ["PATH"], **ours, **settings}
    return subprocess.run(
        ["vagrant", "validate"], env=environment, text=True, capture_output=True, timeout=PATIENCE_S, check=False
    )


@pytest.mark.skipif(not shutil.which("vagrant"), reason="Vagrant is not installed: apt-get install vagrant-libvirt")
def test_the_vagrantfile_is_valid(tmp_path: Path) -> None:
    done = validate(ROOT, tmp_path)
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
    assert named == there - {"interface-of"}
