"""The patches of the lab's kernel: applied in order, exactly, each with its reason; and part of the cache's key."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from emulator.errors import LabError
from emulator.lab import build_kernel

SOURCE = "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"
PATCH = """Count in Italian.

--- a/file
+++ b/file
@@ -2,5 +2,5 @@
 two
 three
-four
+quattro
 five
 six
"""


def tree(folder: Path, source: str) -> Path:
    folder.mkdir()
    (folder / "file").write_text(source)
    return folder


def patch(folder: Path) -> Path:
    (folder / "0001-italian.patch").write_text(PATCH)
    return folder / "0001-italian.patch"


def test_a_patch_is_applied_also_where_lines_before_it_were_added(tmp_path: Path) -> None:
    source = tree(tmp_path / "tree", "zero\n" + SOURCE)
    build_kernel.apply(patch(tmp_path), source)
    assert (source / "file").read_text() == "zero\n" + SOURCE.replace("four", "quattro")
    assert [path.name for path in source.iterdir()] == ["file"]


@pytest.mark.parametrize("source", [SOURCE.replace("four", "quattro"), SOURCE.replace("two", "deux")])
def test_a_patch_whose_context_differs_is_named_and_changes_nothing(tmp_path: Path, source: str) -> None:
    """Applied already, or a line of the context is another: `patch` would take the second with fuzz."""
    folder = tree(tmp_path / "tree", source)
    with pytest.raises(LabError, match=r"^0001-italian\.patch does not apply to this kernel's source \(linux-source"):
        build_kernel.apply(patch(tmp_path), folder)
    assert (folder / "file").read_text() == source


def test_every_patch_begins_with_its_reason_and_has_a_number_of_its_own() -> None:
    series = build_kernel.series()
    assert [path.name[:4] for path in series] == [f"{n:04}" for n in range(1, len(series) + 1)]
    for path in series:
        reason, _, diff = path.read_text().partition("\n--- a/")
        assert re.match(r"[A-Z].{20,}\.\n\n.{40}", reason), path.name
        assert "\n+++ b/" in diff


def test_another_patch_is_another_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build_kernel.place()
    monkeypatch.setattr(build_kernel, "PATCHES", shutil.copytree(build_kernel.PATCHES, tmp_path / "patches"))
    assert build_kernel.place() == before
    first = sorted((tmp_path / "patches").iterdir())[0]
    first.write_text(first.read_text() + "\n")
    changed = build_kernel.place()
    patch(tmp_path / "patches").rename(tmp_path / "patches/0099-italian.patch")
    assert len({before, changed, build_kernel.place()}) == 3


def test_the_kernel_names_its_source_and_another_one_that_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_kernel, "place", lambda *_: tmp_path)
    monkeypatch.setattr(build_kernel, "installed_version", lambda: "6.12.2-1")
    assert (build_kernel.source_version(), build_kernel.other_source()) == ("", "")
    (tmp_path / build_kernel.RECORD).write_text("6.12.2-1")
    assert (build_kernel.source_version(), build_kernel.other_source()) == ("6.12.2-1", "")
    (tmp_path / build_kernel.RECORD).write_text("6.12.1-1")
    assert build_kernel.other_source().startswith("linux-source-6.12 6.12.2-1 is installed: remove ")


def test_a_package_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_kernel, "PACKAGE", "no-such-package")
    assert build_kernel.installed_version() == ""
