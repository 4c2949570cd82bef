"""The change log: when, who, what, and the difference. Each change has a file, written before the kernel changes."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from emulator.control.intent_store import UnreadableError, read_value, write_json
from emulator.model.topology import Lane, Topology
from emulator.system import atomic_file

FORMAT = 2
KEPT = 50


WATCHDOG, REVERT = "watchdog", "revert"
"""Commands of authors that are not command lines."""


class Author(Struct, frozen=True):
    """Who makes a change; `command` is the command line, or `watchdog`, `revert`, or how a request came in.

    `uid` and `pid` are those of the process that makes it, which for a request is the daemon.
    """

    user: str
    uid: int
    pid: int
    command: str


_acting: ContextVar[Author | None] = ContextVar("acting", default=None)


@contextlib.contextmanager
def acting(author: Author) -> Iterator[None]:
    """For the time of the block, this thread's changes are this author's instead of the process's."""
    before = _acting.set(author)
    try:
        yield
    finally:
        _acting.reset(before)


def actor() -> Author | None:
    """Whom this thread acts for; None: for the process itself."""
    return _acting.get()


class LoggedChange(Struct, frozen=True):
    """One change. One entry stands for `times` repairs of the watchdog in a row; `when` is the time of the last one."""

    number: int
    when: str
    author: Author
    summary: str
    before: Topology | None
    after: Topology | None
    times: int = 1

    @property
    def lanes(self) -> list[str]:
        """The names of the lanes that it changed, added or removed; none for a repair.

        An address that is only spelled out, as beside a removed lane, is no change.
        """
        old, new = _lanes(self.before), _lanes(self.after)
        return [name for name in {**old, **new} if old.get(name) != new.get(name)]

    @property
    def diff(self) -> str:
        """The difference that it made to the topology, as a unified diff; empty for a repair."""
        old, new = _yaml(self.before), _yaml(self.after)
        return "".join(difflib.unified_diff(old, new, "before", "after", n=1))


class History:
    """The folder of changes. The intent has the number of the last one; the next change overwrites files beyond it.

    `report` gets one line for each file that cannot be read: the history goes on without it.
    """

    def __init__(self, folder: Path, report: Callable[[str], object] = lambda _: None) -> None:
        self._folder, self._report = folder, report

    def write(self, change: LoggedChange) -> None:
        """Write one change durably, and delete the oldest. Raises MissingError."""
        atomic_file.folder(self._folder)
        write_json(self._path(change.number), FORMAT, change)
        with contextlib.suppress(OSError):  # a folder in its place harms nobody
            self._path(change.number - KEPT).unlink(missing_ok=True)

    def read(self, number: int) -> LoggedChange | None:
        """One change; None when its file is deleted or spoilt."""
        try:
            return read_value(LoggedChange, self._path(number), FORMAT)
        except UnreadableError as error:
            self._report(f"{error.file} is skipped: {error.why}")
            return None

    def last(self, number: int, count: int = KEPT) -> list[LoggedChange]:
        """Up to `count` changes, newest first, from `number` back."""
        found = (self.read(n) for n in range(number, max(number - min(count, KEPT), 0), -1))
        return [change for change in found if change]

    def newest(self) -> LoggedChange | None:
        """The newest change in the folder, for when no intent says which is the last; None without a readable one."""
        with contextlib.suppress(OSError):
            names = (path.stem for path in self._folder.glob("*.json"))
            numbers = sorted((int(name) for name in names if name.isdecimal()), reverse=True)
            return next((change for number in numbers if (change := self.read(number))), None)
        return None

    def repaired(self, change: LoggedChange) -> int:
        """Write a repair, given the number of the last change; returns the repair's own number.

        One entry stands for all repairs in a row: otherwise they would displace the changes that `undo` needs.
        """
        last = self.read(change.number)
        if last and last.before == last.after and last.author.command == change.author.command:
            change = replace(change, times=last.times + 1)
        else:
            change = replace(change, number=change.number + 1)
        self.write(change)
        return change.number

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06d}.json"


def here(command: str) -> Author:
    """This process as an author; the user is the one who ran sudo."""
    import pwd

    uid = int(os.environ.get("SUDO_UID", os.getuid()))
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    return Author(user, uid, os.getpid(), command)


def _lanes(topology: Topology | None) -> dict[str, Lane]:
    """The lanes by name, each with the address that it has."""
    if topology is None:
        return {}
    return {lane.name: replace(lane, address=topology.address(lane.name).ip) for lane in topology.lanes}


def _yaml(topology: Topology | None) -> list[str]:
    if topology is None:
        return []
    from emulator.config import loader  # YAML is slow to import; only who reads the history needs it

    return loader.dumps(topology).splitlines(keepends=True)
