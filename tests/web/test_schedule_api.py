"""The schedule over HTTP: drawn, changed, moved in time, and beside other people's changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.folders import TOPOLOGIES
from support.hand_clock import HandClock
from support.web_daemon import AUTHOR, TOKENS, CountingKernel, House, asked, problem

from emulator.config import loader
from emulator.control.appliance import Appliance
from emulator.control.intent_store import IntentStore
from emulator.plan.scheduled_state import present

S = 10**9
OCTETS = "application/octet-stream"
TRACE = b"time,delay_ms,loss\n" + b"".join(b"%ds,%d,0.1%%\n" % (at, 20 + at % 7) for at in range(300))


class Timed(House):
    """A daemon whose machine's clock the test moves, with the day up."""

    def __init__(self, folder: Path) -> None:
        self.hand = HandClock()
        appliance = Appliance(CountingKernel(), folder, author=AUTHOR, guard=lambda _: None, clock=self.hand)
        super().__init__(folder, appliance)
        day = (TOPOLOGIES / "day.yaml").read_text().replace("start: 00:00", "start: now")
        assert self.client.put("/api/topology", data=day, content_type="application/yaml").status_code == 200

    def pass_s(self, seconds: float) -> None:
        """Time goes on, for the machine and for the daemon."""
        self.hand.pass_s(seconds)
        self.tick(seconds)

    @property
    def schedule(self) -> dict[str, Any]:
        """The schedule as a client reads it."""
        answer: dict[str, Any] = self.client.get("/api/schedule").json  # type: ignore[assignment]
        return answer

    def rtt_ms(self, lane: str) -> float:
        """What is asked of a lane now."""
        intent = IntentStore(self.appliance.state_dir).read()
        assert intent.topology
        return present(intent.topology, intent.began_ns, self.hand.unix_ns()).lane(lane).rtt_ns / 1e6


@pytest.fixture
def timed(tmp_path: Path) -> Timed:
    """The day, begun now."""
    return Timed(tmp_path)


def edited(timed: Timed, track: int, key: int, **said: str) -> dict[str, Any]:
    """The schedule with another key."""
    schedule: dict[str, Any] = timed.schedule["schedule"]
    schedule["tracks"][track]["keys"][key] |= said
    return schedule


def test_what_is_read_can_be_sent_and_changes_nothing(timed: Timed) -> None:
    before = asked(timed)
    done = timed.client.put("/api/schedule", json=timed.schedule["schedule"])
    assert (done.status_code, done.json["differences"], done.json["changed"]) == (200, [], False)
    assert asked(timed) == before
    assert timed.client.get("/api/schedule").headers["ETag"] == timed.client.get("/api/topology").headers["ETag"]


