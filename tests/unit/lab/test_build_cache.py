"""What is built is whole or not there, and what a build lacks is told before it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.errors import LabError
from emulator.lab import build_cache


def test_a_build_without_room_fails_before_it_begins(tmp_path: Path) -> None:
    with (
        pytest.raises(LabError, match=r"has room for .*, and the build needs .* XDG_CACHE_HOME"),
        build_cache.building(tmp_path / "thing-1", 1 << 60),
    ):
        pytest.fail("it was begun")
    assert not (tmp_path / "thing-1.partial").exists()


def test_an_interrupted_build_is_not_trusted(tmp_path: Path) -> None:
    place = tmp_path / "thing-1"
    with pytest.raises(KeyboardInterrupt), build_cache.building(place, 0) as partial:
        assert partial
        (partial / "half").touch()
        raise KeyboardInterrupt
    assert not place.exists()
    with build_cache.building(place, 0) as partial:
        assert partial is not None
        assert list(partial.iterdir()) == []
    with build_cache.building(place, 0) as again:
        assert again is None


def test_missing_packages_are_named_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match=r"apt-get install bison flex$"):
        build_cache.need({"flex": "flex", "bison": "bison"})
