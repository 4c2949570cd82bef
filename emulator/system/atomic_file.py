"""Files that are old or new after a crash, never half: the only way in which anything of ours is written to keep."""

from __future__ import annotations

import os
from pathlib import Path


def write(file: Path, content: bytes, *, mode: int = 0o600, draft: Path | None = None) -> None:
    """Into a draft, to the disk, renamed, and the folder to the disk. Raises OSError; then the old content stands.

    `mode` is a new file's, less the umask. Where two may write at once each needs a `draft` of its own in that folder.
    """
    draft = draft or file.with_suffix(".partial")
    fd = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(fd, left) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(draft, file)  # noqa: PTH105 (a crash is injected at each call of `os`)
    folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
