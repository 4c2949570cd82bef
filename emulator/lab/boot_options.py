"""What a boot may be asked for: each value read from text, and its range. Nothing is built or started here."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field

from emulator import units
from emulator.errors import InputError, Mistake

T = TypeVar("T")

IN_LAB = "LONGHAUL_LAB"
"""Set in every lab: "virtual", or "real" where the clock is the host's."""
MEMORY_BYTES = 8 << 30
LEAST_MEMORY_BYTES, MOST_MEMORY_BYTES = 64 << 20, 128 << 30
"""Below, the kernel does not boot; above, the tables of its pages alone need 2 GiB."""

SEED, MOST_SEED = 1, 2**64 - 1

START = "2001-09-09T01:46:40"
START_NS = 10**18
"""The virtual clock's start: 2001-09-09 01:46:40 UTC, the same in every boot."""
FIRST_YEAR, LAST_YEAR = 1970, 2199
"""The kernel counts ns since 1970 in 63 bits, which end in 2262; a clock needs room to advance."""

STALL_CPU_S = 120.0
"""The lab counts as live-locked when it uses this much CPU time and its virtual clock does not advance."""
LEAST_STALL_CPU_S = 1.0
"""The launcher looks once a second."""

NO_COMMAND = "it is empty: name a program"

LONGEST_FOLDER_BYTES = 4000
"""mount(2) takes one page of options, and hostfs has the folder's path there."""

_OWN_TREES = ("/proc", "/sys", "/lab")
_OWN_FOLDERS = ("/", "/dev", "/run", "/run/netns")
"""Where the lab mounts what its programs need: a folder of the host there would hide it, alone or with all beneath."""

Sink = Callable[[bytes], object]


class BootOptions(Struct, frozen=True):
    """How a lab boots, beside its command and its root file system.

    The command runs in the folder `cwd` of the host and may change it; with None it can change nothing of the host.
    `env` is added to its environment. The clock jumps over idle time, and computing takes none of it; with `counted`
    computing takes as long as it does on this machine. With `real_time` the clock is the host's. The lab runs on the
    host's `cpu`; with None it takes one that no other lab has. `serial` are two FIFOs, to the lab and from it: inside
    they are /dev/ttyS0. Output goes to `stdout` and `stderr`, or where our own goes. With `own` the command is
    one of Longhaul's own, which has the image's files even when the programs come from a folder. With `changes` the lab
    shows what it changed in /lab/changes.
    """

    cwd: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    real_time: bool = False
    counted: bool = False
    memory_bytes: int = MEMORY_BYTES
    seed: int = SEED
    timeout_s: float | None = None
    start_ns: int = START_NS
    stall_cpu_s: float = STALL_CPU_S
    cpu: int | None = None
    serial: tuple[Path, Path] | None = None
    stdout: Sink | None = None
    stderr: Sink | None = None
    own: bool = False
    changes: bool = False


class Reader:
    """Reads the options of a command line and keeps every mistake, so that one error tells all of them."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []

    def read(self, where: str, parse: Callable[[str], T], text: str | None) -> T | None:
        """The value; None without a text, or when a mistake was kept."""
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            self.mistakes.append(Mistake(where, "", str(error)))
            return None

    def refuse(self, given: Mapping[str, str | None], why: str) -> None:
        """Keep a mistake for each of these options that was given."""
        self.mistakes += [Mistake(where, "", why) for where, text in given.items() if text is not None]

    def folder(self) -> Path | None:
        """The current folder; None when it was deleted, which is a mistake."""
        try:
            return Path.cwd()
        except FileNotFoundError:
            self.mistakes.append(Mistake("the current folder", "", "it does not exist any more: go to another"))
            return None

    def finish(self) -> None:
        """Raise InputError when there was a mistake."""
        if self.mistakes:
            raise InputError(self.mistakes)


def parse_memory_bytes(text: str) -> int:
    """The guest's memory, in whole MiB: "8G" and "512M" are GiB and MiB. Raises ValueError."""
    size_bytes = units.parse_size_bytes(re.sub(r"^(\d+)([KMGT])$", r"\1\2iB", text.strip()))
    if not LEAST_MEMORY_BYTES <= size_bytes <= MOST_MEMORY_BYTES:
        raise ValueError(
            f"{text!r} is not within {units.format_size(LEAST_MEMORY_BYTES)} and {units.format_size(MOST_MEMORY_BYTES)}"
        )
    return -(-size_bytes // units.MIB_BYTES) * units.MIB_BYTES


def parse_seed(text: str) -> int:
    """A seed. Raises ValueError."""
    if not re.fullmatch(r"[0-9]{1,20}", text.strip()) or int(text) > MOST_SEED:
        raise ValueError(f"{text!r} is not a whole number within 0 and {MOST_SEED}")
    return int(text)


def parse_start_ns(text: str) -> int:
    """A date as ns since 1970; without an offset it is UTC. Raises ValueError."""
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no date: write {START}") from None
    try:
        date = date.astimezone(UTC) if date.tzinfo else date.replace(tzinfo=UTC)
    except OverflowError:
        date = date.replace(tzinfo=UTC)
    if not FIRST_YEAR <= date.year <= LAST_YEAR:
        raise ValueError(f"{text!r} is not within the years {FIRST_YEAR} and {LAST_YEAR}")
    return (date - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def parse_stall_s(text: str) -> float:
    """CPU time in s: a bare number, or a time with its unit. Raises ValueError."""
    seconds = _seconds(text)
    if not seconds >= LEAST_STALL_CPU_S:
        raise ValueError(f"{text!r} is below {LEAST_STALL_CPU_S:g} s")
    return seconds


def parse_timeout_s(text: str) -> float:
    """Wall-clock time in s: a bare number, or a time with its unit; "10m" is minutes. Raises ValueError."""
    if not (seconds := _seconds(re.sub(r"^(\d+)m$", r"\1min", text.strip()))):
        raise ValueError(f"{text!r} leaves the command no time")
    return seconds


def _seconds(text: str) -> float:
    bare = re.fullmatch(r"\s*\d{1,9}(\.\d{1,9})?\s*", text)
    return float(text) if bare else units.parse_duration_ns(text) / 1e9


def check(argv: Sequence[str], folder: Path | None, roots: Sequence[Path]) -> None:
    """Whether this command can run in this folder, in a lab of these root file systems. Raises InputError."""
    mistakes = []
    if not argv or not argv[0]:
        mistakes.append(Mistake("COMMAND", "", NO_COMMAND))
    if folder and (why := why_not_there(folder, roots)):
        mistakes.append(Mistake(str(folder), "", f"the lab cannot run here: {why}; go to another folder"))
    if mistakes:
        raise InputError(mistakes)


def why_not_there(folder: Path, roots: Sequence[Path]) -> str:
    """Why the host's folder cannot be mounted in the lab under its own name; empty when it can."""
    name = str(folder)
    if len(os.fsencode(folder)) > LONGEST_FOLDER_BYTES:
        return f"its name is longer than {LONGEST_FOLDER_BYTES} bytes"
    hidden = [own for root in roots if root != Path("/") and _has_files(own := root / name.lstrip("/"))]
    inside = any(name == tree or name.startswith(f"{tree}/") for tree in _OWN_TREES)
    if inside or name in _OWN_FOLDERS or hidden:
        return "the lab has files of its own in this folder, and they would be hidden"
    return ""


def _has_files(path: Path) -> bool:
    return path.is_file() or (path.is_dir() and any(path.iterdir()))