def test_a_change_is_told_in_words_and_commands_before_it_is_made(timed: Timed) -> None:
    wanted = edited(timed, 1, 0, rtt="250ms")
    plan = timed.client.put("/api/schedule?dry_run=1&at=20.4h", json=wanted).json
    assert plan["differences"] == ["tokyo rtt: 250 ms from 73800 s on, was 240 ms"]
    assert plan["performed"] is False
    assert [one["at_ns"] // S for one in plan["coming"]][:2] == [73500, 73740]
    assert plan["coming"][1]["words"][0] == "tokyo outbound: loss 0% -> 100%"
    assert "qdisc replace dev lhs-tokyo" in plan["coming"][1]["steps"][0]["command"]
    assert timed.schedule["at_ns"] == 0
    assert timed.client.put("/api/schedule", json=wanted).json["performed"] is True
    assert asked(timed).schedule == loader.loads(timed.client.get("/api/topology").text).schedule
    assert timed.client.post("/api/undo").status_code == 200
    assert asked(timed).schedule.tracks[1].keys[0].values == (("rtt_ns", 240_000_000),)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("said", "where", "text"),
    [
        ({"at": "25"}, ".tracks.0.keys.1.at", "'25' has no unit: write 25ms for milliseconds"),
        ({"at": "23.5h"}, ".tracks.0.keys.2", "keys must be in time order: 72000 s comes after 84600 s"),
        ({"loss": "2"}, ".tracks.0.keys.1.loss", "'2' has no unit: write 2% for percent, or a fraction below 1"),
        ({"jitter": "200ms"}, "", "at 61200 s of the schedule: jitter 200 ms exceeds the one-way delay of 40 ms"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_at_its_key_as_in_a_file(
    timed: Timed, said: Mapping[str, str], where: str, text: str
) -> None:
    wanted = edited(timed, 0, 1, **said)
    for method, url in (
        ("POST", "/api/schedule/drawing"),
        ("PUT", "/api/schedule"),
        ("PUT", "/api/schedule?dry_run=1"),
    ):
        (mistake,) = problem(timed.client.open(url, method=method, json=wanted), 422)["mistakes"]
        assert (mistake["path"], mistake["text"]) == (f"schedule{where}", text)


def test_a_schedule_can_jump_begin_again_and_go_on_where_it_is(timed: Timed) -> None:
    assert timed.client.post("/api/schedule/jump?at=20h").status_code == 200
    assert (timed.schedule["at_ns"], timed.rtt_ms("london")) == (20 * 3600 * S, 95.0)
    timed.pass_s(1900)
    assert (timed.schedule["at_ns"], timed.rtt_ms("tokyo")) == (73_900 * S, 240.0)
    assert timed.live.look().played_ns == 73_900 * S
    kept = timed.client.put("/api/schedule?at=kept", json=edited(timed, 1, 0, rtt="250ms"))
    assert (kept.status_code, timed.schedule["at_ns"], timed.rtt_ms("tokyo")) == (200, 73_900 * S, 250.0)
    assert timed.client.post("/api/schedule/jump").status_code == 200
    assert timed.schedule["at_ns"] == 0
    timed.pass_s(10)
    timed.client.put("/api/schedule", json=edited(timed, 1, 0, rtt="260ms"))
    assert timed.schedule["at_ns"] == 0
    status = timed.client.get("/api/status").json
    assert (status["drift"], status["blocked"]) == ([], {})


def test_a_change_of_the_schedule_waits_for_confirmation_and_reverts_in_its_phase(timed: Timed) -> None:
    timed.client.post("/api/schedule/jump?at=20h")
    assert timed.client.put("/api/schedule?confirm=60s", json=edited(timed, 1, 0, rtt="250ms")).status_code == 200
    timed.pass_s(30)
    assert timed.client.put("/api/schedule", json=edited(timed, 0, 2, rtt="99ms")).status_code == 200
    timed.pass_s(31)
    assert timed.appliance.expire()
    timed.tick()
    assert (timed.rtt_ms("london"), timed.schedule["at_ns"]) == (95.0, (20 * 3600 + 61) * S)
    assert timed.schedule["schedule"]["tracks"][1]["keys"][0]["rtt"] == "240ms"


def test_a_patch_of_a_lane_and_a_change_of_the_schedule_do_not_overwrite_one_another(timed: Timed) -> None:
    etag = timed.client.get("/api/schedule").headers["ETag"]
    assert timed.client.patch("/api/lanes/tokyo", json={"loss": "1%"}, headers={"If-Match": etag}).status_code == 200
    wanted = edited(timed, 1, 0, rtt="250ms")
    problem(timed.client.put("/api/schedule", json=wanted, headers={"If-Match": etag}), 412)
    etag = timed.client.get("/api/schedule").headers["ETag"]
    assert timed.client.put("/api/schedule", json=wanted, headers={"If-Match": etag}).status_code == 200
    assert asked(timed).lane("tokyo").outbound.mean_loss == pytest.approx(0.01)
    problem(timed.client.patch("/api/lanes/tokyo", json={"loss": "2%"}, headers={"If-Match": etag}), 412)
    warned = timed.client.patch("/api/lanes/tokyo", json={"rtt": "200ms"}).json["warnings"]
    assert warned == ["tokyo: the schedule sets rtt from 73800 s on, in place of this change: change the schedule, too"]
    assert timed.schedule["schedule"]["tracks"][1]["keys"][0]["rtt"] == "250ms"


@pytest.mark.parametrize("query", ["", "?dry_run=1"])
def test_a_patch_that_the_schedule_contradicts_is_refused_with_its_time(timed: Timed, query: str) -> None:
    before, text = asked(timed), "at 72600 s of the schedule: jitter 100 ms exceeds the one-way delay of 30 ms"
    refused = timed.client.patch(f"/api/lanes/ship{query}", json={"rtt": "300ms", "jitter": "100ms"})
    assert refused.status_code == 422
    assert [(one["path"], one["text"]) for one in refused.json["mistakes"]] == [("lanes.ship", text)]
    assert asked(timed) == before


def test_leased_lanes_keep_their_schedule_and_get_the_next_one_afterwards(timed: Timed) -> None:
    wanted = edited(timed, 1, 0, rtt="250ms")
    with timed.usecases.holding():
        timed.tick()
        refused = problem(timed.client.put("/api/schedule", json=wanted), 409)
        assert "has leased the lanes" in refused["detail"]
        problem(timed.client.post("/api/schedule/jump?at=1h"), 409)
        assert timed.schedule["schedule"]["tracks"][1]["keys"][0]["rtt"] == "240ms"
        assert len(timed.client.get("/api/schedule/drawing").json["curves"]) == 6
    assert timed.client.put("/api/schedule", json=wanted).status_code == 200


def test_a_schedule_is_removed_and_a_new_one_given(timed: Timed) -> None:
    first = timed.schedule["schedule"]
    done = timed.client.delete("/api/schedule").json
    assert done["differences"] == ["the schedule is removed: the lanes stay at their own settings"]
    gone = timed.schedule
    assert (gone["schedule"], gone["at_ns"], gone["lanes"]) == (None, None, ["london", "tokyo", "ship"])
    assert timed.client.get("/api/schedule/drawing").json["curves"] == []
    assert problem(timed.client.post("/api/schedule/jump?at=1h"), 422)["mistakes"][0]["text"].startswith("there is no")
    assert timed.client.put("/api/schedule", json=first).json["differences"] == [
        "a schedule with 4 tracks and 12 keys is new"
    ]


def test_a_reader_sees_the_schedule_and_changes_none(timed: Timed) -> None:
    reader = timed.someone(TOKENS.read)
    assert reader.get("/api/schedule").status_code == reader.get("/api/schedule/drawing").status_code == 200
    for method, url in (("PUT", "/api/schedule"), ("DELETE", "/api/schedule"), ("POST", "/api/schedule/jump"),
                        ("POST", "/api/schedule/drawing"), ("POST", "/api/traces?name=a.csv")):  # fmt: skip
        assert reader.open(url, method=method).status_code == 403, url


def test_without_a_topology_there_is_nothing_to_schedule(house: House) -> None:
    nothing = house.client.get("/api/schedule").json
    assert (nothing["topology"], nothing["schedule"], nothing["lanes"]) == (None, None, [])
    problem(house.client.put("/api/schedule", json={"tracks": []}), 422)
    assert house.client.get("/api/schedule/drawing").status_code == 404
