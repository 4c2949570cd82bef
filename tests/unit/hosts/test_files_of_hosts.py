"""Text files of a host: what is read of them, and how a program's files are written."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import field

from emulator.errors import MeasureError
from emulator.hosts.namespace import NamespaceHost
from emulator.hosts.tools import program_ends
from emulator.hosts.tools.process import Completed
from emulator.hosts.tools.program_ends import BATCH_CHARACTERS, ProgramEnd
from emulator.model.program import Program
from emulator.system.bounded_file import OUTPUT

HUB = NamespaceHost("hub")


def test_a_file_is_read_whole_or_its_end(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_bytes(b"one\ntwo \xff\n")
    assert HUB.read(str(file)) == "one\ntwo \N{REPLACEMENT CHARACTER}\n"
    assert HUB.read(str(file), 3) == " \N{REPLACEMENT CHARACTER}\n"
    assert HUB.read(str(file), 1 << 20) == HUB.read(str(file))


def test_what_is_no_file_is_told_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(MeasureError, match="/none cannot be read: No such file"):
        HUB.read(str(tmp_path / "none"))
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(MeasureError, match="it is a link"):
        HUB.read(str(tmp_path / "link"), 10)


def test_the_end_of_a_file_may_be_read_however_large_it_is(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2 * OUTPUT.most_bytes)
        file.seek(0, 2)
        file.write(b"end")
    assert HUB.read(str(tmp_path / "large"), 3) == "end"
    with pytest.raises(MeasureError, match="it has more than 256 MiB"):
        HUB.read(str(tmp_path / "large"))


class Here(NamespaceHost, frozen=True):
    """Runs programs where the test runs, and remembers them."""

    name: str = "here"
    calls: list[Sequence[str]] = field(default_factory=list)

    def run(self, argv: Sequence[str], timeout_s: float, *, as_root: bool = False) -> Completed:
        self.calls.append(argv)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout_s, check=False)
        return Completed(tuple(argv), done.stdout, done.stderr, done.returncode)


TEXTS = {"a": "{run}\n", "b c": "it's 100 % \\n", "-p/er/d": "", "large": "m" * BATCH_CHARACTERS, "last": "x" * 100}


def test_a_programs_files_are_written_with_few_commands(tmp_path: Path) -> None:
    host, folder = Here(), tmp_path / "new"
    end = ProgramEnd(host, str(tmp_path), Program("p", "true", files=TEXTS), {"run": "42"})
    end.write_files(str(folder))
    found = {str(one.relative_to(folder)): one.read_text() for one in folder.rglob("*") if one.is_file()}
    assert found == {**TEXTS, "a": "42\n"}
    assert len(host.calls) == 3, "no command has more than one argument's worth of text, unless one file has it"
    assert end.tail("new/last") == "x" * 100
    assert end.tail("new/none") == ""


def test_a_program_without_files_has_its_folder(tmp_path: Path) -> None:
    ProgramEnd(Here(), str(tmp_path), Program("p", "true"), {}).write_files(str(tmp_path / "run-0"))
    assert list(tmp_path.iterdir()) == [tmp_path / "run-0"]


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(MeasureError, match="a"):
        ProgramEnd(Here(), str(tmp_path), Program("p", "true", files=TEXTS), {"run": ""}).write_files(str(tmp_path))


class Gone(Here, frozen=True):
    """A host whose connection is lost once the folder of a program is there."""

    def run(self, argv: Sequence[str], timeout_s: float, *, as_root: bool = False) -> Completed:
        if argv[0] == "rm":
            super().run(argv, timeout_s)
            raise MeasureError("connection lost: rm")
        return super().run(argv, timeout_s)


def test_why_a_program_failed_is_told_where_its_folder_cannot_be_removed() -> None:
    with (
        pytest.raises(MeasureError, match=r"^the server ended$"),
        program_ends.opened(Gone(), Program("p", "true"), {}) as end,
        program_ends.run_folder(end, 0),
    ):
        raise MeasureError("the server ended")
    with pytest.raises(MeasureError, match="rm"), program_ends.opened(Gone(), Program("p", "true"), {}):
        pass


def test_an_end_has_a_folder_of_its_own_while_it_is_open() -> None:
    with program_ends.opened(Here(), Program("p", "true", files={"a": "b"}), {}) as end:
        assert (Path(end.folder) / "a").read_text() == "b"
    assert not Path(end.folder).exists()
