"""Lanes that a test run has leased, as the API, the command line from afar and the pages tell of them."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support.browser_visit import Site
from support.made_results import execution
from support.waiting import PATIENCE_S
from support.web_daemon import TOKENS, House, asked, problem, star, until

from emulator.cli import main
from emulator.control.appliance import Appliance
from emulator.control.rtt_monitor import Echoes
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution
from emulator.model.topology import Topology
from web.server import Server

ASKED = {"rtt": ["1ms"], "duration": 10}


def other_process(house: House) -> Appliance:
    """Another process's view of the same machine."""
    return Appliance(house.kernel, house.appliance.state_dir, guard=lambda _: None)


def cell() -> Topology:
    """What a test run makes of the founding star."""
    return star().with_lane(star().lane("japan").with_rtt(7_000_000))


def test_status_looks_and_metrics_tell_of_it_and_of_what_comes_back(up: House) -> None:
    at_rest = {"pending": None, "leased": False, "back_to": None}
    reply = up.client.get("/api/status").json
    assert reply | at_rest == reply
    with other_process(up).lease(cell()):
        up.tick()
        reply = up.client.get("/api/status").json
        assert reply | {"pending": None, "leased": True, "back_to": "new-york"} == reply
        assert [lane["rtt_ns"] for lane in reply["lanes"] if lane["name"] == "japan"] == [7_000_000]
        look = up.live.look()
        assert (look.leased, look.back_to, look.seconds_left) == (True, "new-york", None)
        assert "longhaul_lanes_leased 1.0" in up.client.get("/metrics").text
    up.tick()
    reply = up.client.get("/api/status").json
    assert reply | at_rest == reply
    look = up.live.look()
    assert (look.leased, look.back_to) == (False, None)
    assert "longhaul_lanes_leased 0.0" in up.client.get("/metrics").text


def test_where_nothing_was_up_nothing_comes_back(house: House) -> None:
    with other_process(house).lease(cell()):
        house.tick()
        reply = house.client.get("/api/status").json
        assert (reply["topology"], reply["leased"], reply["back_to"]) == ("new-york", True, None)


def test_a_change_that_waits_tells_what_comes_back_too(up: House) -> None:
    up.client.patch("/api/lanes/london?confirm=1h", json={"rtt": "90ms"})
    reply = up.client.get("/api/status").json
    assert (reply["pending"]["seconds_left"] > 0, reply["leased"], reply["back_to"]) == (True, False, "new-york")


def test_nobody_changes_them_meanwhile_and_the_answer_says_who_has_them(up: House) -> None:
    with other_process(up).lease(cell()):
        for answer in (
            up.client.patch("/api/lanes/london", json={"rtt": "90ms"}),
            up.up(),
            up.client.delete("/api/topology"),
            up.client.post("/api/undo"),
            up.client.post("/api/runs", json=ASKED),
        ):
            said = f"a measurement (process {os.getpid()}) has leased the lanes: wait for its end, or cancel it"
            assert problem(answer, 409)["detail"] == said
    assert up.client.patch("/api/lanes/london", json={"rtt": "90ms"}).status_code == 200


def test_no_run_begins_while_a_change_waits(tmp_path: Path) -> None:
    house = House(tmp_path, set_aside=True)
    house.up()
    house.client.patch("/api/lanes/london?confirm=1h", json={"rtt": "90ms"})
    reply = problem(house.client.post("/api/runs", json=ASKED), 409)
    assert reply["detail"] == "a change waits for confirmation: confirm or undo it first"


def test_between_the_cells_of_a_run_nobody_else_takes_the_lanes(tmp_path: Path) -> None:
    may_end = threading.Semaphore(0)

    def cell_without_lease(spec: CellSpec) -> Execution:
        assert may_end.acquire(timeout=PATIENCE_S)
        return execution(spec)

    house = House(tmp_path, runner=cell_without_lease, set_aside=True)
    house.up()
    run = house.client.post("/api/runs", json=ASKED | {"lane": ["london"], "rtt": ["1ms", "2ms"]}).json["id"]  # type: ignore[index]
    confirmed = ("/api/lanes/london?confirm=60s", {"rtt": "90ms"})
    for answer in (house.client.post("/api/verification"), house.client.patch(confirmed[0], json=confirmed[1])):
        said = f"run {run} measures over the lanes: wait for its end, or cancel it"
        assert problem(answer, 409)["detail"] == said
    assert asked(house) == star()
    assert house.client.patch(f"{confirmed[0]}&dry_run=1", json=confirmed[1]).status_code == 200
    assert house.client.patch("/api/lanes/london", json={"loss": "1%"}).status_code == 200
    may_end.release(2)
    until(house, run, lambda answer: answer["state"] == "done")
    assert house.client.post("/api/verification").status_code == 201
    house.verifications.wait()
    assert house.client.patch(confirmed[0], json=confirmed[1]).status_code == 200


