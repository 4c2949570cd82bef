"""A kernel's source beside what make built of it, kept between builds: the next one compiles only what changed.

It is packed into one file of the cache, because a slow disk takes minutes to write 40 000 files, and unpacked in memory
where there is room. Files that stay as they are keep their times, which is all that make looks at.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from emulator.lab import build_cache, kernel_source
from emulator.lab.build_cache import Progress, command
from emulator.lab.build_kernel import UNUSED, build_folder
from emulator.lab.kernel_commit import SourceFile
from emulator.lab.kernel_source import KernelOrigin, Stamps

LAYOUT = "1"
"""Increase it when what lies in a workspace changes."""
STATE = "state.json"


class Workspace:
    """The source in `tree`, patched in some files, whose own contents are kept beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.tree = folder, folder / "tree"
        self.version = ""
        self.worth_keeping = False
        """Whether to pack it: set after a build that compiled much."""
        self.new_options = False
        """Whether the user changed a Kconfig since the last build."""
        self.stamps: Stamps = {}
        self._own: dict[str, bytes | None] = {}
        if (file := folder / STATE).exists():
            state = json.loads(file.read_text("utf-8"))
            self.version, self.stamps = state["version"], state["stamps"]
            self._own = {path: None if text is None else base64.b64decode(text) for path, text in state["own"].items()}

    def save(self) -> None:
        """Write down what is not in the tree itself."""
        own = {path: None if data is None else base64.b64encode(data).decode() for path, data in self._own.items()}
        state = {"version": self.version, "stamps": self.stamps, "own": own}
        (self.folder / STATE).write_text(json.dumps(state), "utf-8")

    def read(self, path: str) -> bytes | None:
        """A file as it is without patches; None where there is none."""
        return self._own[path] if path in self._own else _content(self.tree / path)

    def update(self, changed: Iterable[tuple[str, SourceFile | None]]) -> None:
        """Take over files of the user's source, None for one that is gone there; `install` patches them anew."""
        for name, file in changed:
            if name in self._own:
                self._own[name] = file.content if file else None
            elif file and file.link:
                _clear(self.tree / name)
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                (self.tree / name).symlink_to(os.fsdecode(file.content))
            else:
                _put(self.tree / name, file.content if file else None, file.mode & 0o777 if file else None)

    def install(self, files: Mapping[str, bytes | None]) -> None:
        """Make the tree the unpatched one but for these files; None removes one."""
        for path in [path for path in self._own if path not in files]:
            _put(self.tree / path, self._own.pop(path))
        for path, content in files.items():
            self._own.setdefault(path, _content(self.tree / path))
            _put(self.tree / path, content)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _clear(path: Path) -> None:
    """Make room for a file: remove the file, the link or the folder that is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _put(path: Path, content: bytes | None, mode: int | None = None) -> None:
    """Give a file this content and mode. One that has the content already keeps its time."""
    if content is None:
        # Where a file has become a folder, or a folder a file, what took its place stays.
        with suppress(IsADirectoryError, NotADirectoryError):
            path.unlink(missing_ok=True)
        return
    if not path.is_file() or path.is_symlink():
        _clear(path)
    if _content(path) != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if mode is not None:
        path.chmod(mode)


def place(origin: KernelOrigin, digest: str) -> Path:
    """The file that holds the packed workspace of a source: one for each package, archive, and folder of a user."""
    return build_cache.entry("workspace", [LAYOUT, origin.tree or digest, *UNUSED]).with_suffix(".tar")


@contextmanager
def opened(origin: KernelOrigin, digest: str, scratch: Path, progress: Progress) -> Iterator[Workspace]:
    """The workspace of a source, with the source as it is now, for one build at a time. Raises LabError.

    It is packed when the body ends well and set `worth_keeping`, and is as before otherwise.
    """
    packed = place(origin, digest)
    packed.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(packed.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        with build_folder(scratch) as folder:
            workspace = _filled(packed, origin, folder, progress)
            yield workspace
            if not packed.exists() or workspace.worth_keeping:
                workspace.save()
                _pack(folder, packed, progress)
    finally:
        os.close(fd)


def _filled(packed: Path, origin: KernelOrigin, folder: Path, progress: Progress) -> Workspace:
    """The workspace as it was packed, or a new one, with the user's changes since."""
    if packed.exists():
        progress("unpack the last build", 0, 1)
        command(["tar", "-xf", packed, "-C", folder])
        progress("unpack the last build", 1, 1)
    workspace = Workspace(folder)
    if origin.tree:
        progress("copy the kernel's source", 0, 1)
        workspace.tree.mkdir(exist_ok=True)
        workspace.stamps, changed = kernel_source.compare(origin, workspace.stamps)
        workspace.update(kernel_source.contents(origin, workspace.stamps, changed))
        workspace.new_options = any("Kconfig" in name for name in changed)
        progress("copy the kernel's source", 1, 1)
    elif not workspace.tree.exists():
        workspace.version = kernel_source.unpack(origin, folder, workspace.tree, progress)
        kernel_source.remove_download(folder)
    return workspace


def _pack(folder: Path, packed: Path, progress: Progress) -> None:
    progress("keep the build", 0, 1)
    draft = packed.with_suffix(".partial")
    # posix: other formats round the files' times to seconds.
    # The folder's own lock stays out: unpacked, it would replace the lock of the next folder.
    command(["tar", "--format=posix", "-cf", draft, "-C", folder, "tree", STATE])
    draft.rename(packed)
    progress("keep the build", 1, 1)
