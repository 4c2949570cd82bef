"""Runs of groups of flows by the API: what a request may say, which cells it makes, and what the answer tells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict
from support import made_flows
from support.web_daemon import House, problem, until

from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.flows_result import contest_of
from emulator.experiment.run_folder import Execution

ASKED = {
    "rtt": ["20ms"], "rate": "10Gbit", "in_lab": True, "workload": {"against": ["cubic:1,bbr:2", "reno:1"]},
    "buffer": ["0.25bdp", "1bdp"],
}  # fmt: skip


def run(spec: CellSpec) -> Execution:
    """Flows that share the line evenly."""
    contest = contest_of(spec)
    flows = sum(group.flows for group in contest.groups)
    rows = made_flows.rows_of([[1 / flows] * group.flows for group in contest.groups], 60)
    made = made_flows.result(str(contest), [[1 / flows] * group.flows for group in contest.groups], spec.lane.rtt_ns)
    found = made_flows.figures(contest, rows, spec.lane.rtt_ns, least_trip_us=spec.lane.rtt_ns // 1000)
    values: dict[str, Any] = {**asdict(made), "spec": spec, "flows": found}
    return Execution(type(made)(**values), {})


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, runner=run)


def mistakes(house: House, **said: Any) -> list[tuple[str, str]]:
    told = problem(house.client.post("/api/runs?dry_run=1", json=ASKED | said), 422)
    return [(one["path"], one["text"]) for one in told["mistakes"]]


def test_a_run_tells_what_all_groups_got_and_who_got_what(house: House) -> None:
    name = house.client.post("/api/runs", json=ASKED).json["id"]
    done = until(house, name, lambda run: run["state"] == "done")
    assert (done["total"], done["workload"], done["request_columns"], done["laws"]) == (8, None, [], [])
    first = done["cells"][0]
    assert first["id"] == "lane-20ms-max-cubic1-vs-bbr2-buffer0.25bdp"
    assert first["column"] == "max, 1 cubic against 2 bbr, buffer 0.25 bdp"
    assert first["steady_bytes_per_s"] == pytest.approx(made_flows.LINE)
    assert (first["limiter"], first["settled"], first["invalid"]) == ("fair shares", True, [])
    assert "of its fair share each group has: cubic 1.00, bbr 1.00" in first["evidence"]
    assert first["shares"] == "33% : 67%, J 1.000"
    alone, columns = done["cells"][2], done["group_columns"]
    assert (columns[0], columns[3], done["legend"] != "") == ("group", "of fair", True)
    assert [texts[:4:3] for texts in first["group_texts"]] == [["1 cubic", "1.00"], ["2 bbr", "1.00"]]
    assert {len(texts) for texts in first["group_texts"]} == {len(columns)}
    assert "%" not in alone["shares"]
    assert "1 cubic against 2 bbr" in house.client.get(f"/api/runs/{name}/report").text


def test_a_cell_over_time_has_its_groups_side_by_side(house: House) -> None:
    name = house.client.post("/api/runs", json=ASKED).json["id"]
    done = until(house, name, lambda run: run["state"] == "done")
    for cell in done["cells"]:
        answer = house.client.get(f"/api/runs/{name}/cells/{cell['id']}").json
        assert answer
        assert (answer["directions"], answer["untold"]) == ([], "")
        contest = answer["contest"]
        assert 0 < contest["steady_from_s"] < contest["steady_until_s"] <= 60
        assert contest["line_bytes_per_s"] == pytest.approx(made_flows.LINE)
        groups = contest["groups"]
        steady = slice(*(round(contest[key] / contest["interval_s"]) for key in ("steady_from_s", "steady_until_s")))
        rates = [sum(part := one["bytes_per_s"][steady]) / len(part) for one in groups]
        assert sum(rates) == pytest.approx(made_flows.LINE, rel=0.01)
        assert {len(one[key]) for one in groups for key in ("bytes_per_s", "cwnd_bytes", "queueing_ns")} == {
            len(groups[0]["bytes_per_s"])
        }
    first = house.client.get(f"/api/runs/{name}/cells/{done['cells'][0]['id']}").json
    assert first
    assert [one["group"] for one in first["contest"]["groups"]] == ["1 cubic", "2 bbr"]
    assert all(ns is None or ns >= 0 for one in first["contest"]["groups"] for ns in one["queueing_ns"])


def test_pairs_and_what_is_refused(house: House) -> None:
    planned = house.client.post("/api/runs?dry_run=1", json=ASKED | {"workload": {"pairs": ["cubic", "bbr", "reno"]}})
    assert planned.json["total"] == 2 * 9
    assert mistakes(house, workload={"against": "cubic:0"}) == [
        ("workload.against", "'cubic:0': 0 flows are not within 1..256")
    ]
    assert mistakes(house, workload={"against": []}) == [("workload.against", "is empty: use cubic:1,bbr:1")]
    ((path, text),) = mistakes(house, workload={"against": "cubic:1", "client": "true"})
    assert (path, "beside against there is something else to run (client)" in text) == ("workload.against", True)
    assert "there is no congestion control 'prague'" in mistakes(house, workload={"pairs": "cubic,prague"})[0][1]
    many = [f"cubic:{n},bbr:{n}" for n in range(1, 40)]
    assert "are too many: 64 at most" in mistakes(house, workload={"against": many})[0][1]
    assert "remove streams" in mistakes(house, streams=["2"])[0][1]
