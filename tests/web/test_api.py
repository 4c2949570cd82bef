"""Every endpoint's contract, over the real appliance and the kernel in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from daemons import CountingKernel, House, star
from prometheus_client.parser import text_string_to_metric_families

from emulator import topologyfile
from emulator.appliance import Appliance
from emulator.kernel import QueueCounters
from emulator.model import Topology
from emulator.state import Link, Nic

PROBLEM = "application/problem+json"


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A daemon with nothing up."""
    return House(tmp_path)


@pytest.fixture
def up(house: House) -> House:
    """A daemon with the founding star up."""
    assert house.up().status_code == 200
    return house


def asked(house: House) -> Topology:
    """What the appliance was asked for."""
    topology = house.appliance.topology()
    assert topology
    return topology


def problem(response: Any, status: int) -> dict[str, Any]:
    """The problem that a request was answered with."""
    assert (response.status_code, response.content_type) == (status, PROBLEM), response.text
    value: dict[str, Any] = json.loads(response.text)
    assert value["status"] == status
    return value


def test_put_brings_up_and_answers_the_plan_that_was_performed(house: House) -> None:
    answer = house.up()
    assert answer.status_code == 200
    assert answer.json["summary"] == "new-york is up: 75 steps"
    assert (answer.json["performed"], answer.json["changed"], len(answer.json["steps"])) == (True, True, 75)
    assert len(house.kernel.log) == 75
    assert [s["command"] for s in answer.json["steps"]] == [str(op) for op in house.kernel.log]
    assert house.up().json["summary"] == "new-york is up: nothing to change"


def test_dry_run_answers_the_plan_and_changes_nothing(house: House) -> None:
    answer = house.client.put(
        "/api/topology?dry_run=1", data=topologyfile.dumps(star()), content_type="application/yaml"
    )
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
    text = (Path(__file__).parents[1] / "golden/errors/five-at-once.yaml").read_text()
    found = problem(house.client.put("/api/topology", data=text, content_type="application/yaml"), 422)["mistakes"]
    assert [m["where"] for m in found] == [f"topology:{line}" for line in (3, 5, 8, 10, 13)]


def test_get_topology_is_what_put_takes(up: House) -> None:
    got = up.client.get("/api/topology")
    assert topologyfile.loads(got.text) == star()
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


