"""Writes files that the user named: reports, certificates, topologies.

Such a name may be a link, a pipe or a device: root's `--output /dev/null` must not replace the machine's /dev/null.
"""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from tempfile import TemporaryFile

from emulator.errors import InputError
from emulator.system import atomic_file

DEVICES = ("/dev", "/proc")
"""Files there are never replaced: /dev/stdout may lead to a file that somebody writes to."""


def write(path: Path, text: str, *, new: bool = False) -> None:
    """Replace a file's content: of a regular file, the one at the end of links, atomically; of others in place.

    `new`: a file that exists is left as it is. Raises InputError, MissingError.
    """
    if new and os.path.lexists(path):
        raise InputError.single("exists already; name another file", str(path))
    if in_place(path):
        append(path, text)
        return
    try:
        file = Path(os.path.realpath(path))
        mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else None
        draft = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}")
        atomic_file.write(file, text.encode(), mode=0o666 if mode is None else mode, draft=draft)
        if mode is not None:
            file.chmod(mode)  # whatever the umask
    except OSError as error:
        raise atomic_file.unwritten(path, error) from error


def folder(path: Path) -> None:
    """Make a folder, with its parents, unless it is there. Raises MissingError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise atomic_file.unwritten(path, error) from error


def append(path: Path, text: str, between: str = "") -> None:
    """Add the text to the end of a file, after `between` if it has a content. Raises MissingError."""
    try:
        with path.open("ab") as out:
            filled = stat.S_ISREG(os.fstat(out.fileno()).st_mode) and out.tell()
            out.write(((between if filled else "") + text).encode())
    except OSError as error:
        raise atomic_file.unwritten(path, error) from error


def in_place(path: Path) -> bool:
    """Whether this is no regular file, or one that must not be replaced."""
    if not path.exists():
        return False
    parents = Path(os.path.realpath(path.parent)).parts
    devices = parents[:2] in [Path(folder).parts for folder in DEVICES] and parents[:3] != ("/", "dev", "shm")
    return devices or not stat.S_ISREG(path.stat().st_mode)


def why_not(path: Path) -> str:
    """Why no file can be written there; empty where one can."""
    if in_place(path):
        return "" if os.access(path, os.W_OK) else "it cannot be written: name another file"
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        return "its folder does not exist: make it first"
    try:
        with TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"its folder takes no file: {error.strerror}"


def check(path: Path, where: str = "") -> None:
    """Check, before the work, that its result can be written there. Raises InputError."""
    if why := why_not(path):
        raise InputError.single(why, where or str(path), str(path) if where else "")
