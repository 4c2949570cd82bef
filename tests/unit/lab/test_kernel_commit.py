"""A kernel of a commit: read from Git alone, the same as a clean work tree's, and only what differs is compiled."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import tiny_linux

from emulator.errors import LabError
from emulator.lab import kernel_choice, kernel_commit, kernel_store, named_kernel
from emulator.lab.kernel_source import KernelOrigin, parse_origin
from emulator.lab.named_kernel import KernelRequest


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(named_kernel, "FEW_FILES", 0)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two commits, tagged old and new, and changes that are in neither."""
    tree = tiny_linux.make(tmp_path / "linux")
    (tree / "scripts").symlink_to("fs")
    tiny_linux.commit(tree)
    subprocess.run(["git", "-C", tree, "tag", "old"], check=True)
    (tree / "net/ipv4/tcp_new.c").write_text("int added;\n")
    (tree / "scripts").unlink()
    tiny_linux.commit(tree)
    subprocess.run(["git", "-C", tree, "tag", "new"], check=True)
    (tree / "net/ipv4/tcp_reno.c").write_text("#error not committed\n")
    return tree


def build(tree: Path, revision: str) -> tuple[Path, kernel_store.KernelRecord]:
    origin = parse_origin(f"{tree}@{revision}")
    folder = named_kernel.build(KernelRequest(origin), lambda *_: None, lambda *_: "reno")
    record = kernel_store.record_of(folder)
    assert record
    return folder, record


def test_a_commit_is_built_from_git_alone_and_the_next_one_compiles_what_differs(tree: Path) -> None:
    before = {path: path.lstat().st_mtime_ns for path in tree.rglob("*")}
    old, first = build(tree, "old")
    new, second = build(tree, "new")
    again, _ = build(tree, "old")
    assert (first.compiled_files, second.compiled_files, again) == (1, 1, old)
    assert new != old
    assert first.commit == kernel_commit.resolve(tree, "old")
    assert first.source == f"{tree} at {first.commit[:12]}"
    assert {path: path.lstat().st_mtime_ns for path in tree.rglob("*")} == before


def test_a_commit_and_a_clean_work_tree_are_the_same_kernel(tree: Path) -> None:
    built, _ = build(tree, "new")
    subprocess.run(["git", "-C", tree, "checkout", "-q", "."], check=True)
    clean = KernelRequest(KernelOrigin(tree=str(tree)))
    assert named_kernel.build(clean, lambda *_: None, lambda *_: "reno") == built


def test_every_file_and_link_of_a_commit_is_read(tree: Path) -> None:
    commit = kernel_commit.resolve(tree, "old")
    found = dict(kernel_commit.contents(tree, commit, ["scripts", "Kconfig", "net/ipv4/tcp_reno.c"]))
    assert (found["scripts"].link, found["scripts"].content) == (True, b"fs")
    assert (found["Kconfig"].link, found["Kconfig"].content) == (False, b"")
    assert found["net/ipv4/tcp_reno.c"].content.decode() == tiny_linux.RENO


def test_a_revision_is_fixed_when_the_option_is_read(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = kernel_commit.resolve(tree, "old")
    monkeypatch.chdir(tree)
    assert kernel_choice.parse_kernel("@old") == f"{tree}@{commit}"
    assert kernel_choice.parse_kernels("@old,@new")[0] == (f"linux-{commit[:12]}", f"{tree}@{commit}")
    monkeypatch.chdir(tree.parent)
    tree.rename(tree.with_name("li@nux"))
    assert kernel_choice.parse_kernel("li@nux") == str(tree.with_name("li@nux"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("linux@none", "has no commit 'none'"),
        ("nowhere@old", "nowhere' is no folder"),
        ("linux@--all", "has no commit '--all'"),
    ],
)
def test_what_is_no_commit_is_refused(tree: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str) -> None:
    monkeypatch.chdir(tree.parent)
    with pytest.raises(ValueError, match=why):
        parse_origin(text)


def test_a_commit_of_another_project_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/README").write_text("")
    tiny_linux.commit(tmp_path / "other")
    with pytest.raises(ValueError, match="is no source of Linux"):
        parse_origin(f"{tmp_path}/other@HEAD")


def test_a_repository_without_an_object_is_named(tree: Path) -> None:
    commit = kernel_commit.resolve(tree, "old")
    _, blob = kernel_commit.listing(tree, commit)["net/ipv4/tcp_reno.c"]
    name = f"{blob:040x}"
    (tree / ".git/objects" / name[:2] / name[2:]).unlink()
    with pytest.raises(LabError, match=r"lacks the content of net/ipv4/tcp_reno.c"):
        list(kernel_commit.contents(tree, commit, ["net/ipv4/tcp_reno.c"]))
