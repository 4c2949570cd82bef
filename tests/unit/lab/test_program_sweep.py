"""A sweep of a program, by the command line, in real labs: a spinning program, a kill and a resume, frames."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.folders import ROOT
from support.waiting import PATIENCE_S, until

from emulator.cli import main
from emulator.experiment import sweep_runner

SWEEP = ("sweep", "--in-lab", "--tcp-profile", "default", "--rate", "100Mbit")
SERVED = ("--server", "exec python3 -m http.server 80", "--ready", "tcp:80", "--prepare", "head -c 100KB /dev/zero > f")
FETCH = """python3 -c 'import urllib.request as u; u.urlopen("http://{server}/f").read()'"""
Swept = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def swept(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Swept:
    monkeypatch.chdir(tmp_path)

    def run(*args: str) -> tuple[int, dict[str, Any]]:
        code = main.main([*SWEEP, *args, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


def test_a_program_that_spins_is_named_and_the_other_cells_are_measured(
    swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_runner, "LAB_STALL_CPU_S", 3)
    spin = "test {rtt_ms} -lt 20 || exec python3 -c 'while True: pass'"
    code, said = swept("--rtt", "10,20", "--client", spin, "--repeat", "1")
    assert code == 8
    assert [cell["spec"]["workload"]["program"]["client"] for cell in said["cells"]] == [spin]
    ((cell, failure),) = said["failures"].items()
    assert cell == "lane-20ms-default-test-100Mbit"
    assert "virtual clock stood still" in failure
    assert f"Wanting the CPU when it last moved: {cell} ({spin})" in failure


def test_two_boots_give_the_same_times_and_the_same_frames(swept: Swept) -> None:
    """With frames captured, whose hash stands in the result."""
    one, other = (swept("--rtt", "20", *SERVED, "--client", FETCH, "--repeat", "2", "--pcap")[1] for _ in range(2))
    (first,), (second,) = one["cells"], other["cells"]
    assert first == second
    assert len(first["captures"]) == 4
    assert all(file["frames"] for file in first["captures"])
    assert first["program"]["bytes"] > 100_000


def test_a_sweep_that_was_killed_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """kill -9 after the first cell: what was measured stays as it is, the rest is measured."""
    argv = [sys.executable, "-m", "emulator", *SWEEP, "--rtt", "10,20,30,40", *SERVED, "--client", FETCH]
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})  # one cell after the other: on many CPUs all four may end at once
    try:
        running = subprocess.Popen(
            argv, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    finally:
        os.sched_setaffinity(0, cpus)
    try:
        assert until(lambda: list(tmp_path.glob("runs/*/cells/*.json")), PATIENCE_S)
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    (folder,) = tmp_path.glob("runs/*")
    kept = {path: path.read_bytes() for path in folder.glob("cells/*.json")}
    assert len(kept) < 4
    assert main.main(["sweep", "--resume", str(folder), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["cells"]) == 4
    assert {path: path.read_bytes() for path in kept} == kept
