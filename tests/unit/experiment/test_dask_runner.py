"""Sweeps by a Dask cluster of real processes on loopback: the same bytes as from labs here, and what may be missing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.dask_clusters import cluster
from support.made_results import MS, cell_spec

from emulator.cli import main
from emulator.errors import MeasureError, MissingError
from emulator.experiment import dask_runner, grid, sweep_runner
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Asked, RunFolder


def cheap(name: str, rtt_ns: int) -> CellSpec:
    """A second at 10 Mbit/s."""
    spec = cell_spec(rtt_ns, name=name)
    lane = grid.with_bottleneck(spec.lane, 10**7)
    return replace(spec, topology=replace(spec.topology, lanes=(lane,)), duration_s=1)


SPECS = [cheap("near", 2 * MS), cheap("far", 20 * MS)]


def swept(folder: Path, runner: sweep_runner.Runner, workers: int) -> dict[str, bytes]:
    """All that a sweep leaves, by file name."""
    run = RunFolder.create(folder, {}, Asked(tuple(SPECS), True))
    outcomes = list(sweep_runner.run_cells(SPECS, run, runner, workers, lambda _: None))
    assert [outcome.failure for outcome in outcomes] == ["", ""]
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.json")}


def test_two_workers_leave_the_same_bytes_as_one_lab_after_another(tmp_path: Path) -> None:
    here = swept(tmp_path / "here", sweep_runner.in_lab(sweep_runner.cpus()[:1]), 1)
    with cluster(tmp_path, 2) as address, dask_runner.farm(address) as (runner, workers):
        assert workers == 2
        there = swept(tmp_path / "there", runner, workers)
    assert len(here) == 6
    assert here == there


def test_a_cluster_of_its_own_runs_a_lab_on_every_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(spec: CellSpec, **_: object) -> tuple[bytes, bytes]:
        raise MissingError(f"no lab for {spec.id} here")

    monkeypatch.setattr(sweep_runner, "lab_answer", refused)
    with dask_runner.farm(dask_runner.LOCAL) as (runner, workers):
        assert workers == len(sweep_runner.cpus())
        with pytest.raises(MissingError, match=r"^no lab for near-2ms-default-1-10Mbit here$"):
            runner(SPECS[0])
        monkeypatch.setattr(sweep_runner, "lab_answer", lambda *_, **__: 1 / 0)
        with pytest.raises(MissingError, match="could not measure near-2ms-default-1-10Mbit: ZeroDivisionError"):
            runner(SPECS[0])


class Waiting:
    """A cluster that has so many workers each time when somebody looks, and answers when there are no more numbers."""

    def __init__(self, *workers: int) -> None:
        self.workers = [{f"tcp://worker:{number}": 1 for number in range(count)} for count in workers]

    def submit(self, *_: object, **__: object) -> Waiting:
        return self

    def result(self, timeout: float) -> tuple[bytes, bytes]:
        if self.workers:
            raise TimeoutError
        return b'{"error": "answered"}', b""

    def done(self) -> bool:
        return False

    def nthreads(self) -> dict[str, int]:
        return self.workers.pop(0)


def test_a_cluster_that_has_lost_all_its_workers_is_told() -> None:
    left: Any = Waiting(1, *[0] * 20)
    with pytest.raises(MissingError, match=r"^tcp://it:1 has no workers any more: start some with dask .* --resume$"):
        dask_runner._runner(left, sweep_runner.IMAGE, "tcp://it:1")(SPECS[0])
    assert len(left.workers) == 8, "after a minute"


def test_workers_that_are_started_anew_go_on() -> None:
    anew: Any = Waiting(1, *[0] * 11, 1, *[0] * 11, 2)
    with pytest.raises(MeasureError, match="answered"):
        dask_runner._runner(anew, sweep_runner.IMAGE, "tcp://it:1")(SPECS[0])


def test_workers_of_another_version_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingError, match=r"a worker has Longhaul .*, this is 0.0: install the same one there"):
        dask_runner._answer("0.0", "{}", "{}")


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingError, match="pip install distributed"), dask_runner.farm("tcp://127.0.0.1:1"):
        pass


def test_a_scheduler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_runner, "_PATIENCE_S", 0.1)
    with (
        pytest.raises(MissingError, match=r"no Dask scheduler answers at tcp://127.0.0.1:1 .*: start one with dask"),
        dask_runner.farm("tcp://127.0.0.1:1"),
    ):
        pass


def test_a_run_without_labs_cannot_be_farmed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunFolder.create(tmp_path / "run", {}, Asked(tuple(SPECS), False))
    assert main.main(["sweep", "--resume", str(run.path), "--scheduler", "local"]) == 2
    assert "this run measures on one machine itself" in capsys.readouterr().err
