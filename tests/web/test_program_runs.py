"""Runs of programs by the API: what a request may say, who may run what where, and what the answer tells."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from support.made_programs import execution
from support.waiting import PATIENCE_S
from support.web_daemon import TOKENS, House, problem, until

from emulator.config import shipped_topologies
from emulator.errors import LabError
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Asked, Execution
from web.api import programs
from web.runs import Progress

SERVER, CLIENT = "exec python3 -m http.server 8000", "curl -so page http://{server}:8000/page"
WORKLOAD = {"server": SERVER, "ready": "tcp:8000", "client": CLIENT, "prepare": "head -c 1MiB /dev/zero > page"}
ASKED = {"rtt": ["10ms", "80ms", "346ms"], "rate": "1Gbit", "workload": WORKLOAD, "in_lab": True}


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A daemon with nothing up, whose kernel has Landlock."""
    return House(tmp_path, runner=execution, confines=lambda: True)


def mistakes(house: House, **said: Any) -> list[tuple[str, str]]:
    """The paths and texts that a request is refused with."""
    told = problem(house.client.post("/api/runs?dry_run=1", json=ASKED | said), 422)
    return [(one["path"], one["text"]) for one in told["mistakes"]]


def test_a_run_tells_its_program_its_cells_and_the_law(house: House) -> None:
    name = house.client.post("/api/runs", json=ASKED).json["id"]
    done = until(house, name, lambda run: run["state"] == "done")
    assert done["workload"] == {
        **WORKLOAD,
        "name": "curl",
        "prepare_client": "",
        "bytes": None,
        "repeat": 5,
        "packages": [],
    }
    cells = done["cells"]
    assert [round(cell["completion_s"], 3) for cell in cells] == [0.185, 1.445, 6.233]
    assert [round(cell["round_trips"], 1) for cell in cells] == [18.5, 18.1, 18.0]
    assert [cell["law_completion_s"] == pytest.approx(cell["completion_s"]) for cell in cells] == [True] * 3
    assert {(cell["completion_half_width_s"], cell["connections"], cell["steady_bytes_per_s"]) for cell in cells} == {
        (0.0, 1, None)
    }
    assert [cell["limiter"] for cell in cells] == [cells[0]["limiter"]] * 3 and cells[0]["limiter"]
    (law,) = done["laws"]
    assert law.startswith("default, curl: this program costs 18.000 ± 0.001 round trips and 4.957")
    assert done["savings"] == [] or done["savings"][0].startswith("default, curl, at 346 ms: ")


def test_the_law_comes_with_the_second_cell(tmp_path: Path) -> None:
    may_end = threading.Semaphore(0)

    def runner(spec: CellSpec) -> Execution:
        assert may_end.acquire(timeout=PATIENCE_S)
        return execution(spec)

    house = House(tmp_path, runner=runner, confines=lambda: True)
    name = house.client.post("/api/runs", json=ASKED).json["id"]
    may_end.release()
    first = until(house, name, lambda run: run["finished"] == 1)
    assert first["laws"][0].endswith("a law needs two RTTs, and three for intervals")
    may_end.release()
    second = until(house, name, lambda run: run["finished"] == 2)
    assert second["laws"][0].endswith("two RTTs give no interval")
    may_end.release()
    until(house, name, lambda run: run["state"] == "done")


def test_a_program_is_planned_with_the_least_time_that_the_network_allows(house: House) -> None:
    planned = house.client.post("/api/runs?dry_run=1", json=ASKED | {"workload": WORKLOAD | {"bytes": "1MiB"}}).json
    assert (planned["state"], planned["workload"]["bytes"]) == ("planned", 2**20)
    assert [round(cell["ideal_s"], 4) for cell in planned["cells"]] == [0.0184, 0.0884, 0.3544]
    streams = house.client.post("/api/runs?dry_run=1", json={"rtt": ["10ms"]}).json
    assert (streams["workload"], streams["laws"], streams["cells"][0]["ideal_s"]) == (None, [], None)


