"""The appliance on stock Debians with PCI NICs, under QEMU: from the .deb to power cuts. By hand, as root.

RELEASE is the folder of scripts/release. FOLDER, best in memory (about 2 GB a suite), gets QEMU and the disks; it needs
mmdebstrap, e2fsprogs and the network. One machine for each suite has a pair of ports of every kind of NIC (virtio with
one queue and with two, e1000e, igb, vmxnet3), each pair one lane of 32 ms. The hosts are namespaces that own the NICs
at the other ends of the cables, reached by sshd. The power is cut under traffic at ten moments of `up`, `down` and
`set`, which the suites share. The last boot has the kernel of the suite's backports. QEMU has no KVM and counts
instructions instead of time: RTTs are exact while one CPU runs, rates say nothing about the NICs. Tells on stderr what
was seen, with the machine's seconds, and prints it NIC by NIC at the end; exit code 1 when anything is not as it should
be. Takes 14 minutes for both suites side by side on two quick CPUs, where a boot takes 52 s and each suite boots seven
times, and half an hour on slow ones.

Example:
  .venv/bin/python tests/bench/stock.py dist /dev/shm/stock
  .venv/bin/python tests/bench/stock.py dist /dev/shm/stock --suites bookworm --json
"""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import helped

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import stock_images, stock_steps
from support.stock_machines import booted

PARTS = ("ports", "plugs", "boots")
"""Measurements and the driver; NICs taken out and put in; reboot, power cuts, another kernel."""


def main() -> int:
    """All suites; the exit code."""
    asked = helped.on_stock_debian(__doc__)
    asked.add_argument("--suites", nargs="*", default=["bookworm", "trixie"])
    asked.add_argument("--parts", nargs="*", default=PARTS, help=f"of {', '.join(PARTS)}")
    asked.add_argument("--json", action="store_true", help="print the rows as JSON")
    given = asked.parse_args()
    package = helped.package(asked, given.release)
    folder = given.folder.resolve()
    stock_images.qemu_root(folder)
    with ThreadPoolExecutor(len(given.suites)) as pool:
        work = [pool.submit(tried, folder, suite, package, given) for suite in given.suites]
        rows = [row for one in work for row in one.result()]
    if given.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        stock_steps.show(rows)
    return int(not all(row.ok for row in rows))


def tried(folder: Path, suite: str, package: Path, given: Namespace) -> list[stock_steps.Row]:
    """All that one suite's machine lives through; a step that breaks is a row, and ends it."""
    began = time.monotonic()
    image = stock_images.made(folder, suite, package, keep=given.keep)
    seen = stock_steps.Seen(f"Debian {image.release}")
    seen.row("", "disk made, the .deb installed by apt", True, "", time.monotonic() - began)
    disk = stock_images.overlay(folder / "qemu", image)
    # Each suite takes its share of the moments: a boot takes its time.
    moments = stock_steps.MOMENTS[given.suites.index(suite) :: len(given.suites)]
    for kernel, lives in stock_steps.lives(image, given.parts, moments):
        what, boot = f"boots Linux {kernel}", time.monotonic()
        try:
            with booted(folder / "qemu", image, disk, kernel) as machine:
                seen.row("", what, True, f"{time.monotonic() - boot:.0f} s of this machine's time", 0)
                for life in lives:
                    what = life.__name__
                    life(machine, seen)
        except (OSError, RuntimeError, LookupError) as error:
            seen.row("", what, False, repr(error), 0)
            break
    if not given.keep:
        stock_images.delete(folder, image)
    return seen.rows


if __name__ == "__main__":
    sys.exit(main())
