"""Cells to JSON and back, and run folders that survive a crash and take up work again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from samples import cell_result, cell_spec

from emulator.errors import InputError
from emulator.hosts import profiles
from emulator.results import CellResult, CellSpec, RunFolder, write_atomically

MS = 10**6


def through_json(value: object) -> dict[str, object]:
    decoded = json.loads(json.dumps(value))
    assert isinstance(decoded, dict)
    return decoded


def test_a_spec_survives_json() -> None:
    for profile in (profiles.DEFAULT, profiles.maximum(10**10, 346 * MS)):
        spec = replace(cell_spec(), profile=profile)
        assert CellSpec.from_json(through_json(spec.to_json())) == spec


def test_a_result_survives_json() -> None:
    result = cell_result()
    assert CellResult.from_json(through_json(result.to_json())) == result
    unknowable = replace(result, drops_limit=None, invalid=("because",))
    assert CellResult.from_json(through_json(unknowable.to_json())) == unknowable


def test_results_of_another_format_are_refused() -> None:
    with pytest.raises(InputError, match="results of format 99; this version reads 1"):
        CellResult.from_json(cell_result().to_json() | {"format": 99})


def test_a_spec_knows_its_path_its_column_and_its_file() -> None:
    spec = cell_spec(rtt_ns=1_500_000, streams=8, congestion_control="bbr")
    assert (spec.path.rate_bps, spec.path.rtt_ns, spec.path.congestion_control) == (10**10, 1_500_000, "bbr")
    assert spec.column == "default, 8 streams, bbr"
    assert spec.id == "lane-1.5ms-default-8-bbr"


def test_a_path_needs_a_bottleneck() -> None:
    spec = cell_spec()
    lane = replace(spec.lane, outbound=replace(spec.lane.outbound, rate_bps=None))
    with pytest.raises(ValueError, match="lane lane has no rate"):
        _ = replace(spec, topology=replace(spec.topology, lanes=(lane,))).path


def test_what_is_saved_is_found_again(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", {"asked": 1})
    result, other = cell_result(), cell_spec(rtt_ns=MS)
    folder.save(result)
    again = RunFolder.create(tmp_path / "run", {"asked": 2})
    assert again.finished([result.spec, other]) == {result.spec.id: result}
    assert json.loads((tmp_path / "run/run.json").read_text()) == {"format": 1, "asked": 1}


def test_a_result_of_another_duration_does_not_count(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, {})
    folder.save(cell_result())
    assert folder.finished([replace(cell_spec(), duration_s=11)]) == {}


def test_a_spoilt_result_is_named(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, {})
    (tmp_path / "cells" / f"{cell_spec().id}.json").write_text('{"format": 1')
    with pytest.raises(InputError, match=r"lane-32ms-default-1.json: cannot be read as a result: .*; delete it"):
        folder.finished([cell_spec()])


def test_all_results_are_one_file(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, {}).write_results([cell_result()])
    (cell,) = json.loads((tmp_path / "results.json").read_text())["cells"]
    assert CellResult.from_json(cell) == cell_result()


def test_a_folder_that_cannot_be_made_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="the run folder cannot be made: Not a directory"):
        RunFolder.create(tmp_path / "file" / "run", {})


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_atomically(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(file, "new \ud800")
    assert file.read_text() == "old"
    write_atomically(file, "new")
    assert file.read_text() == "new"
