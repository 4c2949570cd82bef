"""Files that the user named: links lead to them, pipes and devices are written in place, a failure loses nothing."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from emulator.errors import InputError, MissingError
from emulator.system import named_file


def test_the_file_at_the_end_of_links_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    file, link = tmp_path / "real", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    named_file.write(link, "new")
    assert link.is_symlink()
    assert (file.read_text(), oct(file.stat().st_mode & 0o777)) == ("new", "0o640")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


def test_a_link_to_nothing_makes_its_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("later")
    named_file.write(tmp_path / "link", "new")
    assert (tmp_path / "later").read_text() == "new"


def test_a_pipe_is_written_and_stays_one(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.append(pipe.read_text()))
    reader.start()
    named_file.write(pipe, "new")
    reader.join()
    assert said == ["new"]
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["/dev/null", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_files_of_the_machine_are_not_replaced(name: str) -> None:
    assert named_file.in_place(Path(name))


def test_a_shared_file_in_memory_is_a_file() -> None:
    assert not named_file.in_place(Path("/dev/shm/longhaul-no-such-file"))


def test_a_full_disk_says_so_and_keeps_the_old_content(tmp_path: Path) -> None:
    # The kernel's own file without room: a link to it is a name as any other.
    (tmp_path / "report").symlink_to("/dev/full")
    with pytest.raises(MissingError, match=r"cannot write .*/report: No space left on device; make room there"):
        named_file.write(tmp_path / "report", "new")


def test_a_new_file_is_never_one_that_exists(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text("old")
    with pytest.raises(InputError, match=r"lab.yaml: exists already; name another file"):
        named_file.write(tmp_path / "lab.yaml", "new", new=True)
    assert (tmp_path / "lab.yaml").read_text() == "old"


@pytest.mark.parametrize("name", ["none/report", "file/report"])
def test_a_folder_that_is_not_there_is_told_before_the_work(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"report: its folder does not exist: make it first"):
        named_file.check(tmp_path / name)
    for write in (named_file.write, named_file.append):
        with pytest.raises(MissingError, match=r"cannot write .*report: No(t a| such file or) directory"):
            write(tmp_path / name, "new")


def test_what_is_added_stands_apart(tmp_path: Path) -> None:
    for text in ("one", "two"):
        named_file.append(tmp_path / "summary", text, "\n\n")
    assert (tmp_path / "summary").read_text() == "one\n\ntwo"
