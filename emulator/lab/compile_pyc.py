"""Compile Python sources for the lab. Without compiled files each program in it spends a second on its imports.

The host runs the image's Python through the image's dynamic loader, which needs no root.
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
TAG = f"cpython-{VERSION.replace('.', '')}"
AT_ONCE = 100
"""The most files in one command line."""


def compile_image(root: Path) -> None:
    """Compile every library of the image. Raises LabError."""
    folders = [root / path for path in LIBRARIES]
    # An image never changes, so Python need not check its sources. -s and -p: tracebacks show the lab's paths.
    _compile(root, ["--invalidation-mode", "unchecked-hash", "-s", root, "-p", "/", *folders])


def compile_project(root: Path, folders: Sequence[Path]) -> None:
    """Compile those of our sources that changed. Skips folders that are read-only. Raises LabError."""
    stale = [path for folder in folders for path in sorted(folder.rglob("*.py")) if _stale(path)]
    for start in range(0, len(stale), AT_ONCE):
        # By hash: the time that a compiled file records has a resolution of one second.
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
