"""The lock of a lease, and the process that waits for its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.control import state_files
from emulator.errors import MissingError

HOLDS = """
import sys, time
from pathlib import Path
from emulator.control import state_files
with state_files.holding_lease(Path(sys.argv[1])):
    print("holds", flush=True)
    sys.stdin.readline()
    if sys.argv[2] == "fails":
        raise ValueError
"""


@pytest.mark.parametrize(("how", "well"), [("returns", True), ("fails", False), ("is killed", False)])
def test_who_waits_for_a_lease_learns_whether_the_lanes_were_returned(tmp_path: Path, how: str, well: bool) -> None:
    argv = [sys.executable, "-c", HOLDS, str(tmp_path), how]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(argv, text=True, **pipes) as holder:  # type: ignore[call-overload]
        assert holder.stdout.readline() == "holds\n"
        assert state_files.leaseholder(tmp_path) == holder.pid
        if how == "is killed":
            os.kill(holder.pid, signal.SIGKILL)
        else:
            holder.stdin.write("\n")
            holder.stdin.flush()
        assert state_files.await_lease_end(tmp_path) == well
    assert state_files.leaseholder(tmp_path) is None


def test_without_a_lease_nobody_says_that_one_ended_well(tmp_path: Path) -> None:
    assert not state_files.await_lease_end(tmp_path)


def test_the_next_lease_names_its_own_holder(tmp_path: Path) -> None:
    for _ in range(2):
        with state_files.holding_lease(tmp_path):
            assert state_files.leaseholder(tmp_path) == os.getpid()
        assert state_files.await_lease_end(tmp_path)


def test_the_process_that_waits_imports_little() -> None:
    """It starts with each cell of a sweep, and the appliance takes a quarter of a second to import in the lab."""
    code = "import sys; from emulator.control import revert_process; print(*sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in said if name.startswith("emulator")}
    assert ours == {"emulator", "emulator.control", "emulator.control.revert_process", "emulator.control.state_files"}
    assert not {"dataclasses", "json", "pydantic"} & set(said)


def test_a_folder_below_one_that_was_deleted_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(MissingError, match="cannot write state: No such file or directory"):
        state_files.opened(Path("state"), "lock").__enter__()
    monkeypatch.chdir(tmp_path)
