"""Python's compiled files, for the lab: without them every program in it spends a second compiling what it imports.

The image's own Python writes them, run on the host by the image's own dynamic loader; it needs no root.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from emulator.lab.build_cache import command

VERSION = "3.13"
"""Debian trixie's."""
PYTHON = f"python{VERSION}"

LIBRARIES = ("usr/lib/python3", f"usr/lib/{PYTHON}", "opt/longhaul/site-packages")
PACKAGES = ("emulator", "web")
TAG = f"cpython-{VERSION.replace('.', '')}"
AT_ONCE = 100
"""So many files are named in one command line."""


def compile_image(root: Path) -> None:
    """Compile every library of the image. Raises LabError."""
    folders = [root / path for path in LIBRARIES]
    # Nobody changes an image: its sources need not even be looked at. -s and -p: tracebacks name the lab's paths.
    _compile(root, ["--invalidation-mode", "unchecked-hash", "-s", root, "-p", "/", *folders])


def compile_project(root: Path, project: Path) -> None:
    """Compile our own sources that changed since; where we may not write, the lab is slower. Raises LabError."""
    stale = [path for package in PACKAGES for path in sorted((project / package).rglob("*.py")) if _stale(path)]
    for start in range(0, len(stale), AT_ONCE):
        # A hash, for a file's time has a resolution of a second only.
        _compile(root, ["--invalidation-mode", "checked-hash", "-f", *stale[start : start + AT_ONCE]])


def _stale(source: Path) -> bool:
    folder = source.parent / "__pycache__"
    if not os.access(folder if folder.exists() else source.parent, os.W_OK):
        return False
    compiled = folder / f"{source.stem}.{TAG}.pyc"
    return not compiled.exists() or compiled.stat().st_mtime_ns < source.stat().st_mtime_ns


def _compile(root: Path, arguments: Sequence[str | Path]) -> None:
    python: list[str | Path] = [
        root / "lib64/ld-linux-x86-64.so.2",
        "--library-path",
        root / "usr/lib/x86_64-linux-gnu",
    ]
    python += [root / f"usr/bin/{PYTHON}", "-S", "-P", "-m", "compileall", "-q"]
    command([*python, *arguments], env={"PYTHONHOME": str(root / "usr"), "PYTHONPATH": ""})
