"""Lanes added to what is up and removed from it: by the API, and by the commands here and from afar."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from support.fake_machines import appliance_box
from support.waiting import PATIENCE_S
from support.web_daemon import AUTHOR, STAR, TOKENS, CountingKernel, House, asked, problem, star

from emulator.cli import main
from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.control.intent_store import IntentStore
from emulator.control.remote import USER_HEADER
from web.server import Server

TOKYO = {"lanes": {"tokyo": {"rtt": "160ms", "outbound": {"rate": "50Mbit"}, "inbound": {"rate": "10Mbit"}}}}
DAY = STAR.parent / "day.yaml"


def other_process(house: House) -> Appliance:
    """Another process's view of the same machine."""
    return Appliance(house.kernel, house.appliance.state_dir, guard=lambda _: None)


def commands(answer: Any) -> str:
    """The steps of an answer, a line each."""
    assert answer.status_code == 200, answer.text
    return "\n".join(step["command"] for step in answer.json["steps"])


def test_a_lane_is_added_and_no_step_is_about_another(up: House) -> None:
    planned = up.client.post("/api/lanes?dry_run=1", json=TOKYO)
    assert (planned.json["performed"], planned.json["summary"]) == (False, "tokyo would be added: 24 steps")
    assert asked(up) == star()
    done = up.client.post("/api/lanes", json=TOKYO)
    assert commands(done) == commands(planned)
    assert (done.json["performed"], done.json["summary"]) == (True, "tokyo is added: 24 steps")
    assert not any(site in commands(done) for site in star().sites)
    new = asked(up).lane("tokyo")
    assert (new.rtt_ns, new.outbound.rate_bps, new.inbound.rate_bps) == (160_000_000, 50_000_000, 10_000_000)
    assert asked(up).lanes[:3] == star().lanes
    assert done.headers["ETag"] == up.client.get("/api/topology").headers["ETag"]
    assert up.client.get("/api/history").json["entries"][0]["summary"] == "add tokyo"


def test_a_lane_is_removed_alone_and_undone(up: House) -> None:
    planned = up.client.delete("/api/lanes/london?dry_run=1")
    assert asked(up) == star()
    done = up.client.delete("/api/lanes/london")
    assert done.json["summary"] == "london is removed: 4 steps"
    assert commands(done) == commands(planned)
    assert "california" not in commands(done) and "japan" not in commands(done)
    assert asked(up).sites == ("california", "japan")
    assert asked(up).address("japan") == star().address("japan")
    assert up.client.post("/api/undo").status_code == 200
    assert asked(up) == star()


def test_the_last_lane_can_be_removed_and_another_added(up: House) -> None:
    for name in star().sites:
        assert up.client.delete(f"/api/lanes/{name}").status_code == 200
    assert up.client.get("/api/status").json["lanes"] == []
    assert up.client.post("/api/lanes", json=TOKYO).status_code == 200
    assert asked(up).sites == ("tokyo",)


@pytest.mark.parametrize(
    ("lanes", "mistakes"),
    [
        ({"london": {"rtt": "1ms"}}, {"lanes.london": "there is a lane london already: use another name"}),
        ({"new-york": {"rtt": "1ms"}}, {"lanes.new-york": "new-york is the hub: use another name"}),
        ({"a": {"rtt": "1", "loss": "200%"}}, {"lanes.a.rtt": "'1' has no unit", "lanes.a.loss": "'200%' is above"}),
        ({"A b": {"rtt": "1ms"}}, {"lanes.A b": "lane name 'A b' is not a host name label"}),
        ({"a": {"rtt": "1ms", "jitter": "2ms"}}, {"lanes.a": "jitter 2 ms exceeds"}),
        ({"a": {"rtt": "1ms", "path_profile": "/etc"}}, {"lanes.a.path_profile": "/etc: a request cannot name"}),
        ({"a": {"rtt": "1ms", "ports": {"hub": "eth1"}}}, {"lanes.a.ports.site": "is missing"}),
        ({"a": 1}, {"lanes.a": "not a JSON object"}),
        ({}, {"": "names no lanes"}),
    ],
    ids=lambda value: next(iter(value), "none") if isinstance(value, dict) else "",
)
def test_a_mistake_stands_at_its_field_and_nothing_changes(
    up: House, lanes: dict[str, Any], mistakes: dict[str, str]
) -> None:
    found = problem(up.client.post("/api/lanes", json={"lanes": lanes}), 422)["mistakes"]
    assert {one["path"] for one in found} == set(mistakes)
    assert all(one["text"].startswith(mistakes[one["path"]]) for one in found), found
    assert asked(up) == star()


