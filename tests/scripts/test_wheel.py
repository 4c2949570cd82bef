"""The wheel works where there is no clone: in an environment of its own, from another folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.folders import ROOT

from emulator import __version__
from emulator.cli import doc_pages, man_pages

UV = Path(sys.executable).with_name("uv")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([UV, "build", "-q", "--wheel", "-o", folder, ROOT], check=True)
    return next(folder.glob("longhaul-*.whl"))


@pytest.fixture(scope="module")
def longhaul(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Run the installed command in an empty folder; returns what it printed."""
    venv, empty = tmp_path_factory.mktemp("wheel") / "venv", tmp_path_factory.mktemp("empty")
    pinned = ROOT / "emulator/lab/requirements.txt"
    subprocess.run([UV, "venv", "-q", "--python", sys.executable, venv], check=True)
    install = [UV, "pip", "install", "-q", "--python", venv / "bin/python", "-c", pinned, wheel]
    subprocess.run(install, check=True)
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def run(*arguments: str) -> str:
        command = [venv / "bin/longhaul", *arguments]
        done = subprocess.run(command, cwd=empty, env=env, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_all_that_is_read_at_run_time_is_inside(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(
        ["git", "ls-files", "emulator", "web", "topologies"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    packed = {f"emulator/{path}" if path.startswith("topologies/") else path for path in tracked}
    assert {path for path in packed if not path.startswith("emulator/engine/")} <= inside
    assert f"longhaul-{__version__}.dist-info/licenses/LICENSE" in inside
    assert "emulator/engine/longhaul-wire" in inside


def test_it_runs_without_the_clone(longhaul: Callable[..., str]) -> None:
    assert longhaul("--version") == f"longhaul, version {__version__}\n"
    assert "netem" in longhaul("lab", "run", "--", "longhaul", "plan", "new-york")


def test_its_documentation_is_the_one_of_the_clone(longhaul: Callable[..., str], tmp_path: Path) -> None:
    """Every page in the terminal, the sections of commands, and the man pages."""
    pages = json.loads(longhaul("docs", "--json"))
    assert [one["topic"] for one in pages] == list(doc_pages.pages())
    for topic in doc_pages.topics():
        assert longhaul("docs", topic) == doc_pages.page(topic).text
    files = json.loads(longhaul("docs", "--json", "--man", str(tmp_path / "man1")))
    ours = man_pages.write(tmp_path / "ours")
    assert {Path(file).name: Path(file).read_text() for file in files} == {file.name: file.read_text() for file in ours}


def test_its_lab_is_the_one_of_the_clone(longhaul: Callable[..., str]) -> None:
    """The same inputs, so the kernel and the image that the other tests use; and nothing else of its environment."""
    assert (
        longhaul("lab", "build")
        == subprocess.run(
            [sys.executable, "-m", "emulator", "lab", "build"], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout
    )
    assert longhaul("lab", "run", "--", "ls", "/opt/longhaul/src") == "emulator\nweb\n"


def test_its_engine_starts(longhaul: Callable[..., str], tmp_path: Path) -> None:
    """It refuses what is no configuration, in its own words: so it is there and can be executed."""
    engine = longhaul(
        "lab", "run", "--", "sh", "-c", "/opt/longhaul/src/emulator/engine/longhaul-wire x </dev/null; echo $?"
    )
    assert engine.strip() not in ("126", "127")


def test_a_cell_is_measured_in_its_lab(longhaul: Callable[..., str]) -> None:
    table = longhaul("sweep", "--in-lab", "--rtt", "20", "--rate", "10Mbit", "--tcp-profile", "max", "--repeats", "1")
    assert "20.000 ms" in table
