"""The endpoints that tell, and how failures are told."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, tzinfo
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from flask.testing import FlaskClient
from hypothesis import given
from msgspec.structs import asdict, replace
from prometheus_client.parser import text_string_to_metric_families
from support.hand_clock import HandClock
from support.spoilt_files import Spoil, spoils
from support.waiting import PATIENCE_S
from support.web_daemon import AUTHOR, CountingKernel, House, asked, problem, star

from emulator.control.appliance import Appliance
from emulator.control.intent_store import Pending
from emulator.control.schedule_lateness import Lateness
from emulator.control.status import Status
from emulator.kernel.protocol import QueueCounters
from emulator.model import geography
from emulator.plan.state import Link, Nic, State
from web.api import metrics


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
    ports = up.kernel.ports
    ports["lhs-japan"] = replace(ports["lhs-japan"], egress=None)
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
    assert up.client.patch("/api/lanes/london?confirm=1h", json={"rtt": "90ms"}).status_code == 200
    left_s = up.client.get("/api/status").json["pending"]["seconds_left"]
    assert 0 < left_s <= 3600 + PATIENCE_S  # a slow disk extends the time
    assert up.client.post("/api/confirm").json["pending"] is None
    assert up.client.post("/api/undo").json["performed"] is True
    assert asked(up) == star()
    entries = up.client.get("/api/history").json["entries"]
    assert [one["number"] for one in entries] == [3, 2, 1]
    author = {"user": "token", "uid": os.getuid(), "pid": os.getpid(), "command": "API, from 127.0.0.1"}
    assert entries[0]["author"] == author
    assert entries[0]["summary"] == "undo change 2: set london"
    assert "+  london: {rtt: 80ms" in entries[0]["diff"]


def test_taken_back_now_is_what_was_up_before_the_confirmation(up: House) -> None:
    up.client.patch("/api/lanes/london", json={"rtt": "45ms"})
    for rtt, query in (("46ms", "?confirm=1h"), ("47ms", "")):
        assert up.client.patch(f"/api/lanes/london{query}", json={"rtt": rtt}).status_code == 200
    assert up.client.post("/api/undo").json["performed"] is True
    assert asked(up).lane("london").rtt_ns == 45_000_000
    assert up.client.get("/api/status").json["pending"] is None


def test_revert_takes_back_what_waits_once_and_never_more(up: House) -> None:
    up.client.patch("/api/lanes/london", json={"rtt": "45ms"})
    up.client.patch("/api/lanes/london?confirm=1h", json={"rtt": "399ms"})
    assert up.client.post("/api/revert").json["summary"] == "reverted: 4 steps"
    nothing = "no change waits for confirmation: it was confirmed or reverted before; the history says which"
    for _ in range(2):
        assert problem(up.client.post("/api/revert"), 409)["detail"] == nothing
    assert asked(up).lane("london").rtt_ns == 45_000_000
    up.client.patch("/api/lanes/london?confirm=1h", json={"rtt": "399ms"})
    up.client.post("/api/confirm")
    assert problem(up.client.post("/api/revert"), 409)["detail"] == nothing
    assert asked(up).lane("london").rtt_ns == 399_000_000


class Timed(House):
    """A daemon with a clock that tests turn; all lanes lose everything, and nobody has confirmed that in time."""

    def __init__(self, folder: Path) -> None:
        self.hand = HandClock()
        appliance = Appliance(CountingKernel(), folder, author=AUTHOR, clock=self.hand, guard=lambda _: None)
        super().__init__(folder, appliance)
        self.up()
        lanes = {name: {"loss": "100%"} for name in star().sites}
        assert self.client.patch("/api/lanes?confirm=30s", json={"lanes": lanes}).status_code == 200
        self.hand.pass_s(30)


LATE: dict[str, Callable[[FlaskClient, dict[str, str]], Any]] = {
    "undo": lambda client, headers: client.post("/api/undo", headers=headers),
    "revert": lambda client, headers: client.post("/api/revert", headers=headers),
    "set": lambda client, headers: client.patch("/api/lanes/japan", json={"rtt": "346ms"}, headers=headers),
    "schedule": lambda client, headers: client.delete("/api/schedule", headers=headers),
}


@pytest.mark.parametrize("name", LATE)
def test_what_comes_after_the_time_to_confirm_brings_nothing_unconfirmed_back(tmp_path: Path, name: str) -> None:
    timed = Timed(tmp_path)
    assert LATE[name](timed.client, {}).status_code == 200
    assert asked(timed) == star()
    assert timed.appliance.pending_ns() is None


@pytest.mark.parametrize("name", LATE)
def test_after_the_time_to_confirm_the_tag_of_the_unconfirmed_change_is_old(tmp_path: Path, name: str) -> None:
    timed = Timed(tmp_path)
    headers = {"If-Match": timed.client.get("/api/topology").headers["ETag"]}
    problem(LATE[name](timed.client, headers), 412)
    assert asked(timed) == star()


@pytest.mark.parametrize("how", ["undo", "revert"])
def test_what_the_watchdog_reverts_while_a_request_waits_is_not_undone(tmp_path: Path, how: str) -> None:
    timed = Timed(tmp_path)
    lock, entered = timed.usecases._lock, threading.Event()
    asks = timed.appliance.unconfirmed

    def noted() -> Pending | None:
        found = asks()
        entered.set()
        return found

    timed.appliance.unconfirmed = noted  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as pool:
        with lock:
            answer = pool.submit(timed.client.post, f"/api/{how}")
            assert entered.wait(PATIENCE_S)
            assert timed.usecases.repair().reverted
        assert answer.result().status_code == 200
    assert asked(timed) == star()


@pytest.mark.parametrize("value", ["60", "0s", "25h", "soon"])
def test_confirm_within_a_second_and_a_day(up: House, value: str) -> None:
    found = problem(up.client.patch(f"/api/lanes/london?confirm={value}", json={"rtt": "90ms"}), 422)
    assert found["mistakes"][0]["path"] == "confirm"
    assert asked(up) == star()


def test_what_the_appliance_cannot_do_is_not_there(tmp_path: Path) -> None:
    class Bare(Appliance):
        """Without any of the optional use cases, whatever the product has by now."""

        def __getattribute__(self, name: str) -> Any:
            if name in ("confirm", "revert", "undo", "history", "nics"):
                raise AttributeError(name)
            return super().__getattribute__(name)

    house = House(tmp_path, Bare(CountingKernel(), tmp_path))
    document = house.client.get("/api/openapi.json").json
    for path in ("/api/undo", "/api/revert"):
        problem(house.client.post(path), 404)
        assert path not in document["paths"]
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


def test_certificates_of_the_same_moment_do_not_replace_one_another(up: House, monkeypatch: pytest.MonkeyPatch) -> None:
    class Still(datetime):
        """A clock that stands still."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Still:
            return cls(2026, 1, 2, 3, 4, 5, 999_000, tzinfo=tz)

    monkeypatch.setattr("web.certificates.datetime", Still)
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: up.client.post("/api/certificates?count=1").json["id"], range(4)))
    names = [f"20260102-03040{second}" for second in ("5-999", "6-000", "6-001", "6-002")]
    assert sorted(made) == names
    assert [one["id"] for one in up.client.get("/api/certificates").json["certificates"]] == names[::-1]


