"""Recordings by the API: started, watched, stopped, kept, replayed on a lane and as traces of a schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import made_recordings
from support.made_recordings import one_way, round_trips
from support.web_daemon import MS, TOKENS, House, asked, problem

from emulator.control.appliance import Appliance
from emulator.errors import MeasureError
from emulator.record import file
from web.service import UseCases

S = 10**9


def start(house: House, **said: Any) -> Any:
    """A recording that has begun."""
    answer = house.client.post("/api/recordings", json=said)
    assert answer.status_code == 201, answer.text
    return answer.json


def recorded(house: House, name: str = "paris", echoes: int = 200, **said: Any) -> Any:
    """A recording that was stopped after so many echoes."""
    start(house, **{"host": name, "every": "20ms", **said})
    ping = house.paths.ping()
    for number in range(echoes + 1):
        ping.answer(80 + number % 10)
    house.client.post(f"/api/recordings/{name}/stop")
    house.recordings.wait()
    return house.client.get(f"/api/recordings/{name}").json


def names(house: House) -> list[str]:
    """All recordings."""
    return [one["name"] for one in house.client.get("/api/recordings").json["recordings"]]  # type: ignore[index]


def test_a_host_is_recorded_and_stopped_early(house: House) -> None:
    begun = start(house, host="paris.example.org", **{"for": "1h"})
    assert (begun["name"], begun["state"], begun["for_ns"]) == ("paris-example-org", "recording", 3600 * S)
    assert house.client.get("/api/recordings/paris-example-org").json["profile"] is None  # type: ignore[index]
    ping = house.paths.ping()
    for _ in range(101):
        ping.answer()
    while house.recordings.last.probes < 100:  # type: ignore[union-attr]
        pass
    curve = house.client.get("/api/recordings/paris-example-org/curve").json
    assert house.client.post("/api/recordings/paris-example-org/stop").json["step"] == "ends"  # type: ignore[index]
    house.recordings.wait()
    assert curve == {"step_ns": 30 * S, "least_ns": [80 * MS], "most_ns": [80 * MS], "lost": [0]}
    kept = house.client.get("/api/recordings/paris-example-org/curve").json
    assert kept
    assert (kept["step_ns"], kept["lost"]) == (100 * MS, [0] * 20)
    assert {*kept["least_ns"], *kept["most_ns"]} == {80 * MS}
    assert house.client.get("/api/recordings/london/curve").status_code == 404
    done = house.client.get("/api/recordings/paris-example-org").json
    assert done
    assert (done["state"], done["tool"], done["ways"], done["trouble"]) == ("done", "ping", "assumed", "")
    profile = done["profile"]
    assert (profile["least_ns"], profile["outbound"]["packets"]) == (80 * MS, 100)
    assert profile["outbound"]["delay_ns"] + profile["inbound"]["delay_ns"] == 80 * MS
    assert (house.daemon.recordings.folder("paris-example-org") / "outbound.csv").exists()
    assert names(house) == ["paris-example-org"]


def test_a_lane_is_recorded_between_its_hosts(up: House) -> None:
    start(up, lane="london", rate=False)
    assert up.paths.ping()
    assert up.paths.asked == ["new-york/london"]
    up.client.post("/api/recordings/london/stop")
    up.recordings.wait()


def test_watchers_hear_of_it(house: House) -> None:
    recorded(house)
    told = [one for one in house.told if one.name == "paris"]
    versions = [one.version for one in told]
    assert versions == sorted(set(versions))
    assert [one.state for one in told][-1] == "done"
    assert told[-1].probes == told[-1].answered == 200
    steps = list(dict.fromkeys(one.step for one in told))
    assert steps == ["begins", "probes", "ends", "profile", ""]


@pytest.mark.parametrize(
    ("said", "path", "text"),
    [
        ({}, "host", "name a host's address or a lane, one of them"),
        ({"host": "a", "lane": "london"}, "host", "name a host's address or a lane, one of them"),
        ({"lane": "berlin"}, "lane", "there is no lane 'berlin': use california, london or japan"),
        ({"host": "-f"}, "host", "use a host's name or address"),
        ({"host": "a b"}, "host", "use a host's name or address"),
        ({"host": "a", "every": "1ms"}, "every", "use at least 10 ms: more probes would load the path"),
        ({"host": "a", "for": "10ms"}, "for", "this duration is too short for one probe"),
        ({"host": "a", "step": "10ms"}, "step", "a step of the trace must be at least the interval (every)"),
        ({"host": "a", "for": "1000h", "every": "1s"}, "step", "3600000 steps are too many for a trace: 125000"),
        ({"host": "a", "by": "guess"}, "by", "'guess' is not one of auto, irtt, ping"),
        ({"host": "a", "name": "../up"}, "name", "'../up' is no name: use at most 40 letters"),
        ({"host": "a", "for": "soon"}, "for", "'soon'"),
        ({"host": "a", "until": "1s"}, "until", "unknown key; the keys are lane, host, name, for, every, by"),
    ],
)
def test_what_cannot_be_recorded(up: House, said: dict[str, str], path: str, text: str) -> None:
    mistakes = problem(up.client.post("/api/recordings", json=said), 422)["mistakes"]
    assert [(one["path"], one["text"].startswith(text)) for one in mistakes if one["path"] == path] == [(path, True)]
    assert up.paths.asked == []
    assert names(up) == []


def test_every_mistake_is_told_at_once(house: House) -> None:
    said = {"lane": "london", "every": "1ms", "for": "1us", "step": "1us", "name": "a.b"}
    mistakes = problem(house.client.post("/api/recordings", json=said), 422)["mistakes"]
    assert [one["path"] for one in mistakes] == ["every", "for", "step", "lane", "name"]


def test_one_at_a_time_and_none_over_another(house: House) -> None:
    recorded(house)
    start(house, host="paris")
    assert (
        "a recording is active" in problem(house.client.post("/api/recordings", json={"host": "rome"}), 409)["detail"]
    )
    assert "stop it first" in problem(house.client.delete("/api/recordings/paris-2"), 409)["detail"]
    assert "stop it first" in problem(house.client.post("/api/recordings/paris-2/profile"), 409)["detail"]
    assert house.client.get("/api/recordings").json["recordings"][0]["state"] == "recording"  # type: ignore[index]
    house.client.post("/api/recordings/paris-2/stop")
    house.recordings.wait()
    again = problem(house.client.post("/api/recordings", json={"host": "rome", "name": "paris"}), 422)
    assert again["mistakes"][0]["text"].startswith("there is a recording paris already")
    assert problem(house.client.post("/api/recordings/paris/stop"), 404)


def test_without_an_answer_nothing_is_kept_but_the_reason(house: House) -> None:
    failed = recorded(house, echoes=0)
    assert (failed["state"], failed["trouble"]) == (
        "failed", "no probe was answered: is the host up, and does it answer ping?",
    )  # fmt: skip
    assert not (house.appliance.state_dir / "recordings/paris").exists()
    assert recorded(house)["state"] == "done"


def test_an_error_of_the_tools_is_told(house: House) -> None:
    house.paths.wrong = MeasureError("ping: paris: Name or service not known")
    start(house, host="paris")
    house.recordings.wait()
    told = house.client.get("/api/recordings/paris").json
    assert told
    assert (told["state"], told["trouble"]) == ("failed", "ping: paris: Name or service not known")
    assert house.client.delete("/api/recordings/paris").status_code == 204
    assert names(house) == []


def test_what_a_crash_interrupted_is_computed(house: House) -> None:
    folder = house.appliance.state_dir / "recordings/paris"
    made_recordings.folder(folder, one_way(1, 3000))
    (folder / "profile.yaml").unlink()
    assert house.client.get("/api/recordings/paris").json["state"] == "interrupted"  # type: ignore[index]
    assert "no profile yet" in problem(house.client.post("/api/recordings/paris/replay?lane=london"), 409)["detail"]
    done = house.client.post("/api/recordings/paris/profile?step=100ms").json
    assert done
    assert (done["state"], done["profile"]["outbound"]["packets"]) == ("done", 3000)


def test_a_spoilt_recording_hides_no_other_and_can_be_deleted(house: House) -> None:
    folder = house.appliance.state_dir / "recordings"
    made_recordings.folder(folder / "paris", one_way(1, 1000))
    made_recordings.folder(folder / "rome", one_way(2, 1000))
    (folder / "rome/profile.yaml").write_text("path_profile: [")
    (folder / "oslo").mkdir()
    every = {one["name"]: one for one in house.client.get("/api/recordings").json["recordings"]}  # type: ignore[index]
    assert {name: one["state"] for name, one in every.items()} == {"paris": "done", "rome": "failed", "oslo": "failed"}
    assert "rome/profile.yaml" in every["rome"]["trouble"]
    for name in ("rome", "oslo"):
        assert house.client.delete(f"/api/recordings/{name}").status_code == 204
    assert names(house) == ["paris"]


def test_the_daemons_end_keeps_what_was_measured(house: House) -> None:
    start(house, host="paris")
    ping = house.paths.ping()
    for _ in range(50):
        ping.answer()
    house.daemon.stop()
    assert file.load(house.appliance.state_dir / "recordings/paris").outbound.found.packets == 49


def test_a_lane_replays_a_recording_after_its_plan_and_undo_takes_it_back(up: House) -> None:
    made_recordings.folder(up.appliance.state_dir / "recordings/paris", one_way(1, 3000))
    before = asked(up)
    etag = up.client.get("/api/topology").headers["ETag"]
    planned = up.client.post("/api/recordings/paris/replay?lane=london&dry_run=1", headers={"If-Match": etag})
    assert planned.json and planned.json["changed"] and not planned.json["performed"]
    assert asked(up) == before
    done = up.client.post("/api/recordings/paris/replay?lane=london", headers={"If-Match": etag})
    assert done.json and done.json["performed"]
    lane, profile = asked(up).lane("london"), file.load(up.appliance.state_dir / "recordings/paris")
    assert (lane.outbound.delay_ns, lane.inbound.delay_ns) == (profile.outbound.delay_ns, profile.inbound.delay_ns)
    assert lane.outbound.loss_model == profile.outbound.loss
    assert asked(up).lane("japan") == before.lane("japan")
    late = up.client.post("/api/recordings/paris/replay?lane=japan", headers={"If-Match": etag})
    assert late.status_code == 412
    assert up.client.post("/api/undo").status_code == 200
    assert asked(up) == before


def test_a_replay_waits_for_confirmation_and_not_while_a_measurement_has_the_lanes(up: House) -> None:
    made_recordings.folder(up.appliance.state_dir / "recordings/paris", one_way(1, 3000))
    up.client.post("/api/recordings/paris/replay?lane=london&confirm=60s")
    assert up.client.get("/api/status").json["pending"]  # type: ignore[index]
    up.client.post("/api/confirm")
    with Appliance(up.kernel, up.appliance.state_dir, guard=lambda _: None).lease(asked(up)):
        assert problem(up.client.post("/api/recordings/paris/replay?lane=japan"), 409)
        assert recorded(up, "rome")["state"] == "done"


def test_what_cannot_be_replayed(up: House) -> None:
    made_recordings.folder(up.appliance.state_dir / "recordings/paris", round_trips([80.0] * 100))
    lane = problem(up.client.post("/api/recordings/paris/replay?lane=berlin"), 422)["mistakes"]
    assert lane[0]["text"] == "there is no lane 'berlin': use california, london or japan"
    assert problem(up.client.post("/api/recordings/rome/replay?lane=london"), 404)
    up.client.delete("/api/topology")
    assert "nothing is up" in problem(up.client.post("/api/recordings/paris/replay?lane=london"), 422)["detail"]


def test_both_directions_over_time_become_a_schedule(up: House) -> None:
    made_recordings.folder(up.appliance.state_dir / "recordings/paris", one_way(1, 3000))
    traces = up.client.post("/api/recordings/paris/traces").json
    assert traces
    assert [one["name"] for one in traces["traces"]] == ["paris-outbound.csv", "paris-inbound.csv"]
    tracks = [
        {"lanes": ["london"], "direction": direction, "trace": f"paris-{direction}.csv"}
        for direction in ("outbound", "inbound")
    ]
    done = up.client.put("/api/schedule", json={"tracks": tracks, "loop": "1min"})
    assert done.status_code == 200, done.text
    up.client.delete("/api/recordings/paris")
    schedule = asked(up).schedule
    assert schedule
    assert [len(track.keys) for track in schedule.tracks] == [60, 60]


def test_whoever_may_only_read_sees_them_and_records_nothing(house: House) -> None:
    made_recordings.folder(house.appliance.state_dir / "recordings/paris", one_way(1, 1000))
    reader = house.someone(TOKENS.read)
    assert [one["name"] for one in reader.get("/api/recordings").json["recordings"]] == ["paris"]  # type: ignore[index]
    for method, path in [("POST", ""), ("POST", "/paris/replay?lane=london"), ("DELETE", "/paris")]:
        assert reader.open(f"/api/recordings{path}", method=method, json={"host": "a"}).status_code == 403


def test_another_daemon_finds_them(house: House, tmp_path: Path) -> None:
    recorded(house)
    other = House(house.appliance.state_dir)
    assert isinstance(other.usecases, UseCases)
    (one,) = other.client.get("/api/recordings").json["recordings"]  # type: ignore[index]
    assert (one["name"], one["state"], one["profile"]["least_ns"]) == ("paris", "done", 80 * MS)
