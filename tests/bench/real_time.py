"""Measures the same cells in the lab and in real time, between namespaces of this machine over the wire engine.

One stream of CUBIC and of BBR at 100 Mbit/s, with a large window and with one of 256 KiB, with and without loss.
Needs root, the wire engine and a machine that does nothing else. Prints both rates of each cell, the difference, and
the worst. Takes nine minutes, seven of them in real time.

Example:
  sudo timeout 1h .venv/bin/python tests/bench/real_time.py --rtt 10,80
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import helped
import sweeps

TOPOLOGY = "{name: real-time, hub: here, lanes: {there: {rate: %s}}}"
CELLS = ("--cc", "cubic,bbr", "--loss", "0,0.01%", "--duration", "20s", "--repeats", "1")
PROFILES = ("--tcp-profile", "max", "--window", "256KiB")


def main() -> None:
    """Measure here and there, compare."""
    parser = helped.parser(__doc__)
    parser.add_argument("--rtt", default="10,80")
    parser.add_argument("--rate", default="100Mbit")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="longhaul-real-time-") as name:
        folder = Path(name)
        file = folder / "real-time.yaml"
        file.write_text(TOPOLOGY % asked.rate)
        options = (file, "--rtt", asked.rtt, *CELLS, *PROFILES)
        real, lab = sweeps.rates(folder, *options), sweeps.rates(folder, "--in-lab", *options)
        print("| cell | lab, Mbit/s | real time, Mbit/s | difference |\n| --- | --- | --- | --- |")
        for cell, rate in lab.items():
            print(f"| {cell} | {rate:.2f} | {real[cell]:.2f} | {real[cell] / rate - 1:+.1%} |")
        worst = max(lab, key=lambda cell: abs(real[cell] / lab[cell] - 1))
        print(f"worst: {worst}, {real[worst] / lab[worst] - 1:+.1%}")


if __name__ == "__main__":
    main()
