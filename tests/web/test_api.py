"""The endpoints that change things, over the real appliance and the kernel in memory."""

from __future__ import annotations

from typing import Any

import pytest
from support.folders import GOLDEN
from support.web_daemon import House, asked, problem, star

from emulator.config import loader
from emulator.model import loss_model
from emulator.plan.state import Link


def test_put_brings_up_and_answers_the_plan_that_was_performed(house: House) -> None:
    answer = house.up()
    assert answer.status_code == 200
    assert answer.json["summary"] == "new-york is up: 75 steps"
    assert (answer.json["performed"], answer.json["changed"], len(answer.json["steps"])) == (True, True, 75)
    assert len(house.kernel.log) == 75
    assert [s["command"] for s in answer.json["steps"]] == [str(op) for op in house.kernel.log]
    assert house.up().json["summary"] == "new-york is up: nothing to change"


def test_dry_run_answers_the_plan_and_changes_nothing(house: House) -> None:
    answer = house.client.put("/api/topology?dry_run=1", data=loader.dumps(star()), content_type="application/yaml")
    assert (answer.json["performed"], len(answer.json["steps"])) == (False, 75)
    assert house.kernel.log == []
    assert house.appliance.topology() is None


def test_a_topology_may_be_json(house: House) -> None:
    tree = {"name": "one", "hub": "here", "lanes": {"there": {"rtt": "32ms", "loss": "0.0001", "mtu": 9000}}}
    assert house.client.put("/api/topology", json=tree).status_code == 200
    lane = asked(house).lane("there")
    assert (lane.rtt_ns, lane.mtu, lane.outbound.loss_p32) == (32_000_000, 9000, 429497)


def test_every_mistake_comes_with_its_path_and_nothing_changes(up: House) -> None:
    tree = {"name": "x", "hubb": "y", "lanes": {"a": {"rtt": 32}, "b": {"loss": "200%", "rtt": None}}}
    found = {m["path"]: m["text"] for m in problem(up.client.put("/api/topology", json=tree), 422)["mistakes"]}
    assert sorted(found) == ["hub", "hubb", "lanes.a.rtt", "lanes.b.loss", "lanes.b.rtt"]
    assert found["lanes.a.rtt"] == "'32' has no unit: write 32ms for milliseconds"
    assert found["lanes.b.rtt"].startswith("nothing is given")
    assert asked(up) == star()


def test_mistakes_in_yaml_have_lines(house: House) -> None:
    text = (GOLDEN / "errors/five-at-once.yaml").read_text()
    found = problem(house.client.put("/api/topology", data=text, content_type="application/yaml"), 422)["mistakes"]
    assert [m["where"] for m in found] == [f"topology:{line}" for line in (3, 5, 8, 10, 13)]


def test_get_topology_is_what_put_takes(up: House) -> None:
    got = up.client.get("/api/topology")
    assert loader.loads(got.text) == star()
    assert up.client.put("/api/topology", data=got.text, content_type=got.content_type).json["changed"] is False


def test_etags_guard_against_changes_in_between(up: House) -> None:
    etag = up.client.get("/api/topology").headers["ETag"]
    changed = up.client.patch("/api/lanes/london", json={"rtt": "90ms"}, headers={"If-Match": etag})
    assert changed.status_code == 200
    assert changed.headers["ETag"] == up.client.get("/api/topology").headers["ETag"] != etag
    for late in (
        up.client.patch("/api/lanes/london", json={"rtt": "91ms"}, headers={"If-Match": etag}),
        up.client.put("/api/topology", json={"name": "x", "hub": "y"}, headers={"If-Match": etag}),
        up.client.delete("/api/topology", headers={"If-Match": etag}),
    ):
        problem(late, 412)
    assert asked(up).lane("london").rtt_ns == 90_000_000


