"""Groups of flows on the command line and in topology files: which cells they make, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.cli.main import main
from emulator.config import loader
from emulator.experiment import grid
from emulator.experiment.cell_spec import CellSpec
from emulator.hosts.flows.workload import FlowsWorkload
from emulator.model.flow_group import Contest
from emulator.model.sweep_axes import Axes
from emulator.model.topology import Lane, Topology

FILE = """
name: one
hub: hub
defaults: {rate: 1Gbit}
lanes:
  far: {rtt: 20ms}
sweep:
  rtt: [20ms, 100ms]
  workload:
    against: [ "cubic:1, bbr:2", "reno:1:stop=10s" ]
"""
MS = 10**6
LAB = ("sweep", "--in-lab", "--rtt", "20", "--rate", "1Gbit")


def planned(capsys: pytest.CaptureFixture[str], *argv: str) -> list[dict[str, Any]]:
    """The cells of a dry run."""
    assert main([*argv, "--dry-run", "--json"]) == 0
    cells: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["cells"]
    return cells


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main([*argv, "--dry-run"]) != 0
    return capsys.readouterr().err


def test_every_contest_and_each_group_alone(capsys: pytest.CaptureFixture[str]) -> None:
    cells = planned(capsys, *LAB, "--against", "cubic:1,bbr:2", "--against", "reno:1")
    assert [cell["groups"] for cell in cells] == [["cubic:1", "bbr:2"], ["reno:1"], ["cubic:1"], ["bbr:2"]]
    assert [cell["duration_s"] for cell in cells] == [60] * 4
    assert cells[0]["id"] == "lane-20ms-max-cubic1-vs-bbr2-1Gbit", "the buffers of max limit no flow"


def test_every_pair_of_a_set(capsys: pytest.CaptureFixture[str]) -> None:
    cells = planned(capsys, *LAB, "--pairs", "cubic,bbr,reno", "--duration", "20s")
    assert len([cell for cell in cells if len(cell["groups"]) == 2]) == 6
    assert len(cells) == 9
    assert {cell["duration_s"] for cell in cells} == {20}


def test_a_files_contests_and_options_that_replace_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (file := tmp_path / "one.yaml").write_text(FILE)
    cells = planned(capsys, "sweep", "--in-lab", str(file))
    assert [cell["groups"] for cell in cells][:4] == [["cubic:1", "bbr:2"], ["reno:1:stop=10s"], ["cubic:1"], ["bbr:2"]]
    assert len(cells) == 8
    assert [cell["groups"] for cell in planned(capsys, "sweep", "--in-lab", str(file), "--against", "htcp:1")] == [
        ["htcp:1"]
    ] * 2
    (pairs := tmp_path / "pairs.yaml").write_text(FILE.split("    against")[0] + "    pairs: [cubic, bbr]\n")
    assert len(planned(capsys, "sweep", "--in-lab", str(pairs))) == 10


def test_three_measurements_of_a_cell_at_most(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*LAB, "--against", "cubic:1", "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["most_repeats"] == 3


@pytest.mark.parametrize("text", ["cubic:1", "cubic:1,bbr:4"])
def test_the_buffers_have_room_for_a_window_that_overfills_the_queue(text: str) -> None:
    """1 Gbit/s over 20 ms, with a buffer of one BDP: a flow that waits for a buffer would not meet the queue's end."""
    axes = grid.for_flows(Axes(rtt=(20_000_000,), rate=(10**9,)))
    base = Topology("one", "hub", (Lane("far"),))
    (spec,) = grid.cells(base, axes, {}, loads=[FlowsWorkload(Contest.parse(text))])
    bdp = 2_500_000
    assert (spec.path.bdp_bytes, spec.path.buffer_bytes) == (bdp, None)
    assert min(spec.buffers.receive_bytes, spec.buffers.send_bytes) / 2 > bdp + bdp
    assert grid.for_flows(Axes(window=(10**6,))).tcp_profile == ()


