"""report, compare and runs over run folders that are whole, of an older format, of a newer one, half, or foreign."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.made_results import MS, cell_spec, execution

from emulator.cli import main
from emulator.experiment.run_folder import Asked, RunFolder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run of two cells, the second not measured yet."""
    monkeypatch.chdir(tmp_path)
    asked = Asked((cell_spec(), cell_spec(rtt_ns=MS)), True, 1, 5)
    folder = RunFolder.create(Path("runs/one"), {"created": "2026-01-02"}, asked)
    folder.save(execution(cell_spec()))
    return folder


def said(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main.main(list(args))
    return code, *capsys.readouterr()


def rewrite(file: Path, **changed: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))


def test_a_run_that_is_not_finished_is_told_so_far(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capsys, "report", "runs/one", "--format", "md")
    assert code == 0
    assert "| RTT | default, 1 stream |\n| ---: | ---: |\n| 32 ms | 87.5 (0.734) |\n| 1 ms | - |\n" in out
    assert "\n\n## Summary\n\n- 1 of 2 cells were measured, each once; none of them invalid.\n" in out
    assert "## Problems of this run" not in out
    assert said(capsys, "compare", "runs/one", "runs/one")[0] == 0


def test_a_run_of_format_1_is_told(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    file = run.path / "run.json"
    value = json.loads(file.read_text())
    for name in ("most_repeats", "order_seed"):
        del value[name]
    for cell in value["cells"]:
        del cell["direction"], cell["repeat"]
    file.write_text(json.dumps(value | {"format": 1}))
    code, out, _ = said(capsys, "report", "runs/one", "--format", "json")
    assert (code, len(json.loads(out)["cells"])) == (0, 1)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"format": 7, "cells": []}', "has format 7; this version reads 1 to 6: use the Longhaul that wrote it, or"),
        ('{"format": 2, "cel', "cannot be read, it is damaged or truncated: Unterminated string"),
        ('{"format": 2}', "cannot be read as a run: 'cells'"),
    ],
)
@pytest.mark.parametrize("command", [["report"], ["compare", "runs/one"], ["sweep", "--resume"]])
def test_a_run_that_cannot_be_read_is_refused(
    run: RunFolder, capsys: pytest.CaptureFixture[str], command: list[str], text: str, why: str
) -> None:
    (run.path / "run.json").write_text(text)
    code, out, err = said(capsys, *command, "runs/one")
    assert (code, out) == (2, "")
    assert err.startswith(f"runs/one/run.json: {why}")


def test_one_spoilt_run_does_not_hide_the_others(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    other = RunFolder.create(Path("runs/two"), {"created": "2026-01-03"}, Asked((cell_spec(),), True))
    rewrite(other.path / "run.json", format=7)
    code, out, err = said(capsys, "runs")
    assert (code, out.splitlines()) == (
        0,
        [
            "run       name  created     cells  measured  invalid",
            "runs/one        2026-01-02      2         1        0",
            "runs/two        -               -         -        -",
        ],
    )
    assert err.startswith("runs/two/run.json: has format 7")
    listed = json.loads(said(capsys, "runs", "--json")[1])
    assert [(row["measured"], bool(row["trouble"])) for row in listed] == [(1, False), (None, True)]


def test_a_cell_that_failed_in_the_other_run_is_absent(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    run.save(execution(cell_spec(rtt_ns=MS)))
    other = RunFolder.create(Path("runs/two"), {}, run.asked())
    name, other_name = cell_spec().id, cell_spec(rtt_ns=MS).id
    why = "runs/two has no result of it: it failed, or the run was ended"
    said_of = [f"ABSENT: {name}: {why}\n", f"ABSENT: {other_name}: {why}\n"]
    code, _, err = said(capsys, "compare", "runs/one", "runs/two")
    assert (code, err) == (8, "".join(said_of))
    other.save(execution(cell_spec()))
    code, out, err = said(capsys, "compare", "runs/one", "runs/two")
    assert (code, f"{name} " in out, err) == (8, True, said_of[1])
    code, out, _ = said(capsys, "compare", "runs/one", "runs/two", "--json")
    assert (code, json.loads(out)["absent"]) == (8, [{"run": "runs/two", "cell": other_name}])
    assert said(capsys, "compare", "runs/two", "runs/one")[0] == 0


def test_a_cell_that_failed_on_another_kernel_is_absent(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    specs = [replace(cell_spec(), kernel=kernel) for kernel in ("6.12", "7.2", "mine")]
    several = RunFolder.create(Path("runs/two"), {}, Asked(tuple(specs), True))
    for spec in specs[:2]:
        several.save(execution(spec))
    code, out, err = said(capsys, "compare", "runs/two")
    assert (code, "6.12 -> 7.2\n" in out) == (8, True)
    assert err == f"ABSENT: {cell_spec().id}: mine has no result of it: it failed, or the run was ended\n"


def test_runs_of_other_cells_are_not_compared(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    other = RunFolder.create(Path("runs/two"), {}, Asked((cell_spec(rtt_ns=7),), True))
    other.save(execution(cell_spec(rtt_ns=7)))
    assert said(capsys, "compare", "runs/one", "runs/two") == (2, "", "runs/two: has no cell in common with runs/one\n")


def test_a_baseline_of_other_cells_is_refused_before_anything_is_measured(
    run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(capsys, "sweep", "--in-lab", "--rtt", "80", "--baseline", "runs/one")
    assert (code, out, err) == (2, "", "--baseline: runs/one: this run has no cell in common with the sweep\n")
    assert [path.name for path in Path("runs").iterdir()] == ["one"]
