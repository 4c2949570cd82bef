"""A user's source is read only; the next build of a changed one compiles what changed; each input is another kernel."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support import tiny_linux

from emulator.errors import LabError
from emulator.lab import kernel_source, kernel_store, kernel_workspace, named_kernel
from emulator.lab.congestion_source import CongestionSource
from emulator.lab.kernel_commit import SourceFile
from emulator.lab.kernel_source import KernelOrigin, parse_origin
from emulator.lab.kernel_workspace import Workspace
from emulator.lab.named_kernel import KernelRequest

MINE = CongestionSource("mine", "int mine;\n", "mine.c")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/longhaul"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return tiny_linux.make(tmp_path / "linux")


def quiet(*_: object) -> None:
    pass


def build(request: KernelRequest, controls: str = "reno mine yours") -> tuple[Path, list[str]]:
    """The kernel's folder, and the files that were compiled."""
    compiled: list[str] = []
    before = named_kernel._compile

    def compile(workspace: Workspace, request: KernelRequest, progress: object) -> list[str]:
        lines = before(workspace, request, quiet)
        compiled.extend(line.rpartition("/")[2] for line in lines if line.startswith("  CC"))
        return lines

    patch = pytest.MonkeyPatch()
    patch.setattr(named_kernel, "_compile", compile)
    patch.setattr(named_kernel, "FEW_FILES", 0)
    try:
        return named_kernel.build(request, quiet, lambda _, mode: f"{controls}\n"), compiled
    finally:
        patch.undo()


def snapshot(tree: Path) -> dict[str, tuple[int, bytes]]:
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in tree.rglob("*") if path.is_file()}


@pytest.mark.parametrize("git", [True, False])
def test_a_tree_is_read_only_and_its_next_build_compiles_what_changed(tree: Path, git: bool) -> None:
    commit = tiny_linux.commit(tree) if git else ""
    before, request = snapshot(tree), KernelRequest(KernelOrigin(tree=str(tree)))
    folder, compiled = build(request)
    assert (compiled, snapshot(tree)) == (["tcp_reno.c"], before)
    record = kernel_store.record_of(folder)
    assert record
    assert (record.version, record.mode, record.commit, record.diff) == ("6.16.1", "seccomp", commit, "")
    assert build(request) == (folder, []), "it is there already"
    (tree / "net/ipv4/tcp_new.c").write_text("int added;\n")
    again, compiled = build(request)
    assert (compiled, again != folder) == (["tcp_new.c"], True)
    record = kernel_store.record_of(again)
    assert record
    assert bool(record.diff) == git
    (tree / "net/ipv4/tcp_new.c").unlink()
    assert build(request) == (folder, []), "back at the first one"
    os.utime(tree / "net/ipv4/tcp_reno.c")
    assert build(request) == (folder, []), "touched, and the same"
    (tree / "net/ipv4/tcp_reno.c").write_text("int changed;\n")
    changed, compiled = build(request)
    assert (compiled, changed != folder) == (["tcp_reno.c"], True)


def test_a_congestion_control_is_compiled_alone_and_named_in_the_record(tree: Path) -> None:
    request = KernelRequest(KernelOrigin(tree=str(tree)))
    folder, _ = build(request)
    mine, compiled = build(replace(request, sources=(MINE,)))
    assert compiled == ["lab_cc_mine.c"]
    record = kernel_store.record_of(mine)
    assert record
    assert (record.sources, record.congestion_controls) == (("mine",), ("mine", "reno", "yours"))
    assert (mine / "inputs/mine.c").read_text() == MINE.source
    other, compiled = build(replace(request, sources=(replace(MINE, source="int other;\n"),)))
    assert (compiled, len({folder, mine, other})) == (["lab_cc_mine.c"], 3)
    yours, compiled = build(replace(request, sources=(CongestionSource("yours", "int yours;\n", "yours.c"),)))
    assert (compiled, yours.exists()) == (["lab_cc_yours.c"], True), "the file of the other one is gone again"


def test_a_compilers_error_names_the_users_file_and_leaves_no_kernel(tree: Path, cache: Path) -> None:
    bad = replace(MINE, source="#error not C\n", file="some/mine.c")
    with pytest.raises(LabError, match=r"(?s)does not compile:.*some/mine\.c:7:2: error: #error of mine"):
        build(KernelRequest(KernelOrigin(tree=str(tree)), sources=(bad,)))
    assert [path.name for path in cache.glob("kernel-*") if path.is_dir() and path.suffix != ".partial"] == []


def test_one_that_the_kernel_does_not_register_is_an_error(tree: Path) -> None:
    with pytest.raises(LabError, match=r"mine\.c: the kernel was built and has no congestion control 'mine'"):
        build(KernelRequest(KernelOrigin(tree=str(tree)), sources=(MINE,)), controls="reno cubic")


def test_a_line_of_a_fragment_that_the_kernel_does_not_keep_is_named(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "more").write_text("CONFIG_UNKNOWN=y\n")
    with pytest.raises(LabError, match=r"Linux 6\.16\.1 does not keep CONFIG_UNKNOWN=y"):
        build(KernelRequest(KernelOrigin(tree=str(tree)), fragments=(tmp_path / "more",)))
    (tmp_path / "more").write_text("CONFIG_KNOWN=y\n")
    folder, _ = build(KernelRequest(KernelOrigin(tree=str(tree)), fragments=(tmp_path / "more",)))
    assert (folder / "inputs/0-more").exists()


