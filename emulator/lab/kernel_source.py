"""Where a kernel's source comes from: a Debian package, a folder, a commit, an archive; and how it gets to us.

A user's folder is read only. Of a Git work tree the files are those that Git knows or would add.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from emulator.errors import LabError
from emulator.lab import build_packages, kernel_commit
from emulator.lab.build_cache import Progress, command, need
from emulator.lab.build_kernel import TOOLS, UNUSED
from emulator.lab.kernel_commit import SourceFile

SERIES = re.compile(r"[1-9]\d?\.\d{1,3}")
"""How Debian's source packages are numbered: linux-source-6.12."""
SUITES = ("trixie", "trixie-backports", "sid")
"""Where a series is looked for when this machine's own apt does not have it."""
OBJECTS = "lab-objects"
"""The folder of what make writes. It lies in the source: make then uses relative paths, and a build can move."""

ARCHIVES = (".tar.xz", ".tar.gz", ".tar.bz2", ".tar.zst", ".tar", ".tgz")
_BUILT = re.compile(
    rf"(?:^|/)(?:{OBJECTS}|\.git|include/generated|include/config)(?:/|$)|(?:^|/)\.[^/]*\.cmd$|\.(?:o|a|ko|mod|order)$"
    r"|^(?:\.config|\.config\.old|vmlinux|linux|System\.map|Module\.symvers)$"
)
"""What a build has left in a folder that is no Git work tree. With it make would refuse to build elsewhere."""
_UNUSED = re.compile("|".join(fnmatch.translate(f"*/{pattern}") for pattern in UNUSED))


class SourceState(Struct, frozen=True):
    """Which source it is, exactly: `digest` for the cache's key, `told` for people, a work tree's commit and diff."""

    digest: str
    told: str
    commit: str = ""
    diff: str = ""


class KernelOrigin(Struct, frozen=True):
    """A source by kind: `series` of a Debian package, or the path of a folder (`tree`) or of an archive.

    With `commit` it is what the Git repository `tree` has at this commit, whatever lies in its work tree.
    """

    series: str = ""
    tree: str = ""
    archive: str = ""
    commit: str = ""

    @property
    def text(self) -> str:
        """As a user may name it."""
        return f"{self.tree}@{self.commit}" if self.commit else self.series or self.tree or self.archive

    @property
    def name(self) -> str:
        """What a kernel of it is called when nobody names it."""
        base = Path(self.tree or self.text).name + f"-{self.commit[:12]}" * bool(self.commit)
        stem = next((base.removesuffix(end) for end in ARCHIVES if self.archive and base.endswith(end)), base)
        return re.sub(r"[^A-Za-z0-9._+-]", "-", stem).lstrip("-._+")[:40] or "kernel"


def parse_origin(text: str) -> KernelOrigin:
    """A series such as 6.12, a folder, a commit (FOLDER@REV), or an archive. Raises ValueError."""
    if SERIES.fullmatch(text):
        return KernelOrigin(series=text)
    if named := kernel_commit.split(text):
        tree, revision = named[0].resolve(), named[1]
        return KernelOrigin(tree=str(tree), commit=kernel_commit.resolve(tree, revision))
    path = Path(text).resolve()
    if path.is_dir():
        if not all((path / part).exists() for part in kernel_commit.SOURCE_OF_LINUX):
            raise ValueError(f"{text!r} is no source of Linux: it has no arch/um beside a Makefile and a Kconfig")
        return KernelOrigin(tree=str(path))
    if path.is_file() and path.name.endswith(ARCHIVES):
        return KernelOrigin(archive=str(path))
    raise ValueError(
        f"{text!r} is no series of Debian's (6.12), no folder, no commit (FOLDER@REV), and no archive "
        f"({', '.join(ARCHIVES)})"
    )


def state(origin: KernelOrigin) -> SourceState:
    """Which source this is now. Raises LabError."""
    if origin.series:
        return SourceState(f"linux-source-{origin.series}", f"Debian's linux-source-{origin.series}")
    if origin.archive:
        with Path(origin.archive).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return SourceState(digest, f"{Path(origin.archive).name}, SHA-256 {digest[:12]}")
    tree = Path(origin.tree)
    if origin.commit:  # as a clean work tree at this commit: the same kernel
        return SourceState(f"{origin.commit} ", f"{tree} at {origin.commit[:12]}", origin.commit)
    return _of_git(tree) if is_work_tree(tree) else _of_folder(tree)


def is_work_tree(tree: Path) -> bool:
    """Whether the folder is the top of a Git work tree."""
    return (tree / ".git").exists()


def _of_git(tree: Path) -> SourceState:
    need({"git": "git"})
    commit = _git(tree, "rev-parse", "HEAD").decode().strip()
    changed = hashlib.sha256(_git(tree, "diff", "--binary", "--no-ext-diff", "HEAD"))
    names = _git(tree, "ls-files", "-z", "--others", "--exclude-standard").split(b"\0")[:-1]
    for name in sorted(names):
        changed.update(name + b"\0")
        if (path := Path(os.fsdecode(os.fsencode(tree) + b"/" + name))).is_file():
            changed.update(hashlib.sha256(path.read_bytes()).digest())
    clean = changed.digest() == hashlib.sha256().digest()
    diff = "" if clean else changed.hexdigest()[:12]
    told = f"{tree} at {commit[:12]}" + (f" with changes {diff}" if diff else "")
    return SourceState(f"{commit} {diff}", told, commit, diff)


