"""Files that somebody else made: what is no regular file, or too large, is refused before it is read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.system import bounded_file
from emulator.system.bounded_file import FileKind, UnfitFile

SMALL = FileKind("a small file", 4096)


def test_a_file_as_large_as_it_may_be_is_read_and_no_larger_one(tmp_path: Path) -> None:
    file = tmp_path / "full"
    file.write_bytes(b"x" * 4096)
    assert bounded_file.read_bytes(file, SMALL) == b"x" * 4096
    file.write_bytes(b"x" * 4097)
    with pytest.raises(UnfitFile) as error:
        bounded_file.read_bytes(file, SMALL)
    assert error.value.strerror == "it has more than 4 KiB, the most that a small file may have"


def test_the_size_that_a_file_tells_is_not_believed() -> None:
    # Files of the kernel tell a size of 0.
    assert Path("/proc/self/smaps").stat().st_size == 0
    with pytest.raises(UnfitFile, match="more than 64 B"):
        bounded_file.read_bytes(Path("/proc/self/smaps"), FileKind("a tiny file", 64))


def fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (fifo, "it is a FIFO; a small file is read from a regular file"),
        (lambda _: Path("/dev/zero"), "it is a device; a small file is read from a regular file"),
        (lambda path: (path.mkdir(), path)[1], "Is a directory"),
        (lambda path: path, "No such file or directory"),
        (lambda path: (path.symlink_to(path.name), path)[1], "Too many levels of symbolic links"),
    ],
    ids=["fifo", "device", "folder", "absent", "loop"],
)
def test_what_is_no_regular_file_is_told_and_not_opened(
    made: Callable[[Path], Path], said: str, tmp_path: Path
) -> None:
    with pytest.raises(OSError, match="it") as error:
        bounded_file.read_text(made(tmp_path / "it"), SMALL)
    assert error.value.strerror == said


def test_lines_end_alike_whoever_wrote_them(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(b"a\r\nb\rc\n")
    assert bounded_file.read_text(tmp_path / "it", SMALL) == "a\nb\nc\n"


def test_json_that_is_nested_without_end_is_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "it").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=re.escape("it is nested far too deep")):
        bounded_file.read_json(tmp_path / "it", bounded_file.STATE)
