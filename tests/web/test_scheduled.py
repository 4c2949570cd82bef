"""A topology with a schedule that names lanes: each lane can be set, and what is asked follows the schedule."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from support.folders import TOPOLOGIES
from support.hand_clock import HandClock
from support.made_results import execution
from support.waiting import PATIENCE_S
from support.web_daemon import AUTHOR, TOKENS, CountingKernel, House, asked, until

from emulator.cli import main
from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.control.intent_store import IntentStore
from emulator.control.remote import Client, RemoteAppliance
from emulator.experiment import run_cell
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution
from emulator.model.topology import Topology
from emulator.plan.scheduled_state import present
from web.server import Server

DAY = TOPOLOGIES / "day.yaml"
MS, S, HOUR_S = 10**6, 10**9, 3600


class Scheduled:
    """A daemon with the day up, at a time of day that the test sets. `clock` is the machine's."""

    def __init__(self, folder: Path, hour: float) -> None:
        self.clock = HandClock()
        since_midnight_s = self.clock.unix_ns() // S % (24 * HOUR_S)
        self.clock.pass_s((hour * HOUR_S - since_midnight_s) % (24 * HOUR_S))
        self.kernel = CountingKernel()
        self.appliance = Appliance(self.kernel, folder, author=AUTHOR, guard=lambda _: None, clock=self.clock)
        self.house = House(folder, self.appliance, runner=self._runner, set_aside=True)
        self.leased: list[tuple[str, Topology]] = []
        body = DAY.read_text()
        assert self.house.client.put("/api/topology", data=body, content_type="application/yaml").status_code == 200

    def pass_s(self, seconds: float) -> None:
        """Time goes on, for the machine and for the daemon."""
        self.clock.pass_s(seconds)
        self.house.tick(seconds)

    def now(self) -> Topology:
        """The topology as its schedule has it now."""
        intent = IntentStore(self.appliance.state_dir).read()
        assert intent.topology
        return present(intent.topology, intent.began_ns, self.clock.unix_ns())

    def _runner(self, spec: CellSpec) -> Execution:
        with run_cell.lane_up(spec, self.appliance, instead=True):
            self.leased.append((spec.lane.name, self.now()))
        return execution(spec)


@pytest.fixture
def evening(tmp_path: Path) -> Scheduled:
    """The day at half past six in the evening: the ramp on the lane to London goes on."""
    return Scheduled(tmp_path, 18.5)


@pytest.mark.parametrize("lane", ["london", "tokyo", "ship"])
def test_each_lane_can_be_set_and_the_schedule_goes_on(evening: Scheduled, lane: str) -> None:
    before, house = evening.now(), evening.house
    for query in ("?dry_run=1", "?confirm=1h", ""):
        answer = house.client.patch(f"/api/lanes/{lane}{query}", json={"inbound": {"duplicate": "1%"}})
        assert answer.status_code == 200, answer.text
    assert house.client.post("/api/undo").status_code == 200
    assert evening.now() == before
    assert house.client.patch(f"/api/lanes/{lane}", json={"inbound": {"duplicate": "1%"}}).status_code == 200
    status = house.client.get("/api/status").json
    assert (status["drift"], status["blocked"]) == ([], {})
    settings = {one["name"]: one["settings"] for one in status["lanes"]}
    assert settings[lane]["inbound"]["duplicate"] == "1%"
    assert asked(house).schedule == loader.load(DAY).schedule
    rtt_ns = before.lane("london").rtt_ns
    assert evening.now().lane("london").rtt_ns == rtt_ns
    evening.pass_s(600)
    assert evening.now().lane("london").rtt_ns > rtt_ns


def test_what_is_asked_follows_the_schedule_and_watchers_are_told(evening: Scheduled) -> None:
    live, before = evening.house.live, evening.house.live.look()
    assert before.lanes["london"].asked_ns == evening.now().lane("london").rtt_ns == 87_500_000
    evening.pass_s(1)
    same = live.look()
    assert (same.lanes["london"].asked_ns, same.changes) == (87_500_000, before.changes)
    evening.pass_s(300)
    after = live.look()
    assert after.lanes["london"].asked_ns == evening.now().lane("london").rtt_ns == 87_916_666
    assert after.changes == before.changes + 1
    assert evening.house.client.get("/api/status").json["lanes"][0]["rtt_ns"] == 87_916_666
    evening.house.client.patch("/api/lanes/ship", json={"loss": "1%"})
    assert live.look().changes == before.changes + 2


def test_the_command_line_and_its_remote_form_set_and_show_the_same(
    evening: Scheduled, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(evening.house.app, "127.0.0.1:0", threads=2)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        monkeypatch.setenv("LONGHAUL_TOKEN", TOKENS.write)
        url = f"http://{server.address}"
        assert main.main(["--url", url, "set", "tokyo", "--loss", "1%"]) == 0
        assert main.main(["set", "ship", "--loss", "2%"], obj=evening.appliance) == 0
        assert main.main(["set", "--all", "--duplicate", "1%"], obj=evening.appliance) == 0
        capsys.readouterr()
        evening.pass_s(1)
        lanes = RemoteAppliance(Client(url, TOKENS.write)).status().lanes
        assert tuple(one.lane for one in lanes) == evening.now().lanes
        shown = []
        for how in (["--url", url], []):
            assert main.main([*how, "status"], obj=None if how else evening.appliance) == 0
            shown.append(capsys.readouterr().out)
        assert shown[0] == shown[1]
        assert "87.5ms" in shown[0]
    finally:
        server.end()
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("lanes", [["london"], ["ship", "tokyo"]])
def test_a_run_leaves_the_schedule_of_the_other_lanes_in_its_phase(evening: Scheduled, lanes: list[str]) -> None:
    expected, day = evening.now(), loader.load(DAY)
    began_ns = IntentStore(evening.appliance.state_dir).read().began_ns
    answer = evening.house.client.post("/api/runs", json={"lane": lanes, "duration": 10})
    assert answer.status_code == 201, answer.text
    run = until(evening.house, answer.json["id"], lambda one: one["state"] != "running")
    assert (run["state"], run["finished"], run["trouble"]) == ("done", len(lanes), "")
    for name, leased in evening.leased:
        assert leased.lane(name).rtt_ns == day.lane(name).rtt_ns
        others = [lane.name for lane in day.lanes if lane.name != name]
        assert [leased.lane(other) for other in others] == [expected.lane(other) for other in others]
    intent = IntentStore(evening.appliance.state_dir).read()
    assert (intent.topology, intent.began_ns, intent.pending) == (day, began_ns, None)
    assert evening.now() == expected
