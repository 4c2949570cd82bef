"""The matrix of all pairs in a real browser: by mouse, by keyboard, while a verification runs, and with 32 lanes."""

from __future__ import annotations

import re
import threading

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browser_visit import Site, accessible, fits, visit
from support.web_daemon import TOKENS

MS = 10**6


@pytest.fixture
def page(page: Page, site: Site) -> Page:
    """Somebody who looks at the matrix of the founding star; a pair is measured when the test releases it."""
    site.house.tools.held = threading.Semaphore(0)
    page.goto(site.url + "/matrix")
    expect(page.get_by_role("grid")).to_be_visible()
    expect(page.locator("#link")).to_have_text("live")
    return page


def test_all_pairs_are_verified_by_mouse_and_the_one_that_is_not_as_asked_says_why(page: Page, site: Site) -> None:
    tools = site.house.tools
    tools.off_ns["california", "japan"] = 30 * MS
    expect(page.locator("#summary")).to_have_text("6 of 6 pairs are not verified as set now.")
    page.get_by_label("with impairments").check()
    page.get_by_role("button", name="Verify all pairs").click()
    tools.held.release(2)
    expect(page.locator("#step")).to_have_text("2 of 9: round trips")
    expect(page.get_by_role("gridcell", name=re.compile("new-york to london: .* measured 80.000 ms"))).to_have_count(2)
    site.look()
    expect(page.get_by_role("button", name="Verify all pairs")).to_be_disabled()
    expect(page.get_by_text("you cannot change them until it ends")).to_be_visible()
    tools.held.release(4)
    expect(page.locator("#summary")).to_have_text("1 of 6 pairs is not as asked: california – japan.")
    expect(page.locator("#running")).to_be_hidden()
    wrong = page.get_by_role("gridcell", name="not as asked")
    expect(wrong.last).to_have_text("✗408")
    wrong.last.click()
    pair = page.get_by_role("region", name="california – japan")
    expect(pair).to_contain_text("378.000 ms = 32.000 ms + 346.000 ms, by way of new-york")
    expect(pair.get_by_role("listitem").first).to_have_text(
        "The median is 30 ms above what is asked; 1 ms are allowed."
    )
    expect(pair.get_by_role("row", name="japan outbound")).to_contain_text("173 ms")
    pair.get_by_role("link", name="Its certificate").click()
    expect(page.locator("details[open]")).to_contain_text("california – japan: The median is 30 ms above")


def test_a_pair_is_verified_and_a_verification_cancelled_by_keyboard(page: Page, site: Site) -> None:
    first = page.get_by_role("gridcell", name="new-york to california").first
    first.focus()
    for key, name in (
        ("ArrowRight", "new-york to london"), ("ArrowDown", "california to london"), ("ArrowDown", "london to japan"),
        ("ArrowRight", "london to japan"), ("Home", "new-york to japan"), ("End", "london to japan"),
        ("ArrowLeft", "california to japan"), ("Home", "new-york to japan"), ("ArrowUp", "new-york to london"),
        ("ArrowUp", "new-york to california"),
    ):  # fmt: skip
        page.keyboard.press(key)
        expect(page.locator("#grid td:focus")).to_have_attribute("aria-label", re.compile(f"^{name}: asked"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="new-york – california")).to_be_visible()
    expect(page.get_by_role("button", name="Verify this pair")).to_be_enabled()
    page.get_by_role("button", name="Verify this pair").press("Enter")
    expect(page.locator("#step")).to_have_text("0 of 1: round trips")
    site.house.tools.held.release()
    expect(page.locator("#summary")).to_have_text("5 of 6 pairs are not verified as set now.")
    expect(page.locator("#running")).to_be_hidden()
    page.get_by_role("button", name="Verify all pairs").press("Enter")
    cancel = page.get_by_role("button", name="Cancel")
    expect(page.locator("#step")).to_have_text("0 of 6: round trips")
    expect(cancel).to_be_visible()
    cancel.press("Enter")
    expect(page.locator("#step")).to_contain_text("cancelled")
    site.house.tools.held.release()
    expect(page.locator("#notes")).to_contain_text("Cancelled: no certificate is filed")
    expect(page.locator("#running")).to_be_hidden()


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1440, "dark")])
def test_thirty_two_lanes_are_accessible_and_fit(browser: Browser, site: Site, width: int, scheme: str) -> None:
    lanes = "".join(f"  site-{n:02}: {{rtt: {8 * n}ms}}\n" for n in range(1, 33))
    site.house.client.put("/api/topology", data=f"name: wide\nhub: hub\nlanes:\n{lanes}", content_type="text/yaml")
    site.house.tools.silent.add(("hub", "site-02"))
    site.house.client.post("/api/verification")
    with visit(browser, site, width, scheme, path="/matrix", token=TOKENS.read) as page:
        expect(page.locator("#link")).to_have_text("live")
        expect(page.locator("#summary")).to_have_text("1 of 528 pairs is not as asked: hub – site-02.")
        page.get_by_role("gridcell", name="hub to site-02: asked 16.000 ms, no answer").last.click()
        expect(page.get_by_role("region", name="hub – site-02")).to_contain_text("none of 11 echoes was answered")
        expect(page.get_by_role("button", name="Verify this pair")).to_be_disabled()
        accessible(page)
        fits(page, width)
