"""The intent on disk: what the user asked for, written atomically, whatever fails.

STATE/intent.json      the topology, the number of the last change, and the change that waits for confirmation
STATE/waiting.json     a copy of the intent while something waits to be reverted, for when the intent is spoilt
STATE/changes/N.json   the changes (see `change_log`)
STATE/lock             held by the process that changes something
STATE/leaseholder      held by the process that leased the lanes; its process id
STATE/player           held by the processes that play the schedule
STATE/room             takes the room that `down` and a revert need when the disk is full

Older versions called the intent `desire.json` and the lease `borrower`; before them `topology.yaml` held only the
topology. The store still reads all three; the next change writes intent.json and removes the older file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

from msgspec import Struct

from emulator.control import state_files
from emulator.control.old_state import renewed
from emulator.control.state_files import (
    INTENT_FILE,
    LOCK_FILE,
    OLDER_INTENT_FILE,
    OLDEST_INTENT_FILE,
    ROOM_FILE,
    WAITING_FILE,
)
from emulator.errors import InputError, LonghaulError, MissingError, Mistake
from emulator.model.topology import Topology
from emulator.system import atomic_file, bounded_file, kept_file
from emulator.system.clock import Clock
from emulator.system.struct_json import from_plain, to_json

T = TypeVar("T")

SHORTEST_CONFIRM_S, LONGEST_CONFIRM_S = 1, 86_400
"""How long a change may wait for confirmation."""

FORMAT = 5
"""The format of intent.json. 1 was `topology.yaml`, without a number; 2 lacked a schedule's start, 3 the lease; 4 was
`desire.json`, which had `borrowed` instead of `leased`, and other names in the model (`old_state`)."""


LEAST_ROOM_BYTES = 1 << 16
"""The room kept beyond the copies of the intent: each file and folder takes whole blocks."""


class UnreadableError(InputError):
    """A file of the state folder that Longhaul cannot have written, or a newer version did."""

    def __init__(self, file: Path, why: str, *, waits: bool = False) -> None:
        self.file, self.why = file, why
        text = f"cannot be read: {why}; run longhaul down: it sets the file aside and returns the ports"
        text += ", and longhaul undo brings the last topology back"
        if waits:
            text += "; a copy says what to revert, so Longhaul still reverts the unconfirmed change in time"
        super().__init__([Mistake(str(file), "", text)])


class Pending(Struct, frozen=True):
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


class Intent(Struct, frozen=True):
    """What the user asked for. `change` is the number of the last change in effect; files of later numbers are invalid.
    `began_ns` is when the topology's schedule is at 0, in ns since 1970; None without a schedule."""

    topology: Topology | None = None
    change: int = 0
    pending: Pending | None = None
    began_ns: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.change < 2**63:
            raise ValueError(f"change {self.change} is no number of a change")

    @property
    def leased(self) -> bool:
        """Whether a measurement leases the lanes."""
        return bool(self.pending and self.pending.leased)

    @property
    def lasting(self) -> Topology | None:
        """The topology that stays: during a lease the one that returns."""
        return self.pending.base if self.pending and self.pending.leased else self.topology


