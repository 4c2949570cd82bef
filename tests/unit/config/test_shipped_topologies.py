"""The topologies that come with Longhaul are found by their names."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.folders import ROOT

from emulator.config import loader
from emulator.config.shipped_topologies import names, resolve, shipped
from emulator.errors import InputError

FILE = ROOT / "topologies/new-york.yaml"


@pytest.mark.parametrize("asked", ["new-york", "new-york.yaml", "topologies/new-york.yaml", "topologies/new-york"])
def test_from_another_folder_the_name_is_enough(asked: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve(asked) == FILE
    assert loader.load(asked) == loader.load(FILE)


def test_a_file_of_the_users_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("new-york.yaml").write_text("my own")
    assert resolve("new-york.yaml") == Path("new-york.yaml")


def test_a_folder_of_that_name_hides_no_preset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("rsync", "boston"):
        Path(name).mkdir()
    assert resolve("rsync") == ROOT / "topologies/rsync.yaml"
    assert loader.load("rsync") == loader.load(ROOT / "topologies/rsync.yaml")
    assert resolve("boston") == Path("boston"), "no preset of that name: the folder is what is wrong"
    Path("rsync").rmdir()
    Path("rsync").write_text("my own")
    assert resolve("rsync") == Path("rsync")


@pytest.mark.parametrize("asked", ["boston.yaml", "other/new-york.yaml", "/new-york.yaml"])
def test_any_other_path_stays_as_it_is(asked: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve(asked) == Path(asked)
    with pytest.raises(InputError, match=f"{asked}.*cannot be read"):
        loader.load(asked)


def test_each_is_listed_by_its_name() -> None:
    assert names() == sorted(path.stem for path in (ROOT / "topologies").glob("*.yaml"))
    assert shipped("demo").is_file()
