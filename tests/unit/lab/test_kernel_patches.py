"""The lab's changes of a kernel: chosen by what its source says, applied exactly; a user's patches come after them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support.folders import ROOT

from emulator.errors import LabError
from emulator.lab import build_kernel, kernel_patches
from emulator.lab.kernel_patches import CHANGES, NEWER, OLDER, KernelChange, patched, touched

SOURCE = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"


def patch(folder: Path, name: str, old: str, new: str) -> Path:
    lines = SOURCE.replace("four", old).splitlines()
    body = "".join(f" {line}\n" if line != old else f"-{old}\n+{new}\n" for line in lines)
    (folder / name).write_text(f"A reason.\n\n--- a/file\n+++ b/file\n@@ -1,7 +1,7 @@\n{body}")
    return folder / name


def source(**files: str) -> Callable[[str], bytes | None]:
    return lambda path: files[path].encode() if path in files else None


@pytest.fixture
def change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelChange:
    """One change, with a text for "four" and one for "vier"."""
    texts = (patch(tmp_path, "old.patch", "four", "4"), patch(tmp_path, "new.patch", "vier", "4"))
    made = KernelChange("0001-count", texts, "file", "two", "nobody counts to two")
    monkeypatch.setattr(kernel_patches, "CHANGES", (made,))
    return made


def test_the_text_that_fits_is_taken(change: KernelChange) -> None:
    for number, word in enumerate(("four", "vier")):
        found = patched(source(file=SOURCE.replace("four", word)), (), "6.12")
        assert found.files == {"file": SOURCE.replace("four", "4").encode()}
        assert found.applied == (change.texts[number],)


def test_a_change_that_a_source_needs_no_more_is_left_out_and_told(change: KernelChange) -> None:
    found = patched(source(file=SOURCE.replace("two", "2")), (), "6.12")
    assert (found.files, found.applied, found.obsolete) == ({}, (), {"0001-count": change.obsolete})


@pytest.mark.usefixtures("change")
def test_a_source_that_no_text_fits_is_an_error_that_says_what_to_know() -> None:
    with pytest.raises(LabError) as error:
        patched(source(file=SOURCE.replace("four", "quatre")), (), "9.9")
    said = str(error.value)
    assert said.startswith("no text of the patch 0001-count fits Linux 9.9")
    assert "It is obsolete where nobody counts to two" in said
    assert "old.patch: " in said and "new.patch: " in said


@pytest.mark.usefixtures("change")
def test_a_users_patch_comes_after_ours_and_is_named_when_it_does_not_apply(tmp_path: Path) -> None:
    good = patch(tmp_path, "mine.patch", "4", "IV")
    assert patched(source(file=SOURCE), (good,), "6.12").files["file"] == SOURCE.replace("four", "IV").encode()
    bad = patch(tmp_path, "bad.patch", "four", "IV")
    with pytest.raises(LabError, match=r"bad\.patch does not apply to Linux 6\.12, after the lab's own patches"):
        patched(source(file=SOURCE), (bad,), "6.12")


@pytest.mark.usefixtures("change")
def test_a_patch_that_fails_in_its_last_file_changes_nothing_and_one_may_add_and_remove_files(tmp_path: Path) -> None:
    both = tmp_path / "both.patch"
    both.write_text(
        "--- a/other\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+here\n"
    )
    found = patched(source(file=SOURCE, other="gone\n"), (both,), "6.12")
    assert (found.files["other"], found.files["new"]) == (None, b"here\n")
    with pytest.raises(LabError, match=r"both\.patch does not apply"):
        patched(source(file=SOURCE, other="another\n"), (both,), "6.12")


@pytest.mark.usefixtures("change")
@pytest.mark.parametrize("path", ["/etc/passwd", "../outside"])
def test_a_patch_that_names_a_file_outside_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "bad.patch").write_text(f"--- {path}\n+++ {path}\n@@ -0,0 +1 @@\n+x\n")
    with pytest.raises(LabError, match="outside the source"):
        patched(source(file=SOURCE), (tmp_path / "bad.patch",), "6.12")


def test_every_patch_of_ours_is_a_text_of_a_change_and_says_its_reason() -> None:
    there = sorted(build_kernel.PATCHES.rglob("*.patch"))
    assert sorted(text for change in CHANGES for text in change.texts) == there
    ours = [text for change in CHANGES for text in change.texts if text.parent == build_kernel.PATCHES]
    assert ours == build_kernel.series()
    for path in there:
        reason, _, diff = path.read_text().partition("\n--- a/")
        assert re.match(r"[A-Z].{20,}\.\n\n.{40}", reason), path.name
        assert touched(path.read_text()), diff
    assert all(len(change.obsolete) > 20 for change in CHANGES)
    assert OLDER.is_dir() and NEWER.is_dir()


def test_each_change_is_needed_by_the_source_that_its_first_text_is_for(tmp_path: Path) -> None:
    """Its sign stands in the text that the patch itself quotes, so that a wrong expression is seen here."""
    for change in CHANGES:
        lines = change.texts[0].read_text().splitlines()
        quoted = "\n".join(line[1:] for line in lines if line[:1] in (" ", "-") and not line.startswith("---"))
        assert re.search(change.needed_while, quoted), change.name
        assert change.path in touched(change.texts[0].read_text())
    assert not list(tmp_path.iterdir())


def test_every_change_is_explained_with_when_it_is_obsolete() -> None:
    text = (ROOT / "emulator/docs/kernels.md").read_text()
    rows = dict(re.findall(r"^\| `(\d{4}-[a-z0-9-]+)` \| [^|]{30,} \| (.*) \|$", text, re.MULTILINE))
    assert rows == {change.name: change.obsolete for change in CHANGES}
