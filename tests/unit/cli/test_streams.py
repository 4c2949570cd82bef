"""The command line where a stream is closed, full or narrow, and where the machine gives too little."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.folders import ROOT

LONGHAUL = f"{sys.executable} -m emulator"


def shell(line: str, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    """Run one line of a shell, in which `longhaul` is this tree's."""
    path = {"PYTHONPATH": str(ROOT)}
    line = line.replace("longhaul", LONGHAUL)
    return subprocess.run(
        ["sh", "-c", line], cwd=cwd, check=False, capture_output=True, text=True, env={**os.environ, **path, **env}
    )


@pytest.mark.parametrize("line", ["docs lab >&-", "bdp --rtt 80 <&- >&- 2>&-", "docs lab <&-", "status --help 2>&-"])
def test_a_closed_stream_is_no_failure(line: str) -> None:
    done = shell(f"longhaul {line}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "line", ["bdp 2>&-", "bdp 2>/dev/full", "bdp --json 2>/dev/full", "plan none.yaml 2>/dev/full"]
)
def test_the_exit_code_is_the_same_where_nobody_can_be_told(line: str) -> None:
    assert shell(f"longhaul {line}").returncode == 2


def test_a_full_stdout_is_called_the_output() -> None:
    done = shell("longhaul bdp --rtt 80 --json >/dev/full")
    assert done.returncode == 4
    assert json.loads(done.stderr)["error"] == (
        "cannot write the output: No space left on device; make room there, then try again"
    )


def test_what_a_narrow_encoding_lacks_is_printed_as_an_escape(tmp_path: Path) -> None:
    (folder := tmp_path / "r✗ns").mkdir()
    done = shell(f"longhaul runs --runs {folder}", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"no runs in {tmp_path}/r\\u2717ns: ")


def test_pages_are_read_in_any_locale() -> None:
    done = shell("longhaul docs | wc -l", LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    assert (done.stderr, int(done.stdout) > 20) == ("", True)


def test_man_pages_that_cannot_be_written_name_their_folder(tmp_path: Path) -> None:
    (gone := tmp_path / "gone").mkdir()
    done = shell(f"cd {gone} && rmdir {gone} && longhaul docs --man man")
    assert done.returncode == 4
    assert done.stderr == "cannot write man: No such file or directory; check the disk and its file system\n"


def test_a_lab_with_too_few_open_files_says_how_many_it_needs() -> None:
    done = shell("ulimit -n 32; longhaul lab run --host-root -- true")
    wanted = "a lab needs 64 open files, and 32 are permitted: raise the limit: ulimit -n 1024\n"
    assert (done.returncode, done.stderr) == (4, wanted)


@pytest.mark.skipif(not shutil.which("unshare"), reason="util-linux makes the mount namespace")
def test_a_lab_without_room_names_the_folder_and_another(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=16k tmpfs {tmp_path} && head -c 99999 /dev/zero >{tmp_path}/fill 2>/dev/null"
    run = f"TMPDIR={tmp_path} longhaul lab run --host-root -- true"
    done = shell(f"unshare -rm sh -c '{mount}; {run}'")
    if "unshare" in done.stderr:
        pytest.skip(done.stderr)
    assert done.returncode == 4
    assert done.stderr.startswith(f"{tmp_path} has room for 0 B of the guest's memory: a lab of 8 GiB needs 256 MiB")
    assert "export TMPDIR=" in done.stderr
