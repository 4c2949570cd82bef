"""The cache of built kernels and images: one folder for each set of inputs, either complete or absent."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from emulator import units
from emulator.errors import LabError
from emulator.lab.runtime import free_bytes
from emulator.system import atomic_file

Progress = Callable[[str, int, int], None]
"""Called with (step, done, total) while a build runs."""


def folder() -> Path:
    """$XDG_CACHE_HOME/longhaul, ~/.cache/longhaul without it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "longhaul"


def entry(kind: str, inputs: Sequence[str | bytes]) -> Path:
    """The folder of what is built from these inputs. A change of one byte gives another folder."""
    digest = hashlib.sha256()
    for part in inputs:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return folder() / f"{kind}-{digest.hexdigest()[:12]}"


@contextmanager
def building(place: Path, room_bytes: int) -> Iterator[Path | None]:
    """Yield a folder to build in, which becomes `place` when the body ends well; None when it is there already.

    Raises LabError at once, not after minutes of building, where the cache has not so much room.

    An interrupted build leaves a `.partial` folder, which the next build removes. Builders wait for one another. A user
    who may only read the cache can use what is built.
    """
    if place.exists():
        yield None
        return
    fd = _lock_file(place)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        if place.exists():
            yield None
            return
        partial = place.with_name(f"{place.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        need_room(place.parent, room_bytes)
        partial.mkdir()
        yield partial
        partial.rename(place)
    finally:
        os.close(fd)


def need_room(folder: Path, room_bytes: int) -> None:
    """Check that what is built here has so much room. Raises LabError."""
    if (free := free_bytes(folder)) < room_bytes:
        cure = "make room, or set XDG_CACHE_HOME to another folder"
        has, needs = units.format_size(free), units.format_size(room_bytes)
        raise LabError(f"{folder} has room for {has}, and the build needs {needs}: {cure}")


def _lock_file(place: Path) -> int:
    """A descriptor of the lock of all who build this. Raises MissingError."""
    lock = place.with_name(f"{place.name}.lock")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        return os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise atomic_file.unwritten(lock, error) from error


def command(
    argv: Sequence[str | Path], cwd: Path | None = None, env: dict[str, str] | None = None, accept: Sequence[int] = (0,)
) -> str:
    """Run one step of a build. Raises LabError with the end of its output when its exit code is not in `accept`."""
    try:
        done = subprocess.run(
            argv, check=False, cwd=cwd, env={**os.environ, **(env or {})}, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
        )  # fmt: skip
    except FileNotFoundError as error:
        raise LabError(f"{argv[0]} is missing: run scripts/install") from error
    if done.returncode not in accept:
        tail = "\n".join(done.stdout.splitlines()[-12:])
        raise LabError(f"`{' '.join(map(str, argv))}` failed ({done.returncode}):\n{tail}")
    return done.stdout


def need(tools: dict[str, str]) -> None:
    """Check for programs, given as {program: Debian package}. Raises LabError that names all missing packages."""
    if missing := lacking(tools):
        raise LabError(f"to build the lab, install: apt-get install {' '.join(missing)}")


def lacking(tools: dict[str, str]) -> list[str]:
    """The packages whose programs are missing, from {program: Debian package}."""
    return sorted({package for tool, package in tools.items() if not shutil.which(tool)})
