"""A cell over time by the API: measured and theory, both directions, repeats, and results of old formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace
from support import made_requests
from support.folders import ROOT
from support.made_results import MIB, cell_result, cell_spec, changed
from support.web_daemon import House, problem

from emulator.analysis.tcp_path import Interval
from emulator.analysis.transfer import SenderSample
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.result_migrations import migrated
from emulator.experiment.run_folder import Asked, Execution, RunFolder
from emulator.model.request_load import RequestLoad

RUN = "20260102-030405-000"
MS = 10**6
RATES = (1, 3, 9, 27, 30, 31)
WINDOWS = (2, 3, 4)


def kept(house: House, specs: list[CellSpec], results: list[Any], most_repeats: int = 1) -> RunFolder:
    """A run on disk, as the command line makes it."""
    folder = house.usecases.state_dir / "runs" / RUN
    made = RunFolder.create(folder, {"created": "2026-01-02"}, Asked(tuple(specs), True, most_repeats))
    for result in results:
        made.save(Execution(result, {}))
    return made


def over_time(house: House, cell: str) -> Any:
    """The answer about a cell."""
    answer = house.client.get(f"/api/runs/{RUN}/cells/{quote(cell)}")
    assert answer.status_code == 200, answer.text
    return answer.json


def rising(spec: CellSpec, factor: float = 1.0) -> CellResult:
    """A cell whose throughput rises as `RATES` in MiB/s, in intervals of 0.5 s, and then is cut short."""
    intervals = [Interval(n / 2, n / 2 + 0.5, round(rate * factor * MIB / 2)) for n, rate in enumerate(RATES)]
    ramp = tuple(SenderSample(n + 1.0, size * MIB, 80 * MS + n) for n, size in enumerate(WINDOWS))
    cut = Interval(3.0, 3.1, MIB)
    return changed(cell_result(spec, 30 * factor * MIB), intervals=(*intervals, cut), ramp=ramp, steady_from_s=2.0)


def test_what_was_measured_stands_beside_theory(house: House) -> None:
    spec = cell_spec(80 * MS)
    kept(house, [spec], [rising(spec)])
    found = over_time(house, spec.id)
    assert (found["run"], found["id"], found["rtt_ns"], found["repeats"]) == (RUN, spec.id, 80 * MS, 1)
    (way,) = found["directions"]
    intervals, ramp = way["intervals"], way["ramp"]
    assert intervals["start_s"] == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]  # the one that was cut short has no valid rate
    assert [rate / MIB for rate in intervals["bytes_per_s"]] == pytest.approx(list(RATES))
    assert intervals["expected_bytes_per_s"][:2] == pytest.approx([3.0 * MIB, 28.4 * MIB], rel=0.01)
    assert intervals["expected_bytes_per_s"][-1] == pytest.approx(way["ceiling"]["bytes_per_s"])
    assert way["ceiling"] == {"law": "send buffer", "bytes_per_s": 30 * MIB * 1.01, "named": True}
    assert ramp["cwnd_bytes"] == [size * MIB for size in WINDOWS]
    assert (ramp["end_s"], ramp["rtt_ns"]) == ([1.0, 2.0, 3.0], [80 * MS, 80 * MS + 1, 80 * MS + 2])
    # The send buffer is filled once in each round trip under load, which was 32.1 ms.
    assert ramp["expected_bytes"] == pytest.approx([30 * MIB * 1.01 * 0.0321] * 3)
    assert (way["steady_from_s"], way["steady_bytes_per_s"], way["untold"]) == (2.0, 30 * MIB, "")


def test_of_repeats_the_median_one_is_told_with_the_mean_of_all(house: House) -> None:
    spec = cell_spec(80 * MS)
    kept(house, [spec], [rising(spec.again(n), factor) for n, factor in enumerate((1.0, 1.02, 1.01))], 3)
    found = over_time(house, spec.id)
    (way,) = found["directions"]
    assert found["repeats"] == 3
    assert way["intervals"]["bytes_per_s"][0] == pytest.approx(1.01 * MIB, rel=1e-6)
    assert way["steady_bytes_per_s"] == pytest.approx(30 * 1.01 * MIB)


@pytest.mark.parametrize(("capture", "directions"), [("format-1", 1), ("format-3-both", 2)])
def test_a_result_of_an_old_format_has_no_ramp_and_says_so(house: House, capture: str, directions: int) -> None:
    old = json.loads((ROOT / f"tests/captures/result-{capture}.json").read_text())
    spec = CellResult.from_json(migrated(old)).spec
    folder = kept(house, [spec], [])
    (folder.path / f"cells/{spec.id}.0.json").write_text(json.dumps(old))
    found = over_time(house, spec.id)
    assert len(found["directions"]) == directions
    for way in found["directions"]:
        assert way["ramp"] == {"end_s": [], "cwnd_bytes": [], "expected_bytes": [], "rtt_ns": []}
        assert "an older version of Longhaul wrote it" in way["untold"]
        assert len(way["intervals"]["bytes_per_s"]) == 2


def test_a_result_of_format_3_has_its_ramp(house: House) -> None:
    old = json.loads((ROOT / "tests/captures/result-format-3.json").read_text())
    spec = CellResult.from_json(migrated(old)).spec
    folder = kept(house, [spec], [])
    (folder.path / f"cells/{spec.id}.0.json").write_text(json.dumps(old))
    (way,) = over_time(house, spec.id)["directions"]
    assert (way["ramp"]["cwnd_bytes"], way["untold"]) == ([2 * MIB, 3 * MIB], "")


def test_where_there_is_nothing_to_draw_the_reason_is_told(house: House, tmp_path: Path) -> None:
    requests = made_requests.result(RequestLoad(1))
    waiting = cell_spec(10 * MS)
    kept(house, [requests.spec, waiting], [requests])
    assert over_time(house, requests.spec.id)["untold"].startswith("Only a cell of streams")
    found = over_time(house, waiting.id)
    assert (found["untold"], found["directions"], found["repeats"]) == ("This cell is not measured yet.", [], 0)
    assert "no cell 'lane'" in problem(house.client.get(f"/api/runs/{RUN}/cells/lane"), 404)["detail"]
    problem(house.client.get(f"/api/runs/20260102-030405-001/cells/{waiting.id}"), 404)
    assert house.someone().get(f"/api/runs/{RUN}/cells/{waiting.id}").status_code == 401


def test_at_rtt_0_no_window_is_expected(house: House) -> None:
    spec = cell_spec(0)
    kept(house, [spec], [replace(rising(spec), sockets=None)])
    (way,) = over_time(house, spec.id)["directions"]
    assert (way["slow_start_s"], way["ramp"]["expected_bytes"]) == (0.0, [None] * 3)
