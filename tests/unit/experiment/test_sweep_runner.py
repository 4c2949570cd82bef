"""Sweeps without a kernel: repeats, resuming after a kill, failures, the order, and what a lab may answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from msgspec.structs import replace
from support.made_results import MIB, MS, cell_spec, changed, execution

from emulator.errors import LabStalled, MeasureError, MissingError
from emulator.experiment import sweep_runner
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Asked, Execution, RunFolder
from emulator.lab import boot

SPECS = [cell_spec(rtt_ns=n * MS) for n in range(1, 5)]


class Scripted:
    """A runner whose figures are given: the same for every cell, one after another for its repeats."""

    def __init__(self, *mib: float, dies_after: int = 1000) -> None:
        self.mib, self.dies_after = mib, dies_after
        self.calls: list[tuple[str, int, int]] = []

    def __call__(self, spec: CellSpec) -> Execution:
        if len(self.calls) == self.dies_after:
            raise MissingError("killed")
        self.calls.append((spec.id, spec.repeat, spec.topology.seed))
        return execution(spec, self.mib[spec.repeat % len(self.mib)] * MIB)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", {}, Asked(tuple(SPECS), True, 10, 7))


def run(
    folder: RunFolder, runner: sweep_runner.Runner, specs: Sequence[CellSpec] = SPECS, most: int = 10
) -> list[sweep_runner.Outcome]:
    return list(sweep_runner.run_cells(specs, folder, runner, 1, lambda _: None, most))


def test_three_repeats_are_enough_when_they_agree(folder: RunFolder) -> None:
    runner = Scripted(100.0, 100.2, 99.8)
    (outcome,) = run(folder, runner, SPECS[:1])
    assert [call[1:] for call in runner.calls] == [(0, 1), (1, 2), (2, 3)], "every repeat has a seed of its own"
    assert outcome.result is not None
    assert outcome.result.steady_bytes_per_s == pytest.approx(100 * MIB)
    assert outcome.result.repeats == (100.0 * MIB, 100.2 * MIB, 99.8 * MIB)
    assert outcome.result.unsure == ""


def test_repeats_go_on_to_the_limit_which_is_then_said(folder: RunFolder) -> None:
    runner = Scripted(100.0, 80.0, 120.0)
    (outcome,) = run(folder, runner, SPECS[:1], most=6)
    assert len(runner.calls) == 6
    assert outcome.result is not None
    assert outcome.result.unsure == "after 6 repeats the mean is only known to 29.4% (99 % confidence)"


def test_a_killed_sweep_goes_on_without_losing_a_repeat(folder: RunFolder) -> None:
    whole = run(RunFolder.create(folder.path.with_name("whole"), {}, folder.asked()), Scripted(100.0))
    first, second = Scripted(100.0, dies_after=5), Scripted(100.0)
    with pytest.raises(MissingError):
        run(folder, first)
    again = RunFolder(folder.path)
    assert list(again.finished(again.asked())) == [SPECS[0].id]
    resumed = run(again, second)
    calls = [call[:2] for call in first.calls + second.calls]
    assert len(calls) == len(set(calls)) == 12
    assert [outcome.result for outcome in resumed] == [outcome.result for outcome in whole]


def test_a_cell_that_fails_does_not_stop_the_others(folder: RunFolder) -> None:
    def runner(spec: CellSpec) -> Execution:
        if spec == SPECS[1]:
            raise MeasureError(f"{spec.id}: iperf3: unable to connect")
        if spec == SPECS[2]:
            raise LabStalled("the clock stood still")
        return execution(spec)

    outcomes = {outcome.spec.id: outcome for outcome in run(folder, runner, most=1)}
    assert [outcomes[spec.id].failure for spec in SPECS] == [
        "",
        "iperf3: unable to connect",
        "the clock stood still",
        "",
    ]


@pytest.mark.parametrize(
    ("counted", "cure"),
    [(False, "; or let computing take time: --clock counted"), (True, "")],
    ids=["network", "counted"],
)
def test_a_lab_that_stalls_is_told_by_the_cells_name_once_and_with_what_a_sweep_has(
    monkeypatch: pytest.MonkeyPatch, counted: bool, cure: str
) -> None:
    def capture(argv: list[str], *_: object) -> NoReturn:
        command = " ".join(argv)
        raise LabStalled(f"{command}: it stood still.\nWanting the CPU: {command}.\nIt must sleep; {boot.INSTEAD}")

    monkeypatch.setattr(boot, "built", lambda **_: None)
    monkeypatch.setattr(boot, "capture", capture)
    monkeypatch.setattr("emulator.experiment.lab_programs.environment", lambda *_: {})
    spec = replace(SPECS[0], counted=counted)
    with pytest.raises(LabStalled) as error:
        sweep_runner.lab_answer(spec)
    name = spec.id
    assert str(error.value) == f"{name}: it stood still.\nWanting the CPU: {name}.\nIt must sleep{cure}"


def test_after_a_stop_the_repeat_at_work_is_the_last(folder: RunFolder) -> None:
    stop = threading.Event()

    def runner(spec: CellSpec) -> Execution:
        stop.set()
        return execution(spec)

    with pytest.raises(sweep_runner.Stopped):
        sweep_runner.measure_cell(SPECS[0], folder, runner, 10, stop)
    assert len(folder.repeats(SPECS[0], 10)) == 1


def test_the_order_is_random_and_that_of_its_seed() -> None:
    many = [cell_spec(rtt_ns=n * MS) for n in range(40)]
    assert sweep_runner.in_order(many, 7) == sweep_runner.in_order(many, 7) != sweep_runner.in_order(many, 8)
    assert sorted(sweep_runner.in_order(many, 7), key=lambda spec: spec.lane.rtt_ns) == many


def test_in_labs_the_longest_go_first() -> None:
    many = [replace(cell_spec(), duration_s=seconds) for seconds in (10, 40, 19, 10)]
    assert [spec.duration_s for spec in sweep_runner.in_order(many, 7, in_lab=True)] == [40, 19, 10, 10]


def test_what_a_lab_answers() -> None:
    done = replace(execution(SPECS[0]), files={"client/run-0/log.txt": b"\x00\xff"})
    text = json.dumps(
        {"result": done.result.to_json(), "raw": done.raw, "files": {"client/run-0/log.txt": "AP8="}}
    ).encode()
    assert sweep_runner.read_answer(SPECS[0], b"noise\n" + text + b"\n", b"") == done


@pytest.mark.parametrize(
    ("stdout", "stderr", "said"),
    [
        (b'{"error": "ping failed", "kind": "MeasureError"}', b"", "lane-1ms-default-1: ping failed"),
        (b"", b"Traceback\nKeyError: 'x'\n", "lane-1ms-default-1: the cell printed no result, but: KeyError: 'x'"),
        (b"", b"", "lane-1ms-default-1: the cell printed no result, but: nothing"),
    ],
)
def test_a_lab_that_fails_is_named(stdout: bytes, stderr: bytes, said: str) -> None:
    with pytest.raises(MeasureError) as error:
        sweep_runner.read_answer(SPECS[0], stdout, stderr)
    assert str(error.value) == said


def test_the_outputs_of_a_program_that_failed_are_notes() -> None:
    answer = {"error": "scp ended with 1", "kind": "MeasureError", "notes": ["its stderr:\nno route"]}
    with pytest.raises(MeasureError) as error:
        sweep_runner.read_answer(SPECS[0], json.dumps(answer).encode(), b"")
    assert error.value.__notes__ == ["its stderr:\nno route"]


def test_large_pipes_get_large_labs() -> None:
    assert sweep_runner.lab_memory_bytes(SPECS[0]) == 8 << 30
    assert sweep_runner.lab_memory_bytes(replace(cell_spec(rtt_ns=1000 * MS))) == 19 << 30
    assert sweep_runner.lab_memory_bytes(replace(cell_spec(rtt_ns=100_000 * MS))) == 128 << 30


def test_merged_repeats_keep_what_speaks_against_any(folder: RunFolder) -> None:
    def runner(spec: CellSpec) -> Execution:
        done = execution(spec)
        spoilt: CellResult = changed(
            done.result, invalid=("drops",) if spec.repeat == 1 else (), settled=spec.repeat != 2
        )
        return replace(done, result=spoilt)

    (outcome,) = run(folder, runner, SPECS[:1])
    assert outcome.result is not None
    assert (outcome.result.judgement.invalid, outcome.result.throughput.settled) == (("drops",), False)
