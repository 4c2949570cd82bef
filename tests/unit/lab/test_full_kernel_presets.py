"""The presets that need the lab's full kernel: each law, what it predicts, and the one setting that helps.

Building that kernel takes minutes, and few use it: without it these tests are skipped.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.preset_laws import RTTS, law, rows

from emulator.lab import boot, build_kernel
from emulator.lab.boot_options import BootOptions
from emulator.lab.lab_root import RootChoice

pytestmark = pytest.mark.skipif(
    not build_kernel.place(build_kernel.FULL).exists(),
    reason="the full kernel is not built: longhaul lab build --kernel-config full",
)
ROOT = RootChoice(packages=("nfs-common", "nfs-kernel-server", "wireguard-tools"))


@pytest.mark.parametrize(
    ("preset", "client", "round_trips", "tolerance"),
    [
        ("nfs", "", 154, 3),
        ("nfs", "unshare --mount sh -e read.sh 4k 1024", 45, 2),
        ("wireguard", "", 9, 0.1),
        ("wireguard", "python3 get.py 10.99.0.2", 8, 0.1),
    ],
)
def test_a_preset_costs_its_round_trips(
    preset: str, client: str, round_trips: float, tolerance: float, tmp_path: Path
) -> None:
    sweep = ["python3", "-m", "emulator", "sweep", preset, "--rtt", RTTS, "--repeat", "1", "--runs", "runs"]
    argv = [*sweep, *(["--client", client] if client else [])]
    done = boot.capture(argv, BootOptions(tmp_path, stall_cpu_s=60, timeout_s=600), ROOT)
    assert done.exit_code == 0, (done.stdout + done.stderr).decode()
    assert law(rows(tmp_path / "runs")).round_trips == pytest.approx(round_trips, abs=tolerance)
