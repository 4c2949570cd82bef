"""What the lab's process may do with the host's files, as a value: the host's kernel refuses everything else."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from emulator.lab import lab_root, landlock
from emulator.lab.lab_root import LabRoot
from emulator.lab.landlock import CHANGE, OVERWRITE, READ, RUN, Access

OF_THE_HOST = {
    "/etc/ld.so.cache": Access.READ_FILE,
    "/proc/cpuinfo": Access.READ_FILE,
    "/proc/mounts": Access.READ_FILE,
    "/dev/null": OVERWRITE,
}
"""What User-mode Linux and the C library open while they start."""

NOT_SEEN = ("dev", "proc", "run", "sys", "tmp")
"""Folders of this machine's root that a lab has of its own."""

LOADER = Path("/lib64/ld-linux-x86-64.so.2")


class Exchange(Struct, frozen=True):
    """The folders of one boot on the host.

    `kernel` holds what User-mode Linux makes: its memory and its pid. `guest` holds what the launcher and init.py tell
    one another: the guest may read it and overwrite REPORTS, and it can make nothing there.
    """

    runtime: Path

    REPORTS = ("stdout", "stderr", "heartbeat", "exit")

    @property
    def kernel(self) -> Path:
        """The folder of User-mode Linux."""
        return self.runtime / "kernel"

    @property
    def image(self) -> Path:
        """A link to the image's root."""
        return self.runtime / "image"

    @property
    def console(self) -> Path:
        """What the kernel prints."""
        return self.runtime / "console"

    @property
    def guest(self) -> Path:
        """The folder that the guest sees as /lab/run until its command starts."""
        return self.runtime / "guest"

    def make(self) -> None:
        """Make both, with the files of the reports."""
        self.kernel.mkdir()
        self.guest.mkdir()
        for name in self.REPORTS:
            (self.guest / name).touch(0o600)


def allowed(
    linux: Path, libraries: Sequence[str], roots: Mapping[str, int],
    sources: Sequence[Path], exchange: Exchange, folder: Path | None,
) -> dict[str, int]:  # fmt: skip
    """Each path with the rights there and beneath. `folder` is the one that the command may change."""
    rules = {str(path): int(RUN) for path in (linux, *libraries)}
    rules |= roots
    rules |= {str(path): int(READ) for path in (*sources, exchange.guest)}
    rules |= {str(exchange.guest / name): int(OVERWRITE) for name in exchange.REPORTS}
    rules |= {path: int(right) for path, right in OF_THE_HOST.items()}
    rules[str(exchange.kernel)] = CHANGE
    if folder:
        rules[str(folder)] = CHANGE
    return rules


def roots(root: LabRoot) -> dict[str, int]:
    """The folders that hold the lab's programs, with the rights there.

    Of this machine's own root these are all folders but those that the lab has of its own; the root itself can be
    listed only.
    """
    if root.choice.host:
        seen = [path for path in Path("/").iterdir() if path.name not in NOT_SEEN and path.is_dir()]
        return {str(path.resolve()): int(READ) for path in seen} | {"/": int(Access.READ_DIR)}
    folders = (root.image, *((root.layer,) if root.layer else ()), *map(Path, filter(None, [root.choice.folder])))
    return {str(path.resolve()): int(READ) for path in folders}


def own_folders(root: LabRoot, sources: Sequence[Path]) -> list[Path]:
    """The folders that a lab mounts read-only under their own names: the project's, and with this machine's root
    Longhaul's own that lie where the lab has folders of its own."""
    project = [Path(root.choice.project)] if root.choice.project else []
    own = (*sources, *lab_root.own_prefixes(root.choice)) if root.choice.host else ()
    return [*(path for path in own if path.parts[1] in NOT_SEEN), *project]


@cache
def libraries(linux: Path) -> tuple[str, ...]:
    """The shared libraries that the kernel's executable is started with, and their loader; none when it has none."""
    listed = subprocess.run([LOADER, "--list", linux], check=False, capture_output=True, text=True)
    words = [word for line in listed.stdout.splitlines() for word in line.split() if word.startswith("/")]
    return (*words, str(LOADER)) if listed.returncode == 0 else ()


def weaknesses(version: int) -> list[str]:
    """What this host's Landlock does not refuse, in words; empty when it refuses all that this page of rules says."""
    if not version:
        return ["this kernel has no Landlock: a program in the lab can open every file that you can"]
    lacking = []
    if version < landlock.SINCE[Access.TRUNCATE]:
        lacking.append(f"Landlock {version} lets a program in the lab empty files that you may write")
    return lacking
