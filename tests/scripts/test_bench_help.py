"""Every benchmark tells by --help what it does, how long it takes, and an example, and begins nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.folders import TESTS
from support.waiting import PATIENCE_S

BENCH = TESTS / "bench"
PARTS = ("helped.py", "sweeps.py", "wiremeasures.py")
"""What benchmarks import, and nobody runs."""
SCRIPTS = sorted(path for path in BENCH.glob("*.py") if path.name not in PARTS)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_help(script: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script), "--help"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    _, usage, said = done.stdout.partition("usage:")
    assert usage
    assert " Takes " in said.replace("\n", " ")
    assert f"tests/bench/{script.name}" in said.partition("Example:")[2]
