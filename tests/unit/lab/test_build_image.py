"""The lab's Python packages are those of uv.lock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.folders import ROOT

from emulator.errors import LabError
from emulator.lab import build_image

EXPORT = (
    "export", "-q", "--frozen", "--no-emit-project", "--no-hashes", "--no-annotate", "--no-header", "--prune=mypy",
    "--prune=ruff",
)  # fmt: skip


def test_the_requirements_are_what_the_lock_file_says() -> None:
    uv = Path(sys.executable).with_name("uv")
    exported = subprocess.run([uv, *EXPORT], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    command = f"uv {' '.join(EXPORT)} > emulator/lab/requirements.txt"
    assert build_image.REQUIREMENTS.read_text() == exported, f"uv.lock changed; run: {command}"


def test_without_uv_and_pip_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(build_image.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(LabError, match="neither uv nor pip"):
        build_image._installer()
