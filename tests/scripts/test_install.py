"""scripts/install on a machine that lacks packages."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from support.folders import ROOT

INSTALL = ROOT / "scripts/install"


def tool(folder: Path, name: str, script: str) -> None:
    """A program that takes the place of the machine's own."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_without_root_it_names_the_missing_packages_and_changes_nothing(tmp_path: Path) -> None:
    tool(tmp_path, "dpkg-query", 'case $4 in iperf3|flex) ;; *) echo "install ok installed" ;; esac')
    tool(tmp_path, "id", "echo 1000")
    tool(tmp_path, "apt-get", f"touch {tmp_path}/asked")
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run([INSTALL], env={**os.environ, "PATH": path}, check=False, text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        "missing Debian packages: flex iperf3\n"
        "as root: apt-get update && apt-get install -y --no-install-recommends flex iperf3\n"
    )
    assert not (tmp_path / "asked").exists()
