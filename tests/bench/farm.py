"""A sweep of 200 cells on a Dask cluster of one worker and of two: the same bytes, and how long it takes. By hand.

Prints cells an hour for each; exits with 1 when a byte differs. Takes two sweeps of 200 labs, some seconds each: best
part of an hour on two CPUs; fewer RTTs take less.

Example:
  .venv/bin/python tests/bench/farm.py 2,4
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from helped import parser

ROOT = Path(__file__).parents[2]
DURATION_S = 1
RTTS = "2,4,6,8,10"
AXES = {
    "rate": "2Mbit,4Mbit,6Mbit,8Mbit,10Mbit", "streams": "1,2", "cc": "cubic,reno",
    "direction": "outbound,inbound", "profile": "default", "duration": str(DURATION_S), "repeats": "1",
    "order-seed": "1",
}  # fmt: skip


def sweep(workers: int, rtts: str, folder: Path) -> dict[str, bytes]:
    """Every cell's result and raw answers by file name; prints what it took."""
    from support.dask_clusters import cluster

    folder.mkdir()
    options = [word for axis, values in {"rtt": rtts, **AXES}.items() for word in (f"--{axis}", values)]
    with cluster(folder, workers) as scheduler:
        longhaul = [Path(sys.executable).with_name("longhaul"), "sweep", "--scheduler", scheduler]
        begin = time.monotonic()
        done = subprocess.run(
            [*longhaul, *options, "--runs", folder / "runs"], check=False, capture_output=True, text=True
        )
        took_s = time.monotonic() - begin
    (run,) = (folder / "runs").iterdir()
    cells = len(json.loads((run / "results.json").read_text())["cells"])
    figures = f"{cells} cells in {took_s:.0f} s, {cells / took_s * 3600:.0f} an hour"
    virtual = f"{took_s / cells / DURATION_S:.1f} s for a second of streams"
    print(f"{workers} workers: {figures}, {virtual}; exit {done.returncode}", flush=True)
    files = [file for part in ("cells", "raw") for file in (run / part).iterdir()]
    return {str(file.relative_to(run)): file.read_bytes() for file in files}


def main(rtts: str) -> None:
    """Both sweeps, and every file that differs."""
    sys.path.insert(0, str(ROOT / "tests"))
    with tempfile.TemporaryDirectory() as folder:
        one, two = (sweep(workers, rtts, Path(folder) / str(workers)) for workers in (1, 2))
    differ = sorted(name for name in one.keys() | two.keys() if one.get(name) != two.get(name))
    print(f"{len(one)} files, {len(differ)} differ: {differ[:5]}")
    sys.exit(bool(differ))


if __name__ == "__main__":
    said = parser(__doc__)
    said.add_argument("rtts", nargs="?", default=RTTS, metavar="RTT,...", help=f"40 cells each; {RTTS} ms unless said")
    main(said.parse_args().rtts)
