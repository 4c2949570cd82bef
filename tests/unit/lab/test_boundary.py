"""What the lab's process may do with the host's files, as a value."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.lab import boundary, landlock
from emulator.lab.boundary import Exchange
from emulator.lab.landlock import CHANGE, OVERWRITE, READ, RUN

RUNTIME = Path("/dev/shm/longhaul-lab-x")


def rules(folder: Path | None) -> dict[str, int]:
    return boundary.allowed(
        Path("/cache/linux"), ("/lib/libc.so.6",), {"/cache/root": READ}, [Path("/src/emulator")], Exchange(RUNTIME),
        folder,
    )  # fmt: skip


def test_what_may_be_written_is_the_folder_the_reports_and_the_kernels_own() -> None:
    reports = {f"{RUNTIME}/guest/{name}" for name in ("stdout", "stderr", "heartbeat", "exit")}
    writable = {path for path, access in rules(Path("/home/me")).items() if access & ~(READ | RUN)}
    assert writable == {"/home/me", "/dev/null", f"{RUNTIME}/kernel", *reports}
    assert {path: rules(Path("/home/me"))[path] for path in reports} == dict.fromkeys(reports, OVERWRITE)
    assert rules(Path("/home/me"))["/home/me"] == CHANGE


def test_without_a_folder_nothing_of_the_users_may_be_written() -> None:
    assert rules(Path("/home/me")).keys() - rules(None).keys() == {"/home/me"}


def test_what_may_be_read_besides_is_the_image_our_source_and_what_starts_the_kernel() -> None:
    readable = {path for path, access in rules(None).items() if access & ~(READ | RUN) == 0}
    assert readable == {
        "/cache/linux", "/lib/libc.so.6", "/cache/root", "/src/emulator", f"{RUNTIME}/guest", "/etc/ld.so.cache",
        "/proc/cpuinfo", "/proc/mounts",
    }  # fmt: skip
    assert {path for path, access in rules(None).items() if access & RUN == RUN} == {"/cache/linux", "/lib/libc.so.6"}


def test_the_libraries_of_an_executable_are_found() -> None:
    found = boundary.libraries(Path("/bin/true"))
    assert any("libc.so" in path for path in found)
    assert str(boundary.LOADER) in found
    assert all(Path(path).exists() for path in found)


def test_a_file_that_needs_no_loader_has_no_libraries(tmp_path: Path) -> None:
    (tmp_path / "static").write_text("")
    assert boundary.libraries(tmp_path / "static") == ()


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (0, "this kernel has no Landlock: a program in the lab can open every file that you can"),
        (2, "Landlock 2 lets a program in the lab empty files that you may write"),
    ],
)
def test_what_this_host_cannot_refuse_is_said(version: int, said: str) -> None:
    assert boundary.weaknesses(version) == [said]


@pytest.mark.parametrize("version", [3, landlock.SCOPES_SINCE, 7])
def test_a_host_that_refuses_all_has_no_weakness(version: int) -> None:
    assert boundary.weaknesses(version) == []
