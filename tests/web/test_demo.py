"""`longhaul serve --demo`: the whole thing in real time, inside the lab and in namespaces of this machine's kernel.

Nothing is said here about how fast it is: only what netem can never do, deliver early, is asserted.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, expect
from support import waiting
from support.browser_visit import drag_to_end
from support.folders import TOPOLOGIES
from support.waiting import PATIENCE_S

from emulator.cli import demo_unshare
from emulator.cli.serve import serve
from emulator.control.remote import Client
from emulator.errors import InputError, MissingError, RefusedError

LIMIT_S = PATIENCE_S
MS = 10**6
MEDIAN_IS_AT_LEAST = """ms => {
  const said = document.querySelector('#charts figcaption').textContent;
  return Number(/median ([0-9.]+) ms/.exec(said)?.[1] ?? 0) >= ms;
}"""
"""What the graph of round trips says of its last point."""


@pytest.fixture(scope="module", params=[[], ["--here"]], ids=["lab", "here"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the demo is."""
    command = [sys.executable, "-m", "emulator", "serve", "--demo", *request.param, "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout
        answer = "".join(process.stdout.readline() for _ in range(4))
        yield json.loads(answer)["url"]
        assert waiting.until(lambda: not dead_below(process.pid), LIMIT_S, 0.2), dead_below(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(LIMIT_S) == 0


def dead_below(ancestor: int) -> list[str]:
    """The processes below this one that have ended and that nobody has reaped."""
    parents, dead = dict[int, int](), dict[int, str]()
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = entry.read_text().partition(" ")[2].rpartition(") ")
            pid, (state, parent) = int(entry.parent.name), rest.split()[:2]
            parents[pid] = int(parent)
            dead |= {pid: name} if state == "Z" else {}
    return [name for pid, name in dead.items() if ancestor in lineage(pid, parents)]


def lineage(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """A process's parent, its parent's parent and so on."""
    while pid := parents.get(pid, 0):
        yield pid


def seen(url: str, wanted: Any) -> dict[str, Any]:
    """The first look of the event stream that is as wanted."""
    host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=LIMIT_S)
    connection.request("GET", "/api/events")
    response, deadline = connection.getresponse(), time.monotonic() + LIMIT_S
    look: dict[str, Any] = {}
    while time.monotonic() < deadline:
        if response.readline() == b"event: look\n" and wanted(look := json.loads(response.readline()[6:])):
            connection.close()
            return look
    pytest.fail(f"not seen in time; the last look: {look}")


def test_traffic_and_round_trips_are_real(url: str) -> None:
    def full(look: dict[str, Any]) -> bool:
        lanes = look["lanes"].values()
        return bool(lanes) and all(lane["min_ns"] and lane["outbound"]["rate_bps"] > 10**5 for lane in lanes)

    look = seen(url, full)
    assert {name: lane["asked_ns"] for name, lane in look["lanes"].items()} == {
        "california": 32 * MS, "london": 80 * MS, "japan": 346 * MS,
    }  # fmt: skip
    assert all(lane["min_ns"] >= lane["asked_ns"] for lane in look["lanes"].values())


@pytest.fixture
def put_back(url: str) -> Iterator[None]:
    """After the test what was up before it is up again: the demo is the same for all tests."""
    client = Client(url)
    before = client.ask("GET", "/api/topology").text
    yield
    client.ask("PUT", "/api/topology", before.encode(), Content_Type="application/yaml")


@pytest.mark.usefixtures("put_back")
def test_a_lane_moved_by_mouse_is_followed_by_the_live_graph(url: str, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 1600})
    page.goto(url + "#california", timeout=LIMIT_S * 1000)
    expect(page.get_by_role("heading", name="Lane california")).to_be_visible(timeout=LIMIT_S * 1000)
    drag_to_end(page, "RTT, slider")
    asked_ms = float(page.get_by_label("RTT", exact=True).input_value())
    assert asked_ms > 390
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("california is at", timeout=LIMIT_S * 1000)
    page.wait_for_function(MEDIAN_IS_AT_LEAST, arg=asked_ms, timeout=LIMIT_S * 1000)
    page.close()
    look = seen(url, lambda one: (one["lanes"]["california"]["min_ns"] or 0) >= asked_ms * MS)
    assert look["lanes"]["california"]["asked_ns"] == asked_ms * MS
    assert look["drift"] == 0


def test_a_large_request_gets_its_answer_and_the_next_one_too(url: str) -> None:
    for size in (100_000, 1):
        with pytest.raises(InputError, match="topology"):
            Client(url).ask("PUT", "/api/topology?dry_run=1", "#" * size, Content_Type="application/yaml")


def test_a_sweep_started_by_mouse_fills_its_table_and_gives_the_star_back(url: str, browser: Browser) -> None:
    client = Client(url)
    before = client.ask("GET", "/api/history").json()
    page = browser.new_page(viewport={"width": 1280, "height": 1600})
    page.set_default_timeout(LIMIT_S * 1000)
    page.goto(url + "runs")
    for label, text in (
        ("Round-trip times", "5ms, 50ms"),
        ("TCP profiles", "default"),
        ("Duration of a measurement", "4s"),
    ):
        page.get_by_label(label).fill(text)
    expect(page.locator("#predicted")).to_contain_text("2 cells")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_text("A measurement has leased the lanes")).to_contain_text("demo")
    expect(page.locator("#cells tr.done")).not_to_have_count(0)  # the second may end before it is looked at
    expect(page.locator("#left")).to_have_text("2 of 2 cells, done", timeout=LIMIT_S * 1000)
    carried = []
    for row in page.locator("#cells tr.done").all():
        _, asked, measured, _, steady, _ = row.locator("td").all_inner_texts()
        assert float(measured.removesuffix(" ms")) >= float(asked.removesuffix(" ms"))
        carried.append(float(steady.strip("✗~ ").partition(" MiB/s")[0]))
    # A busy machine, whose time this is, may leave the end of a short cell without a byte.
    assert max(carried) > 0, page.locator("#cells").inner_text()
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Report with figures").click()
    expect(opened.value.get_by_role("heading", level=1)).to_be_visible()
    page.close()
    assert seen(url, lambda look: not look["leased"])["lanes"].keys() == {"california", "london", "japan"}
    assert client.ask("GET", "/api/history").json() == before


