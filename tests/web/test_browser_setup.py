"""A new appliance set up in a real browser: by mouse, by keyboard, with mistakes, and while others change the box."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, expect
from support.browser_visit import Scheme, Site, accessible, fits, log_in, served, visit, window
from support.fake_machines import appliance_box
from support.web_daemon import STAR, TOKENS, House, asked

MS = 10**6


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A daemon on a box with six free ports, on which nothing was ever up."""
    house, box = House(tmp_path), appliance_box()
    house.kernel.links.update(box.links)
    house.kernel.nics.update(box.nics)
    with served(house) as made:
        yield made


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """Somebody who opens the page of a new box; every error on the way fails the test."""
    wrong: list[str] = []
    with window(browser, site) as made:
        made.on("pageerror", lambda error: wrong.append(str(error)))
        log_in(made, site.url + "/")
        expect(made).to_have_url(site.url + "/setup")
        expect(made.locator("#ports tbody tr")).to_have_count(7)
        expect(made.locator("#link")).to_have_text("live")
        yield made
    assert wrong == []


def to_places(page: Page, lanes: int = 3) -> None:
    """As far as the third step, with the first pairs."""
    page.get_by_role("button", name="Next: pairs").click()
    for number in range(3, lanes, -1):
        page.get_by_role("button", name=f"Remove lane {number}").click()
    page.get_by_role("button", name="Next: places").click()
    expect(page.get_by_role("heading", name="Places, round-trip times and rates")).to_be_focused()


def to_plan(page: Page) -> None:
    """As far as the plan of one lane to London."""
    to_places(page, 1)
    page.get_by_label("Place of the hub").fill("new-york")
    page.get_by_label("Place of the site").fill("london")
    page.get_by_role("button", name="Next: plan").click()
    expect(page.get_by_role("heading", name="The plan")).to_be_focused()


def test_from_ports_to_lanes_that_are_kept_by_mouse(page: Page, site: Site) -> None:
    row = page.get_by_role("row", name="eth0")
    expect(row).to_contain_text("carries the default route; has the address 192.0.2.1, 2001:db8::1")
    expect(page.get_by_role("row", name="eth3")).to_contain_text("down")
    expect(page.locator("#ports-said")).to_have_text("6 ports are free: 3 pairs of one speed and MTU.")
    accessible(page)
    page.get_by_role("button", name="Next: pairs").click()
    accessible(page)
    page.get_by_role("button", name="Remove lane 2").click()
    page.get_by_role("group", name="Lane 2").get_by_label("Site port").select_option("eth4")
    page.get_by_role("button", name="Next: places").click()
    hub = page.get_by_label("Place of the hub")
    hub.fill("new-york")
    first, second = (
        page.get_by_role("group", name="Lane 1: eth1 – eth2"),
        page.get_by_role("group", name="Lane 2: eth5 – eth4"),
    )
    expect(page.locator("#places option[value=tokyo]")).to_have_text("159.4 ms")
    first.get_by_label("Place of the site").fill("tokyo")
    expect(first).to_contain_text("Empty: 159.4 ms, estimate")
    first.get_by_label("Rate of each direction").fill("1Gbit")
    second.get_by_label("Place of the site").fill("mars")
    second.get_by_label("RTT").fill("400")
    page.get_by_role("button", name="Next: plan").click()
    expect(second.locator(".wrong")).to_have_text("'400' has no unit: write 400ms for milliseconds")
    expect(second.get_by_label("RTT")).to_be_focused()
    accessible(page)
    second.get_by_label("RTT").fill("400ms")
    page.get_by_role("button", name="Next: plan").click()
    expect(page.locator("#words li")).to_have_text([
        re.compile(r"^tokyo: eth1 \(new-york\) and eth2 \(tokyo\) .* 1Gbit .* takes 159.41 ms, estimate"),
        "mars: eth5 (new-york) and eth4 (mars) are joined; a round trip takes 400 ms.",
    ])  # fmt: skip
    expect(page.locator("#file")).to_contain_text("ports: {hub: eth5, site: eth4}")
    expect(page.locator("#commands")).to_contain_text("ip link add lh-mars type bridge")
    accessible(page)
    assert site.house.appliance.topology() is None
    page.get_by_role("button", name="Bring it up").click()
    expect(page.locator("#up-said")).to_have_text(re.compile("new-york is up. Longhaul reverts it in [0-9]+ s unless"))
    site.look()
    expect(page.get_by_role("button", name="Back")).to_be_disabled()
    expect(page.get_by_role("button", name="Verify all pairs")).to_be_hidden()
    accessible(page)
    page.get_by_role("button", name="Keep it").click()
    expect(page.locator("#up-said")).to_have_text("new-york is up and stays.")
    expect(page.locator("#blind")).to_contain_text("knows no machine behind the ports")
    assert site.house.usecases.pending_ns() is None
    assert [lane.named_ports for lane in asked(site.house).lanes] == [("eth1", "eth2"), ("eth5", "eth4")]
    page.get_by_role("link", name="To the lanes").click()
    expect(page.locator("#table tbody tr")).to_have_count(2)