class IntentStore:
    """The state folder. Reading needs no lock: every file is always complete."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file, self._older, self._oldest, self._waiting = (
            folder / name for name in (INTENT_FILE, OLDER_INTENT_FILE, OLDEST_INTENT_FILE, WAITING_FILE)
        )
        self._written: tuple[bytes, Intent] | None = None
        """What this process wrote last: while the file has that content, nothing need be parsed."""
        self._holder: int | None = None
        """The thread that holds the lock."""
        self._known: Intent | None = None
        """The intent, for the holder of the lock: nobody else writes meanwhile, and a change reads it several times."""

    def read(self) -> Intent:
        """The intent. Raises UnreadableError when its file is spoilt, or a newer version wrote it."""
        if self._holder != threading.get_ident():
            return self._read()
        if self._known is None:
            self._known = self._read()
        return self._known

    def _read(self) -> Intent:
        try:
            for file in (self._file, self._older):
                content = _content(file)
                if self._written and content == self._written[0]:
                    return self._written[1]
                if content is not None:
                    return _parsed(Intent, file, content, FORMAT)
            return self._read_oldest()
        except UnreadableError as error:
            raise UnreadableError(error.file, error.why, waits=self.waiting() is not None) from None

    def waiting(self) -> Intent | None:
        """The copy of an intent with something to revert, for when the intent is spoilt; None without a readable one.

        A readable intent says more: a process killed between the two files leaves a copy that is older or newer.
        """
        with contextlib.suppress(LonghaulError):
            return read_value(Intent, self._waiting, FORMAT)
        return None

    def pending(self) -> Pending | None:
        """What is pending, for which the copy is enough. Raises UnreadableError when neither file can be read."""
        try:
            return self.read().pending
        except UnreadableError:
            if (copy := self.waiting()) is None:
                raise
            return copy.pending

    def is_known(self) -> bool:
        """Whether this folder ever held an intent, even the intent of no lanes; a new or lost folder did not."""
        return any(os.path.lexists(file) for file in (self._file, self._older, self._oldest))

    def write(self, intent: Intent) -> None:
        """Replace the intent, atomically and durably. Raises MissingError; then the old intent stays."""
        if intent.pending:
            write_json(self._waiting, FORMAT, intent)
        else:
            with contextlib.suppress(OSError):  # a folder in its place is no copy
                self._waiting.unlink(missing_ok=True)
        self._known = None  # a write that fails may have come far enough
        self._written = write_json(self._file, FORMAT, intent), intent
        self._older.unlink(missing_ok=True)
        self._oldest.unlink(missing_ok=True)

    def keep_room(self, intent: Intent) -> None:
        """Take the room that leaving this intent needs on the disk, by `down` or by a revert. Raises MissingError.

        Both write the intent, and a change with the topologies before and after it.
        """
        size, file = LEAST_ROOM_BYTES + 3 * len(to_json(intent)), self.folder / ROOM_FILE
        with contextlib.suppress(OSError):
            if file.lstat().st_blocks * 512 >= size:
                return
        atomic_file.write(file, os.urandom(size), clearing=True)  # a file system that compresses would keep no zeros

    def free_room(self) -> None:
        """Give the room back, for what must be written now."""
        with contextlib.suppress(OSError):
            (self.folder / ROOM_FILE).unlink()

    def stamp(self) -> tuple[int, int]:
        """A value that differs after every change of the intent; cheaper than reading it."""
        for file in (self._file, self._older):
            with contextlib.suppress(OSError):
                stat = file.lstat()
                return stat.st_ino, stat.st_mtime_ns
        return 0, 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One writer at a time. Raises MissingError without the right to write there."""
        with state_files.opened(self.folder, LOCK_FILE) as fd:
            fcntl.flock(fd, fcntl.LOCK_EX)
            self._holder, self._known = threading.get_ident(), None
            try:
                yield
            finally:
                self._holder = None

    def unchanged(self) -> Callable[[], bool]:
        """Begin to watch for changes; what is returned says whether nobody changed anything since.

        It takes no lock, so that a reader never keeps a writer from its work, nor waits for one.
        """
        stamp, free = self.stamp(), self._is_free()
        return lambda: free and self._is_free() and self.stamp() == stamp

    def _is_free(self) -> bool:
        """Whether nobody holds the lock; of one that this process may not open nobody knows."""
        return not state_files.is_held(self.folder, LOCK_FILE, fcntl.LOCK_SH)

    def holding_lease(self) -> AbstractContextManager[None]:
        """Hold the lease for the time of the block, or until this process dies. Raises MissingError."""
        return state_files.holding_lease(self.folder)

    def leaseholder(self) -> int | None:
        """The process that leases the lanes at present; None without one, 0 when its number is not known."""
        return state_files.leaseholder(self.folder)

    def await_lease_end(self) -> None:
        """Sleep until nobody leases the lanes, without reading a clock."""
        state_files.await_lease_end(self.folder)

    def playing(self) -> AbstractContextManager[None]:
        """Say for the time of the block that this process plays the schedule."""
        return state_files.playing(self.folder)

    def is_played(self) -> bool:
        """Whether a process plays the schedule of what is up."""
        return state_files.is_played(self.folder)

    def _read_oldest(self) -> Intent:
        if not os.path.lexists(self._oldest):
            return Intent()
        from emulator.config import loader  # YAML is slow to import and seldom needed here

        try:
            return Intent(loader.loads(kept_file.read(self._oldest, bounded_file.STATE).decode(), str(self._oldest)))
        except (LonghaulError, ValueError, RecursionError) as error:
            raise UnreadableError(self._oldest, str(error)) from None


def _renewed(plain: dict[str, Any]) -> dict[str, Any]:
    """An intent or a change with today's field names."""
    pending = plain.get("pending")
    if isinstance(pending, dict) and "borrowed" in pending:
        pending["leased"] = pending.pop("borrowed")
    return dict(renewed(plain))


def read_value(kind: type[T], file: Path, newest: int) -> T | None:
    """Read a value that `write_json` wrote; None when there is none. Raises UnreadableError, MissingError."""
    content = _content(file)
    return None if content is None else _parsed(kind, file, content, newest)


def _parsed(kind: type[T], file: Path, content: bytes, newest: int) -> T:
    try:
        return cast(T, _value(cast(type, kind), content, newest))
    except RecursionError:
        raise UnreadableError(file, "it is nested too deep") from None
    except (ValueError, TypeError) as error:
        raise UnreadableError(file, str(error)) from None


def read_json(file: Path, newest: int) -> dict[str, Any] | None:
    """Read a file that `write_json` wrote; None when there is none. Raises UnreadableError when it is spoilt or too
    new."""
    content = _content(file)
    try:
        return None if content is None else _plain(content, newest)
    except ValueError as error:
        raise UnreadableError(file, str(error)) from None


def _content(file: Path) -> bytes | None:
    try:
        return kept_file.read(file, bounded_file.STATE)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise MissingError(f"cannot read {file}: run as root, or set LONGHAUL_STATE to a folder of yours") from error
    except kept_file.SpoiltError as error:
        raise UnreadableError(file, str(error)) from None


@lru_cache(maxsize=2)
def _value(kind: type, content: bytes, newest: int) -> object:
    """A change reads the intent several times; equal content is parsed once. Raises ValueError, TypeError."""
    return from_plain(kind, _renewed(_plain(content, newest)))


def _plain(content: bytes, newest: int) -> dict[str, Any]:
    """What a file says without its format. Raises ValueError."""
    plain = kept_file.parse_json(content)
    if not isinstance(plain, dict) or "format" not in plain:
        raise ValueError("it has no format: another program wrote it")
    found = plain.pop("format")
    if not isinstance(found, int) or not 0 < found <= newest:
        raise ValueError(f"it is of format {found}, this version reads up to {newest}")
    return plain


def write_json(file: Path, version: int, value: object) -> bytes:
    """Write a dataclass or a dict to a file that holds the old or the new content, never half, whatever fails. Only
    root can read it. Returns the content. Raises MissingError.
    """
    content = f'{{"format": {version}, {to_json(value)[1:]}'.encode()
    atomic_file.write(file, content, clearing=True)
    return content
