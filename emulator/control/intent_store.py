"""The intent on disk: what the user asked for, written atomically, whatever fails.

STATE/intent.json      the topology, the number of the last change, and the change that waits for confirmation
STATE/changes/N.json   the changes (see `change_log`)
STATE/lock             held by the process that changes something
STATE/leaseholder      held by the process that leased the lanes; its process id

Older versions called the intent `desire.json` and the lease `borrower`; before them `topology.yaml` held only the
topology. The store still reads all three; the next change writes intent.json and removes the older file.
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

from emulator.control.old_state import renewed
from emulator.errors import InputError, MissingError
from emulator.model.topology import Topology
from emulator.system import atomic_file
from emulator.system.clock import Clock
from emulator.system.dataclass_json import from_plain, to_plain

INTENT_FILE, LEASE_FILE = "intent.json", "leaseholder"
OLDER_INTENT_FILE, OLDER_LEASE_FILE, OLDEST_INTENT_FILE = "desire.json", "borrower", "topology.yaml"

FORMAT = 5
"""The format of intent.json. 1 was `topology.yaml`, without a number; 2 lacked a schedule's start, 3 the lease; 4 was
`desire.json`, which had `borrowed` instead of `leased`, and other names in the model (`old_state`)."""


@dataclass(frozen=True)
class Pending:
    """A change that Longhaul reverts to `base` unless somebody confirms it by `deadline_ns` (CLOCK_BOOTTIME).

    `base` None means that no topology was up before; its schedule began at `began_ns`. A lease (`leased`) has no
    deadline: Longhaul reverts it when the process that leased the lanes is gone. A reboot (another `boot_id`) ends
    both.
    """

    deadline_ns: int
    boot_id: str
    base: Topology | None
    began_ns: int | None = None
    leased: bool = False

    def left_ns(self, clock: Clock) -> int:
        """The time left to confirm it, in ns; 0 or less when it is overdue, always so after a reboot."""
        return self.deadline_ns - clock.boottime_ns() if self.boot_id == clock.boot_id() else 0


@dataclass(frozen=True)
class Intent:
    """What the user asked for. `change` is the number of the last change in effect; files of later numbers are invalid.
    `began_ns` is when the topology's schedule is at 0, in ns since 1970; None without a schedule."""

    topology: Topology | None = None
    change: int = 0
    pending: Pending | None = None
    began_ns: int | None = None

    @property
    def leased(self) -> bool:
        """Whether a test run leases the lanes."""
        return bool(self.pending and self.pending.leased)

    @property
    def lasting(self) -> Topology | None:
        """The topology that stays: during a lease the one that returns."""
        return self.pending.base if self.pending and self.pending.leased else self.topology


class IntentStore:
    """The state folder. Reading needs no lock: every file is always complete."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file, self._older, self._oldest = (
            folder / name for name in (INTENT_FILE, OLDER_INTENT_FILE, OLDEST_INTENT_FILE)
        )

    def read(self) -> Intent:
        """The intent. Raises InputError when a newer version, or another program, wrote the file."""
        for file in (self._file, self._older):
            plain = read_json(file, FORMAT)
            if plain is not None:
                try:
                    return from_plain(Intent, renewed(_renewed(plain)))
                except ValueError as error:
                    raise unreadable(file, str(error)) from None
        return self._read_oldest()

    def is_known(self) -> bool:
        """Whether this folder ever held an intent, even the intent of no lanes; a new or lost folder did not."""
        return self._file.exists() or self._older.exists() or self._oldest.exists()

    def write(self, intent: Intent) -> None:
        """Replace the intent, atomically and durably. Raises OSError; then the old intent stays."""
        write_json(self._file, FORMAT, to_plain(intent))
        self._older.unlink(missing_ok=True)
        self._oldest.unlink(missing_ok=True)

    def stamp(self) -> tuple[int, int]:
        """A value that differs after every change of the intent; cheaper than reading it."""
        for file in (self._file, self._older):
            try:
                stat = file.stat()
            except FileNotFoundError:
                continue
            return stat.st_ino, stat.st_mtime_ns
        return 0, 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One writer at a time. Raises MissingError without the right to write there."""
        with self._open("lock") as fd:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield

    @contextmanager
    def holding_lease(self) -> Iterator[None]:
        """Hold the lease for the time of the block, or until this process dies."""
        with self._open(LEASE_FILE) as fd:
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.pwrite(fd, f"{os.getpid():<10}\n".encode(), 0)
            yield

    def leaseholder(self) -> int | None:
        """The process that leases the lanes at present; None without one."""
        for name in self._lease_files():
            with self._open(name) as fd:
                try:
                    fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return int(os.pread(fd, 16, 0) or 0)
        return None

    def await_lease_end(self) -> None:
        """Sleep until nobody leases the lanes, without reading a clock."""
        for name in self._lease_files():
            with self._open(name) as fd:
                fcntl.flock(fd, fcntl.LOCK_SH)

    def _lease_files(self) -> list[str]:
        """The lock files of leases: a test run of an older version may still hold its own."""
        return [LEASE_FILE, *([OLDER_LEASE_FILE] if (self.folder / OLDER_LEASE_FILE).exists() else [])]

    @contextmanager
    def _open(self, name: str) -> Iterator[int]:
        """Open a lock file. Nobody removes it, for that would be a race."""
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

    def _read_oldest(self) -> Intent:
        if not self._oldest.exists():
            return Intent()
        from emulator.config import loader  # YAML is slow to import and seldom needed here

        return Intent(loader.load(self._oldest))


def _renewed(plain: dict[str, Any]) -> dict[str, Any]:
    """An intent with today's field names."""
    if plain.get("pending") and "borrowed" in plain["pending"]:
        plain["pending"]["leased"] = plain["pending"].pop("borrowed")
    return plain


def read_json(file: Path, newest: int) -> dict[str, Any] | None:
    """Read a file that `write_json` wrote; None when there is none. Raises InputError when it is damaged or too new."""
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
    """Write a file that holds the old or the new content, never half, whatever fails. Only root can read it."""
    atomic_file.write(file, json.dumps({"format": version, **plain}).encode())


def unreadable(file: Path, why: str) -> InputError:
    """The error for a file of the state folder that Longhaul cannot read."""
    text = f"cannot be read: {why}; move it away, then run longhaul up FILE (it finds the lanes in the kernel)"
    return InputError.single(text, str(file))
