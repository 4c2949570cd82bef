"""Reads files that people, other programs or a crash may have made: regular files only, each up to its kind's size.

The product's only way to read them. Files of the kernel (/proc, /sys) and those of this package are read directly.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from emulator.units import format_size

MIB = 2**20
PART_BYTES = 2**16
"""How much of a file is read at once beyond the size that it told, nearly always to see that it ends."""


class FileKind(Struct, frozen=True):
    """What a file is, for people, and the most bytes that one may have."""

    name: str
    most_bytes: int


TOPOLOGY = FileKind("a topology", MIB)
PATH_PROFILE = FileKind("a path profile", MIB)
TCP_PROFILES = FileKind("a file of TCP profiles", MIB)
DISTRIBUTION = FileKind("a table of jitter", MIB)
TRACE = FileKind("a trace", 16 * MIB)
PROBES = FileKind("a recording's probes", 512 * MIB)
RECORDING = FileKind("a recording's description", MIB)
STATE = FileKind("a file of the state folder", 256 * MIB)
BASELINE = FileKind("a baseline", 4 * MIB)
RUN = FileKind("a file of a run", 256 * MIB)
RUN_NAME = FileKind("a run's name", 4096)
CAPTURE = FileKind("a file of captured frames", 1 << 40)
CERTIFICATE = FileKind("a certificate", 64 * MIB)
SAVED = FileKind("saved settings", MIB)
RELEASE = FileKind("a system's description (os-release)", 65_536)
TOKEN = FileKind("a token", 4096)
ANSWER = FileKind("a daemon's answer", 64 * MIB)
OUTPUT = FileKind("a program's output", 256 * MIB)
"""Not files: what the client of a remote daemon takes, and what a program prints. The JSON of a transfer of 128 streams
grows by about 50 kB a second."""
LONGEST_LINE_BYTES = 1 << 16
"""Of a program's output that is read line by line."""

_KINDS = {
    stat.S_ISLNK: "a link", stat.S_ISFIFO: "a FIFO", stat.S_ISCHR: "a device", stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
}  # fmt: skip


class UnfitFile(OSError):
    """A file that is not read, for what it is; `strerror` says why."""


def read_bytes(path: Path, kind: FileKind) -> bytes:
    """The whole file. Raises OSError: UnfitFile for what is no regular file, or larger than its kind."""
    # Looked at before it is opened, too: opening a device may do something, and opening a FIFO waits.
    _check(path, path.stat(), kind)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        seen = os.fstat(fd)
        _check(path, seen, kind)
        content = _read(fd, seen.st_size, kind.most_bytes)
    finally:
        os.close(fd)
    if len(content) > kind.most_bytes:
        raise _too_large(path, kind)
    return content


def _read(fd: int, expected_bytes: int, most_bytes: int) -> bytes:
    """All of a file, or the beginning of one that has grown beyond the most."""
    # No more room than it needs: that of the most would be mapped and unmapped for each file.
    parts = [os.read(fd, expected_bytes + 1)]
    while parts[-1] and sum(map(len, parts)) <= most_bytes:
        parts.append(os.read(fd, PART_BYTES))
    return b"".join(parts)


def opened(path: Path, kind: FileKind) -> BinaryIO:
    """The file, to be read in parts; a link in its place is not followed. Raises OSError as `read_bytes` does."""
    _check(path, path.lstat(), kind)
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb")
    try:
        _check(path, os.fstat(file.fileno()), kind)
    except OSError:
        file.close()
        raise
    return file


def read_end(path: Path, kind: FileKind, last_bytes: int) -> bytes:
    """The last bytes of a file, however large it is. Raises OSError as `opened` does."""
    with opened(path, replace(kind, most_bytes=sys.maxsize)) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - last_bytes))
        return file.read(last_bytes)


def read_text(path: Path, kind: FileKind, encoding: str = "utf-8", errors: str = "strict") -> str:
    """The whole file as text, its line ends as \\n. Raises OSError as `read_bytes` does, and UnicodeDecodeError."""
    return read_bytes(path, kind).decode(encoding, errors).replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path, kind: FileKind) -> Any:
    """The value that a JSON file holds. Raises OSError as `read_bytes` does, and ValueError for what is no JSON."""
    return parse_json(read_bytes(path, kind))


def parse_json(content: bytes) -> Any:
    """The value of a JSON text. Raises ValueError for what is no JSON."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested far too deep") from None


def _check(path: Path, seen: os.stat_result, kind: FileKind) -> None:
    if stat.S_ISDIR(seen.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(seen.st_mode):
        what = next((text for is_one, text in _KINDS.items() if is_one(seen.st_mode)), "no file")
        raise UnfitFile(errno.EINVAL, f"it is {what}; {kind.name} is read from a regular file", str(path))
    if seen.st_size > kind.most_bytes:
        raise _too_large(path, kind)


def _too_large(path: Path, kind: FileKind) -> UnfitFile:
    text = f"it has more than {format_size(kind.most_bytes)}, the most that {kind.name} may have"
    return UnfitFile(errno.EFBIG, text, str(path))