@pytest.mark.parametrize(
    ("workload", "paths"),
    [
        ({}, ["workload.client"]),
        ("curl", ["workload"]),
        ({"client": CLIENT, "server": SERVER}, ["workload.ready"]),
        ({"client": CLIENT, "ready": "tcp:80"}, ["workload.ready"]),
        ({"client": "curl {serer}"}, ["workload.client"]),
        ({"client": "true", "files": {"a": "{serer}", "b": "{what}"}}, ["workload.files.a", "workload.files.b"]),
        ({"client": "true", "files": {"/etc/passwd": "x"}}, ["workload.files"]),
        ({"client": "true", "sever": "x"}, ["workload.sever"]),
        ({"client": "true", "packages": ["rsync", "A b"]}, ["workload.packages"]),
        ({"server": SERVER, "ready": "tcp:0", "repeat": "0", "bytes": "much", "client": "x {bytes}", "user": "A b"},
         ["workload.ready", "workload.bytes", "workload.repeat", "workload.user"]),
        ({"server": ["a"], "ready": "soon", "timeout": "2 days"},
         ["workload.server", "workload.ready", "workload.timeout", "workload.client"]),
    ],
)  # fmt: skip
def test_every_mistake_of_a_program_is_told_at_its_field(house: House, workload: Any, paths: list[str]) -> None:
    assert sorted(path for path, _ in mistakes(house, workload=workload)) == sorted(paths)


def test_mistakes_of_the_axes_and_of_the_program_are_told_together(house: House) -> None:
    told = mistakes(house, rtt="soon", streams=["2"], direction=["both"], workload={"server": SERVER})
    assert [path for path, _ in told] == ["rtt", "workload.client", "workload.ready", "streams", "direction"]
    assert ("streams", "programs and requests have connections of their own: remove streams") in told


def test_an_unknown_key_is_told_with_the_keys_of_a_program(house: House) -> None:
    ((path, text),) = mistakes(house, workload=WORKLOAD | {"sever": "x"})
    assert (path, text.startswith("unknown key; the keys are client, server, ready")) == ("workload.sever", True)


def test_files_that_would_fill_the_run_folder_are_refused(house: House) -> None:
    many = {"rtt": [f"{n}ms" for n in range(1, 65)], "initcwnd": [str(n) for n in range(1, 11)]}
    ((path, text),) = mistakes(house, **many, workload={"client": "true", "files": {"data": "x" * 200_000}})
    assert path == "workload.files"
    assert text.startswith("640 cells of 196 KiB each are 122 MiB, more than 64 MiB") and text.endswith(
        "make the files in prepare"
    )


def test_requests_are_a_workload_of_their_own(house: House) -> None:
    requests = {"connections": ["1", "8"], "answer": "1KiB, 100KiB"}
    planned = house.client.post("/api/runs?dry_run=1", json=ASKED | {"workload": {"requests": requests}}).json
    assert (planned["total"], planned["workload"], planned["laws"]) == (3 * 4, None, [])
    assert planned["request_columns"][:2] == ["answered", "±"] and planned["legend"].startswith("answered: ")
    ceilings = {cell["ceiling_per_s"] for cell in planned["cells"]}
    assert (len(ceilings), min(ceilings), max(ceilings)) == (5, pytest.approx(1 / 0.346), pytest.approx(800))
    assert [path for path, _ in mistakes(house, workload={"requests": {"count": "0", "users": "1"}})] == [
        "workload.requests.count", "workload.requests.users"
    ]  # fmt: skip
    ((path, text),) = mistakes(house, workload=WORKLOAD | {"requests": requests})
    assert (path, "beside requests there is a program" in text) == ("workload.requests", True)
    many = {axis: [str(n) for n in range(1, 65)] for axis in ("connections", "in_flight", "request", "answer")}
    ((_, text),) = mistakes(house, workload={"requests": many})
    assert text.endswith("cells are too many: a run has at most 1000")


def refused(house: House, token: str, *, in_lab: bool) -> str:
    """Why a client may not run a program there; empty when it may."""
    said = ASKED | {"in_lab": in_lab}
    answer = house.someone(token).post("/api/runs?dry_run=1", json=said)
    return str(problem(answer, 403)["detail"]) if answer.status_code != 201 else ""


def test_only_the_operator_runs_commands_outside_the_lab(house: House) -> None:
    assert "read-only" in refused(house, TOKENS.read, in_lab=True)
    assert refused(house, TOKENS.write, in_lab=True) == ""
    assert "token-operator" in refused(house, TOKENS.write, in_lab=False)
    assert refused(house, TOKENS.operator, in_lab=False) == ""
    streams = {"rtt": ["1ms"]}
    assert house.client.post("/api/runs?dry_run=1", json=streams).status_code == 201


def test_the_operator_may_do_what_a_writer_may(house: House) -> None:
    operator = house.someone(TOKENS.operator)
    assert operator.put("/api/topology", data="name: x\nhub: y\nlanes: {a: {rtt: 1ms}}\n",
                        content_type="application/yaml").status_code == 200  # fmt: skip
    assert operator.get("/api/status").json["lanes"][0]["name"] == "a"
    browser = house.someone()
    assert browser.post("/login", data={"token": TOKENS.operator}).status_code == 303
    assert 'data-role="operator"' in browser.get("/runs").text


