"""The wheel works where there is no clone: in an environment of its own, from another folder."""

from __future__ import annotations

import filecmp
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
import urllib.request
import zipfile
from collections.abc import Callable
from email.parser import HeaderParser
from pathlib import Path

import pytest
from support.folders import ROOT
from support.releases import released
from support.waiting import PATIENCE_S

from emulator import __version__
from emulator.cli import doc_pages, man_pages
from emulator.lab import build_image, build_kernel, lab_facts

UV = Path(sys.executable).with_name("uv")
FOREIGN_WEB = 'WHOSE = "somebody else\'s"\n'


@pytest.fixture(scope="module")
def wheel(release: Path) -> Path:
    return next(release.glob("longhaul-*-manylinux_*_x86_64.whl"))


@pytest.fixture(scope="module")
def venv(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and with another package of the name `web`."""
    made = tmp_path_factory.mktemp("wheel") / "venv"
    pinned = ROOT / "emulator/lab/requirements.txt"
    subprocess.run([UV, "venv", "-q", "--python", sys.executable, made], check=True)
    install = [UV, "pip", "install", "-q", "--python", made / "bin/python", "-c", pinned, wheel]
    subprocess.run(install, check=True)
    (site,) = made.glob("lib/python3*/site-packages")
    assert not list(site.glob("web*")), "the user's site-packages have no web of ours"
    (site / "web").mkdir()
    (site / "web/__init__.py").write_text(FOREIGN_WEB)
    return made


@pytest.fixture(scope="module")
def env() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


@pytest.fixture(scope="module")
def longhaul(venv: Path, env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Run the installed command in an empty folder; returns what it printed."""
    empty = tmp_path_factory.mktemp("empty")

    def run(*arguments: str, **more: str) -> str:
        command = [venv / "bin/longhaul", *arguments]
        done = subprocess.run(command, cwd=empty, env={**env, **more}, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_two_builds_give_the_same_bytes(release: Path, tmp_path: Path) -> None:
    again = released(tmp_path / "again", 0o077, "Asia/Tokyo")
    names = {file.name for file in release.iterdir()}
    assert {file.name for file in again.iterdir()} == names
    assert [name for name in sorted(names) if not filecmp.cmp(release / name, again / name, shallow=False)] == []


def test_the_sums_are_those_of_all_files(release: Path) -> None:
    lines = (release / "SHA256SUMS").read_text().splitlines()
    assert {line.split()[1] for line in lines} == {file.name for file in release.iterdir()} - {"SHA256SUMS"}
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=release, check=True, capture_output=True)


def test_the_other_wheel_is_for_every_machine(release: Path) -> None:
    pure = zipfile.ZipFile(next(release.glob("*-py3-none-any.whl")))
    names = pure.namelist()
    assert "emulator/web/server.py" in names
    assert [name for name in names if "prebuilt/" in name or name.endswith("/longhaul-wire")] == []
    facts = pure.read(f"longhaul-{__version__}.dist-info/WHEEL").decode()
    assert "Root-Is-Purelib: true" in facts


def test_its_metadata_names_the_licence_as_an_expression(release: Path) -> None:
    """PEP 639: an expression and files, and no classifier that says it again."""
    for file in release.glob("*.whl"):
        text = zipfile.ZipFile(file).read(f"longhaul-{__version__}.dist-info/METADATA").decode()
        facts = HeaderParser().parsestr(text)
        assert (facts["Metadata-Version"], facts["License-Expression"]) == ("2.4", "MIT")
        assert facts.get_all("License-File") == ["LICENSE"]
        assert facts["License"] is None
        assert not [one for one in facts.get_all("Classifier", []) if one.startswith("License")]


def test_the_kernel_comes_with_its_source(release: Path, wheel: Path) -> None:
    inside = zipfile.ZipFile(wheel)
    text = inside.read("emulator/lab/prebuilt/SOURCE.md").decode()
    (source,) = release.glob("linux-source-*.tar.xz")
    linux = inside.read(f"emulator/lab/prebuilt/{build_kernel.place().name}/linux")
    assert lab_facts.digest(source).removeprefix("sha256:") in text
    assert hashlib.sha256(linux).hexdigest() in text
    assert build_kernel.source_version() in text
    for patch in build_kernel.series():
        assert patch.name in text
        assert inside.read(f"emulator/lab/patches/{patch.name}") == patch.read_bytes()
    assert inside.read("emulator/lab/kernel.config") == build_kernel.CONFIG.read_bytes()
    assert b"GNU GENERAL PUBLIC LICENSE" in inside.read("emulator/lab/prebuilt/COPYING")


def test_the_bill_of_materials_names_all_parts(release: Path) -> None:
    bill = json.loads(next(release.glob("*.cdx.json")).read_text())
    named = {part["name"]: part for part in bill["components"]}
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.split("[>=]", one)[0] for one in requirements} <= named.keys()
    assert {"libc", "serde_json", "memchr", "uplot", build_kernel.PACKAGE} <= named.keys()
    assert named[build_kernel.PACKAGE]["licenses"] == [{"expression": "GPL-2.0-only"}]
    assert all(re.fullmatch(r"pkg:[a-z]+/\S+@\S+", part["purl"]) for part in bill["components"])


