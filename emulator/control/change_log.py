"""The change log: when, who, what, and the difference. Each change has a file, written before the kernel changes."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass, replace
from pathlib import Path

from emulator.control.intent_store import read_json, unreadable, write_json
from emulator.control.old_state import renewed
from emulator.model.topology import Topology
from emulator.system.dataclass_json import from_plain, to_plain

FORMAT = 2
KEPT = 50


WATCHDOG, REVERT = "watchdog", "revert"
"""Commands of authors that are not command lines."""


@dataclass(frozen=True)
class Author:
    """Who makes a change; `command` is the command line, or `watchdog`, `revert`."""

    user: str
    uid: int
    pid: int
    command: str


@dataclass(frozen=True)
class LoggedChange:
    """One change. One entry stands for `times` repairs of the watchdog in a row; `when` is the time of the last one."""

    number: int
    when: str
    author: Author
    summary: str
    before: Topology | None
    after: Topology | None
    times: int = 1

    @property
    def diff(self) -> str:
        """The difference that it made to the topology, as a unified diff; empty for a repair."""
        old, new = _yaml(self.before), _yaml(self.after)
        return "".join(difflib.unified_diff(old, new, "before", "after", n=1))


class History:
    """The folder of changes. The intent has the number of the last one; the next change overwrites files beyond it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, change: LoggedChange) -> None:
        """Write one change durably, and delete the oldest."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_json(self._path(change.number), FORMAT, to_plain(change))
        self._path(change.number - KEPT).unlink(missing_ok=True)

    def read(self, number: int) -> LoggedChange | None:
        """One change; None when its file is deleted. Raises InputError when the file is damaged."""
        plain = read_json(self._path(number), FORMAT)
        try:
            return None if plain is None else from_plain(LoggedChange, renewed(plain))
        except ValueError as error:
            raise unreadable(self._path(number), str(error)) from None

    def last(self, number: int, count: int = KEPT) -> list[LoggedChange]:
        """Up to `count` changes, newest first, from `number` back."""
        found = (self.read(n) for n in range(number, max(number - min(count, KEPT), 0), -1))
        return [change for change in found if change]

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


def _yaml(topology: Topology | None) -> list[str]:
    if topology is None:
        return []
    from emulator.config import loader  # YAML is slow to import; only who reads the history needs it

    return loader.dumps(topology).splitlines(keepends=True)
