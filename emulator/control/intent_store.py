"""What is asked for, on disk: whole or not at all, whatever fails while it is written.

STATE/desire.json   the topology, the number of the last change, and what is pending confirmation
STATE/changes/N.json   the changes (see `history`)
STATE/lock          held by whoever changes something
STATE/borrower      held by the process that has borrowed the lanes; its number

Before there was desire.json, STATE/topology.yaml held the topology alone; it is still read.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emulator.errors import InputError, MissingError
from emulator.model.topology import Topology
from emulator.system import atomic_file
from emulator.system.clock import Clock
from emulator.system.dataclass_json import from_plain, to_plain

WISHES, BORROWER = "desire.json", "borrower"

FORMAT = 4
"""Of desire.json; 1 was topology.yaml, which had no number; 2 knew of no schedule's beginning, 3 of no borrower."""


@dataclass(frozen=True)
class Pending:
    """A change that is taken back to `base` unless it is confirmed before `deadline_ns` (CLOCK_BOOTTIME) of this boot.

    `base` None means that nothing was up before; its schedule began at `began_ns`. What is `borrowed` has no deadline:
    it is taken back when the process that borrowed the lanes is gone.
    """

    deadline_ns: int
    boot_id: str
    base: Topology | None
    began_ns: int | None = None
    borrowed: bool = False

    def left_ns(self, clock: Clock) -> int:
        """The time left to confirm it; 0 or less when it is overdue, as it is after a reboot."""
        return self.deadline_ns - clock.boottime_ns() if self.boot_id == clock.boot_id() else 0


@dataclass(frozen=True)
class Desire:
    """`change` is the number of the last change that is in effect; changes beyond it never came to be. `began_ns` is
    when the topology's schedule is at 0, in ns since 1970; None without a schedule."""

    topology: Topology | None = None
    change: int = 0
    pending: Pending | None = None
    began_ns: int | None = None

    @property
    def borrowed(self) -> bool:
        """Whether the topology is a test run's."""
        return bool(self.pending and self.pending.borrowed)

    @property
    def lasting(self) -> Topology | None:
        """What is asked for when nothing is borrowed any more."""
        return self.pending.base if self.pending and self.pending.borrowed else self.topology


class Store:
    """The state folder. Reading needs no lock: a file is always whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file, self._old = folder / WISHES, folder / "topology.yaml"

    def read(self) -> Desire:
        """What is asked for. Raises InputError when the file is of a newer version or not ours."""
        plain = read_json(self._file, FORMAT)
        if plain is None:
            return self._read_old()
        try:
            return from_plain(Desire, plain)
        except ValueError as error:
            raise unreadable(self._file, str(error)) from None

    def is_known(self) -> bool:
        """Whether anything was ever asked for in this folder, be it nothing; a new or lost one cannot tell."""
        return self._file.exists() or self._old.exists()

    def write(self, desire: Desire) -> None:
        """Atomic and durable. Raises OSError; then the old desire stands."""
        write_json(self._file, FORMAT, to_plain(desire))
        self._old.unlink(missing_ok=True)

    def stamp(self) -> tuple[int, int]:
        """Another one after every change of what is asked for; cheaper than to read it."""
        try:
            stat = self._file.stat()
        except FileNotFoundError:
            return 0, 0
        return stat.st_ino, stat.st_mtime_ns

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One writer at a time. Raises MissingError without the right to write there."""
        with self._open("lock") as fd:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield

    @contextmanager
    def borrowing(self) -> Iterator[None]:
        """Be the borrower for the time of the block, or until death."""
        with self._open(BORROWER) as fd:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.pwrite(fd, f"{os.getpid():<10}\n".encode(), 0)
            yield

    def borrower(self) -> int | None:
        """The process that borrows the lanes at present."""
        with self._open(BORROWER) as fd:
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(os.pread(fd, 16, 0) or 0)
            return None

    def await_return(self) -> None:
        """Sleep until nobody borrows the lanes: no clock is looked at meanwhile."""
        with self._open(BORROWER) as fd:
            fcntl.flock(fd, fcntl.LOCK_SH)

    @contextmanager
    def _open(self, name: str) -> Iterator[int]:
        """A file that stands for a lock. Removing it would be a race."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            fd = os.open(self.folder / name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except PermissionError as error:
            text = f"cannot write {self.folder}: run as root, or set LONGHAUL_STATE to a folder"
            raise MissingError(text) from error
        try:
            yield fd
        finally:
            os.close(fd)

    def _read_old(self) -> Desire:
        if not self._old.exists():
            return Desire()
        from emulator.config import loader  # YAML is slow to import and seldom needed here

        return Desire(loader.load(self._old))


def read_json(file: Path, newest: int) -> dict[str, Any] | None:
    """A file that `write_json` wrote, None when there is none. Raises InputError when it is spoilt or too new."""
    try:
        plain = json.loads(file.read_text("utf-8"))
        found = plain.pop("format")
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise MissingError(f"cannot read {file}: run as root, or set LONGHAUL_STATE to a folder of yours") from error
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise unreadable(file, str(error)) from None
    if not isinstance(found, int) or found > newest:
        raise unreadable(file, f"it is of format {found}, this version reads up to {newest}")
    return dict(plain)


def write_json(file: Path, version: int, plain: dict[str, Any]) -> None:
    """Old or new, never half, whatever fails. Readable by root only."""
    atomic_file.write(file, json.dumps({"format": version, **plain}).encode())


def unreadable(file: Path, why: str) -> InputError:
    """The error for a file of ours that makes no sense."""
    text = f"cannot be read: {why}; move it away, then longhaul up FILE (what stands in the kernel is found again)"
    return InputError.single(text, str(file))
