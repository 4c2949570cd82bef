"""A sweep in the lab takes every congestion control of Linux, on the axis, in contests and in TCP profiles."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.stored_kernels import RECORD, SEVEN, store

from emulator.cli import main
from emulator.experiment.sweep_runner import LAB_ALGORITHMS

CELL = ("--rtt", "20", "--rate", "100Mbit")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def planned(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    code = main.main(["sweep", *CELL, *options, "--dry-run", "--json"])
    return code, *capsys.readouterr()


@pytest.mark.parametrize("name", sorted({*LAB_ALGORITHMS} - {"cubic"}))
def test_each_is_one_of_the_axis_of_contests_and_of_profiles(
    capsys: pytest.CaptureFixture[str], name: str, tmp_path: Path
) -> None:
    assert planned(capsys, "--in-lab", "--cc", f"{name},cubic")[0] == 0
    code, out, _ = planned(capsys, "--in-lab", "--pairs", f"{name},cubic")
    assert (code, len(json.loads(out)["cells"])) == (0, 5)
    profiles = tmp_path / "profiles.yaml"
    profiles.write_text(f"mine: {{congestion_control: {name}}}\n")
    options = ("--in-lab", "--profiles", str(profiles), "--tcp-profile", "mine")
    code, out, err = planned(capsys, *options)
    assert (code, len(json.loads(out)["cells"])) == (0, 1), err


def test_one_that_linux_does_not_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = planned(capsys, "--in-lab", "--cc", "dctcp,nine")
    assert (code, "there is no congestion control 'nine'" in err) == (2, True)


def test_one_that_a_kernel_of_the_user_lacks_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    store(SEVEN, RECORD, "seven")
    code, _, err = planned(capsys, "--in-lab", "--cc", "dctcp", "--kernel", "seven")
    assert (code, "there is no congestion control 'dctcp'" in err) == (2, True), err
