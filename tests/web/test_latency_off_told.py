"""Lanes that are off: all at once in one change, and nothing says that it asks for a delay that is not there."""

from __future__ import annotations

import re

import pytest
from support.web_daemon import House, asked, problem, star

from emulator.cli import main

ALL_OFF = {"lanes": {name: {"disabled": True} for name in star().sites}}


def off(house: House) -> list[bool]:
    """Of each lane, whether it is off."""
    return [lane.off for lane in asked(house).lanes]


def test_all_lanes_go_off_in_one_change_that_one_undo_reverts(up: House) -> None:
    assert up.client.patch("/api/lanes?dry_run=1", json=ALL_OFF).json["changed"]
    assert off(up) == [False] * 3
    etag = up.client.get("/api/topology").headers["ETag"]
    done = up.client.patch("/api/lanes?confirm=1h", json=ALL_OFF, headers={"If-Match": etag})
    assert re.fullmatch("3 lanes are changed: [0-9]+ steps", done.json["summary"])
    assert off(up) == [True] * 3
    problem(up.client.patch("/api/lanes", json=ALL_OFF, headers={"If-Match": etag}), 412)
    assert up.client.post("/api/undo").status_code == 200
    assert asked(up) == star()


def test_the_mistakes_of_all_lanes_are_told_and_nothing_changes(up: House) -> None:
    patches = {"london": {"rtt": "90ms"}, "paris": {"disabled": True}, "japan": {"disabled": "perhaps"}}
    found = problem(up.client.patch("/api/lanes", json={"lanes": patches}), 422)["mistakes"]
    assert sorted(one["path"] for one in found) == ["lanes.japan.disabled", "lanes.paris"]
    found = problem(up.client.patch("/api/lanes", json={"lanes": {"london": 1, "japan": []}}), 422)["mistakes"]
    assert sorted(one["path"] for one in found) == ["lanes.japan", "lanes.london"]
    for nothing in ({}, {"lanes": {}}, {"lanes": [1]}, {"london": {"rtt": "90ms"}}, [1]):
        assert "names no lanes" in problem(up.client.patch("/api/lanes", json=nothing), 422)["detail"]
    assert asked(up) == star()


def test_what_is_asked_of_a_lane_that_is_off_is_nothing(up: House, capsys: pytest.CaptureFixture[str]) -> None:
    up.client.patch("/api/lanes/london", json={"disabled": True})
    answer = up.client.get("/api/status").json
    lanes = {lane["name"]: (lane["off"], lane["rtt_ns"], lane["asked_ns"]) for lane in answer["lanes"]}
    assert (lanes["london"], lanes["japan"]) == ((True, 80_000_000, 0), (False, 346_000_000, 346_000_000))
    assert {(path["from"], path["to"]): path["rtt_ns"] for path in answer["paths"]}["london", "japan"] == 346_000_000
    assert up.live.look().lanes["london"].asked_ns == 0
    text = up.client.get("/metrics").text
    assert 'longhaul_lane_rtt_asked_seconds{flow="",lane="london"} 0.0' in text
    assert 'longhaul_lane_off{lane="london"} 1.0' in text
    assert 'longhaul_lane_off{lane="japan"} 0.0' in text
    assert main.main(["status"], obj=up.appliance) == 0
    said = "latency off: london; only the bottleneck acts; enable: longhaul set london --on"
    assert said in capsys.readouterr().out.splitlines()


def test_a_change_of_a_lane_that_is_off_says_that_it_has_no_effect_yet(up: House) -> None:
    up.client.patch("/api/lanes/london", json={"disabled": True})
    idle = "london is off: the change has no effect until you run: longhaul set london --on"
    for query in ("?dry_run=1", ""):
        assert up.client.patch(f"/api/lanes/london{query}", json={"loss": "1%"}).json["warnings"] == [idle]
    assert up.client.patch("/api/lanes/london", json={"rate": "1Gbit"}).json["warnings"] == []
    assert up.client.patch("/api/lanes/london", json={"rtt": "90ms"}).json["warnings"] == []
    assert off(up) == [False] * 3
