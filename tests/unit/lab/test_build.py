"""Kernel and image are built at the same time, and either's failure is told."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from support.waiting import PATIENCE_S

from emulator.errors import LabError
from emulator.lab import build, build_image, build_kernel
from emulator.lab.lab_root import LabRoot, RootChoice


def never(_: LabRoot, __: str, ___: Path) -> str:
    pytest.fail("nothing is configured here")


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.usefixtures("empty_cache")
def test_both_are_built_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=PATIENCE_S)

    def meet(name: str) -> Path:
        both.wait()
        return Path(name)

    monkeypatch.setattr(build_kernel, "build", lambda *_: meet("linux"))
    monkeypatch.setattr(build_image, "build", lambda _: meet("root"))
    built = build.build_lab(lambda *_: None, RootChoice(), never)
    assert (built.linux, built.image, built.layer) == (Path("linux"), build_image.place() / "root", None)


@pytest.mark.usefixtures("empty_cache")
def test_this_machines_root_needs_no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_kernel, "build", lambda _, config: Path(config))
    monkeypatch.setattr(build_image, "build", lambda _: pytest.fail("it is not asked for"))
    built = build.build_lab(lambda *_: None, RootChoice(host=True, kernel_config="full"), never)
    assert (built.linux, built.image, built.folders) == (Path("full"), Path("/"), (Path("/"),))


@pytest.mark.usefixtures("empty_cache")
@pytest.mark.parametrize("failing", [build_kernel, build_image])
def test_a_failure_of_either_is_raised(monkeypatch: pytest.MonkeyPatch, failing: object) -> None:
    def fail(*_: object) -> Path:
        raise LabError("no room")

    for module in (build_kernel, build_image):
        monkeypatch.setattr(module, "build", fail if module is failing else lambda *_: Path())
    with pytest.raises(LabError, match="no room"):
        build.build_lab(lambda *_: None, RootChoice(), never)
