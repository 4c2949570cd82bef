"""Reads the files that Longhaul keeps, whatever became of them, and sets aside what it cannot have written.

Somebody may have cut, overwritten or replaced a file: by a folder, a pipe, a device, a link that leads to itself.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from emulator.system import bounded_file
from emulator.system.bounded_file import FileKind


class SpoiltError(ValueError):
    """Longhaul cannot have written this; the text says why."""


def read(file: Path, kind: FileKind) -> bytes:
    """The content of a file. Raises SpoiltError, or FileNotFoundError, PermissionError."""
    try:
        return bounded_file.read_bytes(file, kind)
    except PermissionError:
        raise
    except FileNotFoundError:
        if file.is_symlink():
            raise SpoiltError("it is a link that leads nowhere") from None
        raise
    except OSError as error:
        raise SpoiltError(error.strerror) from None


def read_json(file: Path, kind: FileKind) -> Any:
    """The JSON value in a file. Raises SpoiltError, or FileNotFoundError, PermissionError."""
    return parse_json(read(file, kind))


def parse_json(content: bytes) -> Any:
    """The JSON value of a file's content. Raises SpoiltError."""
    try:
        return bounded_file.parse_json(content)
    except ValueError as error:  # UnicodeDecodeError too
        raise SpoiltError(str(error)) from None


def set_aside(path: Path) -> Path:
    """Rename what is there to NAME.spoilt, or NAME.spoilt-2 and so on; returns the new path. Raises OSError."""
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}.spoilt{f'-{number}' if number > 1 else ''}")):
        number += 1
    return path.rename(aside)
