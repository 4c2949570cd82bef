"""The command line of a benchmark: --help shows what it does, how long it takes, and an example, as its docstring."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


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
    """The .deb of the appliance in a release; ends the benchmark without root's rights."""
    if os.geteuid() != 0:
        asked.error("it needs root")
    (found,) = release.resolve().glob("longhaul_*.deb")
    return found
