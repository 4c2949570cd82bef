"""Writes files that hold the old or the new content after a crash, never half. The product's only way to save files."""

from __future__ import annotations

import os
from pathlib import Path


def write(file: Path, content: bytes, *, mode: int = 0o600, draft: Path | None = None) -> None:
    """Replace a file's content atomically: write a draft, fsync it, rename it, fsync the folder.

    Raises OSError; the file then still holds the old content.

    `mode` applies to a new file, less the umask. Processes that may write at once each need their own `draft` in the
    same folder.
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
