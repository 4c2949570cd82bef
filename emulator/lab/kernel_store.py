"""The kernels that are built here: a folder of the cache for each, with its record, and the names that users gave them.

kernel-HASH/linux         the executable
kernel-HASH/kernel.json   what it was built from (`KernelRecord`); absent in a kernel of Longhaul's own
kernel-HASH/inputs/       the patches, fragments and congestion controls that a user added
kernels/NAME              a link to the folder
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct, field

from emulator.errors import LabError, no_such
from emulator.lab import build_cache, build_kernel
from emulator.lab.build_kernel import FULL, STANDARD
from emulator.lab.kernel_version import PTRACE
from emulator.system import struct_json

RECORD = "kernel.json"
ID = re.compile(r"kernel-[0-9a-f]{12}")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9._+-]{0,39}")
OWN_NAMES = (STANDARD, FULL)


class KernelRecord(Struct, frozen=True):
    """What a kernel was built from. `source` tells the package, folder or archive; `commit` and `diff` a work tree's.

    `mode`: see `kernel_version`. `patches` are those applied, the lab's own first; `obsolete` the lab's own changes
    that this source needs no more, each with its reason. `sources` are the congestion controls of the user's files.
    """

    version: str
    source: str
    package_version: str = ""
    commit: str = ""
    diff: str = ""
    mode: str = PTRACE
    config: str = STANDARD
    fragments: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    obsolete: dict[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    congestion_controls: tuple[str, ...] = ()
    compiler: str = ""
    seconds: float = 0.0
    compiled_files: int = 0


class StoredKernel(Struct, frozen=True):
    """A kernel of the cache: its folder, its names, and what it was built from."""

    folder: Path
    names: tuple[str, ...]
    record: KernelRecord
    default: bool = False

    @property
    def bytes(self) -> int:
        """The size of its executable."""
        return (self.folder / "linux").stat().st_size

    @property
    def built(self) -> str:
        """When, in UTC."""
        return datetime.fromtimestamp((self.folder / "linux").stat().st_mtime, UTC).isoformat(timespec="seconds")


def check_name(text: str) -> str:
    """A name for a kernel. Raises ValueError."""
    if not NAME.fullmatch(text):
        raise ValueError(f"{text!r} is no name of a kernel: a letter, then up to 39 letters, digits and ._+-")
    if text in OWN_NAMES or ID.fullmatch(text):
        raise ValueError(f"{text!r} is a name of Longhaul's own: use another")
    return text


def names() -> dict[str, str]:
    """The folder's name of each named kernel that is there."""
    links = sorted((build_cache.folder() / "kernels").glob("*"))
    return {link.name: link.resolve().name for link in links if link.is_symlink() and (link / "linux").exists()}


def name(folder: Path, called: str) -> None:
    """Give a kernel a name; another kernel of this name loses it."""
    place = build_cache.folder() / "kernels"
    place.mkdir(parents=True, exist_ok=True)
    draft = place / f".{called}.{os.getpid()}"
    draft.unlink(missing_ok=True)
    draft.symlink_to(Path("..") / folder.name)
    draft.rename(place / called)


def folder_of(id: str) -> Path:
    """The folder of a kernel by its id. Raises LabError when it is not there."""
    folder = build_cache.folder() / id
    if not (folder / "linux").exists():
        raise LabError(f"{folder} is not there any more: build it again by longhaul lab build --kernel")
    return folder


def record_of(folder: Path) -> KernelRecord | None:
    """What a kernel was built from; None for one of Longhaul's own. Raises LabError for a spoilt record."""
    if not (file := folder / RECORD).exists():
        return None
    try:
        return struct_json.from_plain(KernelRecord, json.loads(file.read_text("utf-8")))
    except ValueError as error:
        raise LabError(f"{file} is spoilt ({error}): remove {folder}") from None


def find(text: str) -> str:
    """The id of a kernel by its name or id. Raises ValueError that lists the names."""
    known = names()
    if text in known:
        return known[text]
    if ID.fullmatch(text) and (build_cache.folder() / text / "linux").exists():
        return text
    raise ValueError(no_such("kernel", text, [STANDARD, *known]))


def every() -> list[StoredKernel]:
    """All kernels that are built here, Longhaul's own first, then by their names."""
    return [*_own(), *sorted(_recorded(), key=lambda kernel: (kernel.names or ("~",), kernel.folder.name))]


def _own() -> Iterator[StoredKernel]:
    for config in OWN_NAMES:
        if (folder := build_kernel.place(config)).joinpath("linux").exists():
            version = build_kernel.source_version(config)
            record = KernelRecord(
                version.partition("-")[0] or build_kernel.PACKAGE.rpartition("-")[2],
                f"Debian's {build_kernel.PACKAGE}", version, config=config,
                patches=tuple(patch.stem for patch in build_kernel.series()),
                congestion_controls=build_kernel.congestion_controls(config),
            )  # fmt: skip
            yield StoredKernel(folder, (config,), record, default=config == STANDARD)


def _recorded() -> Iterator[StoredKernel]:
    called = names()
    for folder in build_cache.folder().glob("kernel-*"):
        if (folder / "linux").exists() and (record := record_of(folder)):
            yield StoredKernel(folder, tuple(name for name, id in called.items() if id == folder.name), record)