@pytest.mark.parametrize(
    ("patch", "rtt_ms", "jitter_ms"),
    [
        ({"rtt": "40ms"}, (20, 20), (0, 0)),
        ({"rtt": "40ms", "outbound": {"delay": "30ms"}}, (30, 10), (0, 0)),
        ({"inbound": {"delay": "5ms", "jitter": "2ms"}}, (16, 5), (0, 2)),
        ({"jitter": "1ms"}, (16, 16), (1, 1)),
    ],
)
def test_patch_changes_what_is_named_and_nothing_else(up: House, patch: Any, rtt_ms: Any, jitter_ms: Any) -> None:
    before = asked(up)
    assert up.client.patch("/api/lanes/california", json=patch).status_code == 200
    lane = asked(up).lane("california")
    assert tuple(d.delay_ns // 10**6 for d in (lane.outbound, lane.inbound)) == rtt_ms
    assert tuple(d.jitter_ns // 10**6 for d in (lane.outbound, lane.inbound)) == jitter_ms
    assert lane.outbound.rate_bps == before.lane("california").outbound.rate_bps
    assert asked(up).lanes[1:] == before.lanes[1:]


def test_patch_null_takes_a_setting_away(up: House) -> None:
    up.client.patch("/api/lanes/california", json={"loss": "1%", "jitter": "1ms"})
    up.client.patch("/api/lanes/california", json={"loss": None, "inbound": {"jitter": None, "rate": None}})
    lane = asked(up).lane("california")
    assert (lane.outbound.loss_p32, lane.inbound.loss_p32) == (0, 0)
    assert (lane.outbound.jitter_ns, lane.inbound.jitter_ns) == (10**6, 0)
    assert (lane.outbound.rate_bps, lane.inbound.rate_bps) == (10**10, None)


def test_patch_makes_changes_and_removes_a_flow_and_status_tells_it(up: House) -> None:
    made = {"voice": {"match": {"dscp": "ef"}, "rtt": "120ms", "loss": "1%"}}
    assert up.client.patch("/api/lanes/london", json={"flows": made}).status_code == 200
    assert up.client.patch("/api/lanes/london", json={"flows": {"voice": {"loss": None}}}).json["changed"]
    up.tick()
    lane = next(one for one in up.client.get("/api/status").json["lanes"] if one["name"] == "london")
    assert list(lane["flows"]) == ["voice"]
    voice = lane["flows"]["voice"]["inbound"]["netem"]
    assert (voice["delay_ns"], voice["loss_p32"], voice["seed"] == lane["inbound"]["netem"]["seed"]) == (
        60_000_000,
        0,
        False,
    )
    assert lane["settings"]["flows"] == {
        "voice": {"match": {"dscp": 46}, "outbound": {"delay": "60ms"}, "inbound": {"delay": "60ms"}}
    }
    assert up.client.patch("/api/lanes/london", json={"flows": {"voice": None}}).json["changed"]
    assert asked(up) == star()


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ({"rtt": "40"}, "lanes.london.rtt"),
        ({"flows": {"voice": {"loss": "1%"}}}, "lanes.london.flows.voice.match"),
        ({"speed": "1Gbit"}, "lanes.london.speed"),
        ({"mtu": 9000}, "lanes.london.mtu"),
        ({"outbound": 3}, "lanes.london.outbound"),
        ({"jitter": "1s"}, "lanes.london"),
        ([], ""),
    ],
)
def test_a_wrong_patch_is_told_and_changes_nothing(up: House, patch: Any, path: str) -> None:
    found = problem(up.client.patch("/api/lanes/london", json=patch), 422)["mistakes"]
    assert found[0]["path"] == path
    assert asked(up) == star()


def test_patch_dry_run_shows_the_tc_lines(up: House) -> None:
    done = len(up.kernel.log)
    answer = up.client.patch("/api/lanes/london?dry_run=1", json={"rtt": "90ms"}).json
    assert answer["performed"] is False
    assert "tc -batch" in answer["steps"][-1]["command"]
    assert len(up.kernel.log) == done


def test_patch_of_what_is_not_there(house: House) -> None:
    problem(house.client.patch("/api/lanes/london", json={"rtt": "1ms"}), 422)
    house.up()
    assert "california" in problem(house.client.patch("/api/lanes/paris", json={"rtt": "1ms"}), 404)["detail"]


