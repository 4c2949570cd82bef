"""Flows added, changed and removed on the page, in a real browser: by mouse, by keyboard, and beside other people."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from support.browser_visit import Scheme, Site, accessible, fits, served, visit
from support.playing_house import PlayingHouse
from support.web_daemon import STAR, House, asked, star

from emulator.control.appliance import Appliance
from emulator.model.topology import Flow

DAY = STAR.parent / "day.yaml"
LOSS, RATE = "Outbound (hub to site) Loss", "Outbound (hub to site) Rate"
MS = 10**6


def dialog(page: Page, lane: str = "california", button: str = "Add a flow") -> Locator:
    """The dialog of a flow of this lane."""
    page.get_by_role("button", name=lane, exact=True).click()
    expect(page.locator("#panel-title")).to_have_text(f"Lane {lane}")
    page.get_by_role("button", name=button).click()
    return page.locator("#flow-dialog")


def flows(house: House, lane: str = "california") -> dict[str, Flow]:
    """The flows that are asked for, by name."""
    return {flow.name: flow for flow in asked(house).lane(lane).flows}


def give(site: Site, lane: str = "california", **settings: object) -> None:
    """Somebody else gives the lane a flow called voice, and the page shows it."""
    voice = {"match": {"dscp": "ef"}, **settings}
    assert site.house.client.patch(f"/api/lanes/{lane}", json={"flows": {"voice": voice}}).status_code == 200
    site.look()


def test_a_flow_is_added_by_mouse_and_undone(page: Page, site: Site) -> None:
    box = dialog(page)
    accessible(page)
    box.get_by_label("Name of the flow").fill("web")
    box.get_by_label("Protocol").fill("tcp")
    box.get_by_label("Hub port").fill("443")
    box.get_by_label("RTT", exact=True).fill("120")
    box.get_by_label(LOSS, exact=True).fill("2")
    box.get_by_role("button", name="Preview").click()
    plan = page.locator("#plan")
    expect(plan.locator("#plan-words li")).to_have_text([
        re.compile("^Packets of california with protocol tcp, hub port 443 belong to the flow web, unless"),
        "RTT 32ms → 120ms",
        "Loss none → 2%",
    ])  # fmt: skip
    expect(plan.locator("#plan-steps")).to_contain_text("flower")
    accessible(page)
    assert flows(site.house) == {}
    plan.get_by_role("button", name="Add the flow").click()
    expect(page.get_by_role("row", name="web")).to_contain_text("protocol tcp, hub port 443")
    expect(page.locator("#flow")).to_have_value("web")
    expect(page.locator("#lane").get_by_label("RTT", exact=True)).to_have_value("120")
    web = flows(site.house)["web"]
    assert (web.match.protocol, web.match.hub_port, web.outbound.delay_ns) == (6, 443, 60 * MS)
    assert web.outbound.loss_p32 == web.inbound.loss_p32 > 0 == asked(site.house).lane("california").outbound.loss_p32
    page.get_by_role("button", name="Undo the last change").click()
    expect(page.get_by_role("row", name="web")).to_have_count(0)
    assert asked(site.house) == star()


def test_a_flow_is_added_changed_and_removed_by_keyboard(page: Page, site: Site) -> None:
    keys = page.keyboard
    page.get_by_role("button", name="Add a flow").press("Enter")
    expect(page.get_by_label("Name of the flow")).to_be_focused()
    for text in ("voice", "", "", "udp", "", "", "", "ef", ""):
        keys.type(text)
        keys.press("Tab")
    box, plan = page.locator("#flow-dialog"), page.locator("#plan")
    expect(box.get_by_label("RTT, slider")).to_be_focused()
    box.get_by_label("VLAN").press("Enter")
    expect(plan.locator("#plan-words")).to_contain_text("It has the delays of california, and no other impairment.")
    expect(plan.get_by_role("button", name="Add the flow")).to_be_focused()
    keys.press("Enter")
    expect(page.get_by_role("row", name="voice")).to_be_visible()
    expect(page.get_by_role("button", name="Add a flow")).to_be_focused()
    page.get_by_role("button", name="Edit flow voice").press("Enter")
    expect(box.get_by_label("Protocol")).to_be_focused()
    expect(box.get_by_label("Name of the flow")).not_to_be_editable()
    keys.press("Control+A")
    keys.press("Delete")
    box.get_by_label("DSCP").fill("af41")
    box.get_by_label(RATE, exact=True).fill("5Mbit")
    box.get_by_label(RATE, exact=True).press("Enter")
    expect(plan.locator("#plan-words li")).to_have_text([
        "Protocol udp → any", "DSCP 46 → af41", "Rate none → 5Mbit",
    ])  # fmt: skip
    keys.press("Enter")
    expect(page.get_by_role("row", name="voice")).to_contain_text("dscp 34")
    voice = flows(site.house)["voice"]
    assert (voice.match.protocol, voice.match.dscp, voice.inbound.rate_bps) == (None, 34, 5_000_000)
    page.get_by_role("button", name="Remove flow voice").press("Enter")
    expect(plan.get_by_role("button", name="Remove flow voice")).to_be_focused()
    keys.press("Enter")
    expect(page.get_by_role("row", name="voice")).to_have_count(0)
    expect(page.get_by_role("button", name="Add a flow")).to_be_focused()
    assert asked(site.house) == star()


def test_mistakes_stand_at_their_fields(page: Page, site: Site) -> None:
    give(site)
    expect(page.get_by_role("row", name="voice")).to_be_visible()
    box = dialog(page)
    add = box.get_by_role("button", name="Add the flow")
    add.click()
    expect(box.get_by_label("Name of the flow")).to_have_accessible_description(re.compile("is missing: name the flow"))
    expect(box.get_by_label("DSCP")).to_have_accessible_description(re.compile("fill in at least one of these keys"))
    expect(box.get_by_label("Name of the flow")).to_be_focused()
    accessible(page)
    box.get_by_label("Name of the flow").fill("voice")
    box.get_by_label("DSCP").fill("loud")
    box.get_by_label(LOSS, exact=True).fill("2,")
    add.click()
    expect(box.get_by_label("Name of the flow")).to_have_accessible_description(
        re.compile("there is a flow voice already")
    )
    expect(box.get_by_label(LOSS, exact=True)).to_have_accessible_description(re.compile("is not a number"))
    box.get_by_label("Name of the flow").fill("web")
    box.get_by_label(LOSS, exact=True).fill("200")
    add.click()
    expect(box.get_by_label("DSCP")).to_have_accessible_description(
        re.compile("'loud' is not a code point: use a name")
    )
    expect(box.get_by_label(LOSS, exact=True)).to_have_accessible_description(re.compile("200%"))
    accessible(page)
    box.get_by_label("DSCP").fill("")
    box.get_by_label("Protocol").fill("icmp")
    box.get_by_label("Site port").fill("80")
    box.get_by_label(LOSS, exact=True).fill("2")
    add.click()
    expect(page.locator("#flow-wrong")).to_contain_text("only tcp and udp have ports")
    assert [*flows(site.house)] == ["voice"]


def test_what_somebody_else_sets_in_the_flow_meanwhile_is_kept_beside_the_edit(page: Page, site: Site) -> None:
    give(site, rtt="90ms")
    box = dialog(page, button="Edit flow voice")
    box.get_by_label(LOSS, exact=True).fill("1")
    with page.expect_response("**/api/changed"):  # the page has 95 ms before it can hear of 96 ms
        give(site, rtt="95ms")
    site.house.client.patch("/api/lanes/california", json={"flows": {"voice": {"rtt": "96ms"}}})
    box.get_by_role("button", name="Change the flow").click()
    plan = page.locator("#plan")
    expect(plan.locator("#plan-note")).to_have_text("The lanes have changed meanwhile: this is the plan from there.")
    plan.get_by_role("button", name="Change the flow").click()
    expect(box).to_be_hidden()
    voice = flows(site.house)["voice"]
    assert voice.outbound.delay_ns == 48 * MS
    assert voice.outbound.loss_p32 > 0


def test_somebody_else_adds_a_flow_of_the_same_name_meanwhile(page: Page, site: Site) -> None:
    box = dialog(page)
    box.get_by_label("Name of the flow").fill("voice")
    box.get_by_label("VLAN").fill("20")
    site.house.client.patch("/api/lanes/california", json={"flows": {"voice": {"match": {"dscp": "ef"}}}})
    box.get_by_role("button", name="Add the flow").click()
    expect(box.get_by_label("Name of the flow")).to_have_accessible_description(
        re.compile("there is a flow voice already")
    )
    assert flows(site.house)["voice"].match.vlan is None


def test_a_run_that_leases_the_lanes_meanwhile_keeps_the_flows(page: Page, site: Site) -> None:
    box = dialog(page)
    box.get_by_label("Name of the flow").fill("voice")
    box.get_by_label("DSCP").fill("ef")
    other = Appliance(site.house.kernel, site.house.appliance.state_dir, guard=lambda _: None)
    with other.lease(star()):
        box.get_by_role("button", name="Add the flow").click()
        expect(page.locator("#flow-wrong")).to_contain_text("has leased the lanes")
        site.look()
        expect(box.get_by_role("button", name="Add the flow")).to_be_disabled()
        expect(box.get_by_text("A measurement has the lanes: nothing can be set until it has ended.")).to_be_visible()
    site.look()
    box.get_by_role("button", name="Add the flow").click()
    expect(box).to_be_hidden()
    assert [*flows(site.house)] == ["voice"]


def test_a_flow_of_a_lane_that_a_schedule_moves(browser: Browser, tmp_path: Path) -> None:
    with served(PlayingHouse(tmp_path, DAY.read_text())) as site, visit(browser, site) as page:
        site.look()
        before = asked(site.house)
        box = dialog(page, "london")
        box.get_by_label("Name of the flow").fill("voice")
        box.get_by_label("DSCP").fill("ef")
        site.look()
        box.get_by_role("button", name="Add the flow").click()
        expect(page.get_by_role("row", name="voice")).to_be_visible()
        voice, lane = flows(site.house, "london")["voice"], before.lane("london")
        assert (voice.outbound.delay_ns, voice.inbound.delay_ns) == (lane.outbound.delay_ns, lane.inbound.delay_ns)
        assert asked(site.house).schedule == before.schedule


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1920, "dark")])
def test_the_dialog_fits(browser: Browser, site: Site, width: int, scheme: Scheme) -> None:
    give(site)
    with visit(browser, site, width, scheme) as page:
        expect(page.get_by_role("row", name="voice")).to_be_visible()
        fits(page, width)
        box = dialog(page, button="Edit flow voice")
        box.locator("summary").first.click()
        fits(page, width)
        page.wait_for_function("box => box.scrollWidth <= box.clientWidth", arg=box.element_handle())
        accessible(page)
