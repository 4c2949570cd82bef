"""The version is written once; the engine, which is built by itself, has the same."""

from __future__ import annotations

import tomllib

from support.folders import ROOT

from emulator import __version__


def test_the_engine_has_the_version_of_the_whole() -> None:
    for name, read in (("Cargo.toml", lambda doc: doc["package"]), ("Cargo.lock", own_package)):
        document = tomllib.loads((ROOT / "emulator/engine" / name).read_text())
        assert read(document)["version"] == __version__, name


def own_package(lock: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return next(package for package in lock["package"] if package["name"] == "longhaul-wire")


def test_the_project_reads_its_version_from_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "emulator/__init__.py"
