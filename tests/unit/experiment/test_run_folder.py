"""Cells to JSON and back, and run folders that survive a crash and take up work again."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from support.folders import CAPTURES
from support.made_results import cell_result, cell_spec, changed, execution
from support.spoilt_files import Spoil, spoils

from emulator.analysis.observed import CapturedFile
from emulator.errors import InputError
from emulator.experiment.cell_captures import CellCaptures
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.repeated_result import FORMAT
from emulator.experiment.result_migrations import migrated
from emulator.experiment.run_folder import Asked, Execution, NewerFormatError, RunFolder, run_folders, write_atomically
from emulator.hosts import tcp_profiles
from emulator.hosts.tools import workloads

MS = 10**6
ASKED = Asked((cell_spec(), cell_spec(rtt_ns=MS)), True, 1, 5)


def through_json(value: object) -> dict[str, object]:
    decoded = json.loads(json.dumps(value))
    assert isinstance(decoded, dict)
    return decoded


def test_a_spec_survives_json() -> None:
    for profile in (tcp_profiles.DEFAULT, tcp_profiles.maximum(10**10, 346 * MS)):
        spec = replace(cell_spec(), profile=profile)
        for written in (spec.to_json(), spec.for_lab()):
            assert CellSpec.from_json(through_json(written)) == spec


def test_a_result_survives_json() -> None:
    result = cell_result()
    assert CellResult.from_json(through_json(result.to_json())) == result
    unknowable = changed(result, drops_limit=None, invalid=("because",))
    assert CellResult.from_json(through_json(unknowable.to_json())) == unknowable


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


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run of two cells."""
    return RunFolder.create(tmp_path / "run", {"version": "1"}, ASKED)


def test_a_run_knows_what_was_asked_for(folder: RunFolder) -> None:
    assert RunFolder(folder.path).asked() == ASKED
    assert json.loads((folder.path / "run.json").read_text())["version"] == "1"


def test_what_is_saved_is_found_again(folder: RunFolder) -> None:
    done = execution(cell_spec())
    folder.save(done)
    assert RunFolder(folder.path).finished(ASKED) == {done.result.spec.id: done.result}
    assert json.loads((folder.path / "raw/lane-32ms-default-1.0.json").read_text()) == done.raw
    assert folder.machine() == {"cpus": 1}


def test_a_result_of_another_duration_does_not_count(folder: RunFolder) -> None:
    folder.save(execution(cell_spec()))
    assert folder.repeats(replace(cell_spec(), duration_s=11), 1) == []


def test_a_cell_is_finished_when_it_needs_no_more_repeats(folder: RunFolder) -> None:
    more = replace(ASKED, most_repeats=10)
    for repeat in range(3):
        assert (folder.finished(more), len(folder.measured(more))) == ({}, min(1, repeat))
        folder.save(execution(cell_spec().again(repeat)))
    assert list(folder.finished(more)) == [cell_spec().id]


def test_runs_are_listed(folder: RunFolder) -> None:
    (folder.path.parent / "notes").mkdir()
    assert run_folders(folder.path.parent) == [folder]


def test_a_cell_with_a_long_name_is_saved_and_found(folder: RunFolder) -> None:
    specs = [replace(cell_spec(), varied=(f"{'setting ' * 40}{number}",)) for number in range(2)]
    assert min(len(spec.id) for spec in specs) > 255
    for spec in specs:
        folder.save(Execution(cell_result(spec), {}))
        assert folder.repeats(spec, 1) == [cell_result(spec)]
    assert [len(spec.stem) for spec in specs] == [183, 183]
    assert specs[0].stem != specs[1].stem


def test_a_run_of_format_1_is_read(folder: RunFolder) -> None:
    old = json.loads((CAPTURES / "result-format-1.json").read_text())
    result = CellResult.from_json(migrated(old))
    assert (result.judgement.kind, result.spec.repeat, result.spec.direction) == ("send buffer", 0, "outbound")
    assert result.repeats == (result.steady_bytes_per_s,)
    (folder.path / f"cells/{result.spec.id}.json").write_text(json.dumps(old))
    assert folder.repeats(result.spec, 1) == [result]
    assert result.spec.workload == workloads.STREAMS
    assert CellResult.from_json(migrated(result.to_json() | {"format": FORMAT})) == result


def test_a_result_of_format_4_is_read() -> None:
    """It had no captures."""
    old = {key: value for key, value in cell_result().to_json().items() if key != "captures"} | {"format": 4}
    assert CellResult.from_json(migrated(through_json(old))) == cell_result()


