"""Programs are found before anything boots, where the lab itself will find them: links lead inside its own root."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from emulator.errors import MissingError
from emulator.lab import programs
from emulator.lab.lab_root import LabRoot, RootChoice


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A merged root with a program, a link of Debian's alternatives to it, and what is no program."""
    root = tmp_path / "image"
    executable(root / "usr/bin/mawk")
    (root / "bin").symlink_to("usr/bin")
    (root / "usr/bin/awk").symlink_to("/etc/alternatives/awk")
    (root / "etc/alternatives").mkdir(parents=True)
    (root / "etc/alternatives/awk").symlink_to("/usr/bin/mawk")
    (root / "usr/bin/text").write_text("not executable")
    (root / "usr/bin/folder").mkdir()
    (root / "usr/bin/round").symlink_to("round")
    (root / "usr/bin/up").symlink_to("../../../../../bin/mawk")
    (root / "usr/bin/lost").symlink_to("/bin/not-there")
    return root


def of_image(image: Path, layer: Path | None = None) -> LabRoot:
    return LabRoot(RootChoice(packages=("nginx",) if layer else ()), Path("/linux"), image, layer)


def test_links_are_followed_inside_the_root(image: Path) -> None:
    root = of_image(image)
    assert programs.found("awk", root) == image / "usr/bin/mawk"
    assert programs.found("up", root) == image / "usr/bin/mawk"
    assert programs.found("/bin/awk", root) == image / "usr/bin/mawk"


def test_what_cannot_be_started_is_missing_once_and_in_order(image: Path) -> None:
    names = ["round", "mawk", "text", "lost", "folder", "text", "/usr/bin/no", "/etc", ""]
    assert programs.missing(names, of_image(image)) == ["round", "text", "lost", "folder", "/usr/bin/no", "/etc", ""]


def test_a_layer_lies_over_the_image_and_leads_into_it(image: Path, tmp_path: Path) -> None:
    layer = tmp_path / "layer"
    mine = executable(layer / "usr/sbin/nginx")
    (layer / "usr/bin").mkdir()
    (layer / "usr/bin/editor").symlink_to("mawk")
    root = of_image(image, layer)
    assert programs.found("nginx", root) == mine
    assert programs.found("editor", root) == image / "usr/bin/mawk"
    assert programs.missing(["nginx"], of_image(image)) == ["nginx"]


def test_the_folders_that_the_lab_makes_hold_nothing_of_the_root(image: Path) -> None:
    executable(image / "tmp/tool")
    assert programs.missing(["/tmp/tool"], of_image(image)) == ["/tmp/tool"]


def test_a_program_of_the_shared_folder_is_found_by_its_path(image: Path, tmp_path: Path) -> None:
    tool = executable(tmp_path / "here/tool")
    root = of_image(image)
    for name in ("./tool", str(tool), "../here/tool"):
        assert programs.missing([name], root, tmp_path / "here") == [], name
    assert programs.missing(["tool", "./tool", str(tool)], root) == ["tool", "./tool", str(tool)]
    assert programs.missing(["tool"], root, tmp_path / "here", path=f"/bin:{tmp_path}/here") == []


def test_this_machines_path_comes_first_and_its_programs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/opt/mine:relative:/usr/bin")
    host = LabRoot(RootChoice(host=True), Path("/linux"), Path("/"))
    assert programs.search_path(host).split(":")[:3] == ["/run/longhaul/bin", "/opt/mine", "/usr/bin"]
    assert "relative" not in programs.search_path(host)
    assert programs.missing(["sh", "longhaul", "no-such"], host) == ["no-such"]


def test_another_root_is_the_only_place(image: Path, tmp_path: Path) -> None:
    executable(tmp_path / "other/bin/busybox")
    root = replace(of_image(image), choice=RootChoice(folder=str(tmp_path / "other")))
    assert programs.missing(["busybox", "mawk", "longhaul"], root) == ["mawk"]


def test_the_error_names_all_and_what_to_do(image: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingError) as error:
        programs.check(["mawk", "curll", "sed"], of_image(image))
    assert str(error.value) == (
        "the lab's image has no program curll, sed: add its Debian package by --with PACKAGE, or to packages in the "
        "workload; --host-root uses this machine's sed"
    )
    with pytest.raises(MissingError, match=r"^the lab's image with nginx has no program curll: add "):
        programs.check(["curll"], of_image(image, tmp_path))
    with pytest.raises(MissingError, match=r"^this machine has no program curll: install it, or use the lab's image"):
        programs.check(["curll"], LabRoot(RootChoice(host=True), Path("/linux"), Path("/")))
    with pytest.raises(MissingError, match="/other has no program curll: name another folder, or use "):
        programs.check(["curll"], LabRoot(RootChoice(folder="/other"), Path("/linux"), image))
