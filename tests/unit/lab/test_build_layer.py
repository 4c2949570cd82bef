"""A layer of Debian packages: what dpkg is told, what it changed, and errors that name what to do."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from emulator.errors import LabError
from emulator.lab import build_layer, build_packages

CONTROL = "Package: {name}\nVersion: 1.2-3\nArchitecture: amd64\nMaintainer: A <a@b.c>\nDescription: d\n{more}"


def package(folder: Path, name: str, more: str = "") -> Path:
    """A real .deb with one file and a script."""
    tree = folder / name
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(CONTROL.format(name=name, more=more))
    (tree / "DEBIAN/postinst").write_text("#!/bin/sh\n")
    (tree / "DEBIAN/postinst").chmod(0o755)
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/tool").write_text("#!/bin/sh\n")
    (tree / "usr/bin/link").symlink_to("tool")
    subprocess.run(["dpkg-deb", "-b", "--root-owner-group", tree, folder / f"{name}.deb"], check=True, text=True,
                   capture_output=True)  # fmt: skip
    return folder / f"{name}.deb"


def test_dpkg_is_told_what_was_unpacked(tmp_path: Path) -> None:
    root, plain, several = tmp_path / "root", package(tmp_path, "plain"), package(tmp_path, "two", "Multi-Arch: same\n")
    build_packages.unpack([plain, several], root, lambda *_: None)
    for archive in (plain, several):
        build_packages.register(archive, root)
    info = root / "var/lib/dpkg/info"
    names = ["plain.list", "plain.postinst", "two:amd64.list", "two:amd64.postinst"]
    assert sorted(path.name for path in info.iterdir()) == names
    listed = (info / "plain.list").read_text().splitlines()
    assert sorted(listed) == ["/.", "/usr", "/usr/bin", "/usr/bin/link", "/usr/bin/tool"]
    entries = build_packages.stanzas(build_packages.stanza(plain, build_packages.UNPACKED) + "\n")
    assert build_packages.field(entries["plain"], "Status") == "install ok unpacked"
    assert build_packages.field(entries["plain"], "Version") == "1.2-3"
    build_packages.write_status(root, [*entries.values(), "Package: other\nStatus: install ok installed\n"])
    assert build_layer._unconfigured(root) == ["plain"]


def changes(folder: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(folder / build_layer.CHANGES, "w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return folder / build_layer.CHANGES


def member(name: str, kind: bytes = tarfile.REGTYPE, **more: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, 3 if kind == tarfile.REGTYPE else 0
    for key, value in more.items():
        setattr(info, key, value)
    return info


def test_what_dpkg_changed_is_taken_over_with_its_owners(tmp_path: Path) -> None:
    work, root = tmp_path / "work", tmp_path / "root"
    work.mkdir()
    (root / "etc").mkdir(parents=True)
    (root / "etc/passwd").write_text("old")
    archive = changes(
        work, member("./etc/passwd", mode=0o600), member("./var/lib/db", tarfile.DIRTYPE, mode=0o550, uid=101, gid=7),
        member("./etc/link", tarfile.SYMTYPE, linkname="/usr/bin/tool"), member(f".{tmp_path}", tarfile.DIRTYPE),
    )  # fmt: skip
    assert build_layer._merge(archive, root, "") == [("var/lib/db", 101, 7)]
    assert (root / "etc/passwd").read_text() == "xxx"
    assert (root / "etc/passwd").stat().st_mode & 0o777 == 0o600
    assert (root / "etc/link").readlink() == Path("/usr/bin/tool")
    assert (root / "var/lib/db").stat().st_mode & 0o777 == 0o750
    assert not (root / str(tmp_path).lstrip("/")).exists(), "the way to the script's folder is no change"


def test_a_lab_that_ends_early_says_what_dpkg_said(tmp_path: Path) -> None:
    with pytest.raises(
        LabError, match=r"could not configure the packages in a lab \(.*\nSetting up x\ndpkg: error: no room$"
    ):
        build_layer._merge(tmp_path / "no.tar", tmp_path, "Setting up x\ndpkg: error: no room\n")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"packages": {}, "unconfigured": []}', '{"owners": [[1]]}'])
def test_a_spoilt_layer_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / build_layer.RECORD).write_text(text)
    with pytest.raises(LabError, match=r"is spoilt \(.*\): remove it; the next build makes it anew"):
        build_layer.load(tmp_path)


def test_another_image_or_set_is_another_layer() -> None:
    one = build_layer.place(Path("/c/image-1"), ["nginx"])
    assert one == build_layer.place(Path("/d/image-1"), ["nginx"])
    assert (
        len({one, build_layer.place(Path("/c/image-2"), ["nginx"]), build_layer.place(Path("/c/image-1"), ["x"])}) == 3
    )


def test_without_apt_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match=r"to build the lab, install: apt-get install apt dpkg$"):
        build_layer.build(tmp_path, ["nginx"], lambda *_: "", lambda *_: None)
    assert not build_layer.built()
