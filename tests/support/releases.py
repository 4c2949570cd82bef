"""What scripts/release makes, for the tests of the wheels and of the Debian packages."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from emulator.lab import boot
from support.folders import ROOT

ENGINE = ROOT / "emulator/engine/target/release/longhaul-wire"
"""What scripts/install built: compiling it again takes most of a minute (tests/bench/release.py does)."""


def released(folder: Path, umask: int, zone: str) -> Path:
    """A folder with what scripts/release makes, under another umask and time zone."""
    boot.built()
    # xz's best takes twenty times as long as its fastest.
    command = [ROOT / "scripts/release", "--out", folder, "--engine", ENGINE, "--xz", "0"]
    subprocess.run(command, cwd="/", env={**os.environ, "TZ": zone}, umask=umask, check=True, stdout=subprocess.DEVNULL)
    return folder
