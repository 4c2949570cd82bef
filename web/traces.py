"""The traces that clients imported: files in one folder, which a schedule of a request names."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from emulator.config.schedule_schema import TraceKeys, read_trace
from emulator.errors import InputError, Mistake, no_such
from emulator.model.schedule import Keyframe, Schedule
from emulator.system import atomic_file, bounded_file
from emulator.units import format_size

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
LONGEST_NAME = 64
MOST_TRACES = 100
MANY_KEYS = 200
"""A track with more keys is shown as a trace: nobody edits them one by one."""

UP = "up:"
"""Before the digest of a track that is up: its keys need no file."""

_DRAFT = ".partial"


class Traces:
    """The imported traces in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, threading.Lock()
        self._coming = ("", bytearray())
        self._digests: dict[tuple[str, int, int], str] = {}

    def names(self) -> list[str]:
        """All of them, by name."""
        found = self._folder.iterdir() if self._folder.is_dir() else ()
        return sorted(path.name for path in found if _is_name(path.name) and path.suffix != _DRAFT)

    def read(self, name: str) -> TraceKeys:
        """The keys of a trace. Raises KeyError when there is none, ValueError when its file is spoilt."""
        if not _is_name(name) or name not in self.names():
            raise KeyError(name)
        try:
            text = bounded_file.read_text(self._folder / name, bounded_file.TRACE, errors="replace")
        except OSError as error:
            raise ValueError(f"{name} cannot be read: {error.strerror}") from None
        return read_trace(name, text)

    def keep(self, name: str, offset: int, total: int, part: bytes) -> TraceKeys | None:
        """Take a part of a file, of `total` bytes, that begins at `offset`; its keys once it is complete, else None.

        One file comes at a time. Raises InputError for what is no trace, or more than one may have; then nothing is
        kept.
        """
        with self._lock:
            self._check(name, offset, total, part)
            if offset == 0:
                self._coming = (name, bytearray())
            coming, content = self._coming
            if (coming, len(content)) != (name, offset):
                text = "the part before is missing: send the file from its beginning"
                raise InputError.single(text, "query", "offset")
            content += part
            if len(content) < total:
                return None
            self._coming = ("", bytearray())
            return self._kept(name, bytes(content))

    def _check(self, name: str, offset: int, total: int, part: bytes) -> None:
        wrong = []
        if not _is_name(name) or name.endswith(_DRAFT):
            text = f"{name!r} is no name of a trace: use letters, digits, . _ and -, such as lte.csv"
            wrong.append(Mistake("query", "name", text))
        most = bounded_file.TRACE.most_bytes
        if total > most:
            text = f"it has more than {format_size(most)}, the most that a trace may have"
            wrong.append(Mistake("request", "", text))
        if offset + len(part) > total:
            wrong.append(Mistake("query", "total", "the part ends after the end of the file"))
        if name not in (names := self.names()) and len(names) >= MOST_TRACES:
            wrong.append(Mistake("request", "", f"{MOST_TRACES} traces are kept: delete one first"))
        if wrong:
            raise InputError(wrong)

    def _kept(self, name: str, content: bytes) -> TraceKeys:
        try:
            keys = read_trace(name, content.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n"))
        except ValueError as error:
            raise InputError.single(str(error), "request") from None
        if not keys[0]:
            raise InputError.single(f"{name} has no keys: it needs a line below its header", "request")
        atomic_file.folder(self._folder)
        atomic_file.write(self._folder / name, content)
        return keys

    def remove(self, name: str) -> None:
        """Delete a trace; schedules that play it keep its keys. Raises KeyError."""
        with self._lock:
            if name not in self.names():
                raise KeyError(name)
            (self._folder / name).unlink()

    def name_of(self, keys: Sequence[Keyframe]) -> str:
        """The imported trace that has these keys; else their name as those of a track that is up."""
        digest = up_name(keys)
        return next((name for name in self.names() if self._digest(name) == digest), digest)

    def _digest(self, name: str) -> str:
        try:
            stat = (self._folder / name).stat()
            stamp = (name, stat.st_ino, stat.st_mtime_ns)
            if stamp not in self._digests:
                self._digests[stamp] = up_name(self.read(name)[0])
            return self._digests[stamp]
        except (OSError, KeyError, ValueError):
            return ""

    def finder(self, schedule: Schedule | None) -> Callable[[object], TraceKeys]:
        """What knows the keys of a trace by its name: an imported one, or that of a track of this schedule."""

        def find(name: object) -> TraceKeys:
            if isinstance(name, str) and name.startswith(UP):
                tracks = schedule.tracks if schedule else ()
                found = next((one.keys for one in tracks if name == up_name(one.keys)), None)
                if found is None:
                    raise ValueError("this track is no longer up: import its file again")
                return found, None
            try:
                return self.read(str(name))
            except KeyError:
                raise ValueError(no_such("imported trace", str(name), self.names())) from None

        return find


def up_name(keys: Sequence[Keyframe]) -> str:
    """The name of a track's keys that are up."""
    return UP + hashlib.sha256(repr(tuple(keys)).encode()).hexdigest()[:16]


def _is_name(name: str) -> bool:
    return len(name) <= LONGEST_NAME and NAME.fullmatch(name) is not None
