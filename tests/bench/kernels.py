"""Builds kernels of a user's own and measures on them: how long the first build and the next ones take.

A first build compiles a kernel with the congestion control of the documents; then the file is changed and built again,
and a sweep measures it beside Reno and CUBIC, twice, which must give the same bytes. Uses the cache of $XDG_CACHE_HOME.
Takes six minutes on two CPUs, five of them the first build.

Example:
  timeout 3h .venv/bin/python tests/bench/kernels.py --kernel 6.12 --changes 2
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import helped

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "emulator/docs/tcp_gentle.c"
LONGHAUL = Path(sys.executable).with_name("longhaul")
CELL = ("--rtt", "20,80", "--rate", "100Mbit", "--loss", "0.01%", "--tcp-profile", "default", "--duration", "10s")


def run(*argv: str | Path, cwd: Path) -> str:
    """One command's output; its failure is ours. Exit code 8 is a result."""
    done = subprocess.run([LONGHAUL, *argv], cwd=cwd, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, 8):
        sys.exit(f"longhaul {' '.join(map(str, argv))} exited with {done.returncode}")
    return done.stdout


def build(source: Path, kernel: str, cwd: Path) -> None:
    """Build and say what it took."""
    began = time.monotonic()
    made = json.loads(run("lab", "build", "--kernel", kernel, "--cc-source", source, "--json", cwd=cwd))
    took = time.monotonic() - began
    print(
        f"{took:7.1f} s  {made['compiled_files']:4} files compiled, {made['version']}, {made['mode']}, {made['id']}",
        flush=True,
    )


def sweep(source: Path, kernel: str, cwd: Path) -> list[tuple[str, bytes, float]]:
    """Each measurement of a sweep: its name, its bytes, its throughput in MiB/s."""
    options = ("--kernel", kernel, "--cc-source", source, "--cc", "gentle,reno,cubic", "--repeats", "1")
    run_folder = Path(json.loads(run("sweep", "--in-lab", *CELL, *options, "--json", cwd=cwd))["run"])
    found = []
    for file in sorted((cwd / run_folder / "cells").iterdir()):
        content = file.read_bytes()
        found.append((file.name, content, json.loads(content)["throughput"]["steady_bytes_per_s"] / 2**20))
    return found


def main() -> None:
    """Build, change, build, measure twice."""
    parser = helped.parser(__doc__)
    parser.add_argument("--kernel", default="6.12")
    parser.add_argument("--changes", type=int, default=2)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="longhaul-kernels-") as name:
        folder = Path(name)
        source, text = folder / "tcp_gentle.c", EXAMPLE.read_text()
        source.write_text(text)
        build(source, asked.kernel, folder)
        for change in range(asked.changes):
            source.write_text(text.replace("* 7 / 10", f"* {8 + change} / 10"))
            build(source, asked.kernel, folder)
        source.write_text(text)
        first, second = sweep(source, asked.kernel, folder), sweep(source, asked.kernel, folder)
        for cell, _, steady in first:
            print(f"{cell:60} {steady:7.3f} MiB/s")
        print("the second sweep has", "the same bytes" if first == second else "OTHER BYTES")
        sys.exit(first != second)


if __name__ == "__main__":
    main()
