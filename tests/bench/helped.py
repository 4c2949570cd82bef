"""The command line of a benchmark: --help shows what it does, how long it takes, and an example, as its docstring."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import debian_disk
import needed_programs


def parser(doc: str | None) -> argparse.ArgumentParser:
    """One to which the benchmark adds its arguments."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def on_stock_debian(doc: str | None) -> argparse.ArgumentParser:
    """One of a benchmark that installs the .deb of a release on disks of stock Debians."""
    asked = parser(doc)
    asked.add_argument("release", type=Path, help="the folder of scripts/release")
    asked.add_argument("folder", type=Path, help="where QEMU and the disks go")
    asked.add_argument("--keep", action="store_true", help="take the disks that the last call with --keep left")
    return asked


def package(asked: argparse.ArgumentParser, release: Path) -> Path:
    """The .deb of the appliance in a release; ends the benchmark without it, root's rights, or what makes a disk."""
    if os.geteuid() != 0:
        asked.error("it needs root")
    needed_programs.check("it needs", debian_disk.NEEDED)
    return debian_disk.package_in(release)
