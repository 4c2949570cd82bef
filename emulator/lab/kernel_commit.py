"""The source of Linux at one commit of a Git repository, read from Git's objects: the work tree takes no part."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from emulator.errors import LabError

SOURCE_OF_LINUX = ("Makefile", "Kconfig", "arch/um/Makefile")
"""Files by which a source of Linux is known."""
LINK = 0o120000
_FILES = (0o100644, 0o100755, LINK)


class NoLinuxError(ValueError):
    """The commit is there, and it is no source of Linux."""


class SourceFile(Struct, frozen=True):
    """A file of a source: its content, or of a link its target; and its mode."""

    content: bytes
    mode: int

    @property
    def link(self) -> bool:
        """Whether it is a symbolic link."""
        return self.mode & 0o170000 == LINK


def split(text: str) -> tuple[Path, str] | None:
    """The repository and the revision of TREE@REV; None for another text, also for a path that has an @ itself."""
    tree, at, revision = text.rpartition("@")
    return (Path(tree or "."), revision) if at and revision and not Path(text).exists() else None


def resolve(tree: Path, revision: str) -> str:
    """The full id of a commit. Raises ValueError where there is none, NoLinuxError where it is another program's."""
    try:
        commit = _git(tree, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except LabError:
        if not tree.is_dir():
            raise ValueError(f"{str(tree)!r} is no folder") from None
        raise ValueError(f"the Git repository {str(tree)!r} has no commit {revision!r}: git log --oneline") from None
    name = commit.decode().strip()
    there = _git(tree, "ls-tree", "--full-tree", "--name-only", name, *SOURCE_OF_LINUX).decode().split()
    if len(there) < len(SOURCE_OF_LINUX):
        text = f"{revision!r} of {str(tree)!r} is no source of Linux: it has no arch/um beside a Makefile"
        raise NoLinuxError(text)
    return name


def listing(tree: Path, commit: str) -> dict[str, tuple[int, int]]:
    """Every file and link of a commit: its mode and the number of its content, by path. Raises LabError."""
    found = {}
    for entry in _git(tree, "ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]:
        facts, _, path = entry.partition(b"\t")
        mode, _, blob = facts.split()
        if int(mode, 8) in _FILES:  # not a submodule
            found[os.fsdecode(path)] = int(mode, 8), int(blob, 16)
    return found


def contents(tree: Path, commit: str, paths: Sequence[str]) -> Iterator[tuple[str, SourceFile]]:
    """These files of a commit, one after the other. Raises LabError."""
    listed = listing(tree, commit)
    width = len(commit)
    with subprocess.Popen(
        ["git", "-C", tree, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as git:
        assert git.stdin
        assert git.stdout
        for path in paths:
            mode, blob = listed[path]
            git.stdin.write(f"{blob:0{width}x}\n".encode())
            git.stdin.flush()
            *_, size = git.stdout.readline().split() or [b"missing"]
            if not size.isdigit():
                raise LabError(f"the Git repository {tree} lacks the content of {path} at {commit[:12]}: git fsck")
            content = git.stdout.read(int(size))
            git.stdout.read(1)
            yield path, SourceFile(content, mode)


def _git(tree: Path, *argv: str) -> bytes:
    """What Git prints. Raises LabError."""
    try:
        done = subprocess.run(["git", "-C", tree, *argv], check=False, capture_output=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise LabError("to read a commit, install: apt-get install git") from None
    if done.returncode:
        raise LabError(f"`git {argv[0]}` in {tree} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
