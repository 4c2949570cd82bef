"""The Debian packages, unpacked. test_wheel compares two builds of them."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
from pathlib import Path

import pytest
from support.folders import ROOT

from emulator import __version__
from emulator.lab import build_kernel

PYTHON = Path("/usr/bin/python3")
"""Debian's, whose environment the package has."""
SITE = "usr/lib/longhaul/lib/python3/site-packages"
KERNEL = f"{SITE}/emulator/lab/prebuilt/{build_kernel.place().name}/linux"


class DebPackage:
    """A package and what is in it."""

    def __init__(self, file: Path, folder: Path) -> None:
        self.file, self.root = file, folder
        subprocess.run(["dpkg-deb", "-R", file, folder], check=True)

    def field(self, name: str) -> str:
        return subprocess.check_output(["dpkg-deb", "-f", self.file, name], text=True).strip()

    def listed(self) -> list[list[str]]:
        """mode, owner, and path of all files."""
        lines = subprocess.check_output(["dpkg-deb", "-c", self.file], text=True).splitlines()
        return [[line.split()[0], line.split()[1], line.split()[5]] for line in lines]


@pytest.fixture(scope="module")
def main(release: Path, tmp_path_factory: pytest.TempPathFactory) -> DebPackage:
    return DebPackage(next(release.glob("longhaul_*_amd64.deb")), tmp_path_factory.mktemp("main") / "root")