@pytest.mark.parametrize("token", [TOKENS.write, TOKENS.operator])
def test_without_landlock_only_the_operator_runs_programs_in_the_lab(tmp_path: Path, token: str) -> None:
    house = House(tmp_path, confines=lambda: False)
    assert ("no Landlock" in refused(house, token, in_lab=True)) == (token == TOKENS.write)


def test_the_demo_which_has_no_login_runs_no_programs(tmp_path: Path) -> None:
    house = House(tmp_path, demo=True, confines=lambda: True)
    house.guard.login = False
    for in_lab in (True, False):
        answer = house.someone().post("/api/runs", json=ASKED | {"in_lab": in_lab})
        assert "the demo has no login" in problem(answer, 403)["detail"]
    assert house.someone().get("/api/programs").json["refused"].startswith("the demo")


def test_a_writer_does_not_resume_what_the_operator_began_outside_the_lab(tmp_path: Path) -> None:
    def fails(spec: CellSpec) -> Execution:
        raise AssertionError(spec.id)

    house = House(tmp_path, runner=fails, confines=lambda: True)
    operator = house.someone(TOKENS.operator)
    name = operator.post("/api/runs", json=ASKED | {"in_lab": False}).json["id"]  # type: ignore[index]
    until(house, name, lambda run: run["state"] != "running")
    assert "token-operator" in problem(house.client.post(f"/api/runs/{name}/resume"), 403)["detail"]
    assert operator.post(f"/api/runs/{name}/resume").status_code == 200
    until(house, name, lambda run: run["state"] != "running")


def test_cancelled_and_resumed_no_cell_of_a_program_is_measured_twice(tmp_path: Path) -> None:
    may_end, begun = threading.Semaphore(0), list[str]()

    def runner(spec: CellSpec) -> Execution:
        begun.append(spec.id)
        assert may_end.acquire(timeout=PATIENCE_S)
        return execution(spec)

    house = House(tmp_path, runner=runner, confines=lambda: True)
    name = house.client.post("/api/runs", json=ASKED).json["id"]
    until(house, name, lambda _: len(begun) == 1)
    assert house.client.post(f"/api/runs/{name}/cancel").status_code == 200
    may_end.release()
    stopped = until(house, name, lambda run: run["state"] != "running")
    assert (stopped["state"], stopped["finished"], stopped["workload"]["client"]) == ("stopped", 1, CLIENT)
    may_end.release(2)
    assert house.client.post(f"/api/runs/{name}/resume").status_code == 200
    done = until(house, name, lambda run: run["state"] == "done")
    assert (sorted(begun), len(done["laws"])) == (sorted({cell["id"] for cell in done["cells"]}), 1)
    assert len(begun) == 3


def test_reports_of_a_program(house: House) -> None:
    name = house.client.post("/api/runs", json=ASKED).json["id"]
    until(house, name, lambda run: run["state"] == "done")

    def report(kind: str) -> str:
        return str(house.client.get(f"/api/runs/{name}/report?format={kind}").text)

    assert "law: this program costs 18.000 ± 0.001 round trips" in report("md")
    lines = report("csv").splitlines()
    assert (len(lines), "law_round_trips" in lines[0].split(",")) == (4, True)
    assert "<svg" in report("html") and "round trips" in report("html")
    assert [cell["program"]["runs"][0]["exit_code"] for cell in json.loads(report("json"))["cells"]] == [0, 0, 0]


def test_the_form_is_made_of_the_settings_and_the_presets(house: House) -> None:
    told = house.client.get("/api/programs").json
    assert [one["key"] for one in told["settings"]][:3] == ["client", "server", "ready"]
    assert not {"requests", "against", "pairs"} & {one["key"] for one in told["settings"]}
    assert (told["outside_lab"], told["refused"]) == (False, "")
    assert house.someone(TOKENS.operator).get("/api/programs").json["outside_lab"] is True


def test_every_preset_can_be_asked_for(house: House) -> None:
    operator = house.someone(TOKENS.operator)
    presets = operator.get("/api/programs").json["presets"]  # type: ignore[index]
    for one in presets:
        asked = {**one["axes"], **({"workload": one["workload"]} if one["workload"] else {}), "in_lab": True}
        answer = operator.post("/api/runs?dry_run=1", json=asked)
        assert answer.status_code == 201, (one["name"], answer.text)
        if one["kind"] == "program":
            told = answer.json["workload"]["packages"]  # type: ignore[index]
            assert told == sorted(one["workload"].get("packages", [])), one["name"]
    kinds = {one["name"]: one["kind"] for one in presets}
    assert {kinds[name] for name in ("founding-10g", "transcontinental-1g", "new-york")} == {"streams"}
    assert {kinds[name] for name in ("congestion-controls", "bufferbloat")} == {"flows"}
    assert not {"day", "wide-star", "demo"} & kinds.keys()


