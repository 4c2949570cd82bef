"""What the tests of the web begin with: a daemon over the kernel in memory; for the pages Chromium and a login.

Nothing waits by the clock: Playwright polls until the page is as expected, for a minute at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browser_visit import LIMIT_MS, Site, chromium, log_in, served, window
from support.gated_runs import Gate
from support.made_results import execution
from support.web_daemon import House

expect.set_options(timeout=LIMIT_MS)


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A daemon with nothing up."""
    return House(tmp_path)


@pytest.fixture
def gate() -> Gate:
    """A runner of which no cell ends by itself."""
    return Gate()


@pytest.fixture
def gated(tmp_path: Path, gate: Gate) -> House:
    """A daemon with nothing up, whose runs' cells end when the test says so."""
    return House(tmp_path, runner=gate)


@pytest.fixture
def up(house: House) -> House:
    """A daemon with the founding star up."""
    assert house.up().status_code == 200
    return house


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests of a module."""
    with chromium() as launched:
        yield launched


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A daemon that is there."""
    house = House(tmp_path, runner=execution)
    house.up()
    with served(house) as made:
        yield made


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """Somebody who has logged in; every error on the way fails the test."""
    wrong: list[str] = []
    with window(browser, site) as made:
        made.on("pageerror", lambda error: wrong.append(str(error)))
        made.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
        log_in(made, site.url + "/")
        expect(made.locator("#link")).to_have_text("live")
        expect(made.locator("#table tbody tr")).to_have_count(3)
        yield made
    assert wrong == []