def _of_folder(tree: Path) -> SourceState:
    digest = hashlib.sha256()
    for name in files(tree):
        path = tree / name
        digest.update(name.encode(errors="surrogateescape") + b"\0")
        content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        digest.update(hashlib.sha256(content).digest())
    return SourceState(digest.hexdigest(), f"{tree}, SHA-256 {digest.hexdigest()[:12]}")


def _git(tree: Path, *argv: str) -> bytes:
    done = subprocess.run(["git", "-C", tree, *argv], check=False, capture_output=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise LabError(f"`git {argv[0]}` in {tree} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def files(tree: Path) -> list[str]:
    """The paths of a source's files and links that a build can need, in order."""
    if is_work_tree(tree):
        listed = _git(tree, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split(b"\0")[:-1]
        names = dict.fromkeys(os.fsdecode(name) for name in listed)
        found = [name for name in names if (tree / name).is_file() or (tree / name).is_symlink()]
    else:
        found = [name for name in _walk(tree) if not _BUILT.search(name)]
    return sorted(name for name in found if used(name))


def used(name: str) -> bool:
    """Whether a file of the source can take part in a lab's kernel."""
    return not _UNUSED.match(f"/{name}") and name.partition("/")[0] != OBJECTS


def _walk(tree: Path) -> Iterator[str]:
    for folder, _, names in os.walk(tree):
        for name in names:
            yield str((Path(folder) / name).relative_to(tree))


Stamps = Mapping[str, Sequence[int]]
"""Of the files that were copied last, by path: size, time (ns) and mode; of a commit mode and number of content."""


def compare(origin: KernelOrigin, before: Stamps) -> tuple[Stamps, list[str]]:
    """Compare a user's source with what was copied before: the new stamps, and what changed or is gone. Raises
    LabError."""
    tree, stamps = Path(origin.tree), dict[str, Sequence[int]]()
    if origin.commit:
        stamps |= {name: seen for name, seen in kernel_commit.listing(tree, origin.commit).items() if used(name)}
    else:
        stamps |= {name: _stamp(tree / name) for name in files(tree)}
    names = dict.fromkeys([*before, *stamps])
    return stamps, [name for name in names if tuple(before.get(name, ())) != tuple(stamps.get(name, ()))]


def contents(origin: KernelOrigin, stamps: Stamps, names: Sequence[str]) -> Iterator[tuple[str, SourceFile | None]]:
    """These files of a user's source, None for one that is not in `stamps`. Raises LabError."""
    tree, there = Path(origin.tree), [name for name in names if name in stamps]
    yield from ((name, None) for name in names if name not in stamps)
    if origin.commit:
        yield from kernel_commit.contents(tree, origin.commit, there)
    else:
        yield from ((name, _of_file(tree / name)) for name in there)


def _of_file(path: Path) -> SourceFile:
    content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
    return SourceFile(content, path.lstat().st_mode)


def _stamp(path: Path) -> tuple[int, ...]:
    seen = path.lstat()
    return seen.st_size, seen.st_mtime_ns, seen.st_mode


def unpack(origin: KernelOrigin, scratch: Path, tree: Path, progress: Progress) -> str:
    """Unpack a package's or an archive's source into `tree`. Returns the package's version, "" of an archive.

    Raises LabError.
    """
    archive, version = Path(origin.archive), ""
    if origin.series:
        archive, version = _package(f"linux-source-{origin.series}", scratch, progress)
    progress("unpack the kernel's source", 0, 1)
    tree.mkdir(parents=True)
    excluded = [f"--exclude=*/{pattern}" for pattern in UNUSED]
    command(["tar", "-xaf", archive, "-C", tree, "--strip-components=1", "--no-same-owner", *excluded])
    progress("unpack the kernel's source", 1, 1)
    return version


def _package(package: str, scratch: Path, progress: Progress) -> tuple[Path, str]:
    """The archive in a Debian package, and the package's version: the one installed here, or it is downloaded."""
    need(TOOLS)
    inside = Path(f"usr/src/{package}.tar.xz")
    installed = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], check=False, capture_output=True)
    if not installed.returncode and (Path("/") / inside).exists():
        return Path("/") / inside, installed.stdout.decode().strip()
    progress("download the kernel's source", 0, 1)
    downloaded = build_packages.fetch(scratch, package, SUITES)
    command(["dpkg-deb", "-x", downloaded, scratch / "package"])
    version = command(["dpkg-deb", "-f", downloaded, "Version"]).strip()
    downloaded.unlink()
    progress("download the kernel's source", 1, 1)
    return scratch / "package" / inside, version


def remove_download(scratch: Path) -> None:
    """Remove what `unpack` downloaded."""
    shutil.rmtree(scratch / "package", ignore_errors=True)