def test_nothing_up_no_lane_or_no_right(house: House) -> None:
    assert "nothing is up" in problem(house.client.post("/api/lanes", json=TOKYO), 422)["detail"]
    assert "nothing is up" in problem(house.client.delete("/api/lanes/london"), 422)["detail"]
    house.up()
    assert "use california, london or japan" in problem(house.client.delete("/api/lanes/lundon"), 404)["detail"]
    reader = house.someone(TOKENS.read)
    problem(reader.post("/api/lanes", json=TOKYO), 403)
    problem(reader.delete("/api/lanes/london"), 403)
    assert asked(house) == star()


def test_whoever_knows_an_older_state_is_refused(up: House) -> None:
    stale = {"If-Match": up.client.get("/api/topology").headers["ETag"]}
    up.client.patch("/api/lanes/japan", json={"rtt": "300ms"})
    before = asked(up)
    problem(up.client.post("/api/lanes", json=TOKYO, headers=stale), 412)
    problem(up.client.delete("/api/lanes/london", headers=stale), 412)
    problem(up.client.post("/api/undo", headers=stale), 412)
    assert asked(up) == before


def test_lanes_that_a_run_has_leased_neither_come_nor_go(up: House) -> None:
    with other_process(up).lease(star()):
        for answer in (up.client.post("/api/lanes", json=TOKYO), up.client.delete("/api/lanes/london")):
            assert "has leased the lanes: wait for its end, or cancel it" in problem(answer, 409)["detail"]
    assert asked(up) == star()
    assert up.client.delete("/api/lanes/london").status_code == 200


def test_the_port_that_the_client_comes_through_is_refused_in_a_plan_and_by_the_change(up: House) -> None:
    box = appliance_box()
    up.kernel.links.update(box.links)
    up.kernel.nics.update(box.nics)
    up.kernel.links["eth5"] = replace(up.kernel.links["eth5"], addresses=("127.0.0.1",))
    lane = {"rtt": "1ms", "ports": {"hub": "eth5", "site": "eth6"}}
    for query in ("?dry_run=1", ""):
        refused = problem(up.client.post(f"/api/lanes{query}", json={"lanes": {"office": lane}}), 409)
        assert "carries the session you work in, on 127.0.0.1" in refused["detail"]
    assert asked(up) == star()


def test_a_lane_removed_until_confirmed_returns_with_all_that_followed(up: House) -> None:
    assert up.client.delete("/api/lanes/london?confirm=1h").status_code == 200
    assert up.client.post("/api/lanes", json=TOKYO).status_code == 200
    assert up.client.get("/api/status").json["back_to"] == "new-york"
    assert up.client.post("/api/undo").status_code == 200
    assert asked(up) == star()


def test_a_scheduled_lane_is_removed_with_its_part_and_the_schedule_keeps_its_phase(house: House) -> None:
    house.client.put("/api/topology", data=DAY.read_text(), content_type="application/yaml")
    store, old = IntentStore(house.appliance.state_dir), asked(house)
    began_ns = store.read().began_ns
    assert old.schedule and any(track.lanes == ("london",) for track in old.schedule.tracks)
    told = house.client.delete("/api/lanes/london?dry_run=1").json["warnings"]
    assert told == ["the schedule loses 1 track, which changed only london"]
    done = house.client.delete("/api/lanes/london")
    assert (done.status_code, done.json["warnings"]) == (200, told)
    new = asked(house)
    assert new.schedule and len(new.schedule.tracks) == len(old.schedule.tracks) - 1
    assert store.read().began_ns == began_ns is not None
    house.client.post("/api/undo")
    assert asked(house) == old


def test_the_flows_of_a_lane_are_named_before_they_go(up: House) -> None:
    up.client.patch("/api/lanes/london", json={"flows": {"voice": {"match": {"dscp": "ef"}}}})
    told = up.client.delete("/api/lanes/london?dry_run=1").json["warnings"]
    assert told == ["london loses 1 flow: voice"]


