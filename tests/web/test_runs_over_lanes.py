"""Test runs over the lanes that are up."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.gated_runs import ASKED, Gate, begin
from support.made_results import execution
from support.web_daemon import House, asked, star, until

from emulator.config import loader
from emulator.experiment import run_cell
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution


@pytest.fixture
def house(gated: House) -> House:
    """A daemon with nothing up."""
    return gated


def test_a_topology_that_is_up_is_in_the_way(house: House, gate: Gate) -> None:
    house.up()
    assert "new-york is up here" in house.client.post("/api/runs", json=ASKED).json["detail"]
    name = begin(house, in_lab=True)
    gate.open(4)
    until(house, name, lambda run: run["state"] == "done")


def test_lanes_of_the_topology_keep_their_own_settings(house: House) -> None:
    house.up()
    asked = {"lane": ["london", "japan"], "in_lab": True}
    cells = house.client.post("/api/runs?dry_run=1", json=asked).json["cells"]
    assert [(c["lane"], c["rtt_ns"]) for c in cells] == [("london", 80_000_000), ("japan", 346_000_000)]


def test_lanes_that_name_machines_are_measured_between_these_while_they_are_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = loader.loads("""
        {name: there, hub: here, hub_host: root@hub, lanes: {
          far: {rtt: 80ms, ports: {hub: a, site: b}, host: far}, dark: {rtt: 9ms, ports: {hub: c, site: d}}}}""")
    seen: list[CellSpec] = []

    def runner(spec: CellSpec) -> Execution:
        seen.append(spec)
        return execution(spec)

    house = House(tmp_path, runner=runner)
    monkeypatch.setattr(house.usecases, "topology", lambda: there)
    asked = {"lane": ["far"], "tcp_profile": ["default"]}
    answer = house.client.post("/api/runs", json=asked)
    assert answer.status_code == 201, answer.text
    until(house, answer.json["id"], lambda run: run["state"] == "done")
    assert [(one.topology.hub_host, one.lane.host, one.lane.ports) for one in seen] == [
        ("root@hub", "far", there.lane("far").ports)
    ]
    refused = house.client.post("/api/runs", json=asked | {"lane": ["far", "dark"]})
    assert refused.status_code == 422
    mistake = refused.json["mistakes"][0]
    assert (mistake["path"], mistake["text"]) == ("lane", "dark: the lane has no host: add one, or choose other lanes")
    in_lab = house.client.post("/api/runs?dry_run=1", json=asked | {"lane": ["dark"], "in_lab": True})
    assert (in_lab.status_code, in_lab.json["total"]) == (201, 1)
    with_rtts = house.client.post("/api/runs", json=ASKED)
    assert (with_rtts.status_code, with_rtts.json["detail"].split(":")[0]) == (409, "there is up here")


def test_in_the_demo_the_star_makes_room_for_each_cell_and_history_hears_nothing(tmp_path: Path) -> None:
    during = []

    def runner(spec: CellSpec) -> Execution:
        with run_cell.lane_up(spec, house.appliance, instead=True):
            during.append(asked(house))
        return execution(spec)

    house = House(tmp_path, runner=runner, set_aside=True)
    house.up()
    before = house.client.get("/api/history").json
    until(house, begin(house), lambda run: run["state"] == "done")
    assert [(one.name, one.sites) for one in during] == [("sweep", ("lane",))] * 4
    assert asked(house) == star()
    assert house.client.get("/api/history").json == before


@pytest.mark.parametrize("lanes", [["london"], ["japan", "london"]])
def test_a_run_over_lanes_of_the_demo_leaves_the_other_lanes_and_all_addresses_alone(
    tmp_path: Path, lanes: list[str]
) -> None:
    during = []

    def runner(spec: CellSpec) -> Execution:
        house.kernel.log.clear()
        with run_cell.lane_up(spec, house.appliance, instead=True):
            changed = [str(op) for op in house.kernel.log]
            during.append((spec.lane.name, asked(house).sites, changed))
        return execution(spec)

    house = House(tmp_path, runner=runner, set_aside=True)
    house.up()
    name = house.client.post("/api/runs", json={"lane": lanes, "rate": "100Mbit"}).json["id"]
    until(house, name, lambda run: run["state"] == "done")
    assert sorted({name for name, _, _ in during}) == sorted(lanes)
    for name, sites, changed in during:
        assert sites == star().sites
        assert changed and not [step for step in changed if name not in step or "link add" in step or "addr" in step]
    assert asked(house) == star()
