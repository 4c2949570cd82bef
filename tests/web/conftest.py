"""What the tests of the web begin with: a daemon over the kernel in memory; for the pages Chromium and a login.

Nothing waits by the clock: Playwright polls until the page is as expected, for a minute at most.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from support.browser_visit import LIMIT_MS, Site
from support.made_results import execution
from support.web_daemon import TOKENS, House

from web.server import Server

CHROMIUM = "/usr/bin/chromium"
expect.set_options(timeout=LIMIT_MS)


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A daemon with nothing up."""
    return House(tmp_path)


@pytest.fixture
def up(house: House) -> House:
    """A daemon with the founding star up."""
    assert house.up().status_code == 200
    return house


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests. As root it cannot have its sandbox; the pages are our own."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


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