def test_a_group_with_an_rtt_of_its_own_has_a_further_site() -> None:
    base = Topology("one", "hub", (Lane("first"), Lane("far")))
    axes = Axes(rtt=(20 * MS,), rate=(10**9,), lane=("far",))
    (spec,) = grid.cells(
        base, grid.for_flows(axes), {}, loads=[FlowsWorkload(Contest.parse("reno:1,reno:1:rtt=346ms"))]
    )
    assert [(lane.name, lane.rtt_ns) for lane in spec.topology.lanes] == [("far", 20 * MS), ("group-2", 326 * MS)]
    assert spec.topology.rtt_ns("group-2", "far") == 346 * MS
    assert spec.lane.outbound.rate_bps == 10**9
    assert spec.topology.lane("group-2").inbound.rate_bps is None, "only the lane that all share is a bottleneck"
    assert spec.duration_s == 139
    assert spec.buffers.receive_bytes > 2 * 10**9 * 0.346 / 8
    assert CellSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--against", "cubic:0"], "--against: 'cubic:0': 0 flows are not within 1..256"),
        (["--against", "cubic:1,prague:1"], "--against: there is no congestion control 'prague': use bbr, bic, cdg"),
        (["--pairs", "cubic,prague"], "--pairs: there is no congestion control 'prague'"),
        (["--pairs", "cubic,"], "--pairs: '' is not the name of a congestion control"),
        (["--against", "cubic:1", "--cc", "bbr"], "each group names its own congestion control: remove cc"),
        (["--against", "cubic:1", "--streams", "2"], "groups have flows instead of streams: remove streams"),
        (["--against", "cubic:1", "--direction", "both"], "groups of flows have one direction"),
        (["--against", "cubic:1", "--connections", "2"], "--connections is there too: use one of them"),
        (["--pairs", "cubic", "--client", "true"], "--client is there too: use one of them"),
        (
            ["--against", "cubic:1:rtt=20ms"],
            "its RTT is not above the lane's, which is 20 ms: use a longer one, or none",
        ),
        (["--against", "cubic:1:rtt=30ms", "--direction", "inbound"], "use direction outbound"),
        (["--against", "cubic:1:start=10s", "--duration", "10s"], "starts or stops after the end of the measurement"),
        (["--against", "cubic:1:stop=11s", "--duration", "10s"], "starts or stops after the end of the measurement"),
    ],
)
def test_what_is_refused(capsys: pytest.CaptureFixture[str], options: list[str], told: str) -> None:
    assert told in refused(capsys, *LAB, *options)


@pytest.mark.parametrize(
    ("workload", "told"),
    [
        ("{against: 'cubic:0'}", "one.yaml:9: sweep.workload.against: 'cubic:0': 0 flows are not within"),
        ("{against: [[cubic]]}", "this is neither a text nor a list of texts: use cubic:1,bbr:1"),
        ("{pairs: cubic, client: ls}", "workload.client is there too: use one of them"),
        ("{against: cubic, requests: {}}", "workload.requests is there too: use one of them"),
    ],
)
def test_mistakes_of_a_file_stand_at_their_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, workload: str, told: str
) -> None:
    (file := tmp_path / "one.yaml").write_text(FILE.split("  workload:")[0] + f"  workload: {workload}\n")
    assert told in refused(capsys, "sweep", "--in-lab", str(file))


def test_the_axes_of_a_lane_stand_in_a_file_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (file := tmp_path / "one.yaml").write_text(
        FILE.replace("sweep:", "sweep:\n  buffer: [0.25bdp, 100p]\n  aqm: codel")
    )
    cells = planned(capsys, "sweep", "--in-lab", str(file))
    assert len(cells) == 16
    assert [cell["id"].partition("1Gbit-")[2] for cell in cells[:8:4]] == ["buffer0.25bdp-codel", "buffer100p-codel"]


def test_a_text_of_a_file_survives_reading(tmp_path: Path) -> None:
    (file := tmp_path / "one.yaml").write_text(FILE)
    section, lines = loader.load_sweep(file)
    assert [str(one) for one in section["workload"]["against"]] == ["cubic:1,bbr:2", "reno:1:stop=10s"]
    assert lines["workload.against"].endswith("one.yaml:10")


def test_a_subnet_without_room_for_a_further_site(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (file := tmp_path / "one.yaml").write_text(FILE.split("sweep:")[0] + "subnet: 10.9.9.0/30\n")
    told = refused(capsys, "sweep", "--in-lab", str(file), "--against", "cubic:1,bbr:1:rtt=1s")
    assert "the subnet 10.9.9.0/30 has no free address for group-2: use a larger one" in told