def test_a_kernel_that_refuses_leaves_everything_as_it_was(up: House) -> None:
    up.kernel.fail_at = len(up.kernel.log)
    reply = problem(up.client.patch("/api/lanes/london", json={"rtt": "90ms"}), 500)
    assert (reply["title"], "injected" in reply["detail"]) == ("Kernel failed", True)
    assert asked(up) == star()
    up.tick()
    assert up.client.get("/api/status").json["drift"] == []


def test_a_refusal_is_a_conflict(house: House) -> None:
    house.kernel.links["eth1"] = Link(1500, True, True, 0, default_route=True)
    house.kernel.links["eth2"] = Link(1500, True, True, 0)
    tree = {"name": "x", "hub": "y", "lanes": {"a": {"rtt": "1ms", "ports": {"hub": "eth1", "site": "eth2"}}}}
    reply = problem(house.client.put("/api/topology", json=tree), 409)
    assert "eth1: carries the default route" in reply["detail"]


def test_the_port_of_the_clients_session_is_refused(house: House) -> None:
    for name, address in (("eth1", "127.0.0.1"), ("eth2", "192.0.2.1")):
        house.kernel.links[name] = Link(1500, True, True, 0, addresses=(address,))
    tree = {"name": "x", "hub": "y", "lanes": {"a": {"rtt": "1ms", "ports": {"hub": "eth1", "site": "eth2"}}}}
    assert (
        "eth1: carries the session you work in, on 127.0.0.1"
        in problem(house.client.put("/api/topology", json=tree), 409)["detail"]
    )


def test_delete_takes_all_down(up: House) -> None:
    assert up.client.delete("/api/topology?dry_run=1").json["performed"] is False
    assert up.client.delete("/api/topology").json["changed"] is True
    assert up.kernel.bridges == {}
    problem(up.client.get("/api/topology"), 404)


EVERY = {
    "jitter": "2ms", "distribution": "pareto", "order": "free", "loss": "2% burst 4", "duplicate": "0.5%",
    "corrupt": "ber 1000000e-15", "reorder": "1%", "ecn": "yes", "rate": "50Mbit", "buffer": "5ms", "aqm": "fq-codel",
    "overhead": "22B", "cells": "atm",
}  # fmt: skip


def test_every_impairment_is_patched_and_put_and_taken_away_again(up: House) -> None:
    def settings() -> dict[str, Any]:
        return {one["name"]: one["settings"]["inbound"] for one in up.client.get("/api/status").json["lanes"]}["london"]

    before = settings()
    answer = up.client.patch("/api/lanes/london", json={"inbound": EVERY})
    assert answer.status_code == 200, answer.text
    up.tick()
    reply = settings()
    burst = str(loss_model.parse(EVERY["loss"]))
    assert reply == {"delay": "40ms", **EVERY, "loss": burst}
    put = up.client.get("/api/topology").text
    assert up.client.put("/api/topology", data=put, content_type="application/yaml").json["changed"] is False
    for name in EVERY.keys() - {"rate", "buffer", "aqm", "overhead", "cells", "loss"}:
        assert up.client.patch("/api/lanes/london", json={"inbound": {name: None}}).status_code == 200
    rest = dict.fromkeys(("buffer", "aqm", "overhead", "cells", "loss"))
    up.client.patch("/api/lanes/london", json={"inbound": {"rate": "10Gbit", **rest}})
    up.tick()
    assert settings() == before


def test_old_words_are_warned_of(up: House) -> None:
    done = up.client.patch("/api/lanes/london", json={"rate": "1Gbit", "queue": "red"})
    assert done.status_code == 200
    hint = "'queue' is now called 'aqm'; the old word is read for this release only"
    assert done.json["warnings"] == [f"request: lanes.london.queue: {hint}"]
    text = up.client.get("/api/topology").text.replace("aqm:", "queue:")
    assert "queue: red" in text
    done = up.client.put("/api/topology", data=text, content_type="application/yaml")
    assert [warning.endswith(hint) for warning in done.json["warnings"]] == [True]
