"""The pages in Debian's Chromium against the real server; the kernel is the one in memory."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, Route, expect
from support.browser_visit import Scheme, Site, accessible, fill_login, fits, scrolled_to_the_end, violations, window
from support.made_results import MS, cell_result, cell_spec, execution
from support.waiting import PATIENCE_S
from support.web_daemon import TOKENS, House, star, until

from emulator.control.appliance import Appliance
from emulator.errors import MeasureError
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution
from emulator.plan.ops import Op
from emulator.report import html
from emulator.report.figures import draw

WHITE = "rgb(255, 255, 255)"
PAGES = {
    "/": "#table [data-of=measured] >> text=32.4 ms",
    "/matrix": "#grid td[data-pair]",
    "/schedule": "#no-tracks",
    "/recordings": "#none",
    "/runs": "#cells tbody tr",
    "/topology": "#steps >> text=Nothing to change",
    "/history": "#entries li",
    "/nics": "#none, #nics tbody tr",
    "/certificates": "#all details",
    "/docs": "#endpoints details",
}
"""Each page, and what stands on it once it is drawn."""


def test_a_wrong_token_is_told_and_a_page_comes_after_the_login(browser: Browser, site: Site) -> None:
    with window(browser, site) as made:
        made.goto(site.url + "/runs")
        fill_login(made, "guess")
        expect(made.get_by_role("alert")).to_have_text("This token is unknown.")
        fill_login(made, TOKENS.read)
        expect(made.get_by_role("heading", name="Test runs", level=1)).to_be_visible()
        expect(made.get_by_text("read-only")).to_be_visible()
        expect(made.get_by_role("button", name="Start")).to_be_disabled()
        made.goto(site.url + "/#london")
        expect(made.get_by_role("heading", name="Lane london")).to_be_visible()
        expect(made.get_by_role("button", name="Apply")).to_have_count(0)


def test_a_lane_is_set_and_its_measured_rtt_follows_on_the_page(page: Page, site: Site) -> None:
    page.locator("#star [data-lane=london] .dot").click()
    expect(page.get_by_role("heading", name="Lane london")).to_be_visible()
    page.get_by_label("RTT", exact=True).fill("120")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#plan-steps")).to_contain_text("delay 60000000ns")
    assert site.house.appliance.topology().lane("london").rtt_ns == 80_000_000  # type: ignore[union-attr]
    page.locator("#plan-apply").click()
    expect(page.locator("#notes")).to_contain_text("london is at 120ms")
    assert site.house.appliance.topology().lane("london").rtt_ns == 120_000_000  # type: ignore[union-attr]
    site.look()
    row = page.locator("#table tr[data-lane=london]")
    expect(row.locator("[data-of=asked]")).to_have_text("120 ms")
    expect(row.locator("[data-of=measured]")).to_have_text("32.4 ms")  # what the echo in the test measures
    expect(page.locator("#charts figcaption").first).to_contain_text("median 32.40 ms")


def test_a_slider_moves_and_the_keyboard_suffices(page: Page, site: Site) -> None:
    lane = page.locator("#star [data-lane=japan]")
    lane.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Lane japan")).to_be_visible()
    slider = page.get_by_label("RTT, slider")
    slider.focus()
    page.keyboard.press("Home")
    page.keyboard.press("PageUp")
    expect(page.get_by_label("RTT", exact=True)).to_have_value("40")
    page.get_by_role("button", name="Apply").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#notes")).to_contain_text("japan is at 40ms")
    assert site.house.appliance.topology().lane("japan").rtt_ns == 40_000_000  # type: ignore[union-attr]


def test_directions_apart(page: Page, site: Site) -> None:
    page.get_by_label("both directions alike").uncheck()
    page.get_by_label("Inbound (site to hub) Rate", exact=True).fill("1")
    page.get_by_label("Inbound (site to hub) Loss, unit").select_option("%")
    page.get_by_label("Inbound (site to hub) Loss", exact=True).fill("0.01")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#notes")).to_contain_text("california is at 32ms")
    lane = site.house.appliance.topology().lane("california")  # type: ignore[union-attr]
    assert (lane.outbound.rate_bps, lane.inbound.rate_bps) == (10**10, 10**9)
    assert (lane.outbound.loss_p32, lane.inbound.loss_p32) == (0, 429497)


def test_a_mistake_stands_at_its_field(page: Page) -> None:
    page.get_by_label("Each direction Jitter", exact=True).or_(
        page.get_by_label("Outbound (hub to site) Jitter", exact=True)
    ).fill("500")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#lane").get_by_role("alert")).to_contain_text("exceeds the one-way delay")


def test_a_change_counts_down_and_can_be_taken_back(page: Page, site: Site) -> None:
    page.get_by_label("RTT", exact=True).fill("50")
    page.get_by_label("revert after 60 s unless confirmed").check()
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#notes")).to_contain_text("california is at 50ms")
    site.look()
    expect(page.locator("#pending")).to_contain_text(re.compile(r"reverts the change in [0-9]+ s"))
    page.get_by_role("button", name="Revert it now").click()
    expect(page.locator("#notes")).to_contain_text("reverted")
    assert site.house.appliance.topology().lane("california").rtt_ns == 32_000_000  # type: ignore[union-attr]


@pytest.mark.parametrize("width", [390, 1440])
def test_the_banner_of_a_change_that_waits_is_in_sight_wherever_somebody_is(page: Page, site: Site, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    site.house.client.patch("/api/lanes/london?confirm=1h", json={"rtt": "90ms"})
    for path in ("/", "/topology", "/docs"):
        page.goto(site.url + path)
        expect(page.locator("#link")).to_have_text("live")
        site.look()
        expect(page.locator("#pending")).to_be_visible()
        expect(page.locator("#main")).not_to_be_empty()
        scrolled_to_the_end(page)
        expect(page.locator("#pending")).to_be_in_viewport(ratio=1)
    page.get_by_role("button", name="Keep it").click()
    expect(page.locator("#notes")).to_contain_text("The change stays.")
    assert site.house.usecases.pending_ns() is None


def test_what_somebody_is_changing_is_no_drift(page: Page, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Event(), threading.Event()
    other = Appliance(site.house.kernel, site.house.appliance.state_dir, guard=lambda _: None)
    watched = "new MutationObserver(() => { window.drifted ||= !$d.hidden; }).observe($d, {attributes: true})"
    page.evaluate(watched.replace("$d", "document.getElementById('drift')"))

    def slowly(op: Op, real: Callable[[Op], None] = site.house.kernel.apply) -> None:
        begun.set()
        assert go.wait(PATIENCE_S)
        real(op)

    monkeypatch.setattr(site.house.kernel, "apply", slowly)
    changed = star().with_lane(star().lane("japan").with_rtt(7_000_000))
    thread = threading.Thread(target=other.up, args=(changed,))
    thread.start()
    assert begun.wait(PATIENCE_S)
    with page.expect_response("**/api/status"):
        site.look()
    expect(page.locator("#table tr[data-lane=japan] [data-of=asked]")).to_have_text("7 ms")
    go.set()
    thread.join()
    site.look()
    expect(page.locator("#star [data-lane=japan]")).to_contain_text("7 ms → 32.4 ms")
    assert not page.evaluate("window.drifted")


def test_drift_is_in_plain_sight(page: Page, site: Site) -> None:
    ports = site.house.kernel.ports
    ports["lhs-japan"] = replace(ports["lhs-japan"], egress=None)
    site.house.usecases.repair()
    site.look()
    expect(page.locator("#drift")).to_contain_text("lhs-japan")
    expect(page.locator("#star [data-lane=japan]")).to_have_attribute("class", "site wrong")
    page.get_by_role("button", name="Repair").click()
    expect(page.locator("#drift")).to_be_hidden()
    assert site.house.kernel.ports["lhs-japan"].egress is not None


def test_mistakes_in_a_topology_have_their_lines(page: Page, site: Site) -> None:
    page.goto(site.url + "/topology")
    text = page.locator("#text")
    expect(text).not_to_be_empty()
    text.fill("name: x\nhub: y\nlanes:\n  a: {rtt: 32}\n  b: {loss: 200%}\n")
    expect(page.locator("#mistakes li")).to_have_text(
        [
            "line 4 lanes.a.rtt: '32' has no unit: write 32ms for milliseconds",
            "line 5 lanes.b.loss: '200%' is above 100%",
        ]
    )
    text.fill("name: x\nhub: y\nlanes:\n  a: {rtt: 32ms}\n")
    expect(page.locator("#steps")).to_contain_text("ip link add")
    page.get_by_role("button", name="Bring it up").click()
    expect(page.locator("#notes")).to_contain_text("x is up")
    assert site.house.appliance.topology().sites == ("a",)  # type: ignore[union-attr]
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(site.url + "/")
    expect(page.locator("#map-title")).to_have_text("x: 1 lane")
    page.wait_for_function(
        "() => { const box = (where) => document.querySelector(where)?.getBoundingClientRect();"
        " const star = box('#star'), label = box('#star [data-lane=a] .asked');"
        " return label && label.top > star.top && label.right < star.right; }"
    )


def test_a_run_from_prediction_to_its_table(page: Page, site: Site) -> None:
    page.goto(site.url + "/runs")
    page.get_by_label("Round-trip times").fill("1ms, 32ms")
    expect(page.locator("#predicted")).to_contain_text("4 cells")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#left")).to_have_text("4 of 4 cells, done")
    expect(page.locator("#cells tbody tr")).to_have_count(4)
    expect(page.locator("#cells tbody tr").first).to_contain_text("87.5")


def test_a_click_on_cancel_in_the_moment_a_run_ends_deletes_nothing(page: Page, site: Site, tmp_path: Path) -> None:
    may_end = threading.Event()

    def runner(spec: CellSpec) -> Execution:
        assert may_end.wait(PATIENCE_S)
        return execution(spec)

    site.stop()
    house = House(tmp_path / "again", runner=runner)
    house.up()
    site.start(house)
    page.goto(site.url + "/runs")
    page.get_by_label("Round-trip times").fill("1ms")
    expect(page.locator("#predicted")).to_contain_text("2 cells")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#cells tbody tr")).to_have_count(2)
    (name,) = house.client.get("/api/runs").json["runs"]  # type: ignore[index]

    def late(route: Route) -> None:
        """The run ends while the request is on its way."""
        if route.request.method in ("POST", "DELETE"):
            may_end.set()
            until(house, name, lambda run: run["state"] == "done")
        route.continue_()

    page.route(f"**/api/runs/{name}**", late)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#notes")).to_contain_text(f"Run {name} had ended before: its results stay.")
    expect(page.locator("#left")).to_have_text("2 of 2 cells, done")
    assert house.client.get("/api/runs").json == {"runs": [name], "names": {}}


def test_cells_that_failed_are_measured_again_and_say_that_they_were_tried_twice(
    page: Page, site: Site, tmp_path: Path
) -> None:
    failures = ["no echo was answered; this machine is busy: measure again"]

    def runner(spec: CellSpec) -> Execution:
        if failures:
            raise MeasureError(failures.pop())
        result = cell_result(spec)
        judgement = replace(result.judgement, findings=("tried-again: the RTT needed 2 attempts", "cpu: busy"))
        return Execution(replace(result, judgement=judgement), {})

    site.stop()
    again = House(tmp_path / "again", runner=runner)
    again.up()
    site.start(again)
    page.goto(site.url + "/runs")
    page.get_by_label("Round-trip times").fill("1ms")
    page.get_by_label("TCP profiles").fill("default")
    expect(page.locator("#predicted")).to_contain_text("1 cell")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#cells tbody tr.failed")).to_contain_text("this machine is busy: measure again")
    page.get_by_role("button", name="Measure failed cells again").click()
    expect(page.locator("#cells tbody tr.done")).to_contain_text("; the RTT needed 2 attempts")
    expect(page.locator("#cells tbody tr.done")).not_to_contain_text("cpu")
    expect(page.get_by_role("button", name="Measure failed cells again")).to_be_hidden()


def test_a_daemon_that_is_gone_is_told_and_the_page_goes_on_when_it_is_back(
    page: Page, site: Site, tmp_path: Path
) -> None:
    site.stop()
    expect(page.locator("#gone")).to_be_visible()
    expect(page.locator("#link")).to_have_text("no answer")
    again = House(tmp_path / "again")
    again.up()
    site.start(again)
    expect(page.locator("#link")).to_have_text("live")
    expect(page.locator("#gone")).to_be_hidden()


@pytest.mark.parametrize(("width", "scheme"), [(320, "light"), (390, "dark"), (1920, "light")])
def test_every_page_is_accessible_and_fits(browser: Browser, site: Site, width: int, scheme: Scheme) -> None:
    site.house.client.post("/api/certificates")
    site.house.client.patch("/api/lanes/london?confirm=1h", json={"rtt": "90ms"})
    name = site.house.client.post("/api/runs", json={"rtt": ["1ms"], "in_lab": True}).json["id"]  # type: ignore[index]
    deadline = time.monotonic() + PATIENCE_S
    while site.house.client.get(f"/api/runs/{name}").json["state"] == "running":  # type: ignore[index]
        assert time.monotonic() < deadline
    site.look()
    with window(browser, site, width, scheme) as page:
        page.context.add_cookies([{"name": TOKENS.cookie, "value": _cookie(site.house), "url": site.url}])
        found = []
        for path, drawn in PAGES.items():
            page.goto(site.url + path)
            expect(page.locator("#link")).to_have_text("live")
            site.look()
            expect(page.locator("#pending")).to_be_visible()
            expect(page.locator(drawn).filter(visible=True).first).to_be_visible()
            found += [f"{path}: {one}" for one in violations(page)]
            fits(page, width)
            if folder := os.environ.get("LONGHAUL_SCREENSHOTS"):
                page.screenshot(
                    path=Path(folder) / f"{path.strip('/') or 'lanes'}-{scheme}-{width}.png", full_page=True
                )
    assert found == []


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """report.html of two cells."""
    specs = [cell_spec(2 * MS), cell_spec(32 * MS)]
    found = {spec.id: cell_result(spec) for spec in specs}
    file = tmp_path_factory.mktemp("run") / "report.html"
    page = html.page({}, {"sysctls": {"a": "b"}}, specs, found, ["careful"], draw.draw(specs, found))
    file.write_text(page)
    return file


@pytest.mark.parametrize(("width", "scheme", "paper"), [(390, "dark", "rgb(22, 24, 27)"), (1600, "light", WHITE)])
def test_a_report_is_accessible_fits_and_needs_nothing_else(
    browser: Browser, report: Path, width: int, scheme: str, paper: str
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    expect(page.get_by_role("img", name="Throughput against RTT")).to_be_visible()
    accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(element => element.id)")
    assert len(ids) == len(set(ids))
    assert page.evaluate("getComputedStyle(document.querySelector('#throughput-patch_1 path')).fill") == paper
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    context.close()


def _cookie(house: House) -> str:
    """The session cookie that a login gives."""
    client = house.someone()
    client.post("/login", data={"token": TOKENS.write})
    cookie = client.get_cookie(TOKENS.cookie)
    assert cookie
    return str(cookie.value)