@given(spoils)
def test_a_spoilt_certificate_hides_no_other(spoil: Spoil) -> None:
    with TemporaryDirectory() as folder:
        up = House(Path(folder))
        up.up()
        first, second = (up.client.post("/api/certificates?count=3").json["id"] for _ in range(2))
        file = next(Path(folder).rglob(f"{first}.json"))
        spoil(file)
        listed = [one["id"] for one in up.client.get("/api/certificates").json["certificates"]]
        assert second in listed
        assert up.client.get(f"/api/certificates/{first}").status_code in (200, 404, 422)


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

    assert value("longhaul_lane_rtt_asked_seconds", lane="japan", flow="") == 0.346
    assert value("longhaul_lane_rtt_measured_seconds", lane="japan", of="p99") == 0.0329
    assert value("longhaul_sent_bytes", lane="japan", flow="", direction="outbound") == 15140
    assert value("longhaul_dropped_packets", lane="japan", flow="", direction="outbound", cause="buffer") == 1
    assert value("longhaul_queue_packets", lane="japan", flow="", direction="outbound") == 2
    assert value("longhaul_queue_limit_packets", lane="japan", flow="", direction="outbound") > 500_000
    assert value("longhaul_drift_steps") == 0


def test_metrics_and_live_events_tell_the_flows_of_a_lane_apart(up: House) -> None:
    voice = {"voice": {"match": {"dscp": "ef"}, "rtt": "120ms", "loss": "25%"}}
    assert up.client.patch("/api/lanes/japan", json={"flows": voice}).status_code == 200
    up.tick()
    up.live.look()
    text = up.client.get("/metrics").text
    for line in (
        'longhaul_lane_rtt_asked_seconds{flow="voice",lane="japan"} 0.12',
        'longhaul_lane_rtt_asked_seconds{flow="",lane="japan"} 0.346',
        'longhaul_loss_asked_ratio{direction="outbound",flow="voice",lane="japan"} 0.25',
        'longhaul_loss_asked_ratio{direction="outbound",flow="",lane="japan"} 0.0',
        'longhaul_sent_packets_total{direction="inbound",flow="voice",lane="japan"} 0.0',
    ):
        assert any(found.startswith(line) for found in text.splitlines()), line
    now = up.live.looks[-1].to_json()["lanes"]
    assert (list(now["japan"]["flows"]), now["london"]["flows"]) == (["voice", ""], {})
    limits = [now["japan"]["flows"][name]["outbound"]["limit_packets"] for name in ("voice", "")]
    assert now["japan"]["outbound"]["limit_packets"] == sum(limits) > 0