def test_a_topology_with_a_program_becomes_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = {"tcp_profile": ["default", "max"], "workload": WORKLOAD | {"files": {"a.conf": "x = {rtt_ms}"}}}
    lanes = {"far": {"rtt": "346ms", "rate": "1Gbit"}, "near": {"rtt": "10ms", "rate": "1Gbit"}}
    text = json.dumps({"name": "made", "hub": "h", "lanes": lanes, "sweep": sweep})
    (tmp_path / "made.yaml").write_text(text)
    (tmp_path / "plain.yaml").write_text(json.dumps({"name": "plain", "hub": "h", "lanes": lanes}))
    monkeypatch.setattr(shipped_topologies, "FOLDER", tmp_path)
    programs.presets.cache_clear()
    try:
        made, plain = House(tmp_path).client.get("/api/programs").json["presets"]
    finally:
        programs.presets.cache_clear()
    axes = {"rtt": "10 ms, 346 ms", "rate": "1 Gbit/s"}
    assert plain == {"name": "plain", "kind": "streams", "axes": axes, "workload": {}}
    assert made == {
        "name": "made",
        "kind": "program",
        "axes": {"rtt": "10 ms, 346 ms", "rate": "1 Gbit/s", "tcp_profile": "default, max"},
        "workload": sweep["workload"],
    }


WITH_PACKAGES = ASKED | {"workload": WORKLOAD | {"packages": "nginx,curl"}}


def test_packages_need_the_operator_and_a_lab(house: House) -> None:
    told = problem(house.client.post("/api/runs?dry_run=1", json=WITH_PACKAGES), 403)["detail"]
    assert told == house.client.get("/api/programs").json["packages_refused"]
    assert "downloaded and unpacked on this machine" in told and "token-operator" in told
    operator = house.someone(TOKENS.operator)
    assert operator.get("/api/programs").json["packages_refused"] == ""  # type: ignore[index]
    assert operator.post("/api/runs?dry_run=1", json=WITH_PACKAGES).status_code == 201
    outside = problem(operator.post("/api/runs?dry_run=1", json=WITH_PACKAGES | {"in_lab": False}), 422)
    assert [one["path"] for one in outside["mistakes"]] == ["workload.packages"]


@pytest.mark.parametrize("demo", [True, False])
def test_a_server_inside_the_lab_says_that_it_can_add_no_packages(tmp_path: Path, demo: bool) -> None:
    house = House(tmp_path, demo=demo, lab=False, confines=lambda: True)
    house.guard.login = not demo
    operator = house.someone(TOKENS.operator)
    for in_lab in (True, False):
        told = problem(operator.post("/api/runs", json=WITH_PACKAGES | {"in_lab": in_lab}), 403)["detail"]
        assert "builds no labs, so it can add no packages" in told
    assert operator.get("/api/programs").json["packages_refused"] == told  # type: ignore[index]


def test_a_run_builds_the_layer_of_its_packages_and_tells_each_step(tmp_path: Path) -> None:
    asked_for, may_go_on = list[tuple[str, ...]](), threading.Semaphore(0)

    def runners(asked: Asked, progress: Progress) -> tuple[Any, int]:
        asked_for.append(asked.root.packages)
        for done in (0, 1, 4):
            progress("unpack Debian packages", done, 4)
            assert may_go_on.acquire(timeout=PATIENCE_S)
        if len(asked_for) == 1:
            raise LabError("Debian trixie has no package nginx")
        return execution, 1

    house = House(tmp_path, runners=runners, confines=lambda: True)
    operator = house.someone(TOKENS.operator)
    name = operator.post("/api/runs", json=WITH_PACKAGES).json["id"]  # type: ignore[index]
    until(house, name, lambda run: run["building"] == "unpack Debian packages (0 %)")
    may_go_on.release()
    until(house, name, lambda run: run["building"] == "unpack Debian packages (25 %)")
    may_go_on.release()
    until(house, name, lambda run: run["building"] == "")
    may_go_on.release()
    failed = until(house, name, lambda run: run["state"] != "running")
    assert (failed["state"], failed["trouble"]) == ("stopped", "Debian trixie has no package nginx")
    assert "token-operator" in problem(house.client.post(f"/api/runs/{name}/resume"), 403)["detail"]
    may_go_on.release(3)
    assert operator.post(f"/api/runs/{name}/resume").status_code == 200
    until(house, name, lambda run: run["state"] == "done")
    assert asked_for == [("curl", "nginx")] * 2