def test_hosts_over_ssh_are_verified_and_certified_by_keyboard(page: Page, site: Site) -> None:
    keys = page.keyboard
    page.get_by_role("button", name="Next: pairs").press("Enter")
    expect(page.get_by_role("heading", name="Pairs of ports")).to_be_focused()
    for _ in range(2):
        page.get_by_role("button", name="Remove lane 1").press("Enter")
    page.get_by_role("button", name="Next: places").press("Enter")
    expect(page.get_by_role("heading", name="Places, round-trip times and rates")).to_be_focused()
    for text in ("new-york", "office", "root@hub", "london", "", "", "root@london"):
        keys.press("Tab")
        keys.type(text)
    keys.press("Enter")
    expect(page.get_by_role("heading", name="The plan")).to_be_focused()
    expect(page.get_by_label("revert after 60 s")).to_be_checked()
    page.get_by_role("button", name="Bring it up").press("Enter")
    page.get_by_role("button", name="Keep it").press("Enter")
    expect(page.get_by_role("button", name="Verify all pairs")).to_be_focused()
    keys.press("Enter")
    expect(page.locator("#verify-said")).to_have_text("All pairs are as asked. The certificate is filed.")
    expect(page.get_by_role("row", name="new-york – london")).to_contain_text("80.000 ms80.000 ms")
    accessible(page)
    assert asked(site.house).hub_host == "root@hub"
    page.get_by_role("link", name="The certificate").press("Enter")
    expect(page.locator("details[open]")).to_contain_text("london")


def test_nobody_keeps_it_and_the_choices_are_still_there(page: Page, site: Site) -> None:
    to_plan(page)
    page.get_by_role("button", name="Bring it up").click()
    expect(page.get_by_role("heading", name="Keep it and verify it")).to_be_focused()
    page.go_back()  # from what waits there is no way back
    expect(page.get_by_role("button", name="Keep it")).to_be_visible()
    page.reload()
    expect(page.locator("#up-said")).to_contain_text("unless you keep it")
    site.house.client.post("/api/undo")
    site.look()
    expect(page.locator("#wrong")).to_have_text("It was reverted: nothing is up. What you chose is still here.")
    expect(page.locator("#words")).to_contain_text("london: eth1 (new-york) and eth2 (london) are joined")
    page.get_by_role("button", name="Back").click()
    expect(page.get_by_label("Place of the site")).to_have_value("london")
    page.go_back()
    page.get_by_role("button", name="Bring it up").click()
    with page.expect_response("**/api/revert"):
        page.get_by_role("button", name="Revert it now").click()
    site.look()
    expect(page.locator("#wrong")).to_contain_text("It was reverted")
    assert site.house.appliance.topology() is None


def test_somebody_else_brings_a_topology_up_meanwhile(page: Page, site: Site) -> None:
    to_plan(page)
    assert site.house.client.put("/api/topology", data=STAR.read_text(), content_type="text/yaml").status_code == 200
    page.get_by_role("button", name="Bring it up").click()  # before the page hears of it
    expect(page.locator("#wrong")).to_have_text("somebody else has changed the topology: read it again, then change it")
    assert len(asked(site.house).lanes) == 3
    site.look()
    expect(page.locator("#other")).to_contain_text("new-york is up on this machine. The plan at the end replaces it.")
    expect(page.locator("#commands")).to_contain_text("ip link del lh-japan")
    expect(page.locator("#wrong")).to_have_text("What is up has changed meanwhile: this is the plan from there.")
    accessible(page)
    page.get_by_role("button", name="Bring it up").click()
    expect(page.get_by_role("button", name="Keep it")).to_be_visible()
    assert len(asked(site.house).lanes) == 1


