"""The host's kernel refuses the lab every file but those it is given: the three calls, and the kernel's own answer."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.lab import landlock
from emulator.lab.landlock import CHANGE, OVERWRITE, READ, RUN, Access, Job

PRESENT = landlock.abi()
OF_PYTHON = {path: int(READ | RUN) for path in ("/usr", "/lib", "/lib64", "/bin", "/etc", sys.prefix, sys.base_prefix)}
BITS = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF, 5: 0xFFFF, 6: 0xFFFF, 7: 0xFFFF}
"""All rights over files that each ABI knows, from the kernel's include/uapi/linux/landlock.h."""


@pytest.mark.parametrize("version", BITS)
def test_each_abi_withholds_all_that_it_knows(version: int) -> None:
    words = struct.unpack(f"={len(landlock.ruleset(version)) // 8}Q", landlock.ruleset(version))
    assert words == (BITS[version], 3, 3)[: 1 + (version >= 4) + (version >= 6)]


def test_what_may_be_changed_may_neither_be_executed_nor_become_a_device() -> None:
    forbidden = Access.EXECUTE | Access.MAKE_CHAR | Access.MAKE_BLOCK | Access.IOCTL_DEV
    assert CHANGE & forbidden == 0
    assert CHANGE | forbidden == BITS[7]


class Kernel:
    """The three calls as a kernel of one ABI answers them: it refuses what that ABI does not know."""

    def __init__(self, version: int, errno: int = 0) -> None:
        self.version, self.errno = version, errno
        self.rules: dict[str, int] = {}
        self.handled, self.no_new_privileges, self.restricted = 0, False, False

    def __call__(self, number: int, *arguments: object) -> int:
        if self.version == 0:
            ctypes.set_errno(self.errno)
            return -1
        calls = {444: self._create, 445: self._add, 446: self._restrict, 157: self._prctl}
        return calls[number](*arguments)

    def _create(self, attribute: bytes | None, size: ctypes.c_size_t, flags: ctypes.c_uint) -> int:
        if flags.value == 1:
            return self.version
        assert attribute is not None
        assert len(attribute) == size.value <= 8 * (1 + (self.version >= 4) + (self.version >= 6))
        self.handled = struct.unpack_from("=Q", attribute)[0]
        assert self.handled & ~BITS[self.version] == 0
        return os.open("/dev/null", os.O_RDONLY)

    def _add(self, _: ctypes.c_int, kind: ctypes.c_int, rule: bytes, flags: ctypes.c_uint) -> int:
        access, beneath = struct.unpack("=Qi", rule)
        path = str(Path(f"/proc/self/fd/{beneath}").readlink())
        assert (kind.value, flags.value, access & ~self.handled) == (1, 0, 0)
        assert access
        assert Path(path).is_dir() or access & ~landlock.OF_FILES == 0
        self.rules[path] = access
        return 0

    def _prctl(self, *arguments: ctypes.c_ulong) -> int:
        self.no_new_privileges = [argument.value for argument in arguments] == [38, 1, 0, 0, 0]
        return 0

    def _restrict(self, _: ctypes.c_int, flags: ctypes.c_uint) -> int:
        self.restricted = self.no_new_privileges and flags.value == 0
        return 0


@pytest.mark.parametrize("version", BITS)
def test_every_abi_is_given_only_what_it_knows(version: int, tmp_path: Path) -> None:
    (file := tmp_path / "file").touch()
    kernel = Kernel(version)
    landlock.restrict({str(tmp_path): CHANGE, str(file): CHANGE, str(tmp_path / "missing"): READ}, kernel)
    known = BITS[version]
    assert kernel.rules == {str(tmp_path): CHANGE & known, str(file): CHANGE & known & landlock.OF_FILES}
    assert kernel.restricted


@pytest.mark.parametrize("errno", [38, 95])
def test_a_kernel_without_it_or_with_it_switched_off_is_version_0(errno: int) -> None:
    assert landlock.abi(Kernel(0, errno)) == 0


def test_a_refused_call_is_an_error_and_not_a_lab_without_walls(tmp_path: Path) -> None:
    kernel = Kernel(7)
    kernel._restrict = lambda *_: -1  # type: ignore[method-assign]
    with pytest.raises(OSError, match="Landlock, restrict"):
        landlock.restrict({str(tmp_path): READ}, kernel)


