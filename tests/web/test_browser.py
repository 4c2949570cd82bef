"""The pages in Debian's Chromium against the real server; the kernel is the one in memory.

Nothing waits by the clock: Playwright polls until the page is as expected, for a minute at most.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from daemons import TOKENS, House
from playwright.sync_api import Browser, Page, expect, sync_playwright
from samples import execution

from web.server import Server

CHROMIUM = "/usr/bin/chromium"
AXE = (Path(__file__).parent / "vendor/axe/axe.min.js").read_text()
LIMIT_MS = 60_000
PAGES = ["/", "/runs", "/topology", "/history", "/nics", "/certificates", "/docs"]
expect.set_options(timeout=LIMIT_MS)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests. As root it cannot have its sandbox; the pages are our own."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@dataclass
class Site:
    """A daemon with the founding star up, served; its looks are taken by the test."""

    house: House
    server: Server
    thread: threading.Thread

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{self.server.address}"

    def look(self) -> None:
        """A second goes by."""
        self.house.tick()
        self.house.live.look()

    def stop(self) -> None:
        """The daemon is gone."""
        self.house.live.channel.close()
        self.server.end()
        self.thread.join(60)

    def start(self, house: House) -> None:
        """It is back, at the same address."""
        self.house, address = house, self.server.address
        self.server = Server(house.app, address, threads=12)
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A daemon that is there."""
    house = House(tmp_path, runner=execution)
    house.up()
    server = Server(house.app, "127.0.0.1:0", threads=12)
    thread = threading.Thread(target=server.run)
    thread.start()
    made = Site(house, server, thread)
    yield made
    made.stop()
    made.house.runs.stop()


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """Somebody who has logged in; every error on the way fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(LIMIT_MS)
    made = context.new_page()
    wrong: list[str] = []
    made.on("pageerror", lambda error: wrong.append(str(error)))
    made.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
    made.goto(site.url + "/")
    made.get_by_label("Token").fill(TOKENS.write)
    made.get_by_role("button", name="Log in").click()
    expect(made.locator("#link")).to_have_text("live")
    expect(made.locator("#table tbody tr")).to_have_count(3)
    yield made
    context.close()
    assert wrong == []


def test_a_wrong_token_is_told_and_a_page_comes_after_the_login(browser: Browser, site: Site) -> None:
    context = browser.new_context()
    made = context.new_page()
    made.goto(site.url + "/runs")
    made.get_by_label("Token").fill("guess")
    made.get_by_role("button", name="Log in").click()
    expect(made.get_by_role("alert")).to_have_text("This token is not known.")
    made.get_by_label("Token").fill(TOKENS.read)
    made.get_by_role("button", name="Log in").click()
    expect(made.get_by_role("heading", name="Test runs", level=1)).to_be_visible()
    expect(made.get_by_text("read-only")).to_be_visible()
    expect(made.get_by_role("button", name="Start")).to_be_disabled()
    made.goto(site.url + "/#london")
    expect(made.get_by_role("heading", name="Lane london")).to_be_visible()
    expect(made.get_by_role("button", name="Apply")).to_have_count(0)
    context.close()


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
    expect(row.locator("td").nth(1)).to_have_text("120 ms")
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
    page.get_by_label("take it back after 60 s unless confirmed").check()
    page.get_by_role("button", name="Apply").click()
    expect(page.locator("#notes")).to_contain_text("california is at 50ms")
    site.look()
    expect(page.locator("#pending")).to_contain_text("taken back in 60 s")
    page.get_by_role("button", name="Take it back now").click()
    expect(page.locator("#notes")).to_contain_text("taken back")
    assert site.house.appliance.topology().lane("california").rtt_ns == 32_000_000  # type: ignore[union-attr]


def test_drift_is_in_plain_sight(page: Page, site: Site) -> None:
    site.house.kernel.ports["lhs-japan"].__dict__["egress"] = None
    site.look()
    expect(page.locator("#drift")).to_contain_text("lhs-japan")
    expect(page.locator("#star [data-lane=japan]")).to_have_attribute("class", "site wrong")


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


def test_a_run_from_prediction_to_its_table(page: Page, site: Site) -> None:
    page.goto(site.url + "/runs")
    page.get_by_label("Round-trip times").fill("1ms, 32ms")
    expect(page.locator("#predicted")).to_contain_text("4 cells")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#left")).to_have_text("4 of 4 cells, done")
    expect(page.locator("#cells tbody tr")).to_have_count(4)
    expect(page.locator("#cells tbody tr").first).to_contain_text("87.5")


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


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1920, "light")])
def test_every_page_is_accessible_and_fits(browser: Browser, site: Site, width: int, scheme: str) -> None:
    site.house.client.post("/api/certificates")
    site.house.client.patch("/api/lanes/london?confirm=60s", json={"rtt": "90ms"})
    name = site.house.client.post("/api/runs", json={"rtts": ["1ms"], "in_lab": True}).json["id"]  # type: ignore[index]
    deadline = time.monotonic() + 60
    while site.house.client.get(f"/api/runs/{name}").json["state"] == "running":  # type: ignore[index]
        assert time.monotonic() < deadline
    site.look()
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    context.add_cookies([{"name": "longhaul", "value": _cookie(site.house), "url": site.url}])
    page = context.new_page()
    page.add_init_script(AXE)
    found = []
    for path in PAGES:
        page.goto(site.url + path)
        expect(page.locator("#link")).to_have_text("live")
        site.look()
        expect(page.locator("#pending")).to_be_visible()
        ran = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        found += [f"{path}: {v['id']} {[n['target'] for n in v['nodes']][:3]}" for v in ran["violations"]]
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found.append(f"{path} is wider than {width}")
        if folder := os.environ.get("LONGHAUL_SCREENSHOTS"):
            page.screenshot(path=Path(folder) / f"{path.strip('/') or 'lanes'}-{scheme}-{width}.png", full_page=True)
    context.close()
    assert found == []


def _cookie(house: House) -> str:
    """The session cookie that a login gives."""
    client = house.someone()
    client.post("/login", data={"token": TOKENS.write})
    cookie = client.get_cookie("longhaul")
    assert cookie
    return str(cookie.value)
