"""What the launcher of the labs' tests does when a lab's clock stands still."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import LabStalled
from emulator.lab import boot
from support import lab_boots


def script(monkeypatch: pytest.MonkeyPatch, stalls: int) -> list[object]:
    """A lab that stalls so many times after its first report; the list grows by an entry a boot."""
    boots: list[object] = []

    def capture(argv: list[str], *, env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        boots.append(argv)
        with Path(env[lab_boots.REPORTS]).open("a") as file:
            file.write(json.dumps(len(boots)) + "\n")
        if len(boots) <= stalls:
            raise LabStalled("stood still")
        return subprocess.CompletedProcess(argv, 0, b"well", b"")

    monkeypatch.setattr(boot, "capture", capture)
    return boots


@pytest.mark.parametrize(
    ("stalls", "reports", "printed", "stalled"),
    [(0, [1], "well", ""), (1, [2], "well", "stood still"), (2, [2], "twice: stood still", "stood still")],
)
def test_a_lab_that_stands_still_has_one_more_boot_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stalls: int, reports: list[int], printed: str, stalled: str
) -> None:
    boots = script(monkeypatch, stalls)
    result = lab_boots.run(["a test"], tmp_path / "reports", 0)
    assert result == {"reports": reports, "printed": printed, "stalled": stalled}
    assert len(boots) == min(stalls, 1) + 1


def test_a_file_names_the_packages_of_its_lab(tmp_path: Path) -> None:
    (file := tmp_path / "test_it.py").write_text('"""Text."""\n\nLAB_PACKAGES = ("rsync", "nginx")\n')
    assert lab_boots.packages(file) == ("rsync", "nginx")
    assert lab_boots.packages(Path(__file__)) == ()
