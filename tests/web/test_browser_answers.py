"""Answers that come late, or in another order than they were asked for, in a real browser."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect
from support.browser_visit import Held, Site
from support.web_daemon import asked

MS = 10**6


def looked(page: Page, site: Site) -> None:
    """The first look, of which a page reads the status again."""
    with page.expect_response("**/api/status"):
        site.look()


def test_an_older_status_that_comes_after_a_newer_one_is_not_shown(page: Page, site: Site) -> None:
    looked(page, site)
    rtt = page.get_by_label("RTT", exact=True)
    older = Held(page, "**/api/status")
    site.house.client.patch("/api/lanes/california", json={"rtt": "50ms"})
    site.look()
    older.answered()
    site.house.client.patch("/api/lanes/california", json={"rtt": "60ms"})
    site.look()
    expect(rtt).to_have_value("60")
    older.go()
    expect(rtt).to_have_value("60")
    rtt.fill("70")
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("california is at 70ms")


def test_what_is_typed_while_a_change_is_on_its_way_is_an_edit_still(page: Page, site: Site) -> None:
    rtt, apply = page.get_by_label("RTT", exact=True), page.get_by_role("button", name="Apply", exact=True)
    rtt.fill("50")
    change = Held(page, "**/api/lanes/california", "PATCH")
    apply.click()
    change.answered()
    rtt.fill("60")
    page.get_by_role("button", name="london", exact=True).click()
    expect(rtt).to_have_value("80")
    change.go()
    expect(page.locator("#notes")).to_contain_text("california is at 50ms")
    page.get_by_role("button", name="california", exact=True).click()
    expect(rtt).to_have_value("60")
    expect(page.get_by_text("Not applied yet: RTT.")).to_be_visible()
    apply.click()
    expect(page.locator("#notes")).to_contain_text("california is at 60ms")
    assert [lane.rtt_ns // MS for lane in asked(site.house).lanes] == [60, 80, 346]


def test_a_status_that_comes_while_somebody_types_moves_no_caret(page: Page, site: Site) -> None:
    looked(page, site)
    rtt = page.get_by_label("RTT", exact=True)
    rtt.fill("12")
    rtt.press("ArrowLeft")
    site.house.client.patch("/api/lanes/california", json={"rtt": "50ms", "loss": "2%"})
    site.look()
    expect(page.get_by_label("Outbound (hub to site) Loss", exact=True)).to_have_value("2")
    rtt.press_sequentially("5")
    expect(rtt).to_have_value("152")


def test_a_lane_whose_edit_was_discarded_follows(page: Page, site: Site) -> None:
    looked(page, site)
    rtt = page.get_by_label("RTT", exact=True)
    rtt.fill("60")
    status = Held(page, "**/api/status")
    site.house.client.patch("/api/lanes/california", json={"rtt": "70ms"})
    site.look()
    status.answered()
    page.get_by_role("button", name="Discard").click()
    status.go()
    expect(rtt).to_have_value("70")


def test_a_plan_for_a_lane_that_was_left_is_not_offered(page: Page) -> None:
    page.get_by_label("RTT", exact=True).fill("50")
    plan = Held(page, "**/api/lanes/california?dry_run=1", "PATCH")
    page.get_by_role("button", name="Preview").click()
    plan.answered()
    page.get_by_role("button", name="london", exact=True).click()
    plan.go()
    expect(page.locator("#plan")).to_be_hidden()


def test_a_switch_that_is_turned_while_another_is_at_work_is_turned_too(page: Page, site: Site) -> None:
    looked(page, site)
    status = Held(page, "**/api/status")
    page.get_by_role("switch", name="of london").click()
    status.answered()
    page.get_by_role("switch", name="of japan").click()
    status.go()
    expect(page.locator("#all-said")).to_have_text("on for 1 of 3 lanes")
    assert [lane.off for lane in asked(site.house).lanes] == [False, True, True]


def test_looks_that_come_while_the_last_minute_is_loaded_are_kept(page: Page, site: Site) -> None:
    past = Held(page, "**/api/past?*")
    page.goto(site.url + "/")
    expect(page.locator("#link")).to_have_text("live")
    past.answered()
    row = page.locator("#table tr[data-lane=japan]")
    looked(page, site)
    site.look()
    expect(row.locator("[data-of=measured]")).to_have_text("32.4 ms")
    past.go()
    expect(row.locator(".spark .measured")).to_have_attribute("d", re.compile("M.*L"))


def test_what_is_typed_while_a_topology_is_brought_up_stays_as_a_draft(page: Page, site: Site) -> None:
    text, draft = page.locator("#text"), page.locator("#drafted")
    first = Held(page, "**/api/topology")
    page.goto(site.url + "/topology")
    first.answered()
    expect(text).not_to_be_editable()
    first.go()
    one, two = (f"name: x\nhub: y\nlanes:\n  a: {{rtt: {ms}ms}}\n" for ms in (32, 64))
    text.fill(one)
    up = Held(page, "**/api/topology", "PUT")
    page.get_by_role("button", name="Bring it up").click()
    up.answered()
    text.fill(two)
    up.go()
    expect(page.locator("#notes")).to_contain_text("x is up")
    expect(page.locator("#steps")).to_contain_text("delay 32000000ns")
    expect(text).to_have_value(two)
    expect(draft).to_contain_text("This draft is not up")
    expect(draft).not_to_contain_text("Somebody")
    assert asked(site.house).lane("a").rtt_ns == 32 * MS


def test_what_changed_between_the_answer_and_the_first_look_is_shown(page: Page, site: Site) -> None:
    entries = page.locator("#entries > li")
    page.goto(site.url + "/history")
    expect(entries).to_have_count(1)
    expect(page.locator("#link")).to_have_text("live")
    site.house.client.patch("/api/lanes/japan", json={"rtt": "50ms"})
    site.look()
    expect(entries).to_have_count(2)
    page.goto(site.url + "/topology")
    expect(page.locator("#text")).to_have_value(re.compile("50ms"))
    expect(page.locator("#link")).to_have_text("live")
    site.house.client.patch("/api/lanes/japan", json={"rtt": "60ms"})
    site.look()
    expect(page.locator("#text")).to_have_value(re.compile("60ms"))
    page.goto(site.url + "/matrix")
    expect(page.get_by_role("gridcell", name="new-york to japan: asked 60.000 ms").first).to_be_visible()
    expect(page.locator("#link")).to_have_text("live")
    site.house.client.patch("/api/lanes/japan", json={"rtt": "70ms"})
    site.look()
    expect(page.get_by_role("gridcell", name="new-york to japan: asked 70.000 ms").first).to_be_visible()
