"""A sweep that names a congestion control of Linux which the standard kernel lacks gets the kernel that has it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.stored_kernels import RECORD, SEVEN, store

from emulator.cli import main
from emulator.experiment import lab_programs
from emulator.experiment.sweep_runner import LAB_ALGORITHMS
from emulator.lab import build_kernel
from emulator.lab.lab_root import RootChoice

CELL = ("--rtt", "20", "--rate", "100Mbit")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def planned(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    code = main.main(["sweep", *CELL, *options, "--dry-run", "--json"])
    return code, *capsys.readouterr()


def test_the_names_are_those_that_the_configurations_build_in() -> None:
    assert build_kernel.congestion_controls(build_kernel.STANDARD) == tuple(sorted(LAB_ALGORITHMS))
    further = lab_programs.further_controls()
    assert not set(LAB_ALGORITHMS) & set(further)
    assert {"cdg", "dctcp", "highspeed", "vegas", "yeah"} < set(further)


@pytest.mark.parametrize("name", lab_programs.further_controls())
def test_each_is_one_of_the_axis_and_of_contests(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert planned(capsys, "--in-lab", "--cc", f"{name},cubic")[0] == 0
    code, out, _ = planned(capsys, "--in-lab", "--pairs", f"{name},cubic")
    assert (code, len(json.loads(out)["cells"])) == (0, 5)


def test_one_that_linux_does_not_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = planned(capsys, "--in-lab", "--cc", "dctcp,nine")
    assert (code, "there is no congestion control 'nine'" in err) == (2, True)


def test_a_configuration_and_a_built_kernel_of_the_user_stay(capsys: pytest.CaptureFixture[str]) -> None:
    store(SEVEN, RECORD, "seven")
    for options in (["--kernel", "seven"], ["--kernel-config", "full"], ["--kernel-config", "standard"]):
        code, _, err = planned(capsys, "--in-lab", "--cc", "dctcp", *options)
        assert (code, "there is no congestion control 'dctcp'" in err) == (2, True), err


@pytest.mark.parametrize(
    ("choice", "wanted", "config"),
    [
        (RootChoice(), ["cubic", "dctcp"], "all-cc"),
        (RootChoice(), ["cubic", "htcp"], ""),
        (RootChoice(kernel="7.2"), ["vegas"], "all-cc"),
        (RootChoice(kernels=(("6.12", "6.12"), ("7.2", "7.2"))), ["vegas"], "all-cc"),
        (RootChoice(packages=("nftables",)), ["vegas"], ""),
        (RootChoice(kernel_config="standard"), ["vegas"], "standard"),
    ],
)
def test_which_configuration_the_labs_get(choice: RootChoice, wanted: list[str], config: str) -> None:
    assert lab_programs.with_controls(wanted, choice).kernel_config == config