def test_an_archive_is_built_too_and_its_patch_is_undone_by_the_next_build(tree: Path, tmp_path: Path) -> None:
    archive = tmp_path / "linux-tiny.tar.gz"
    os.system(f"tar -C {tree.parent} -czf {archive} {tree.name}")
    origin = parse_origin(str(archive))
    assert (origin.archive, origin.name) == (str(archive), "linux-tiny")
    patch = tmp_path / "third.patch"
    patch.write_text(
        "--- a/net/ipv4/tcp_reno.c\n+++ b/net/ipv4/tcp_reno.c\n@@ -2,1 +2,1 @@\n-int halves = 2;\n+int halves = 3;\n"
    )
    plain, compiled = build(KernelRequest(origin))
    assert compiled == ["tcp_reno.c"]
    patched, compiled = build(KernelRequest(origin, patches=(patch,)))
    assert (compiled, patched != plain) == (["tcp_reno.c"], True)
    record = kernel_store.record_of(patched)
    assert record
    assert record.patches == ("third.patch",)
    _, compiled = build(KernelRequest(origin, patches=(patch,), sources=(MINE,)))
    assert compiled == ["lab_cc_mine.c"], "a file that is patched as before keeps its time"
    _, compiled = build(KernelRequest(origin))
    assert compiled == [], "it is there already"
    _, compiled = build(KernelRequest(origin, sources=(MINE,)))
    assert compiled == ["tcp_reno.c"]


def test_a_packed_workspace_holds_no_lock_of_the_folder_it_was_built_in(tree: Path) -> None:
    """Unpacked, it would replace the next folder's own lock, and any launcher of a lab would remove that folder."""
    request = KernelRequest(KernelOrigin(tree=str(tree)))
    build(request)
    with tarfile.open(kernel_workspace.place(request.origin, "")) as tar:
        assert {name.partition("/")[0] for name in tar.getnames()} == {"tree", "state.json"}


def test_a_failed_build_does_not_spoil_the_workspace(tree: Path) -> None:
    request = KernelRequest(KernelOrigin(tree=str(tree)))
    build(request)
    packed = kernel_workspace.place(request.origin, "")
    before = packed.read_bytes()
    with pytest.raises(LabError):
        build(replace(request, sources=(replace(MINE, source="#error\n"),)))
    assert packed.read_bytes() == before


def test_what_is_no_source_is_refused(tmp_path: Path) -> None:
    for text, why in (("no/where", "no series of Debian's"), (str(tmp_path), "it has no arch/um")):
        with pytest.raises(ValueError, match=why):
            parse_origin(text)
    assert parse_origin("6.12") == KernelOrigin(series="6.12")


def test_what_an_earlier_build_left_and_what_no_lab_compiles_is_not_copied(tree: Path) -> None:
    for name in (".config", "include/config/auto.conf", "net/ipv4/tcp_reno.o", "net/ipv4/.tcp_reno.o.cmd", "vmlinux"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("built")
    names = kernel_source.files(tree)
    assert "drivers/gpu/Kconfig" in names
    assert not {"drivers/gpu/big.c", ".config", "include/config/auto.conf", "net/ipv4/tcp_reno.o", "vmlinux"} & {*names}


NAMES = st.sampled_from(["a", "b/c", "b/d", "e"])
CONTENTS = st.one_of(st.none(), st.binary(max_size=3))
STEPS = st.lists(st.tuples(st.booleans(), st.dictionaries(NAMES, CONTENTS)), max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(STEPS)
def test_a_tree_is_always_the_source_with_the_last_patches(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[bool, dict[str, bytes | None]]]
) -> None:
    """Whatever the order of a user's changes and ours; after each step the workspace is read anew."""
    folder, theirs = tmp_path_factory.mktemp("w"), tmp_path_factory.mktemp("user")
    source: dict[str, bytes] = {}
    patches: dict[str, bytes | None] = {}
    for ours, files in steps:
        workspace = Workspace(folder)
        if ours:
            workspace.install(files)
            patches = files
        else:
            for name, content in files.items():
                (theirs / name).parent.mkdir(exist_ok=True)
                if content is None:
                    source.pop(name, None)
                else:
                    source[name] = content
                    (theirs / name).write_bytes(content)
            workspace.update(
                (name, None if content is None else SourceFile(content, 0o644)) for name, content in files.items()
            )
        workspace.save()
        assert {name: workspace.read(name) for name in ("a", "b/c", "b/d", "e")} == {
            name: source.get(name) for name in ("a", "b/c", "b/d", "e")
        }
        wanted = {name: content for name, content in {**source, **patches}.items() if content is not None}
        there = {str(path.relative_to(workspace.tree)): path for path in workspace.tree.rglob("*") if path.is_file()}
        assert {name: path.read_bytes() for name, path in there.items()} == wanted


def test_a_folder_of_the_source_becomes_a_file_or_a_link_and_back(tmp_path: Path) -> None:
    workspace, folder = (
        Workspace(tmp_path),
        {"lib/foo/a": SourceFile(b"a", 0o100644), "lib/foo/b": SourceFile(b"b", 0o100644)},
    )
    gone = dict.fromkeys(folder)
    file, link = SourceFile(b"text", 0o100644), SourceFile(b"../Kbuild", 0o120777)
    for other in (file, link):
        workspace.update(folder.items())
        workspace.update([("lib/foo", other), *gone.items()])
        there = workspace.tree / "lib/foo"
        assert (there.is_symlink(), there.is_dir()) == (other.link, False)
        assert (str(there.readlink()) if other.link else there.read_text()) == other.content.decode()
        workspace.update([("lib/foo", None), *folder.items()])
        assert sorted(path.name for path in there.iterdir()) == ["a", "b"]
