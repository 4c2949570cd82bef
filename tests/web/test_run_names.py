"""The names of runs by the API and the command line: given, changed, searched, kept beside the run's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.made_results import cell_spec, execution
from support.web_daemon import TOKENS, House, problem, until

from emulator.cli.main import cli
from emulator.experiment.run_folder import NAME, Asked, RunFolder

ASKED = {"rtt": ["1ms"], "rate": "100Mbit", "in_lab": True, "repeats": 1}
OLD = "20260102-030405-000"


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A daemon that measures made-up cells."""
    return House(tmp_path, runner=execution)


def begin(house: House, name: str | None) -> str:
    """The id of a run that has ended."""
    answer = house.client.post("/api/runs", json=ASKED | ({} if name is None else {"name": name}))
    assert answer.status_code == 201, answer.text
    id = str(answer.json["id"])
    until(house, id, lambda run: run["state"] == "done")
    return id


def rename(house: House, id: str, name: Any) -> Any:
    """The answer to a new name."""
    return house.client.patch(f"/api/runs/{id}", json={"name": name})


def old_run(house: House) -> RunFolder:
    """A run of the time before names."""
    place = house.usecases.state_dir / "runs" / OLD
    folder = RunFolder.create(place, {"created": "2026-01-02"}, Asked((cell_spec(),), True))
    folder.save(execution(cell_spec()))
    return folder


def test_a_run_has_its_name_from_its_start_and_another_later(house: House) -> None:
    id = begin(house, "  before the new kernel ")
    assert house.client.get("/api/runs").json == {"runs": [id], "names": {id: "before the new kernel"}}
    assert rename(house, id, "after it").json["name"] == "after it"
    assert house.reported[-1].name == "after it"  # other pages hear of it
    assert house.client.get(f"/api/runs/{id}").json["name"] == "after it"
    assert rename(house, id, "").json["name"] == ""
    assert house.client.get("/api/runs").json["names"] == {}


def test_two_runs_may_have_one_name_and_are_compared_by_their_ids(house: House) -> None:
    first, second = begin(house, "nightly"), begin(house, "nightly")
    assert house.client.get("/api/runs").json["names"] == {second: "nightly", first: "nightly"}
    assert len(house.client.get(f"/api/runs/{second}/comparison?other={first}").json["changes"]) == 1


def test_a_run_of_the_time_before_names_gets_one_that_a_killed_daemon_does_not_lose(house: House) -> None:
    folder = old_run(house)
    assert house.client.get(f"/api/runs/{OLD}").json["name"] == ""
    rename(house, OLD, "the first one")
    again = House(house.usecases.state_dir, runner=execution)  # nothing was told to the first daemon
    assert again.client.get("/api/runs").json == {"runs": [OLD], "names": {OLD: "the first one"}}
    assert (folder.path / NAME).read_text() == "the first one\n"
    assert list(folder.measured(folder.asked())) == [cell_spec().id]


@pytest.mark.parametrize("spoilt", [b"\xff\xfe", b"two\nlines\n", b"x" * 81, b"y" * 5000])
def test_a_spoilt_name_hides_no_run(house: House, spoilt: bytes) -> None:
    (old_run(house).path / NAME).write_bytes(spoilt)
    assert house.client.get("/api/runs").json == {"runs": [OLD], "names": {}}
    assert house.client.get(f"/api/runs/{OLD}").json["finished"] == 1
    assert rename(house, OLD, "whole again").json["name"] == "whole again"


@pytest.mark.parametrize(
    ("name", "words"), [("x" * 81, "at most 80 characters"), ("a\nb", "on one line"), (["a"], "a run's name")]
)
def test_a_name_that_is_none_is_refused_with_its_field(house: House, name: Any, words: str) -> None:
    id = begin(house, "kept")
    said = problem(rename(house, id, name), 422)
    assert said["mistakes"][0]["path"] == "name"
    assert words in said["mistakes"][0]["text"]
    assert problem(house.client.post("/api/runs", json=ASKED | {"name": name}), 422)["mistakes"][0]["path"] == "name"
    assert house.client.get("/api/runs").json == {"runs": [id], "names": {id: "kept"}}
    problem(rename(house, "20260102-030405-001", "nobody"), 404)
    assert house.someone(TOKENS.read).patch(f"/api/runs/{id}", json={"name": "mine"}).status_code == 403


def test_names_and_ids_are_searched(house: House) -> None:
    first, second = begin(house, "Before the new kernel"), begin(house, None)

    def found(text: str) -> Any:
        return house.client.get("/api/runs", query_string={"search": text}).json["runs"]

    assert found("KERNEL before") == [first]
    assert found(second) == [second]
    assert (found("after"), found("")) == ([], [second, first])


def test_the_report_has_the_name_and_is_drawn_again_for_another_one(house: House) -> None:
    id = begin(house, "<b>bold</b>")
    assert f"&lt;b&gt;bold&lt;/b&gt; ({id})" in house.client.get(f"/api/runs/{id}/report?format=html").text
    rename(house, id, "plain")
    assert f"plain ({id})" in house.client.get(f"/api/runs/{id}/report?format=html").text


def test_the_command_line_names_lists_searches_and_compares(house: House, tmp_path: Path) -> None:
    first, second = begin(house, "one"), begin(house, None)
    runs = tmp_path / "runs"

    def said(*argv: str) -> str:
        done = CliRunner().invoke(cli, list(argv), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    assert "is named 'the other'" in said("rename", str(runs / second), "the other")
    assert house.client.get(f"/api/runs/{second}").json["name"] == "the other"
    listed = json.loads(said("runs", "--runs", str(runs), "--json"))
    assert [row["name"] for row in listed] == ["one", "the other"]
    assert [row["name"] for row in json.loads(said("runs", "--runs", str(runs), "--search", "OTHER", "--json"))] == [
        "the other"
    ]
    assert said("runs", "--runs", str(runs), "--search", "nothing").startswith(f"no run in {runs} has 'nothing'")
    compared = said("compare", str(runs / first), str(runs / second))
    assert compared.startswith(f"one ({runs / first}) -> the other ({runs / second})\n")
    assert "has no name" in said("rename", str(runs / second), "")
