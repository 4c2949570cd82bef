"""scripts/install on a machine that lacks packages, and after an earlier call was interrupted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from support.folders import ROOT
from support.waiting import PATIENCE_S, until

INSTALL = ROOT / "scripts/install"


def tool(folder: Path, name: str, script: str) -> None:
    """A program that takes the place of the machine's own."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_without_root_it_names_the_missing_packages_and_changes_nothing(tmp_path: Path) -> None:
    tool(tmp_path, "dpkg-query", 'case $4 in iperf3|flex) ;; *) echo "install ok installed" ;; esac')
    tool(tmp_path, "id", "echo 1000")
    tool(tmp_path, "apt-get", f"touch {tmp_path}/asked")
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run([INSTALL], env={**os.environ, "PATH": path}, check=False, text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        "missing Debian packages: flex iperf3\n"
        "as root: apt-get update && apt-get install -y --no-install-recommends flex iperf3\n"
    )
    assert not (tmp_path / "asked").exists()


UV = """case $1 in
  --version) [ ! -e cut-short ] ;;
  sync) echo "uv $*" >>log; [ ! -e no-network ]; touch .venv/bin/longhaul; chmod +x .venv/bin/longhaul ;;
esac"""
PYTHON = f"""case $* in
  "-c "*) ;;
  "-m venv --clear .venv")
    echo "$*" >>log
    rm -rf .venv; mkdir -p .venv/bin; cp "$0" .venv/bin/python
    if [ -e slow ]; then touch begun; sh -c "sleep 20; touch went-on"; fi
    touch .venv/pip ;;
  "-m pip --version") [ -e .venv/pip ] ;;
  "-m pip install "*)
    echo "$*" >>log
    rm -f cut-short
    printf '#!/bin/sh -e\\n%s\\n' '{UV}' >.venv/bin/uv; chmod +x .venv/bin/uv ;;
  *) exit 1 ;;
esac"""
VENV = "-m venv --clear .venv"
PIP = "-m pip install -q --disable-pip-version-check --ignore-installed uv"
SYNC = "uv sync -q --frozen --inexact --active{} --group figures"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone in a folder with a blank, on a machine that has every Debian package; its Python and PyPI are made up."""
    clone, tools = tmp_path / "a clone", tmp_path / "tools"
    (clone / "scripts").mkdir(parents=True)
    for name in ("install", "install-python"):
        shutil.copy(ROOT / "scripts" / name, clone / "scripts")
    (clone / "uv.lock").write_text("a lock file")
    tools.mkdir()
    tool(tools, "dpkg-query", 'echo "install ok installed"')
    tool(tools, "cargo", "exit 1")
    tool(tools, "python3", PYTHON)
    return clone


def started(clone: Path) -> subprocess.Popen[str]:
    """`scripts/install --for check` in a process group of its own, as in a terminal."""
    tools = clone.parent / "tools"
    return subprocess.Popen(
        ["env", "--default-signal", clone / "scripts/install", "--for", "check"],
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def installed(clone: Path) -> list[str]:
    """What one call asked of venv, pip and uv."""
    (clone / "log").write_text("")
    job = started(clone)
    said, _ = job.communicate(timeout=PATIENCE_S)
    assert (job.returncode, said) == (0, "")
    return (clone / "log").read_text().splitlines()


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGHUP, 129), (signal.SIGTERM, 143)])
def test_an_interrupted_call_leaves_no_job_at_work_and_the_next_one_finishes(
    clone: Path, sent: signal.Signals, code: int
) -> None:
    (clone / "slow").touch()
    job = started(clone)
    assert until((clone / "begun").exists)
    os.killpg(job.pid, sent)
    job.communicate(timeout=PATIENCE_S)  # whoever still works holds its output
    assert (job.returncode, (clone / "went-on").exists()) == (code, False)
    (clone / "slow").unlink()
    assert installed(clone) == [VENV, PIP, SYNC.format("")]
    assert installed(clone) == []


def test_a_uv_that_was_cut_short_is_installed_again(clone: Path) -> None:
    """pip calls it installed: the program is the last file that it writes."""
    installed(clone)
    (clone / ".venv/longhaul-check.lock").unlink()
    (clone / "cut-short").touch()
    assert installed(clone) == [PIP, SYNC.format("")]


def test_packages_that_were_cut_short_are_installed_again(clone: Path) -> None:
    """uv calls them installed by the folder of their metadata, whichever files are missing."""
    (clone / "no-network").touch()
    job = started(clone)
    job.communicate(timeout=PATIENCE_S)
    assert job.returncode == 1
    (clone / "no-network").unlink()
    assert installed(clone) == [SYNC.format(" --reinstall")]
    (clone / ".venv/longhaul-check.lock").unlink()
    assert installed(clone) == [SYNC.format("")]
