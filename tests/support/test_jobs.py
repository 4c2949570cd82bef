"""What the launcher of the labs' tests does when a lab's clock stands still."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import LabStalled
from emulator.lab import boot
from emulator.lab.boot_options import BootOptions
from emulator.lab.lab_root import RootChoice
from support import jobs


def report(test: str, when: str, seed: int) -> dict[str, Any]:
    """What the lab with this seed says of a test."""
    return {"nodeid": test, "when": when, "seed": seed}


def script(monkeypatch: pytest.MonkeyPatch, stalls: int) -> list[list[str]]:
    """A lab that ends one test a boot and so many times stalls in the next; the list grows by the tests of a boot."""
    boots: list[list[str]] = []

    def capture(argv: list[str], options: BootOptions, _: RootChoice) -> subprocess.CompletedProcess[bytes]:
        ids = argv[argv.index("no:cacheprovider") + 1 :]
        boots.append(ids)
        stands = len(boots) <= stalls
        lines = [
            report(one, when, options.seed) for one in ids[: 1 if stands else None] for when in ("call", "teardown")
        ]
        with Path(options.env[jobs.REPORTS]).open("a") as file:
            file.writelines(
                json.dumps(line) + "\n" for line in [*lines, *([report(ids[1], "call", options.seed)] * stands)]
            )
        if stands:
            raise LabStalled(f"stood still with seed {options.seed}")
        return subprocess.CompletedProcess(argv, 0, b"well", b"")

    monkeypatch.setattr(boot, "capture", capture)
    return boots


@pytest.mark.parametrize(
    ("stalls", "boots", "seeds", "printed", "stalled"),
    [
        (0, ["abcd"], [1, 1, 1, 1], "well", ""),
        (1, ["abcd", "bcd"], [1, 2, 2, 2], "well", "stood still with seed 1"),
        (2, ["abcd", "bcd", "cd"], [1, 2, 3, 3], "well", "stood still with seed 1"),
        (
            3,
            ["abcd", "bcd", "cd"],
            [1, 2, 3],
            "stood still with every seed: stood still with seed 3",
            "stood still with seed 1",
        ),
    ],
)
def test_what_has_not_ended_when_a_lab_stands_still_runs_with_another_seed_and_that_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stalls: int,
    boots: list[str],
    seeds: list[int],
    printed: str,
    stalled: str,
) -> None:
    seen = script(monkeypatch, stalls)
    result = jobs.run(list("abcd"), tmp_path / "reports", 0)
    ended = [
        report(test, when, seed) for test, seed in zip("abcd", seeds, strict=False) for when in ("call", "teardown")
    ]
    assert result == {"reports": ended, "printed": printed, "stalled": stalled}
    assert ["".join(ids) for ids in seen] == boots


def test_a_file_names_the_packages_of_its_lab(tmp_path: Path) -> None:
    (file := tmp_path / "test_it.py").write_text('"""Text."""\n\nLAB_PACKAGES = ("rsync", "nginx")\n')
    assert jobs.packages(file) == ("rsync", "nginx")
    assert jobs.packages(Path(__file__)) == ()


def test_tests_that_need_no_lab_report_from_a_process_of_their_own(tmp_path: Path) -> None:
    me = "tests/support/test_jobs.py::test_a_file_names_the_packages_of_its_lab"
    result = jobs.run_here([me], tmp_path / "reports")
    reports = result["reports"]
    assert isinstance(reports, list)
    assert [(one["nodeid"], one["when"], one["outcome"]) for one in reports] == [
        (me, when, "passed") for when in ("setup", "call", "teardown")
    ]
    assert "1 passed" in str(result["printed"])
    broken = jobs.run_here([f"{me}_not"], tmp_path / "reports")
    assert broken["reports"] == [] and "not found" in str(broken["printed"])