def test_metrics_of_a_schedule_count_its_changes_by_how_late_they_were() -> None:
    late = Lateness()
    for ns in (500, 2_000_000_000):
        late.add(ns)
    families = list(
        text_string_to_metric_families(metrics.text(Status(None, [], (), lateness=late), None, {}, 0).decode())
    )
    samples = next(f for f in families if f.name == "longhaul_schedule_lateness_seconds").samples
    assert {s.labels["le"]: s.value for s in samples if "le" in s.labels} == {
        "1e-06": 1, "1e-05": 1, "0.0001": 1, "0.001": 1, "0.01": 1, "0.1": 1, "1.0": 1, "+Inf": 2,
    }  # fmt: skip
    assert [s.value for s in samples if s.name.endswith("_sum")] == [2.0000005]


def test_health_needs_no_token_and_tells_when_the_last_look_was(house: House) -> None:
    stranger = house.someone()
    assert stranger.get("/healthz").json["sampled_s_ago"] is None
    house.live.look()
    house.tick(2.5)
    answer = stranger.get("/healthz").json
    assert (answer["status"], answer["sampled_s_ago"], answer["uptime_s"]) == ("ok", 2.5, 2.5)


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


def test_places_have_their_round_trips_to_a_hub_that_is_one(house: House) -> None:
    answer = {place["name"]: place for place in house.client.get("/api/places?hub=new-york").json["places"]}
    assert answer.keys() == geography.places().keys()
    assert answer["tokyo"] == {
        **asdict(geography.place("tokyo")),
        "rtt_ns": 159_410_000,
        "source": answer["tokyo"]["source"],
    }
    assert answer["tokyo"]["source"].startswith("estimate")
    assert (answer["japan"]["rtt_ns"], answer["japan"]["source"]) == (346_000_000, geography.FOUNDING)
    alone = house.client.get("/api/places").json["places"]
    assert {place["rtt_ns"] for place in alone} == {None}
    assert "did you mean tokyo?" in problem(house.client.get("/api/places?hub=tokio"), 422)["detail"]


@pytest.mark.parametrize("query", ["", "?dry_run=1"])
@pytest.mark.parametrize("if_match", [True, False])
def test_down_returns_the_ports_although_the_intent_is_spoilt(up: House, query: str, if_match: bool) -> None:
    tag = up.client.get("/api/topology").headers["ETag"]
    (up.appliance.state_dir / "intent.json").write_text("{")
    up.tick()
    told = problem(up.client.get("/api/status"), 422)
    assert "run longhaul down: it sets the file aside" in told["detail"]
    problem(up.client.patch("/api/lanes/london", json={"rtt": "90ms"}, headers={"If-Match": tag}), 422)
    done = up.client.delete(f"/api/topology{query}", headers={"If-Match": tag} if if_match else {})
    assert (done.status_code, len(done.json["steps"]) > 3) == (200, True), done.text
    if not query:
        assert ["intent.json.spoilt" in note for note in done.json["warnings"]] == [True]
        assert up.kernel.observe() == State()
        assert up.client.post("/api/undo").status_code == 200
        assert asked(up) == star()
