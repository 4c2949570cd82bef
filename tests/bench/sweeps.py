"""A sweep by the installed command, for benchmarks that compare sweeps cell by cell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from emulator.experiment import results
from emulator.experiment.cell_result import CellResult

LONGHAUL = Path(sys.executable).with_name("longhaul")


def rates(folder: Path, *options: str | Path) -> dict[str, float]:
    """The steady rate of each cell of streams in Mbit/s, by its id. Exit code 8 is a result, too."""
    done = subprocess.run([LONGHAUL, "sweep", *options, "--json"], cwd=folder, check=False, stdout=subprocess.PIPE)
    if done.returncode not in (0, 8):
        sys.exit(f"longhaul sweep {' '.join(map(str, options))} exited with {done.returncode}")
    cells = json.loads(done.stdout)["cells"]
    found = [results.from_json(one) for one in cells]
    return {one.spec.id: one.throughput.steady_bytes_per_s * 8 / 1e6 for one in found if isinstance(one, CellResult)}