def test_every_pair_is_verified_by_mouse_and_the_star_stays_as_it_was(url: str, browser: Browser) -> None:
    client = Client(url)
    before = [client.ask("GET", path).text for path in ("/api/topology", "/api/history")]
    page = browser.new_page(viewport={"width": 1280, "height": 1600})
    page.set_default_timeout(LIMIT_S * 1000)
    page.goto(url + "matrix")
    page.get_by_label("Echoes per pair").fill("3")
    page.get_by_role("button", name="Verify all pairs").click()
    expect(page.locator("#notes")).to_contain_text("The certificate is filed", timeout=LIMIT_S * 1000)
    page.close()
    rows = client.ask("GET", "/api/matrix").json()["pairs"]
    assert len(rows) == 6
    for row in rows:
        found = row["unanswered"] or row["measured"]
        assert found and row["certificate"], row
        assert found.get("min_ns", found["asked_ns"]) >= row["asked_ns"], row
    seen(url, lambda look: not look["leased"])
    assert [client.ask("GET", path).text for path in ("/api/topology", "/api/history")] == before


@pytest.mark.parametrize("lanes", [["london"], ["japan", "london", "california"]], ids="-".join)
def test_a_run_over_any_lanes_measures_each_and_leaves_the_star_as_it_was(url: str, lanes: list[str]) -> None:
    client = Client(url)
    before = client.ask("GET", "/api/topology").text
    asked = json.dumps({"lane": lanes, "tcp_profile": ["default"], "duration": 2})
    name = client.ask("POST", "/api/runs", asked, Content_Type="application/json").json()["id"]
    run: dict[str, Any] = {}

    def ended() -> bool:
        run.update(client.ask("GET", f"/api/runs/{name}").json())
        return bool(run["state"] != "running")

    assert waiting.until(ended, 2 * LIMIT_S, 0.5), run
    assert (run["state"], run["trouble"], run["finished"]) == ("done", "", len(lanes)), run
    for cell in run["cells"]:
        assert cell["rtt_measured_ns"] >= cell["rtt_ns"]
    seen(url, lambda look: not look["leased"] and all(lane["min_ns"] for lane in look["lanes"].values()))
    assert client.ask("GET", "/api/topology").text == before