def test_a_port_is_taken_before_the_plan_is_made(page: Page, site: Site) -> None:
    to_places(page, 1)
    page.get_by_label("Place of the hub").fill("new-york")
    page.get_by_label("Place of the site").fill("london")
    eth2 = site.house.kernel.links["eth2"]
    site.house.kernel.links["eth2"] = replace(eth2, addresses=("198.51.100.7",))
    page.get_by_role("button", name="Next: plan").click()
    expect(page.get_by_role("heading", name="Pairs of ports")).to_be_visible()
    expect(page.locator(".wrong")).to_have_text("eth2 has the address 198.51.100.7")
    expect(page.get_by_label("Site port")).to_be_focused()


def test_another_change_waits_for_its_confirmation(page: Page, site: Site) -> None:
    to_plan(page)
    text = "name: first\nhub: h\nlanes:\n  l: {rtt: 1ms}\n"
    site.house.client.put("/api/topology?confirm=1h", data=text, content_type="text/yaml")
    site.look()
    expect(page.locator("#pending")).to_be_visible()
    expect(page.locator("#other")).to_contain_text("first is up on this machine")
    page.get_by_role("button", name="Bring it up").click()
    expect(page.locator("#wrong, #up-said").filter(has_text=re.compile("confirm|keep"))).not_to_have_count(0)
    site.look()
    with page.expect_response("**/api/confirm"):
        page.locator("#keep:visible, #confirm:visible").first.click()
    expect(page.locator("#pending")).to_be_hidden()
    assert site.house.usecases.pending_ns() is None


def test_a_box_without_ports_gets_virtual_lanes_and_their_certificate(page: Page, site: Site) -> None:
    for name in [*site.house.kernel.nics]:
        del site.house.kernel.nics[name], site.house.kernel.links[name]
    page.reload()
    expect(page.locator("#ports-said")).to_have_text(
        "This machine has no interface that can be a port. Virtual lanes need none."
    )
    page.get_by_role("button", name="Next: pairs").click()
    page.get_by_role("button", name="Next: places").click()
    expect(page.locator(".wrong")).to_contain_text("there is no lane")
    page.get_by_role("button", name="Add a virtual lane").click()
    page.get_by_role("button", name="Next: places").click()
    page.get_by_label("Place of the hub").fill("here")
    page.get_by_label("Place of the site").fill("there")
    page.get_by_label("RTT").fill("25ms")
    page.get_by_label("RTT").press("Enter")
    page.get_by_role("button", name="Bring it up").click()
    page.get_by_role("button", name="Keep it").click()
    page.get_by_role("button", name="Verify all pairs").click()
    expect(page.locator("#verify-said")).to_contain_text("The certificate is filed.")
    assert asked(site.house).lane("there").rtt_ns == 25 * MS


def test_cables_are_followed(page: Page, site: Site) -> None:
    expect(page.get_by_role("row", name="eth1")).not_to_contain_text("no link")
    site.house.kernel.nics["eth1"] = replace(site.house.kernel.nics["eth1"], carrier=False)
    expect(page.get_by_role("row", name="eth1")).to_contain_text("no link")
    expect(page.locator("tr.just")).to_contain_text("eth1")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1920, "dark")])
def test_every_step_fits(browser: Browser, site: Site, width: int, scheme: Scheme) -> None:
    with visit(browser, site, width, scheme) as page:
        expect(page.locator("#ports tbody tr")).to_have_count(7)
        fits(page, width)
        to_plan(page)
        for name in ("Back", "Back", "Back"):
            fits(page, width)
            accessible(page)
            page.get_by_role("button", name=name).click()


def test_a_reader_only_looks(browser: Browser, site: Site) -> None:
    with visit(browser, site, token=TOKENS.read) as page:
        expect(page.get_by_role("heading", name="Nothing is up")).to_be_visible()
        page.goto(site.url + "/setup")
        expect(page.get_by_text("Your token may only read")).to_be_visible()
        expect(page.get_by_role("button", name="Next: pairs")).to_be_disabled()
