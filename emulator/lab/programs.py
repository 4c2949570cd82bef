"""Looks for programs in the root of a lab before it boots, as execvp(3) will look there. It starts nothing."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from emulator.errors import MissingError
from emulator.lab import lab_root
from emulator.lab.lab_root import OWN_BIN, LabRoot, shown

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MOST_LINKS = 40
"""Links in one path; the kernel follows no more."""
SHELL_WORDS = frozenset(
    (".", ":", "[", "alias", "bg", "break", "builtin", "caller", "case", "cd", "chdir", "command", "continue",
     "declare", "dirs", "disown", "do", "done", "echo", "elif", "else", "enable", "esac", "eval", "exec", "exit",
     "export", "false", "fg", "fi", "for", "function", "getopts", "hash", "if", "jobs", "kill", "let", "local",
     "mapfile", "popd", "printf", "pushd", "pwd", "read", "readonly", "return", "select", "set", "shift", "shopt",
     "source", "suspend", "test", "then", "time", "times", "trap", "true", "type", "typeset", "ulimit", "umask",
     "unalias", "unset", "until", "wait", "while")
)  # fmt: skip
"""What sh(1) does by itself, be it dash or bash."""
IN_MEMORY = ("/dev", "/proc", "/run", "/sys", "/tmp")
"""Folders that the lab makes: what they hold of a root file system is not seen."""


def search_path(root: LabRoot) -> str:
    """The lab's PATH: with --host-root the user's own comes first."""
    if root.choice.host:
        own = [part for part in os.environ.get("PATH", "").split(":") if part.startswith("/")]
        return ":".join(dict.fromkeys([OWN_BIN, *own, *PATH.split(":")]))
    return f"{OWN_BIN}:{PATH}" if root.choice.folder else PATH


def missing(programs: Iterable[str], root: LabRoot, folder: Path | None = None, path: str | None = None) -> list[str]:
    """Those programs that a command in this root could not start; each once, in the order given.

    `folder` is the folder of the host that the lab shares, and its current one. `path` is the PATH, `search_path`
    without it.
    """
    return [name for name in dict.fromkeys(programs) if not found(name, root, folder, path)]


def found(name: str, root: LabRoot, folder: Path | None = None, path: str | None = None) -> Path | None:
    """The file of a program on this machine; None when the root has none that may be executed."""
    if name == "longhaul" and (root.choice.host or root.choice.folder):
        return Path(OWN_BIN, name)
    if "/" in name:
        return _executable(_in_lab(name, root, folder))
    for part in (path or search_path(root)).split(":"):
        if file := _executable(_in_lab(f"{part or '.'}/{name}", root, folder)):
            return file
    return None


def check(programs: Iterable[str], root: LabRoot, folder: Path | None = None, path: str | None = None) -> None:
    """Raise MissingError that names every missing program, and what would bring it."""
    if absent := missing(programs, root, folder, path):
        raise MissingError(f"{where(root)} has no program {shown(absent)}: {_hint(absent, root)}")


def where(root: LabRoot) -> str:
    """The root, in a sentence."""
    if root.choice.host:
        return "this machine"
    if root.choice.folder:
        return root.choice.folder
    return f"the lab's image with {shown(root.choice.packages)}" if root.choice.packages else "the lab's image"


def _hint(absent: Sequence[str], root: LabRoot) -> str:
    if root.choice.host:
        return "install it, or use the lab's image (omit --host-root)"
    if root.choice.folder:
        return "name another folder, or use the lab's image and --with PACKAGE"
    here = [name for name in absent if "/" not in name and shutil.which(name)]
    return "add its Debian package by --with PACKAGE, or to packages in the workload" + (
        f"; --host-root uses this machine's {shown(here)}" if here else ""
    )


def _executable(file: Path | None) -> Path | None:
    try:
        seen = file.stat() if file else None
    except OSError:
        return None
    return file if seen and stat.S_ISREG(seen.st_mode) and seen.st_mode & 0o111 else None


def _in_lab(name: str, root: LabRoot, folder: Path | None) -> Path | None:
    """The file of the host that the lab sees under a name. Follows links as the lab does, inside the root."""
    if not name.startswith("/"):
        name = f"{folder or '/tmp'}/{name}"
    todo, done, links = _parts(name), "", 0
    while todo:
        part = todo.pop()
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        here = f"{done}/{part}"
        file = _place(here, root, folder)
        target = _link(file)
        if target is None:
            done = here
            continue
        if (links := links + 1) > MOST_LINKS:
            return None
        done = "" if target.startswith("/") else done
        todo += _parts(target)
    return _place(done or "/", root, folder)


def _parts(name: str) -> list[str]:
    """A path's parts, the first one last."""
    return [part for part in reversed(name.split("/")) if part not in ("", ".")]


def _link(file: Path | None) -> str | None:
    try:
        return str(file.readlink()) if file else None
    except OSError:
        return None


def _place(name: str, root: LabRoot, folder: Path | None) -> Path | None:
    """Where a file of the lab is on the host; None where the lab has none, or one of its own."""
    if folder and (name == str(folder) or name.startswith(f"{folder}/")):
        return Path(name)
    if any(Path(name).is_relative_to(own) for own in lab_root.own_prefixes(root.choice)):
        return Path(name)
    if any(name == own or name.startswith(f"{own}/") for own in IN_MEMORY):
        return None
    tried = [lower / name.lstrip("/") for lower in root.folders]
    return next((file for file in tried if os.path.lexists(file)), None)