REROUTED_S, SOON_S = 73_800, 15
"""When day.yaml makes tokyo's path longer, in s after the start of its day, and how soon that is to be."""


@pytest.fixture
def day(url: str, put_back: None) -> None:
    """topologies/day.yaml is up in the demo, shortly before tokyo is re-routed for half an hour."""
    begins = datetime.fromtimestamp(seen(url, lambda _: True)["at_ms"] // 1000 + SOON_S - REROUTED_S, UTC)
    text = (TOPOLOGIES / "day.yaml").read_text().replace("start: 00:00 ", f"start: {begins:%Y-%m-%dT%H:%M:%SZ} ")
    assert f"{begins:%H:%M:%SZ}" in text
    Client(url).ask("PUT", "/api/topology", text.encode(), Content_Type="application/yaml")


def test_a_lane_set_on_the_page_keeps_its_schedule(url: str, day: None, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 1600})
    page.set_default_timeout(LIMIT_S * 1000)
    page.goto(url + "#tokyo")
    expect(page.get_by_text("A schedule changes this lane")).to_be_visible(timeout=LIMIT_S * 1000)
    page.get_by_label("Outbound (hub to site) Rate", exact=True).fill("0.5")
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("tokyo is at", timeout=LIMIT_S * 1000)
    asked = page.locator("#table tr[data-lane=tokyo] [data-of=asked]")
    expect(asked).to_have_text("240 ms", timeout=LIMIT_S * 1000)
    expect(page.get_by_label("RTT", exact=True)).to_have_value("240")
    expect(page.get_by_label("Outbound (hub to site) Rate", exact=True)).to_have_value("500")
    page.close()
    look = seen(url, lambda one: (one["lanes"]["tokyo"]["min_ns"] or 0) >= 240 * MS)
    tokyo = look["scheduled"]["tokyo"]
    assert (look["lanes"]["tokyo"]["asked_ns"], look["drift"]) == (240 * MS, 0)
    assert [tokyo[way]["rate"] for way in ("outbound", "inbound")] == ["500Mbit"] * 2
    assert look["lanes"]["london"]["asked_ns"] > 80 * MS  # the evening's ramp


@pytest.mark.parametrize("where", [[], ["--here"]], ids=["lab", "here"])
def test_sigterm_to_the_command_alone_ends_all_of_it(where: list[str]) -> None:
    command = [sys.executable, "-m", "emulator", "serve", "--demo", *where, "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout
        url = json.loads("".join(process.stdout.readline() for _ in range(4)))["url"]
        seen(url, lambda look: look["lanes"])
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT_S)
        assert waiting.until(lambda: not in_session(process.pid), LIMIT_S, 0.2)


def in_session(session: int) -> list[str]:
    """The processes of a session, those that have ended but nobody has reaped included."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words = entry.read_text().rpartition(") ")[2].split()
            found += [entry.parent.name] if words[3] == str(session) else []
    return found


def test_pages_of_other_sites_cannot_use_it(url: str) -> None:
    with pytest.raises(RefusedError):
        Client(url).ask("DELETE", "/api/topology", Origin="http://evil.example")


def test_it_listens_on_loopback_alone() -> None:
    command = [sys.executable, "-m", "emulator", "serve", "--demo", "--listen", "0.0.0.0:0"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (ran.returncode, "listens only on loopback" in ran.stderr) == (2, True)


def test_here_is_for_the_demo_and_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = CliRunner().invoke(serve, ["--here"])
    assert (ran.exit_code, "--here needs --demo" in ran.output) == (2, True)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with socket.socket() as listener, pytest.raises(MissingError, match="needs root; without --here"):
        demo_unshare.serve(listener)
