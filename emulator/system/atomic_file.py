"""Writes files that hold the old or the new content after a crash, never half. The product's only way to save files."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

from emulator.errors import MissingError
from emulator.system.kept_file import set_aside

T = TypeVar("T")

IN_THE_WAY = (errno.EISDIR, errno.ELOOP, errno.ENXIO, errno.ENOTEMPTY, errno.ENODEV)
"""A folder, a link or a pipe is where the file or its draft should be."""

CURES = {
    errno.ENOSPC: "make room there, then try again",
    errno.EDQUOT: "make room there, then try again",
    errno.EROFS: "mount the file system for writing, then try again",
    errno.EACCES: "run as root, or use a folder of yours",
    errno.EPERM: "run as root, or use a folder of yours",
}
"""What to do, by the kernel's reason."""


def write(file: Path, content: bytes, *, mode: int = 0o600, draft: Path | None = None, clearing: bool = False) -> None:
    """Replace a file's content atomically: write a draft, fsync it, rename it, fsync the folder.

    Raises MissingError when there is no room or no right to write; the file then still holds the old content.

    `mode` applies to a new file, less the umask. Processes that may write at once each need their own `draft` in the
    same folder. `clearing`: the folder is Longhaul's own, so a folder, link or pipe in the place of the file or of its
    draft is set aside (`kept_file`).
    """
    draft = draft or file.with_suffix(".partial")
    try:
        _write(file, content, mode, draft, IN_THE_WAY if clearing else ())
    except OSError as error:
        with contextlib.suppress(OSError):  # what it holds so far takes room where there is none
            os.unlink(draft)  # noqa: PTH108
        raise unwritten(file, error) from error


def unwritten(file: Path | str, error: OSError) -> MissingError:
    """The error for a file that could not be written."""
    code = error.errno or errno.EIO
    cure = CURES.get(code, "check the disk and its file system")
    return MissingError(f"cannot write {file}: {os.strerror(code)}; {cure}")


def folder(path: Path, *, mode: int = 0o777) -> None:
    """Make a folder, with its parents; a file or a link in its place is set aside. Raises MissingError."""
    if path.is_dir():
        return
    try:
        try:
            path.mkdir(mode, parents=True, exist_ok=True)
        except FileExistsError:
            set_aside(path)
            path.mkdir(mode)
    except OSError as error:
        raise unwritten(path, error) from error


def _write(file: Path, content: bytes, mode: int, draft: Path, cleared: Collection[int]) -> None:
    flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    fd = _clearing(cleared, draft, lambda: os.open(draft, flags, mode))
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(fd, left) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    _clearing(cleared, file, lambda: os.replace(draft, file))  # noqa: PTH105 (a crash is injected at each call of `os`)
    parent = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def _clearing(cleared: Collection[int], path: Path, act: Callable[[], T]) -> T:
    """Act; once more after setting aside what is in the way, if the error is among those `cleared` so."""
    try:
        return act()
    except OSError as error:
        if error.errno not in cleared:
            raise
    set_aside(path)
    return act()