@pytest.mark.parametrize(
    ("patch", "path"),
    [
        ({"rtt": "40"}, "lanes.london.rtt"),
        ({"speed": "1Gbit"}, "lanes.london.outbound.speed"),
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
    told = problem(up.client.patch("/api/lanes/london", json={"rtt": "90ms"}), 500)
    assert (told["title"], "injected" in told["detail"]) == ("Kernel failed", True)
    assert asked(up) == star()
    up.tick()
    assert up.client.get("/api/status").json["drift"] == []


def test_a_refusal_is_a_conflict(house: House) -> None:
    house.kernel.links["eth1"] = Link(1500, True, True, 0, default_route=True)
    house.kernel.links["eth2"] = Link(1500, True, True, 0)
    tree = {"name": "x", "hub": "y", "lanes": {"a": {"rtt": "1ms", "ports": {"hub": "eth1", "site": "eth2"}}}}
    told = problem(house.client.put("/api/topology", json=tree), 409)
    assert "eth1: carries the default route" in told["detail"]


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


def test_status_has_asked_and_present(up: House) -> None:
    up.kernel.counted["lhs-japan"] = QueueCounters(10, 15140, 3, 2, 3028, 1)
    up.tick()
    status = up.client.get("/api/status").json
    assert (status["topology"], status["hub"], status["pending"]) == ("new-york", "new-york", None)
    japan = status["lanes"][2]
    assert (japan["name"], japan["rtt_ns"], japan["settings"]["outbound"]["delay"]) == ("japan", 346_000_000, "173ms")
    assert japan["outbound"]["netem"]["delay_ns"] == 173_000_000
    assert (japan["outbound"]["drops_limit"], japan["outbound"]["drops_buffer"], japan["outbound"]["packets"]) == (
        2,
        1,
        10,
    )
    assert status["etag"] == up.client.get("/api/topology").headers["ETag"]


def test_status_tells_drift(up: House) -> None:
    up.kernel.ports["lhs-japan"].__dict__["egress"] = None
    up.tick()
    drift = up.client.get("/api/status").json["drift"]
    assert [step["command"].split()[:5] for step in drift] == [["tc", "qdisc", "replace", "dev", "lhs-japan"]] * 2


def test_many_who_ask_at_once_share_one_look_and_a_change_is_seen_at_once(up: House) -> None:
    looked = []
    up.kernel.observe = lambda real=up.kernel.observe: looked.append(1) or real()  # type: ignore
    for _ in range(5):
        up.client.get("/api/status")
    assert len(looked) == 1
    up.client.patch("/api/lanes/london", json={"rtt": "90ms"})
    assert up.client.get("/api/status").json["lanes"][1]["rtt_ns"] == 90_000_000


def test_confirm_undo_and_history(up: House) -> None:
    problem(up.client.post("/api/confirm"), 422)
    assert up.client.patch("/api/lanes/london?confirm=60s", json={"rtt": "90ms"}).status_code == 200
    assert 0 < up.client.get("/api/status").json["pending"]["seconds_left"] <= 60
    assert up.client.post("/api/confirm").json["pending"] is None
    assert up.client.post("/api/undo").json["performed"] is True
    assert asked(up) == star()
    entries = up.client.get("/api/history").json["entries"]
    assert [one["number"] for one in entries] == [3, 2, 1]
    assert entries[0]["author"] == {"user": "root", "uid": 0, "pid": 1, "command": "test"}
    assert entries[0]["summary"] == "undo change 2: set london"
    assert "+  london: {rtt: 80ms" in entries[0]["diff"]


@pytest.mark.parametrize("value", ["60", "0s", "2h", "soon"])
def test_confirm_within_a_second_and_an_hour(up: House, value: str) -> None:
    found = problem(up.client.patch(f"/api/lanes/london?confirm={value}", json={"rtt": "90ms"}), 422)
    assert found["mistakes"][0]["path"] == "confirm"
    assert asked(up) == star()


def test_what_the_appliance_cannot_do_is_not_there(tmp_path: Path) -> None:
    class Bare(Appliance):
        """Without any of the optional use cases, whatever the product has by now."""

        def __getattribute__(self, name: str) -> Any:
            if name in ("confirm", "undo", "history", "nics"):
                raise AttributeError(name)
            return super().__getattribute__(name)

    house = House(tmp_path, Bare(CountingKernel(), tmp_path))
    problem(house.client.post("/api/undo"), 404)
    document = house.client.get("/api/openapi.json").json
    assert "/api/undo" not in document["paths"]
    assert "/api/status" in document["paths"]


def test_nics(house: House) -> None:
    house.kernel.links["eth1"] = Link(1500, True, True, 0, default_route=True)
    house.kernel.nics["eth1"] = Nic(driver="igb", speed_mbps=1000, offloads=frozenset({"gro"}))
    (nic,) = house.client.get("/api/nics").json["nics"]
    assert (nic["name"], nic["driver"], nic["speed_mbps"], nic["usable"]) == ("eth1", "igb", 1000, False)
    assert "carries the default route" in nic["reasons"][0]


def test_certificates_are_made_kept_and_shown(up: House) -> None:
    made = up.client.post("/api/certificates?count=3")
    assert (made.status_code, made.json["passed"], made.json["count"], len(made.json["pairs"])) == (201, True, 3, 3)
    assert up.client.get("/api/certificates").json == {"certificates": [made.json]}
    assert up.client.get(f"/api/certificates/{made.json['id']}").json == made.json
    problem(up.client.get("/api/certificates/20260102-030405-000"), 404)
    problem(up.client.get("/api/certificates/..%2Ftoken"), 404)


def test_a_certificate_of_nothing(house: House) -> None:
    problem(house.client.post("/api/certificates"), 422)


def test_metrics_are_in_the_format_of_prometheus(up: House) -> None:
    up.kernel.counted["lhs-japan"] = QueueCounters(10, 15140, 3, 2, 3028, 1)
    up.tick()
    up.live.look()
    families = {f.name: f for f in text_string_to_metric_families(up.client.get("/metrics").text)}

    def value(family: str, **labels: str) -> float:
        (found,) = [s.value for s in families[family].samples if s.labels == labels]
        return float(found)

    assert value("longhaul_lane_rtt_asked_seconds", lane="japan") == 0.346
    assert value("longhaul_lane_rtt_measured_seconds", lane="japan", of="p99") == 0.0329
    assert value("longhaul_sent_bytes", lane="japan", direction="outbound") == 15140
    assert value("longhaul_dropped_packets", lane="japan", direction="outbound", cause="buffer") == 1
    assert value("longhaul_queue_packets", lane="japan", direction="outbound") == 2
    assert value("longhaul_queue_limit_packets", lane="japan", direction="outbound") > 500_000
    assert value("longhaul_drift_steps") == 0


def test_health_needs_no_token_and_tells_when_the_last_look_was(house: House) -> None:
    stranger = house.someone()
    assert stranger.get("/healthz").json["sampled_s_ago"] is None
    house.live.look()
    house.tick(2.5)
    told = stranger.get("/healthz").json
    assert (told["status"], told["sampled_s_ago"], told["uptime_s"]) == ("ok", 2.5, 2.5)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/nothing", 404),
        ("POST", "/api/status", 405),
        ("GET", "/api/status?deep=1", 422),
        ("GET", "/api/lanes/x/past?seconds=0", 422),
    ],
)
def test_every_failure_is_a_problem(up: House, method: str, path: str, status: int) -> None:
    problem(up.client.open(path, method=method), status)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 422),
        (b"[" * 100_000, "application/json", 422),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "application/json", 422),
        (b"\xff\xfe", "application/yaml", 422),
        (b"name: x", "image/png", 415),
        (b"x" * 300_000, "application/yaml", 413),
        (b'{"name": "\\ud800", "hub": "x"}', "application/json", 422),
        (b'name: "\\ud800"\nhub: x', "application/yaml", 422),
    ],
)
def test_a_body_that_is_none(house: House, body: bytes, kind: str, status: int) -> None:
    problem(house.client.put("/api/topology", data=body, content_type=kind), status)


def test_a_bug_is_told_as_one(house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> None:
        raise ZeroDivisionError("never seen")

    monkeypatch.setattr(house.appliance, "status", broken)
    assert "never seen" in caplog.text or "this is a bug" in problem(house.client.get("/api/status"), 500)["detail"]
    assert "ZeroDivisionError" in caplog.text


def test_the_openapi_document_has_every_endpoint_and_valid_references(house: House) -> None:
    document = house.someone().get("/api/openapi.json").json
    assert document["openapi"] == "3.1.0"
    routed = {
        (rule.rule.replace("<", "{").replace(">", "}"), method.lower())
        for rule in house.app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if rule.rule.startswith(("/api/", "/metrics", "/healthz"))
    }
    assert {(path, method) for path, methods in document["paths"].items() for method in methods} == routed
    references = {part.partition('"')[0] for part in json.dumps(document).split('"#/components/schemas/')[1:]}
    assert references <= set(document["components"]["schemas"])