def test_a_run_in_the_lab_keeps_nobody_from_the_lanes(tmp_path: Path) -> None:
    may_end = threading.Event()

    def held(spec: CellSpec) -> Execution:
        assert may_end.wait(PATIENCE_S)
        return execution(spec)

    house = House(tmp_path, runner=held)
    house.up()
    run = house.client.post("/api/runs", json=ASKED | {"in_lab": True}).json["id"]  # type: ignore[index]
    assert house.client.post("/api/verification").status_code == 201
    house.verifications.wait()
    assert house.client.patch("/api/lanes/london?confirm=60s", json={"rtt": "90ms"}).status_code == 200
    may_end.set()
    until(house, run, lambda answer: answer["state"] == "done")


def test_a_run_that_is_refused_has_no_turn(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.up()
    assert "new-york is up here" in problem(house.client.post("/api/runs", json=ASKED), 409)["detail"]
    assert house.client.post("/api/verification").status_code == 201
    house.verifications.wait()


def test_watchers_hear_that_something_is_new_whoever_changed_it(up: House) -> None:
    first = up.live.look().changes
    up.tick()
    assert up.live.look().changes == first
    other_process(up).set_lane(star().lane("japan").with_rtt(7_000_000))
    up.tick()
    assert up.live.look().changes > first


def test_no_echo_runs_on_lanes_that_are_leased(up: House) -> None:
    started = []

    class Quiet:
        def __init__(self, hub: str, address: str) -> None:
            started.append(address)

        def alive(self) -> bool:
            return True

        def stop(self) -> None:
            started.clear()

    up.live._echoes = Echoes(Quiet)  # type: ignore[arg-type]
    up.live._echoes.follow(star())
    assert len(started) == 3
    with other_process(up).lease(cell()):
        up.tick()
        up.live.look()
        assert started == []


def test_the_command_line_tells_the_same_from_afar(
    up: House, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONGHAUL_TOKEN", TOKENS.write)
    server = Server(up.app, "127.0.0.1:0", threads=2)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        with other_process(up).lease(cell()):
            up.tick()
            main.main(["--url", f"http://{server.address}", "status"])
            assert "leased: new-york returns when the measurement" in capsys.readouterr().out
            main.main(["--url", f"http://{server.address}", "status", "--json"])
            reply = json.loads(capsys.readouterr().out)
            assert (reply["pending"], reply["leased"], reply["back_to"]) == (None, True, "new-york")
    finally:
        server.end()
        thread.join(PATIENCE_S)


def test_pages_say_so_and_their_controls_sleep_until_it_ends(page: Page, site: Site) -> None:
    page.locator("#star [data-lane=japan] .dot").click()
    expect(page.get_by_role("heading", name="Lane japan")).to_be_visible()
    banner, apply = page.get_by_text("A measurement has leased the lanes"), page.get_by_role("button", name="Apply")
    with other_process(site.house).lease(cell()):
        site.look()
        expect(banner).to_have_text(
            "A measurement has leased the lanes: you cannot change them until it ends. Then new-york returns."
        )
        expect(page.locator("#table tr[data-lane=japan] [data-of=asked]")).to_have_text("7 ms")
        expect(page.get_by_label("RTT", exact=True)).to_have_value("7")
        for control in (apply, page.get_by_label("RTT", exact=True), page.get_by_role("button", name="Undo")):
            expect(control).to_be_disabled()
        for path, name in (("/topology", "Bring it up"), ("/topology", "Take all down"), ("/history", "Undo")):
            page.goto(site.url + path)
            expect(page.locator("#link")).to_have_text("live")
            site.look()
            expect(page.get_by_role("button", name=name)).to_be_disabled()
            expect(banner).to_be_visible()
        page.goto(site.url + "/#japan")
        expect(apply).to_be_enabled()  # no look has come yet
        page.get_by_label("RTT", exact=True).fill("9")
        apply.click()
        expect(page.locator("#lane").get_by_role("alert")).to_contain_text("has leased the lanes: wait for its end")
    site.look()
    expect(banner).to_be_hidden()
    expect(page.get_by_text("Not applied yet: RTT.")).to_be_visible()
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_label("RTT", exact=True)).to_have_value("346")
    apply.click()
    expect(page.locator("#notes")).to_contain_text("japan is at 346ms")