@pytest.fixture(scope="module")
def lab(release: Path, tmp_path_factory: pytest.TempPathFactory) -> DebPackage:
    return DebPackage(next(release.glob("longhaul-lab_*_amd64.deb")), tmp_path_factory.mktemp("lab") / "root")


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    """An environment in which the programs of a maintainer script write down how they were called."""
    for name in ("longhaul", "py3clean", "py3compile", "deb-systemd-helper", "deb-systemd-invoke", "systemctl"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/calls\n[ "$*" != "$REFUSED" ]\n')
        (tmp_path / name).chmod(0o755)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin", "CALLS": str(tmp_path / "calls")}


def called(package: DebPackage, script: str, *arguments: str, env: dict[str, str]) -> tuple[int, str]:
    """A maintainer script's exit code and the calls that it made."""
    done = subprocess.run([package.root / "DEBIAN" / script, *arguments], env=env, check=False)
    return done.returncode, Path(env["CALLS"]).read_text()


def test_one_package_has_the_modules_of_both_pythons(main: DebPackage) -> None:
    found = {str(file.relative_to(main.root / SITE)) for file in (main.root / SITE).rglob("*.so")}
    first, second = ({name for name in found if f".cpython-{tag}-" in name} for tag in ("311", "313"))
    assert found == first | second
    assert {name.replace("-311-", "-313-") for name in first} == second
    assert any("pydantic_core" in name for name in first)
    for python in ("python3.11", "python3.13"):
        assert (main.root / "usr/lib/longhaul/lib" / python / "site-packages/emulator").is_dir()


def test_apt_refuses_a_python_without_them(main: DebPackage, lab: DebPackage) -> None:
    needed = main.field("Depends").split(", ")
    assert {"python3 (>= 3.11)", "python3 (<< 3.12~) | python3 (>= 3.13)", "python3 (<< 3.14~)"} <= set(needed)
    assert re.fullmatch(r"libc6 \(>= 2\.\d+\)", needed[0])
    assert tuple(map(int, re.findall(r"\d+", needed[0])[1:])) <= (2, 36), "Debian 12's glibc is 2.36"
    assert f"longhaul (= {main.field('Version')})" in lab.field("Depends").split(", ")
    assert main.field("Version").startswith(__version__)


@pytest.mark.parametrize("name", ["main", "lab"])
def test_the_files_are_roots_and_are_all_summed(name: str, request: pytest.FixtureRequest) -> None:
    package: DebPackage = request.getfixturevalue(name)
    listed = package.listed()
    assert {owner for _, owner, _ in listed} == {"root/root"}
    assert {mode for mode, _, _ in listed} <= {"drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x", "lrwxrwxrwx"}
    sums = (package.root / "DEBIAN/md5sums").read_text()
    assert len(sums.splitlines()) == sum(mode[0] == "-" for mode, _, _ in listed)
    subprocess.run(["md5sum", "--check", "--quiet", "--strict"], cwd=package.root, input=sums, text=True, check=True)
    kib = sum(file.lstat().st_size for file in package.root.rglob("*") if file.is_file()) / 1024
    assert kib <= int(package.field("Installed-Size")) <= 2 * kib


def test_the_command_runs_on_debians_python(main: DebPackage) -> None:
    """With the package's own libraries, and no other's but yaml."""
    python = main.root / "usr/lib/longhaul/bin/python3"
    if not (main.root / "usr/bin/python3").exists():
        (main.root / "usr/bin/python3").symlink_to(PYTHON)
    said = subprocess.check_output([python, "-I", "-B", "-m", "emulator", "--version"], text=True)
    assert said == f"longhaul, version {__version__}\n"
    code = (
        "import flask, pydantic_core, hdrh.histogram, markupsafe._speedups, yaml, emulator.config.loader as loader;"
        "loader.json_schema(); print(*[each.__file__ for each in (flask, pydantic_core, loader, yaml)], sep='\\n')"
    )
    *own, debians = subprocess.check_output([python, "-I", "-B", "-c", code], text=True).split()
    assert [path for path in own if not path.startswith(str(main.root))] == []
    assert debians.startswith("/usr/lib/python3/dist-packages/")


def test_the_kernel_is_a_package_of_its_own(main: DebPackage, lab: DebPackage) -> None:
    assert os.access(lab.root / KERNEL, os.X_OK)
    assert (lab.root / KERNEL).read_bytes() == (build_kernel.place() / "linux").read_bytes()
    assert not (main.root / KERNEL).parents[1].exists()
    assert "Its complete source is" in (lab.root / "usr/share/doc/longhaul-lab/copyright").read_text()
    assert os.access(main.root / SITE / "emulator/engine/longhaul-wire", os.X_OK)


def test_it_has_what_debian_asks_of_a_package(main: DebPackage) -> None:
    for name in ("longhaul", "bridges-up", "bridges-down", "latency-on", "latency-off"):
        assert os.access(main.root / "usr/bin" / name, os.X_OK)
        assert gzip.decompress((main.root / f"usr/share/man/man1/{name}.1.gz").read_bytes()).startswith(b".T")
    for script in ("bash-completion/completions/longhaul", "zsh/vendor-completions/_longhaul",
                   "fish/vendor_completions.d/longhaul.fish"):  # fmt: skip
        assert "_LONGHAUL_COMPLETE" in (main.root / "usr/share" / script).read_text()
    licences = (main.root / "usr/share/doc/longhaul/copyright").read_text()
    for facts in (main.root / SITE).glob("*.dist-info"):
        assert f"\n{facts.name.removesuffix('.dist-info').split('-')[0]}".lower() in licences.lower().replace("-", "_")
    unit = (main.root / "usr/lib/systemd/system/longhaul.service").read_text()
    assert "\nExecStart=/usr/bin/longhaul serve " in unit
    assert "/opt/" not in unit
    assert "KillMode=process" in unit
    assert unit.count("\n") == (ROOT / "scripts/longhaul.service").read_text().count("\n")


def test_an_upgrade_leaves_the_lanes_and_a_removal_returns_the_ports(main: DebPackage, tools: dict[str, str]) -> None:
    code, calls = called(main, "prerm", "upgrade", "9.9", env=tools)
    assert code == 0
    assert "longhaul down" not in calls
    code, calls = called(main, "prerm", "remove", env=tools)
    assert code == 0
    assert calls.count("longhaul down\n") == calls.count("longhaul tune --restore\n") == 1


def test_what_cannot_return_the_ports_is_not_removed(main: DebPackage, tools: dict[str, str]) -> None:
    code, calls = called(main, "prerm", "remove", env={**tools, "REFUSED": "down"})
    assert code != 0
    assert calls.endswith("longhaul down\n"), "the bytecode is still there"


def test_who_disabled_the_service_keeps_it_disabled(main: DebPackage, tools: dict[str, str]) -> None:
    _, calls = called(main, "postinst", "configure", "0.1", env=tools)
    assert "deb-systemd-helper enable longhaul.service\n" in calls
    Path(tools["CALLS"]).unlink()
    refused = {**tools, "REFUSED": "--quiet was-enabled longhaul.service"}
    code, calls = called(main, "postinst", "configure", "0.1", env=refused)
    assert code == 0
    assert "deb-systemd-helper update-state longhaul.service\n" in calls
    assert " enable " not in calls