def job(program: str, allowed: dict[str, int] | None, **options: object) -> subprocess.CompletedProcess[str]:
    """A Python program as a job, and what it printed."""
    made = Job([sys.executable, "-I", "-S", "-c", program], os.getpid(), allowed, **options)  # type: ignore[arg-type]
    return subprocess.run(made.command(), check=False, capture_output=True, text=True)


TRY = """
import json, os, socket, sys
def attempt(what, *arguments):
    try:
        what(*arguments)
    except OSError as error:
        return error.strerror
    return ""
read, changed, file, elsewhere = {paths}
print(json.dumps([
    attempt(open, read + "/file"), attempt(open, read + "/file", "r+"), attempt(os.listdir, read),
    attempt(os.mkdir, changed + "/made"), attempt(os.rename, changed + "/file", changed + "/made/file"),
    attempt(os.symlink, "a", changed + "/link"), attempt(os.mknod, changed + "/device", 0o020600, 259),
    attempt(open, file, "w"), attempt(os.unlink, file),
    attempt(open, elsewhere + "/file"), attempt(open, elsewhere + "/file", "a"), attempt(os.listdir, elsewhere),
    attempt(os.truncate, elsewhere + "/file", 0), attempt(os.mkdir, elsewhere + "/made"),
    attempt(os.unlink, elsewhere + "/file"), attempt(os.rename, elsewhere + "/file", changed + "/stolen"),
    attempt(os.link, elsewhere + "/file", changed + "/linked"), attempt(os.execv, elsewhere + "/file", ["x"]),
    attempt(socket.create_connection, ("127.0.0.1", 9)),
]))
"""
NO = "Permission denied"


def test_the_kernel_refuses_all_but_what_is_allowed(tmp_path: Path) -> None:
    """On a kernel without Landlock this shows the other half: that each of these attempts succeeds there."""
    paths = [tmp_path / name for name in ("read", "changed", "report/file", "elsewhere")]
    for folder in (path if path.name != "file" else path.parent for path in paths):
        folder.mkdir()
        (folder / "file").write_text("content")
        (folder / "file").chmod(0o700)
    allowed = OF_PYTHON | dict(zip(map(str, paths), (READ, CHANGE, OVERWRITE), strict=False))
    done = job(TRY.format(paths=json.dumps([*map(str, paths)])), allowed if PRESENT else None)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    own = ["", NO, "", "", "", "", NO, "", NO]
    elsewhere = [NO, NO, NO, NO if PRESENT >= 3 else "", NO, NO, NO, NO, NO]
    if PRESENT:
        assert [word.replace("Invalid cross-device link", NO) for word in said[:18]] == own + elsewhere
        assert said[18] == (NO if PRESENT >= landlock.NETWORK_SINCE else "Connection refused")
        assert (tmp_path / "elsewhere/file").read_text() == ("content" if PRESENT >= 3 else "")
    else:
        assert said[1] == said[8] == said[9] == said[10] == ""


def test_it_starts_pinned_with_its_descriptors(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "line")
    program = "import os; print(os.sched_getaffinity(0), os.stat(8).st_ino)"
    cpu = min(os.sched_getaffinity(0))
    done = job(program, None, cpu=cpu, descriptors={8: str(tmp_path / "line")})
    assert done.stdout == f"{{{cpu}}} {(tmp_path / 'line').stat().st_ino}\n", done.stderr


def test_it_starts_as_if_python_had_not_been_there() -> None:
    """Python ignores two signals, and a new program would inherit that. What our own parent ignores stays ignored."""
    (mask,) = re.findall(r"^SigIgn:\t(\w+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    inherited = int(mask, 16) & ~(1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)
    job = Job(["/bin/grep", "-E", "^(SigIgn|NoNewPrivs)", "/proc/self/status"], os.getpid(), None)
    done = subprocess.run(job.command(), check=False, capture_output=True, text=True)
    assert done.stdout == f"SigIgn:\t{inherited:016x}\nNoNewPrivs:\t0\n"


def test_it_does_not_start_when_its_parent_is_another(tmp_path: Path) -> None:
    orphan = Job([sys.executable, "-c", f"open({str(tmp_path / 'on')!r}, 'w')"], 1, None)
    assert subprocess.run(orphan.command(), check=False).returncode != 0
    assert not (tmp_path / "on").exists()
