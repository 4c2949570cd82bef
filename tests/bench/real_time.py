"""Measures the same cells in the lab and outside: here over the wire engine, or on a stock Debian over its netem.

One stream of CUBIC and of BBR, with a large window and with one of 256 KiB, with and without loss. Here, in real time:
needs root, the wire engine and a machine that does nothing else. Under QEMU, which counts instructions instead of time:
with --machine FOLDER, which tests/bench/stock.py --keep has left, and a lower rate. Prints both rates of each cell, the
difference, and the worst. Takes nine minutes, seven of them in real time.

Example:
  sudo timeout 1h .venv/bin/python tests/bench/real_time.py --rtt 10,80
  sudo timeout 1h .venv/bin/python tests/bench/real_time.py --rate 20Mbit --loss 0 --machine /dev/shm/stock
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

import helped
import sweeps

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import stock_images, stock_machines

TOPOLOGY = "{name: real-time, hub: here, lanes: {there: {rate: %s}}}"
CELLS = ("--cc", "cubic,bbr", "--duration", "20s", "--repeats", "1")
PROFILES = ("--tcp-profile", "max", "--window", "256KiB")
FILE = "real-time.yaml"


def options(asked: argparse.Namespace) -> list[str]:
    """The sweep's, without a place."""
    return [FILE, "--rtt", asked.rtt, "--loss", asked.loss, *CELLS, *PROFILES]


def in_machine(folder: Path, asked: argparse.Namespace) -> dict[str, float]:
    """The rates on the suite's stock Debian. Raises RuntimeError with what the sweep said when it did not end."""
    image = stock_images.kept(folder, asked.suite)
    with stock_machines.booted(folder / "qemu", image, stock_images.overlay(folder / "qemu", image)) as machine:
        write = f"cd /root; echo {shlex.quote(TOPOLOGY % asked.rate)} >{FILE}"
        sweep = f"longhaul sweep {shlex.join(options(asked))} --json 2>told"
        said = machine.sh(f"{write}; {sweep}; test $? = 0 -o $? = 8 || cat told")
    if not said.out.startswith("{"):
        raise RuntimeError(said.out)
    return sweeps.rates_in(said.out)


def main() -> None:
    """Measure here and there, compare."""
    parser = helped.parser(__doc__)
    parser.add_argument("--rtt", default="10,80")
    parser.add_argument("--rate", default="100Mbit")
    parser.add_argument("--loss", default="0,0.01%")
    parser.add_argument("--machine", type=Path, metavar="FOLDER", help="measure on this stock Debian under QEMU")
    parser.add_argument("--suite", default="trixie")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="longhaul-real-time-") as name:
        folder = Path(name)
        (folder / FILE).write_text(TOPOLOGY % asked.rate)
        lab = sweeps.rates(folder, "--in-lab", *options(asked))
        real = in_machine(asked.machine, asked) if asked.machine else sweeps.rates(folder, *options(asked))
        print("| cell | lab, Mbit/s | outside, Mbit/s | difference |\n| --- | --- | --- | --- |")
        for cell, rate in lab.items():
            print(f"| {cell} | {rate:.2f} | {real[cell]:.2f} | {real[cell] / rate - 1:+.1%} |")
        worst = max(lab, key=lambda cell: abs(real[cell] / lab[cell] - 1))
        print(f"worst: {worst}, {real[worst] / lab[worst] - 1:+.1%}")


if __name__ == "__main__":
    main()