def test_captures_stand_below_the_run_and_are_kept_for_every_repeat(folder: RunFolder) -> None:
    captures = CellCaptures(folder.path, 128)
    for repeat, steady in enumerate((100.0, 100.1, 100.2)):
        spec = cell_spec().again(repeat)
        made = captures.folder(spec)
        assert made == folder.path / "pcap" / f"{spec.id}.{repeat}"
        assert made.is_dir()
        done = execution(spec, steady * 2**20)
        file = CapturedFile("lane.outbound.in.pcapng", "ab", 3 + repeat, 0)
        folder.save(captures.placed(replace(done, result=replace(done.result, captures=(file,)))))
    more = replace(ASKED, most_repeats=3)
    (result,) = folder.measured(more).values()
    assert [(file.name, file.frames) for file in result.captures] == [
        (f"pcap/{cell_spec().id}.{n}/lane.outbound.in.pcapng", 3 + n) for n in range(3)
    ]


@pytest.mark.parametrize("snap_bytes", [None, 0, 128])
def test_a_run_remembers_what_it_captures(tmp_path: Path, snap_bytes: int | None) -> None:
    asked = replace(ASKED, snap_bytes=snap_bytes)
    assert RunFolder.create(tmp_path / "run", {}, asked).asked() == asked


def test_a_result_of_format_3_is_read() -> None:
    old = json.loads((CAPTURES / "result-format-3.json").read_text())
    assert CellResult.from_json(migrated(old)) == replace(
        cell_result(cell_spec()),
        transfer=replace(cell_result(cell_spec()).transfer, received_s=pytest.approx(10.69, 1e-3)),
    )


def test_both_directions_of_a_result_of_format_3_are_read() -> None:
    old = json.loads((CAPTURES / "result-format-3-both.json").read_text())
    result = CellResult.from_json(migrated(old))
    assert [(way.direction, way.throughput.steady_bytes_per_s) for way in result.ways] == [
        (way["direction"], way["steady_bytes_per_s"]) for way in old["ways"]
    ]
    assert [way.judgement.limiter for way in result.ways] == [way["limiter"] for way in old["ways"]]
    assert [len(way.transfer.intervals) for way in result.ways] == [2, 2]
    assert CellResult.from_json(through_json(result.to_json())) == result


def test_a_result_of_format_2_is_read() -> None:
    """It had no directions, and knew no busiest core."""
    newer = json.loads((CAPTURES / "result-format-3.json").read_text())
    old = {key: value for key, value in newer.items() if key not in ("ways", "core_percent")} | {"format": 2}
    assert CellResult.from_json(migrated(old)) == CellResult.from_json(migrated(newer))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"format": 1', "cannot be read, it is damaged or truncated: Expecting ',' delimiter"),
        ("[]", "cannot be read, it is damaged or truncated: 'list' object has no attribute 'get'"),
        ('{"format": 2}', "cannot be read as a result: 'spec'"),
    ],
)
def test_a_spoilt_result_is_named_and_measured_again(
    folder: RunFolder, text: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = folder.path / "cells" / f"{cell_spec().id}.0.json"
    file.write_text(text)
    assert folder.finished(ASKED) == {}
    (record,) = caplog.messages
    assert record.startswith(f"{file}: {said}")
    assert record.endswith("sweep --resume measures it again")


def test_a_result_of_a_newer_version_is_not_measured_again(folder: RunFolder) -> None:
    (folder.path / "cells" / f"{cell_spec().id}.0.json").write_text('{"format": 99}')
    with pytest.raises(InputError, match="has format 99; this version reads 1 to"):
        folder.finished(ASKED)


@given(st.sampled_from(["run.json", "machine.json", "cells/{}.0.json"]), spoils)
def test_no_spoilt_file_of_a_run_ends_in_a_traceback(name: str, spoil: Spoil) -> None:
    with tempfile.TemporaryDirectory() as parent:
        made = RunFolder.create(Path(parent) / "run", {}, ASKED)
        made.save(Execution(cell_result(), {"machine": {"kernel": "6.12"}}))
        spoil(made.path / name.format(cell_spec().id))
        for read in (made.facts, made.asked, made.machine, lambda: made.measured(ASKED)):
            with contextlib.suppress(InputError):
                read()
        if name.startswith("cells"):
            with contextlib.suppress(NewerFormatError):
                if not made.finished(ASKED):
                    made.save(Execution(cell_result(), {}))
                assert len(made.finished(ASKED)) == 1


def test_all_results_are_one_file(folder: RunFolder) -> None:
    folder.write_results([cell_result()])
    (cell,) = json.loads((folder.path / "results.json").read_text())["cells"]
    assert CellResult.from_json(cell) == cell_result()


def test_a_folder_that_is_there_or_cannot_be_is_an_input_error(folder: RunFolder) -> None:
    with pytest.raises(InputError, match="cannot create the run folder: File exists"):
        RunFolder.create(folder.path, {}, ASKED)
    with pytest.raises(InputError, match="cannot create the run folder: Not a directory"):
        RunFolder.create(folder.path / "run.json" / "run", {}, ASKED)
    with pytest.raises(InputError, match=r"cells: is not a run folder: it has no run\.json"):
        RunFolder(folder.path / "cells").asked()


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_atomically(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(file, "new \ud800")
    assert file.read_text() == "old"
    write_atomically(file, "new")
    assert file.read_text() == "new"
