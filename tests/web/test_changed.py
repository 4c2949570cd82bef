"""Who changed each lane last, by the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.playing_house import PlayingHouse
from support.web_daemon import TOKENS, House

from emulator.control.appliance import Appliance
from emulator.control.change_log import KEPT, Author
from emulator.control.remote import USER_HEADER


def last(house: House) -> dict[str, tuple[str, str]]:
    """By lane, who changed it last and how the history tells it."""
    lanes: Any = house.someone(TOKENS.read).get("/api/changed").json["lanes"]
    return {name: (one["last"]["author"]["user"], one["last"]["summary"]) for name, one in lanes.items()}


def by(house: House, user: str, lane: str, rtt: str) -> None:
    """A person changes a lane over the API."""
    said = house.client.patch(f"/api/lanes/{lane}", json={"rtt": rtt}, headers={USER_HEADER: user})
    assert said.status_code == 200


def test_each_lane_has_its_last_change(house: House) -> None:
    assert last(house) == {}
    house.up()
    assert set(last(house)) == {"california", "london", "japan"}
    by(house, "ann", "london", "81ms")
    by(house, "bob", "japan", "300ms")
    by(house, "cid", "london", "82ms")
    found = last(house)
    assert {name: user for name, (user, _) in found.items() if name != "california"} == {
        "london": "cid",
        "japan": "bob",
    }
    assert found["california"][0] not in ("ann", "bob", "cid")
    house.client.post("/api/undo", headers={USER_HEADER: "dan"})
    assert last(house)["london"][0] == "dan"
    answer: Any = house.client.get("/api/changed").json["lanes"]["london"]["last"]
    entry: Any = house.client.get("/api/history").json["entries"][0]
    assert answer == {key: entry[key] for key in ("number", "when", "author", "summary")}


def test_a_removed_lane_is_absent_and_an_added_one_has_its_author(house: House) -> None:
    house.up()
    house.client.delete("/api/lanes/london", headers={USER_HEADER: "ann"})
    house.client.post("/api/lanes", json={"lanes": {"paris": {"rtt": "74ms"}}}, headers={USER_HEADER: "bob"})
    found = last(house)
    assert "london" not in found
    assert found["paris"][0] == "bob"
    assert "ann" not in {user for user, _ in found.values()}


def test_a_command_of_another_process_is_known_at_once(house: House) -> None:
    house.up()
    before = last(house)["japan"]
    author = Author("eve", 1000, 1, "longhaul set")
    other = Appliance(house.kernel, house.appliance.state_dir, author=author, guard=lambda _: None)
    topology = other.topology()
    assert topology
    other.set_lane(topology.lane("japan").with_rtt(1_000_000))
    assert last(house)["japan"][0] == "eve" != before[0]


def test_what_a_run_asks_of_the_lanes_is_nobodys_change(house: House) -> None:
    house.up()
    by(house, "ann", "london", "81ms")
    before, topology = last(house), house.appliance.topology()
    assert topology
    other = Appliance(house.kernel, house.appliance.state_dir, guard=lambda _: None)
    with other.lease(topology.with_lane(topology.lane("london").with_rtt(5_000_000))):
        assert last(house) == before
    assert last(house) == before


def test_what_a_schedule_asks_for_is_told_apart_from_the_lane_s_own_settings(tmp_path: Path) -> None:
    track = "{lanes: [l], keys: [{at: 0s, rtt: 40ms}, {at: 10s, rtt: 60ms, ramp: yes}]}"
    text = f"name: n\nhub: h\nlanes:\n  l: {{rtt: 10ms}}\nschedule:\n  step: 1s\n  tracks: [{track}]\n"
    house = PlayingHouse(tmp_path, text)
    house.tick(5)
    found: Any = house.client.get("/api/changed").json
    assert found["lanes"]["l"]["settings"]["outbound"]["delay"] == "5ms"
    assert found["etag"] == house.client.get("/api/topology").headers["ETag"]
    assert house.client.get("/api/status").json["lanes"][0]["rtt_ns"] == 50_000_000


def test_a_lane_whose_last_change_is_forgotten_has_none(house: House) -> None:
    house.up()
    for step in range(KEPT):
        by(house, "ann", "london", f"{step + 1}ms")
    found: Any = house.client.get("/api/changed").json["lanes"]
    assert found["london"]["last"]["author"]["user"] == "ann"
    assert (found["japan"]["last"], found["japan"]["settings"]["outbound"]["delay"]) == (None, "173ms")
