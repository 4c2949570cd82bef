"""The changes that a lab's kernel needs, chosen and applied by what its source says. The tree itself is not written to.

Each change has a text for each range of versions, and a sign by which a source shows that it needs it no more.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from emulator.errors import LabError
from emulator.lab.build_cache import command
from emulator.lab.build_kernel import PATCHES

Read = Callable[[str], bytes | None]
"""The bytes of a file of the source, by its path there; None where it is not."""

OLDER, NEWER = PATCHES / "6.1", PATCHES / "7.2"
_TOUCHED = re.compile(r"(?m)^(?:---|\+\+\+) (?:[ab]/)?(\S+)")


class KernelChange(Struct, frozen=True):
    """A change by the name of its patch. `texts` are its patches, each for a range of versions, the oldest first.

    It is obsolete in a source where `path` does not match `needed_while`; `obsolete` tells why.
    """

    name: str
    texts: tuple[Path, ...]
    path: str
    needed_while: str
    obsolete: str


def _change(name: str, path: str, needed_while: str, obsolete: str) -> KernelChange:
    texts = [folder / f"{name}.patch" for folder in (OLDER, PATCHES, NEWER)]
    return KernelChange(name, tuple(text for text in texts if text.exists()), path, needed_while, obsolete)


CHANGES = (
    _change(
        "0001-random-numbers-from-the-seed-alone", "arch/um/kernel/um_arch.c", r"os_getrandom",
        "User-mode Linux no longer asks the host for random numbers at its start",
    ),
    _change(
        "0002-room-for-amx-registers", "arch/x86/um/user-offsets.c", r"HOST_FP_SIZE",
        "the kernel measures the size of the floating-point registers when it starts (since about 6.14)",
    ),
    _change(
        "0003-move-floating-point-registers-only-when-needed", "arch/x86/um/os-Linux/registers.c", r"PTRACE_SETREGSET",
        "the kernel no longer moves floating-point registers by ptrace",
    ),
    _change(
        "0004-let-time-pass-in-shrink-dcache-parent", "fs/dcache.c", r"(?s)^(?!.*wait_for_completion)",
        "shrink_dcache_parent() waits for a completion and spins no more",
    ),
    _change(
        "0005-sleep-in-a-select-without-wait", "fs/select.c", r"poll_freewait\(&table\)",
        "select() is written anew: a program that polls must not spin in it",
    ),
    _change(
        "0006-map-adjacent-pages-around-a-fault", "arch/um/kernel/trap.c", r"mmap_read_unlock",
        "a page fault no longer ends in arch/um/kernel/trap.c",
    ),
    _change(
        "0007-fill-the-block-of-a-reader", "fs/read_write.c", r"return ksys_read\(fd, buf, count\)",
        "read() is written anew: a program that reads a block in pieces must not pay for each piece",
    ),
    _change(
        "0008-copy-long-blocks-by-one-instruction", "arch/x86/lib/memcpy_64.S", r"jmp memcpy_orig",
        "memcpy() of x86 no longer chooses its code by the CPU when it starts",
    ),
    _change(
        "0009-compile-for-addresses-below-2-gib", "arch/um/Makefile", r"-mcmodel=large",
        "User-mode Linux is no longer compiled for any address",
    ),
)  # fmt: skip
"""In the order in which they are applied."""


class PatchedFiles(Struct, frozen=True):
    """What patches make of a source: the files that differ, None for one that is removed; and what was done.

    `applied` are the patches; `obsolete` are the changes that this source needs no more, each with its reason.
    """

    files: Mapping[str, bytes | None]
    applied: tuple[Path, ...]
    obsolete: Mapping[str, str]


def touched(patch: str) -> list[str]:
    """The files that a patch names, each once."""
    return [path for path in dict.fromkeys(_TOUCHED.findall(patch)) if path not in ("/dev/null", "dev/null")]


def patched(read: Read, own: Sequence[Path], version: str) -> PatchedFiles:
    """Apply the lab's own changes, then the patches of a user, to copies of the files that they touch.

    Raises LabError that names the patch, where one matches no text or a user's does not apply.
    """
    with tempfile.TemporaryDirectory(prefix="longhaul-patch-") as name:
        stage = _Stage(Path(name), read)
        applied, obsolete = [], {}
        for change in CHANGES:
            if not re.search(change.needed_while, (read(change.path) or b"").decode(errors="replace")):
                obsolete[change.name] = change.obsolete
            else:
                applied.append(_first(stage, change, version))
        for patch in own:
            if why := stage.apply(patch):
                raise LabError(f"{patch} does not apply to Linux {version}, after the lab's own patches:\n{why}")
        return PatchedFiles(stage.changed(), (*applied, *own), obsolete)


def _first(stage: _Stage, change: KernelChange, version: str) -> Path:
    """Apply the first text that fits. Raises LabError."""
    whys = {}
    for text in change.texts:
        if not (why := stage.apply(text)):
            return text
        whys[text] = why
    told = "\n".join(f"{text.parent.name}/{text.name}: {why}" for text, why in whys.items())
    raise LabError(
        f"no text of the patch {change.name} fits Linux {version}: the lab needs this change in another form there. "
        f"It is obsolete where {change.obsolete}.\n{told}"
    )


class _Stage:
    """Copies of the files that patches touch, in a folder."""

    def __init__(self, folder: Path, read: Read) -> None:
        self._folder, self._read = folder, read
        self._before: dict[str, bytes | None] = {}

    def apply(self, patch: Path) -> str:
        """Apply a patch where every line of its context matches. Returns why it does not; then nothing changed."""
        paths = touched(patch.read_text("utf-8", "replace"))
        if not paths:
            return "it is no patch: it names no file after --- and +++"
        if wrong := [path for path in paths if path.startswith("/") or ".." in Path(path).parts]:
            return f"it names {wrong[0]}, which is outside the source"
        for path in paths:
            self._fetch(path)
        argv: list[str | Path] = [
            "patch",
            "-p1",
            "-F0",
            "-N",
            "-s",
            "-r",
            "-",
            "--no-backup-if-mismatch",
            "-i",
            patch.resolve(),
        ]
        try:
            # First without a change: a patch that fails in its last file has changed the first ones.
            command([*argv, "--dry-run"], cwd=self._folder)
            command(argv, cwd=self._folder)
        except LabError as error:
            return str(error).partition("\n")[2]
        return ""

    def _fetch(self, path: str) -> None:
        if path in self._before:
            return
        self._before[path] = content = self._read(path)
        if content is not None:
            place = self._folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)

    def changed(self) -> dict[str, bytes | None]:
        """The files that differ from the source's."""
        now = {path: _bytes(self._folder / path) for path in self._before}
        return {path: content for path, content in now.items() if content != self._before[path]}


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None