def test_all_that_is_read_at_run_time_is_inside(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(
        ["git", "ls-files", "emulator", "web", "topologies"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    packed = {path if path.startswith("emulator/") else f"emulator/{path}" for path in tracked}
    assert packed <= inside
    assert f"longhaul-{__version__}.dist-info/licenses/LICENSE" in inside
    assert "emulator/engine/longhaul-wire" in inside


def test_it_runs_without_the_clone(longhaul: Callable[..., str]) -> None:
    assert longhaul("--version") == f"longhaul, version {__version__}\n"
    assert "netem" in longhaul("lab", "run", "--", "longhaul", "plan", "new-york")


def test_its_documentation_is_the_one_of_the_clone(
    longhaul: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every page in the terminal, the sections of commands, and the man pages, which have a date."""
    pages = json.loads(longhaul("docs", "--json"))
    assert [one["topic"] for one in pages] == list(doc_pages.pages())
    for topic in doc_pages.topics():
        assert longhaul("docs", topic) == doc_pages.page(topic).text
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    files = json.loads(longhaul("docs", "--json", "--man", str(tmp_path / "man1"), SOURCE_DATE_EPOCH="0"))
    ours = man_pages.write(tmp_path / "ours")
    assert {Path(file).name: Path(file).read_text() for file in files} == {file.name: file.read_text() for file in ours}


def test_its_lab_is_the_one_of_the_clone(longhaul: Callable[..., str], venv: Path) -> None:
    """Its own kernel, the image that the other tests use; and nothing else of its environment."""
    kernel, image = longhaul("lab", "build").split()
    assert Path(kernel).is_relative_to(venv)
    assert filecmp.cmp(kernel, build_kernel.place() / "linux", shallow=False)
    assert image == str(build_image.place() / "root")
    assert longhaul("lab", "run", "--", "ls", "/opt/longhaul/src") == "emulator\n"


def test_nothing_is_built_for_its_kernel(longhaul: Callable[..., str], env: dict[str, str], venv: Path) -> None:
    done = subprocess.run(
        [venv / "bin/longhaul", "lab", "run", "--host-root", "--", "uname", "-m"], cwd=venv, check=True,
        env={**env, "XDG_CACHE_HOME": str(venv / "no-cache")}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "x86_64\n"
    assert not (venv / "no-cache").exists()


def test_its_pages_are_served_beside_another_web(venv: Path, env: dict[str, str], tmp_path: Path) -> None:
    command = [venv / "bin/longhaul", "serve", "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(
        command, cwd=tmp_path, env={**env, "LONGHAUL_STATE": str(tmp_path)}, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout
            said = "".join(itertools.takewhile(lambda line: line != "}\n", server.stdout)) + "}"
            with urllib.request.urlopen(json.loads(said)["url"], timeout=PATIENCE_S) as page:
                assert b"Longhaul" in page.read()
        finally:
            server.terminate()


def test_its_engine_starts(longhaul: Callable[..., str], tmp_path: Path) -> None:
    """It refuses what is no configuration, in its own words: so it is there and can be executed."""
    engine = longhaul(
        "lab", "run", "--", "sh", "-c", "/opt/longhaul/src/emulator/engine/longhaul-wire x </dev/null; echo $?"
    )
    assert engine.strip() not in ("126", "127")


def test_a_cell_is_measured_in_its_lab(longhaul: Callable[..., str]) -> None:
    table = longhaul("sweep", "--in-lab", "--rtt", "20", "--rate", "10Mbit", "--tcp-profile", "max", "--repeats", "1")
    # ping reads microseconds, and a reading of the clock by another program beside the echo adds 768 ns.
    assert re.search(r"\b20\.00[01] ms", table), table


def test_the_demo(longhaul: Callable[..., str]) -> None:
    """With this machine's programs, which scripts/install brought."""
    shown = json.loads(longhaul("demo", "--json"))
    assert shown["programs"] == "--host-root"
    assert shown["rtt"]
    assert len(shown["run"]["cells"]) == 6
