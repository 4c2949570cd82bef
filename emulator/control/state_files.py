"""The names in the state folder, its lock files, and who leases the lanes.

It imports little: the process that waits for the end of a lease starts with each measurement.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

INTENT_FILE, WAITING_FILE, LEASE_FILE, ROOM_FILE = "intent.json", "waiting.json", "leaseholder", "room"
OLDER_INTENT_FILE, OLDER_LEASE_FILE, OLDEST_INTENT_FILE = "desire.json", "borrower", "topology.yaml"
LOCK_FILE, PLAYER_FILE = "lock", "player"
_PID_BYTES = 10

HOW_TO_OPEN = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


@contextmanager
def holding_lease(folder: Path) -> Iterator[None]:
    """Hold the lease for the time of the block, or until this process dies. Raises MissingError.

    A block that ends well has returned the lanes: then the file names nobody.
    """
    with opened(folder, LEASE_FILE) as fd:
        fcntl.flock(fd, fcntl.LOCK_EX)
        try:
            os.pwrite(fd, f"{os.getpid():<{_PID_BYTES}}\n".encode(), 0)
        except OSError as error:
            raise _unwritten(folder / LEASE_FILE, error) from error
        yield
        with contextlib.suppress(OSError):
            os.pwrite(fd, b" " * _PID_BYTES, 0)


def leaseholder(folder: Path) -> int | None:
    """The process that leases the lanes at present; None without one, 0 when its number is not known."""
    for name in _lease_files(folder):
        with opened(folder, name) as fd:
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                written = os.pread(fd, _PID_BYTES, 0).strip()
                return int(written) if written.isdigit() else 0
    return None


def await_lease_end(folder: Path) -> bool:
    """Sleep until nobody leases the lanes, without reading a clock; whether the last lease ended well."""
    well = False
    for name in _lease_files(folder):
        with opened(folder, name) as fd:
            fcntl.flock(fd, fcntl.LOCK_SH)
            well = os.pread(fd, _PID_BYTES, 0).isspace()
    return well


@contextmanager
def playing(folder: Path) -> Iterator[None]:
    """Say for the time of a block, or until this process dies, that somebody plays the schedule; several may.

    Where the file cannot be written nobody says so.
    """
    try:
        fd = os.open(folder / PLAYER_FILE, os.O_CREAT | os.O_RDWR | HOW_TO_OPEN, 0o600)
    except OSError:
        yield
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


def is_played(folder: Path) -> bool:
    """Whether a process plays the schedule, or this one may not know."""
    return is_held(folder, PLAYER_FILE, fcntl.LOCK_EX) is not False


def is_held(folder: Path, name: str, wanted: int) -> bool | None:
    """Whether a process holds a lock file so that nobody could lock it as `wanted` (LOCK_SH, LOCK_EX).

    None where this process may not open the file.
    """
    try:
        fd = os.open(folder / name, os.O_RDONLY | HOW_TO_OPEN)
    except OSError as error:
        return None if isinstance(error, PermissionError) else False
    try:
        fcntl.flock(fd, wanted | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _lease_files(folder: Path) -> list[str]:
    """The lock files of leases that there are: a test run of an older version may still hold its own."""
    names = (LEASE_FILE, OLDER_LEASE_FILE)
    return [name for name in names if (file := folder / name).is_file() and not file.is_symlink()]


@contextmanager
def opened(folder: Path, name: str) -> Iterator[int]:
    """Open a lock file. Nobody removes it, for that would be a race. Raises MissingError.

    Where it cannot be written (a full disk, one that is read-only) or is something else, reading it, or the nearest
    folder above it, is enough for a lock: `down` needs no more.
    """
    fd = _opened(folder, name)
    try:
        yield fd
    finally:
        os.close(fd)


def _opened(folder: Path, name: str) -> int:
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / name, os.O_CREAT | os.O_RDWR | HOW_TO_OPEN, 0o600)
    except OSError as error:
        if isinstance(error, PermissionError) and os.geteuid() != 0:
            from emulator.errors import MissingError

            text = f"cannot write {folder}: run as root, or set LONGHAUL_STATE to a folder"
            raise MissingError(text) from error
        reason = error
    for path in (folder / name, folder, *_above(folder)):
        with contextlib.suppress(OSError):
            return os.open(path, os.O_RDONLY | HOW_TO_OPEN)
    raise _unwritten(folder, reason)


def _above(folder: Path) -> Sequence[Path]:
    """The folders above; none where the current folder, in which it would be, was deleted."""
    with contextlib.suppress(FileNotFoundError):
        return folder.absolute().parents
    return ()


def _unwritten(place: Path, error: OSError) -> Exception:
    from emulator.system import atomic_file

    return atomic_file.unwritten(place, error)
