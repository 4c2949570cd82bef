"""Two people at the same lanes, in a real browser: who changed what, and edits that meet somebody else's change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from support.browser_visit import Scheme, Site, accessible, fits, served, visit
from support.playing_house import PlayingHouse
from support.web_daemon import STAR, asked, star

from emulator.control.appliance import Appliance
from emulator.control.remote import USER_HEADER
from emulator.model.topology import Lane

DAY = STAR.parent / "day.yaml"
OUT = "Outbound (hub to site)"
AGAIN = "Reload and keep my edits"
MS = 10**6


def other(site: Site, user: str, patch: object, lane: str = "california", *, heard: bool = True) -> None:
    """Somebody else changes a lane; the page hears it unless said otherwise."""
    answer = site.house.client.patch(f"/api/lanes/{lane}", json=patch, headers={USER_HEADER: user})
    assert answer.status_code == 200, answer.text
    if heard:
        site.look()


def california(site: Site) -> Lane:
    """What is asked for."""
    return asked(site.house).lane("california")


def rtt(page: Page) -> Locator:
    """The field of the RTT in the panel."""
    return page.get_by_label("RTT", exact=True)


def apply(page: Page) -> Locator:
    """The button."""
    return page.get_by_role("button", name="Apply", exact=True)


def both(page: Page) -> Locator:
    """The values of a field that both changed."""
    return page.locator(".twice:visible")


def test_table_and_panel_say_who_changed_a_lane_last(page: Page, site: Site) -> None:
    other(site, "ann", {"rtt": "40ms"})
    other(site, "bob", {"rtt": "90ms"}, "london")
    said = re.compile("^changed by ann at [0-2][0-9]:[0-5][0-9]$")
    row = page.locator("#table tr[data-lane=california] .changed-by")
    expect(row).to_have_text(said)
    expect(row).to_have_attribute("title", re.compile(r"by ann \(API"))
    expect(page.locator("#panel-changed")).to_have_text(said)
    page.get_by_role("button", name="london", exact=True).click()
    expect(page.locator("#panel-changed")).to_contain_text("changed by bob at")
    rtt(page).fill("91")
    apply(page).click()
    expect(page.locator("#panel-changed")).not_to_contain_text("bob")
    expect(row).to_have_text(said)
    accessible(page)


def test_a_field_that_both_changed_has_both_values_until_somebody_says_what_holds(page: Page, site: Site) -> None:
    rtt(page).fill("50")
    page.get_by_label(f"{OUT} Loss", exact=True).fill("2")
    other(site, "ann", {"rtt": "90ms", "jitter": "1ms"})
    said = "You: 50ms. ann: 90ms. Before: 32ms."
    expect(both(page)).to_contain_text(said)
    expect(rtt(page)).to_have_accessible_description(said)
    expect(rtt(page)).to_have_value("50")
    expect(page.get_by_label(f"{OUT} Jitter", exact=True)).to_have_value("1")
    expect(both(page)).to_have_count(1)
    accessible(page)
    apply(page).click()
    expect(page.get_by_text("ann has changed RTT, too: reload and keep your edits, or discard them.")).to_be_visible()
    expect(page.get_by_role("button", name=AGAIN)).to_be_focused()
    assert california(site).rtt_ns == 90 * MS
    page.keyboard.press("Enter")
    expect(both(page)).to_have_count(0)
    expect(page.get_by_role("button", name=AGAIN)).to_be_hidden()
    expect(page.get_by_role("button", name="Preview")).to_be_focused()
    expect(rtt(page)).not_to_have_accessible_description(said)
    page.keyboard.press("Enter")
    expect(page.locator("#plan-words li")).to_have_text(["RTT 90ms → 50ms", "Loss none → 2%"])
    page.keyboard.press("Enter")
    expect(page.locator("#notes")).to_contain_text("california is at 50ms")
    lane = california(site)
    assert (lane.rtt_ns, lane.outbound.jitter_ns, lane.outbound.loss_p32 > 0) == (50 * MS, MS, True)


def test_a_change_that_the_page_has_not_heard_is_met_by_the_first_apply(page: Page, site: Site) -> None:
    rtt(page).fill("50")
    other(site, "ann", {"rtt": "90ms"}, heard=False)
    apply(page).click()
    expect(both(page)).to_contain_text("You: 50ms. ann: 90ms. Before: 32ms.")
    assert california(site).rtt_ns == 90 * MS
    page.get_by_role("button", name=AGAIN).click()
    apply(page).click()
    expect(page.locator("#notes")).to_contain_text("california is at 50ms")


def test_what_nobody_has_to_decide_is_not_asked(page: Page, site: Site) -> None:
    rtt(page).fill("50")
    other(site, "ann", {"inbound": {"loss": "1%"}})
    said = re.compile(r"^ann \(API.*\) changed this lane meanwhile: Inbound Loss none → 1%\. Your edits are kept\.$")
    expect(page.get_by_text(said)).to_be_visible()
    expect(page.get_by_role("button", name=AGAIN)).to_be_hidden()
    other(site, "ann", {"rtt": "50ms"})
    expect(page.get_by_text("not applied yet")).to_be_hidden()
    rtt(page).fill("60")
    other(site, "bob", {"rtt": "70ms"})
    expect(both(page)).to_contain_text("You: 60ms. bob: 70ms. Before: 50ms.")
    other(site, "bob", {"rtt": "50ms"})
    expect(both(page)).to_have_count(0)
    apply(page).click()
    expect(page.locator("#notes")).to_contain_text("california is at 60ms")
    assert california(site).inbound.loss_p32 > 0


def test_two_others_one_after_the_other_and_a_discard(page: Page, site: Site) -> None:
    rtt(page).fill("50")
    other(site, "ann", {"rtt": "90ms"})
    expect(both(page)).to_contain_text("You: 50ms. ann: 90ms. Before: 32ms.")
    other(site, "bob", {"rtt": "95ms"})
    expect(both(page)).to_contain_text("bob: 95ms. Before: 32ms.")
    page.get_by_role("button", name="Discard").click()
    expect(rtt(page)).to_have_value("95")
    expect(both(page)).to_have_count(0)
    expect(page.get_by_role("button", name=AGAIN)).to_be_hidden()


def test_one_direction_of_theirs_meets_both_of_mine(page: Page, site: Site) -> None:
    page.get_by_label(f"{OUT} Loss", exact=True).fill("2")
    other(site, "ann", {"inbound": {"loss": "5%"}})
    expect(both(page)).to_contain_text("You: 2%. ann: 5%. Before: none.")
    page.get_by_role("button", name=AGAIN).click()
    apply(page).click()
    expect(page.locator("#notes")).to_contain_text("california is at 32ms")
    assert california(site).inbound.loss_p32 == california(site).outbound.loss_p32 > 0


def test_the_flow_in_the_panel_meets_a_change_of_that_flow_only(page: Page, site: Site) -> None:
    voice = {"flows": {"voice": {"match": {"dscp": "ef"}, "loss": "1%"}}}
    other(site, "ann", voice)
    page.get_by_label("Shown below").select_option("voice")
    page.get_by_label(f"{OUT} Loss", exact=True).fill("2")
    other(site, "ann", {"loss": "7%"}, heard=False)
    other(site, "cid", {"loss": "7%"}, "london")
    expect(page.locator("#table tr[data-lane=london] .changed-by")).to_contain_text("cid")
    expect(both(page)).to_have_count(0)
    other(site, "bob", {"flows": {"voice": {"loss": "3%"}}})
    expect(both(page)).to_contain_text("You: 2%. bob: 3%. Before: 1%.")


def test_only_what_waits_is_reverted_whoever_else_pressed_before(page: Page, site: Site) -> None:
    bob = page.context.new_page()
    bob.goto(site.url + "/")
    expect(bob.locator("#table tbody tr")).to_have_count(3)
    other(site, "ann", {"rtt": "399ms"}, "california?confirm=1h")
    for one, said in ((page, "The change was reverted."), (bob, "no change waits for confirmation: it was confirmed")):
        expect(one.locator("#pending")).to_be_visible()
        one.locator("#revert").click()
        expect(one.locator("#notes")).to_contain_text(said)
        assert california(site).rtt_ns == 32 * MS
    site.look()
    expect(bob.locator("#pending")).to_be_hidden()


def test_a_press_after_the_time_to_confirm_brings_nothing_back(page: Page, site: Site) -> None:
    """The daemon has reverted the change before the page hears of it."""
    other(site, "ann", {"rtt": "399ms"}, "california?confirm=1h")
    expect(page.locator("#pending")).to_be_visible()
    site.house.client.post("/api/revert")
    page.locator("#revert").click()
    expect(page.locator("#notes")).to_contain_text("no change waits for confirmation: it was confirmed or reverted")
    expect(page.locator("#notes")).not_to_contain_text("The change was reverted.")
    assert california(site).rtt_ns == 32 * MS


def test_a_run_that_leases_the_lanes_leaves_the_edits(page: Page, site: Site) -> None:
    rtt(page).fill("50")
    run = Appliance(site.house.kernel, site.house.appliance.state_dir, guard=lambda _: None)
    with run.lease(star().with_lane(star().lane("california").with_rtt(5 * MS))):
        site.look()
        expect(rtt(page)).to_have_value("50")
        expect(both(page)).to_have_count(0)
    site.look()
    expect(apply(page)).to_be_enabled()
    expect(rtt(page)).to_have_value("50")
    expect(both(page)).to_have_count(0)
    other(site, "ann", {"rtt": "90ms"})
    expect(both(page)).to_contain_text("You: 50ms. ann: 90ms. Before: 32ms.")


def test_what_a_schedule_moves_is_nobodys_change(browser: Browser, tmp_path: Path) -> None:
    with served(PlayingHouse(tmp_path, DAY.read_text())) as site, visit(browser, site) as page:
        site.look()
        page.get_by_role("button", name="london", exact=True).click()
        expect(page.locator("#panel-title")).to_have_text("Lane london")
        rtt(page).fill("50")
        others = [name for name in asked(site.house).sites if name != "london"]
        other(site, "ann", {"rtt": "99ms"}, others[0])
        for _ in range(3):
            site.look()
        expect(page.locator(f"#table tr[data-lane={others[0]}] .changed-by")).to_contain_text("changed by ann")
        expect(page.get_by_text("changed this lane meanwhile")).to_have_count(0)
        expect(both(page)).to_have_count(0)
        other(site, "bob", {"rtt": "77ms"}, "london")
        expect(both(page)).to_contain_text(re.compile("You: 50ms. bob: 77ms. Before: "))


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1920, "dark")])
def test_marked_fields_fit(browser: Browser, site: Site, width: int, scheme: Scheme) -> None:
    with visit(browser, site, width, scheme) as page:
        rtt(page).fill("50")
        other(site, "a-person-with-a-long-name-of-sixty-four-letters-as-the-login-lets-in", {"rtt": "90ms"})
        expect(both(page)).to_have_count(1)
        fits(page, width)
        accessible(page)
