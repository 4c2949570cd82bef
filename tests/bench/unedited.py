"""Measures the same cells in the lab and on Debian's own kernel, which nobody edited, under QEMU. By hand, as root.

RELEASE and FOLDER are as in stock.py, whose machine this is; the lanes are virtual, so that no NIC of QEMU takes part.
QEMU counts instructions instead of time, and one CPU runs: the figures do not depend on how fast this machine is. One
stream of CUBIC and of BBR at 20 Mbit/s, with a window of 64 KiB, with and without loss. Prints both rates of each cell,
the difference, and the worst. Takes 20 minutes, 2 of them for each cell in QEMU.

Example:
  scripts/release --out dist
  .venv/bin/python tests/bench/unedited.py dist /dev/shm/stock --rtt 10,80
"""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

import helped

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import stock_images
from support.stock_machines import booted
from support.stock_steps import CPU1

LONGHAUL = Path(__file__).parents[2] / ".venv/bin/longhaul"
TOPOLOGY = "{name: unedited, hub: here, lanes: {there: {rate: %s}}}"
CONTROLS, LOSSES = ("cubic", "bbr"), ("0", "0.1%")
REST = ("--tcp-profile", "max", "--window", "64KiB", "--duration", "20s", "--repeats", "1")
FILE, CELLS = "unedited.yaml", "/srv/cells"
"""The topology's file, and its folder in the machine."""
MEASURED = (0, 8)
"""The exit codes of a sweep whose cells were measured, all valid or not."""


def main() -> None:
    """Measure here and there, compare."""
    asked = helped.on_stock_debian(__doc__)
    asked.add_argument("--suite", default="trixie")
    asked.add_argument("--rtt", default="10,80")
    asked.add_argument("--rate", default="20Mbit")
    given = asked.parse_args()
    package = helped.package(asked, given.release)
    folder, topology = given.folder.resolve(), TOPOLOGY % given.rate
    lab = in_lab(topology, options(given.rtt, ",".join(CONTROLS), ",".join(LOSSES)))
    image = stock_images.made(folder, given.suite, package, keep=given.keep)
    axes = product(given.rtt.split(","), CONTROLS, LOSSES)
    stock, kernel = in_qemu(folder, image, topology, (options(*cell) for cell in axes))
    print(f"| cell | lab, Mbit/s | Linux {kernel}, Mbit/s | difference |\n| --- | --- | --- | --- |")
    for cell, rate in lab.items():
        print(f"| {cell} | {rate:.2f} | {stock[cell]:.2f} | {stock[cell] / rate - 1:+.1%} |")
    worst = max(lab, key=lambda cell: abs(stock[cell] / lab[cell] - 1))
    print(f"worst: {worst}, {stock[worst] / lab[worst] - 1:+.1%}")
    if not given.keep:
        stock_images.delete(folder, image)


def options(rtt: str, control: str, loss: str) -> tuple[str, ...]:
    """The arguments of a sweep of these cells."""
    return FILE, "--rtt", rtt, "--cc", control, "--loss", loss, *REST


def rates(table: str) -> dict[str, float]:
    """Of each cell in the CSV of a sweep its steady rate in Mbit/s."""
    rows = csv.DictReader(io.StringIO(table))
    return {
        f"{int(row['rtt_asked_ns']) / 1e6:g} ms, {row['congestion_control']}, loss {float(row['loss']):.1%}":
        float(row["steady_bytes_per_s"]) * 8 / 1e6
        for row in rows
    }  # fmt: skip


def in_lab(topology: str, arguments: Sequence[str]) -> dict[str, float]:
    """The rates on the lab's kernel."""
    with tempfile.TemporaryDirectory(prefix="longhaul-unedited-") as name:
        folder = Path(name)
        (folder / FILE).write_text(topology)
        argv = [LONGHAUL, "sweep", "--in-lab", *arguments, "--runs", "runs"]
        done = subprocess.run(argv, cwd=folder, check=False, stdout=subprocess.DEVNULL)
        if done.returncode not in MEASURED:
            sys.exit(f"the lab's sweep exited with {done.returncode}")
        (table,) = folder.glob("runs/*/table.csv")
        return rates(table.read_text())


def in_qemu(
    folder: Path, image: stock_images.Image, topology: str, sweeps: Iterable[Sequence[str]]
) -> tuple[dict[str, float], str]:
    """The rates on the suite's own kernel, and its version. Each sweep is short: the machine must answer in time."""
    disk = stock_images.overlay(folder / "qemu", image)
    with booted(folder / "qemu", image, disk) as machine:
        kernel = machine.sh("uname -r").out
        machine.sh(f"echo 0 >{CPU1}; mkdir -p {CELLS}; echo '{topology}' >{CELLS}/{FILE}")
        found: dict[str, float] = {}
        for number, arguments in enumerate(sweeps):
            sweep = f"longhaul sweep {' '.join(arguments)} --runs {number}"
            said = machine.sh(f"cd {CELLS} && {sweep} >told 2>&1; echo $?")
            if int(said.out) not in MEASURED:
                sys.exit(machine.sh(f"tail -c 2000 {CELLS}/told").out)
            found |= rates(machine.sh(f"cat {CELLS}/{number}/*/table.csv").out + "\n")
            print(*list(found.items())[-1:], file=sys.stderr)
        return found, kernel


if __name__ == "__main__":
    main()