def test_access_networks_are_settings_of_a_lane(up: House) -> None:
    found = {one["name"]: one for one in up.client.get("/api/access").json["access"]}
    assert {"dsl", "lte", "leo", "geo"} <= found.keys()
    assert all(one["source"] for one in found.values())
    for name, one in found.items():
        lane = {"rtt": f"{one['rtt_ns']}ns", **one["settings"]}
        assert up.client.post("/api/lanes", json={"lanes": {f"at-{name}": lane}}).status_code == 200
    geo = asked(up).lane("at-geo")
    assert (geo.rtt_ns, geo.outbound.rate_bps, geo.inbound.rate_bps) == (600_000_000, 25_000_000, 3_000_000)


def test_the_keys_tell_how_packets_of_a_flow_are_found(up: House) -> None:
    found = up.client.get("/api/keys").json
    assert [one["name"] for one in found["match"]][-2:] == ["dscp", "vlan"]
    assert found["most_flows"] == 8
    match = {one["name"]: one["examples"][0] for one in found["match"] if one["name"] not in ("port", "dscp")}
    assert up.client.patch("/api/lanes/london", json={"flows": {"all": {"match": match}}}).status_code == 200


@pytest.fixture(params=["here", "afar"])
def shell(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runs a command on the machine itself, or over --url; the founding star is up."""
    kernel = CountingKernel()
    house = House(tmp_path, Appliance(kernel, tmp_path, author=AUTHOR, guard=lambda _: None))
    house.up()
    server = Server(house.app, "127.0.0.1:0", threads=2)
    thread = threading.Thread(target=server.run)
    thread.start()
    monkeypatch.setenv("LONGHAUL_TOKEN", TOKENS.write)
    url = ["--url", f"http://{server.address}"] if request.param == "afar" else []

    def run(*args: str) -> int:
        return main.main([*url, *args], obj=None if url else house.appliance)

    run.house = house  # type: ignore[attr-defined]
    yield run
    server.end()
    thread.join(PATIENCE_S)


def test_the_commands_add_and_remove_a_lane(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell("add", "tokyo", "--place", "tokyo", "--access", "lte", "--loss", "1%", "--dry-run") == 0
    assert "tokyo would be added at 209" in capsys.readouterr().out
    assert shell("add", "tokyo", "--place", "tokyo", "--access", "lte", "--loss", "1%") == 0
    new = asked(shell.house).lane("tokyo")
    assert (new.outbound.rate_bps, new.inbound.rate_bps, new.inbound.jitter_ns) == (15_000_000, 13_600_000, 5_000_000)
    assert new.outbound.loss_p32 == new.inbound.loss_p32 > 0
    assert shell("remove", "california") == 0
    assert "california is removed: 4 steps" in capsys.readouterr().out
    assert asked(shell.house).sites == ("london", "japan", "tokyo")
    assert shell("undo") == 0
    assert shell("remove", "tokyo", "--json") == 0
    assert json.loads(capsys.readouterr().out.partition("\n")[2])["summary"] == "tokyo is removed: 4 steps"
    assert asked(shell.house) == star()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["add", "tokyo"], "tokyo has no RTT: use --rtt, --place or --access"),
        (["add", "tokyo", "--place", "tokio"], "did you mean tokyo"),
        (["add", "london", "--rtt", "1ms"], "there is a lane london already"),
        (["add", "a", "--rtt", "1ms", "--ports", "eth1"], "'eth1' is not two ports: use --ports HUB,SITE"),
        (["add", "a", "--rtt", "1ms", "--place", "tokyo"], "--place says the RTT"),
        (["remove", "lundon"], "use california, london or japan"),
    ],
)
def test_the_commands_say_what_is_wrong(
    shell: Any, words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shell(*words) == 2
    assert text in capsys.readouterr().err
    assert asked(shell.house) == star()


def test_a_lane_of_a_file_and_a_lane_by_hand_are_the_same(up: House) -> None:
    text = STAR.read_text() + "  tokyo: {rtt: 160ms, flows: {voice: {match: {dscp: ef}, rtt: 170ms}}}\n"
    lane = {"rtt": "160ms", "rate": "10Gbit", "flows": {"voice": {"match": {"dscp": "ef"}, "rtt": "170ms"}}}
    headers = {USER_HEADER: "ann"}
    assert up.client.post("/api/lanes", json={"lanes": {"tokyo": lane}}, headers=headers).status_code == 200
    assert asked(up) == loader.loads(text)
    assert up.appliance.history(1)[0].author.user == "ann"
