"""Lanes added and removed on the page, in a real browser: by mouse, by keyboard, with mistakes, beside other people."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Locator, Page, expect
from support.browser_visit import Held, Scheme, Site, accessible, fits, served, visit
from support.fake_machines import appliance_box
from support.playing_house import PlayingHouse
from support.web_daemon import STAR, TOKENS, House, asked, star

from emulator.control.appliance import Appliance

DAY = STAR.parent / "day.yaml"
MS = 10**6


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """The founding star of virtual lanes, on a box with six free ports."""
    house, box = House(tmp_path), appliance_box()
    house.kernel.links.update(box.links)
    house.kernel.nics.update(box.nics)
    house.up()
    with served(house) as made:
        yield made


def dialog(page: Page) -> Locator:
    """The dialog of a new lane, with the places that it knows."""
    page.get_by_role("button", name="Add a lane").click()
    expect(page.locator("#new-lane-places option")).not_to_have_count(0)
    return page.locator("#new-lane")


def names(page: Page) -> Locator:
    """The names of the lanes in the table."""
    return page.locator("#table tbody th .name")


def test_a_place_and_an_access_network_become_a_lane_by_mouse(page: Page, site: Site) -> None:
    new = dialog(page)
    accessible(page)
    new.get_by_label("Place").fill("Tokyo")
    expect(new.get_by_label("Name of the site")).to_have_value("tokyo")
    expect(new.get_by_label("RTT")).to_have_value("159.41ms")
    expect(new.get_by_text("159.41 ms to tokyo (estimate")).to_be_visible()
    new.get_by_label("Access network").select_option("lte")
    expect(new.get_by_label("RTT")).to_have_value("209.41ms")
    expect(
        new.get_by_text("159.41 ms to tokyo (estimate: fibre along the great circle x 1.5) and 50 ms of LTE")
    ).to_be_visible()
    expect(new.get_by_label("Access network")).to_have_accessible_description(
        re.compile("Source: RTT and rates: Ofcom")
    )
    new.get_by_role("button", name="Preview").click()
    plan = page.locator("#plan")
    expect(plan.locator("#plan-words li")).to_have_text([
        "Two network namespaces of this machine are joined, at 10Gbit: the lane tokyo.",
        "A round trip between new-york and tokyo takes 209.41ms.",
        "LTE (4G): 15Mbit to the site, 13.6Mbit from it, jitter 5ms in each direction.",
        "The other 3 lanes go on as they are.",
    ])  # fmt: skip
    expect(plan.locator("#plan-steps")).to_contain_text("ip link add lh-tokyo")
    expect(plan.locator("#plan-steps")).not_to_contain_text("london")
    accessible(page)
    assert asked(site.house) == star()
    plan.get_by_role("button", name="Add the lane").click()
    expect(names(page)).to_have_text(["california", "london", "japan", "tokyo"])
    expect(page.locator("#panel-title")).to_have_text("Lane tokyo")
    expect(new).to_be_hidden()
    lane = asked(site.house).lane("tokyo")
    assert (lane.rtt_ns, lane.inbound.rate_bps, lane.outbound.jitter_ns) == (209_410_000, 13_600_000, 5 * MS)
    page.get_by_role("button", name="Undo the last change").click()
    expect(names(page)).to_have_text(["california", "london", "japan"])
    assert asked(site.house) == star()
    dialog(page)
    expect(new.get_by_label("Place")).to_have_value("")


def test_an_rtt_that_was_typed_is_no_longer_filled_in(page: Page) -> None:
    new = dialog(page)
    new.get_by_label("Name of the site").fill("london")
    expect(new.get_by_label("RTT")).to_have_value("80ms")
    new.get_by_label("RTT").fill("75ms")
    new.get_by_label("Access network").select_option("geo")
    expect(new.get_by_label("RTT")).to_have_value("75ms")
    expect(new.get_by_text("As typed: the 600 ms of GEO satellite are not added.")).to_be_visible()
    new.get_by_label("Place").fill("tokyo")
    expect(new.get_by_label("Name of the site")).to_have_value("london")
    new.get_by_label("RTT").fill("")
    new.get_by_label("Access network").select_option("")
    expect(new.get_by_label("RTT")).to_have_value("159.41ms")


def test_ports_are_joined_by_keyboard(page: Page, site: Site) -> None:
    keys = page.keyboard
    page.get_by_role("button", name="Add a lane").press("Enter")
    expect(page.locator("#new-lane-places option")).not_to_have_count(0)
    expect(page.get_by_label("Name of the site")).to_be_focused()
    for text in ("lab", "", "", "40ms", "", ""):
        keys.type(text)
        keys.press("Tab")
    for port in ("eth1", "eth2"):
        keys.type(port)
        keys.press("Tab")
    expect(page.get_by_label("Name the ports by")).to_be_focused()
    for text in ("MAC", "root@lab"):
        keys.type(text)
        keys.press("Tab")
    expect(page.get_by_label("revert after 60 s").last).to_be_focused()
    keys.press("Space")
    page.get_by_label("Machine at the site, by SSH").press("Enter")
    plan = page.locator("#plan")
    expect(plan.locator("#plan-words")).to_contain_text("eth1 (new-york) and eth2 (lab) are joined, at 10Gbit")
    expect(plan.get_by_role("button", name="Add the lane")).to_be_focused()
    keys.press("Escape")
    expect(page.locator("#new-lane-preview")).to_be_visible()
    page.locator("#new-lane").get_by_label("RTT").fill("41ms")
    page.locator("#new-lane").get_by_label("RTT").press("Enter")
    expect(plan.get_by_role("button", name="Add the lane")).to_be_focused()
    keys.press("Enter")
    expect(names(page)).to_have_count(4)
    lane, nics = asked(site.house).lane("lab"), site.house.kernel.nics
    assert lane.named_ports == (nics["eth1"].mac, nics["eth2"].mac)
    assert (lane.rtt_ns, lane.host, lane.mtu) == (41 * MS, "root@lab", nics["eth1"].mtu)
    assert site.house.usecases.pending_ns() is not None
    expect(page.get_by_role("button", name="Add a lane")).to_be_focused()


def test_mistakes_stand_at_their_fields(page: Page, site: Site) -> None:
    new = dialog(page)
    add = new.get_by_role("button", name="Add the lane")
    add.click()
    expect(new.locator(".wrong")).to_have_text(
        [re.compile("is missing: name the site"), re.compile("is missing: type one")]
    )
    expect(new.get_by_label("Name of the site")).to_be_focused()
    accessible(page)
    new.get_by_label("Name of the site").fill("london")
    new.get_by_label("Place").fill("lundon")
    new.get_by_label("RTT").fill("80ms")
    add.click()
    expect(new.get_by_label("Place")).to_have_accessible_description(
        re.compile("'lundon' is not a known place: choose one")
    )
    new.get_by_label("Place").fill("")
    add.click()
    expect(new.get_by_label("Name of the site")).to_have_accessible_description(
        "there is a lane london already: use another name"
    )
    new.get_by_label("Name of the site").fill("office")
    new.get_by_label("RTT").fill("80")
    new.get_by_label("Line rate").fill("fast")
    new.get_by_label("Site port").select_option("eth2")
    add.click()
    expect(new.get_by_label("RTT")).to_have_accessible_description(re.compile("'80' has no unit: write 80ms"))
    expect(new.get_by_label("Line rate")).to_have_accessible_description(re.compile("'fast'"))
    expect(new.get_by_label("Hub port")).to_have_accessible_description(re.compile("is missing"))
    accessible(page)
    new.get_by_label("RTT").fill("1ms")
    new.get_by_label("Line rate").fill("")
    new.get_by_label("Site port").select_option("")
    new.get_by_label("Access network").select_option("geo")
    new.get_by_label("RTT").fill("1ms")
    add.click()
    expect(page.locator("#new-lane-wrong")).to_contain_text("jitter 10 ms exceeds")
    assert asked(site.house) == star()


def test_a_port_that_was_taken_meanwhile_is_refused_at_its_field(page: Page, site: Site) -> None:
    new = dialog(page)
    expect(new.locator("#new-lane-ports-hub option", has_text="eth0")).to_be_disabled()
    new.get_by_label("Name of the site").fill("office")
    new.get_by_label("RTT").fill("8ms")
    new.get_by_label("Hub port").select_option("eth1")
    new.get_by_label("Site port").select_option("eth2")
    eth2 = site.house.kernel.links["eth2"]
    site.house.kernel.links["eth2"] = replace(eth2, addresses=("198.51.100.7",))
    new.get_by_role("button", name="Preview").click()
    expect(new.get_by_label("Site port")).to_have_accessible_description(re.compile("has the address 198.51.100.7"))
    expect(new.get_by_label("Site port")).to_be_focused()
    new.get_by_label("Site port").select_option("eth4")
    new.get_by_role("button", name="Add the lane").click()
    expect(names(page)).to_have_count(4)


def test_on_a_box_with_ports_the_next_pair_is_proposed(page: Page, site: Site) -> None:
    lane = {"rtt": "8ms", "ports": {"hub": "eth1", "site": "eth2"}}
    assert site.house.client.post("/api/lanes", json={"lanes": {"office": lane}}).status_code == 200
    site.look()
    expect(names(page)).to_have_count(4)
    new = dialog(page)
    expect(new.get_by_label("Hub port")).not_to_have_value("")
    expect(new.get_by_label("Site port")).not_to_have_value("")
    assert not {"eth0", "eth1", "eth2"} & {new.get_by_label(f"{end} port").input_value() for end in ("Hub", "Site")}


def test_somebody_else_changes_the_lanes_while_the_plan_is_read(page: Page, site: Site) -> None:
    new = dialog(page)
    new.get_by_label("Place").fill("tokyo")
    new.get_by_role("button", name="Preview").click()
    plan = page.locator("#plan")
    expect(plan).to_be_visible()
    assert site.house.client.delete("/api/lanes/london").status_code == 200
    plan.get_by_role("button", name="Add the lane").click()  # before the page hears of it
    expect(plan.locator("#plan-note")).to_have_text("The lanes have changed meanwhile: this is the plan from there.")
    assert asked(site.house).sites == ("california", "japan")
    plan.get_by_role("button", name="Add the lane").click()
    expect(names(page)).to_have_text(["california", "japan", "tokyo"])


def test_a_run_that_leases_the_lanes_meanwhile_keeps_them(page: Page, site: Site) -> None:
    new = dialog(page)
    new.get_by_label("Place").fill("tokyo")
    other = Appliance(site.house.kernel, site.house.appliance.state_dir, guard=lambda _: None)
    with other.lease(star()):
        new.get_by_role("button", name="Add the lane").click()  # before the page hears of it
        expect(page.locator("#new-lane-wrong")).to_contain_text("has leased the lanes: wait for its end, or cancel it")
        site.look()
        expect(new.get_by_role("button", name="Add the lane")).to_be_disabled()
        expect(new.get_by_text("A measurement has the lanes: nothing can be added until it has ended.")).to_be_visible()
        accessible(page)
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Remove london")).to_be_disabled()
    site.look()
    dialog(page)
    expect(new.get_by_label("Place")).to_have_value("tokyo")
    new.get_by_role("button", name="Add the lane").click()
    expect(names(page)).to_have_count(4)


def test_a_lane_is_removed_with_its_flow_by_keyboard_and_undone(page: Page, site: Site) -> None:
    site.house.client.patch("/api/lanes/london", json={"flows": {"voice": {"match": {"dscp": "ef"}}}})
    before = asked(site.house)
    site.look()
    page.get_by_role("button", name="Remove london").press("Enter")
    plan = page.locator("#plan")
    expect(plan.locator("#plan-warnings")).to_have_text("london loses 1 flow: voice")
    expect(plan.locator("#plan-words")).to_contain_text("The other 2 lanes go on as they are.")
    expect(plan.locator("#plan-steps")).to_contain_text("ip link del lhh-london")
    accessible(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Remove london")).to_be_focused()
    assert asked(site.house) == before
    page.keyboard.press("Enter")
    expect(plan.get_by_role("button", name="Remove london")).to_be_focused()
    page.keyboard.press("Enter")
    expect(names(page)).to_have_text(["california", "japan"])
    expect(page.get_by_role("button", name="Add a lane")).to_be_focused()
    assert asked(site.house).sites == ("california", "japan")
    page.get_by_role("button", name="Undo the last change").press("Enter")
    expect(names(page)).to_have_count(3)
    assert asked(site.house) == before


def test_whoever_removes_a_lane_until_confirmed_gets_it_back(page: Page, site: Site) -> None:
    page.get_by_role("button", name="japan", exact=True).click()
    page.get_by_role("button", name="Remove this lane").click()
    plan = page.locator("#plan")
    expect(plan.locator("#plan-title")).to_have_text("What removing japan does")
    plan.get_by_label("revert after 60 s unless confirmed").check()
    plan.get_by_role("button", name="Remove japan").click()
    expect(names(page)).to_have_count(2)
    expect(page.locator("#panel-title")).to_have_text("Lane california")
    site.look()
    page.get_by_role("button", name="Revert it now").click()
    expect(page.locator("#notes")).to_contain_text("reverted")
    site.look()
    expect(names(page)).to_have_count(3)
    assert asked(site.house) == star()


def test_what_a_removal_loses_is_told_again_when_somebody_gives_the_lane_a_flow(page: Page, site: Site) -> None:
    page.get_by_role("button", name="Remove london").click()
    plan = page.locator("#plan")
    expect(plan.locator("#plan-title")).to_have_text("What removing london does")
    expect(plan.locator("#plan-warnings")).to_be_empty()
    site.house.client.patch("/api/lanes/london", json={"flows": {"voice": {"match": {"dscp": "ef"}}}})
    plan.get_by_role("button", name="Remove london").click()
    expect(plan.locator("#plan-note")).to_contain_text("The lanes have changed meanwhile")
    expect(plan.locator("#plan-warnings")).to_have_text("london loses 1 flow: voice")
    assert "london" in asked(site.house).sites
    plan.get_by_role("button", name="Close").click()
    expect(names(page)).to_have_count(3)


def test_a_lane_that_somebody_else_has_removed_already(page: Page, site: Site) -> None:
    removed = Held(page, "**/api/lanes/london?dry_run=1", "DELETE")
    page.get_by_role("button", name="Remove london").click()
    removed.answered()
    assert site.house.client.delete("/api/lanes/london").status_code == 200
    removed.go()
    page.locator("#plan").get_by_role("button", name="Remove london").click()
    expect(page.locator("#notes")).to_contain_text("there is no lane 'london': use california or japan")
    expect(names(page)).to_have_count(2)


def test_the_last_lane_goes_and_another_comes(page: Page, site: Site) -> None:
    for name in ("california", "london", "japan"):
        page.get_by_role("button", name=f"Remove {name}").click()
        page.locator("#plan").get_by_role("button", name=f"Remove {name}").click()
        expect(page.get_by_role("button", name=f"Remove {name}", exact=True)).to_have_count(0)
    expect(page.get_by_text("No lane is up. Add one, or undo the last change.")).to_be_visible()
    site.look()
    accessible(page)
    new = dialog(page)
    new.get_by_label("Name of the site").fill("paris")
    new.get_by_role("button", name="Add the lane").click()
    expect(names(page)).to_have_text(["paris"])
    expect(page.locator("#panel-title")).to_have_text("Lane paris")
    assert asked(site.house).sites == ("paris",)


def test_a_reader_neither_adds_nor_removes(browser: Browser, site: Site) -> None:
    with visit(browser, site, token=TOKENS.read) as page:
        expect(page.get_by_role("button", name="Remove london")).to_be_disabled()
        expect(page.get_by_role("button", name="Add a lane")).to_be_disabled()


def sound(page: Page, box: Locator, width: int) -> None:
    """Nothing is wider than the page or the dialog, and axe finds nothing."""
    fits(page, width)
    page.wait_for_function("box => box.scrollWidth <= box.clientWidth", arg=box.element_handle())
    accessible(page)


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1920, "dark")])
def test_the_dialogs_fit(browser: Browser, site: Site, width: int, scheme: Scheme) -> None:
    with visit(browser, site, width, scheme) as page:
        expect(names(page)).to_have_count(3)
        new = dialog(page)
        new.get_by_label("Place").fill("tokyo")
        new.get_by_label("Hub port").select_option("eth1")
        sound(page, new, width)
        new.get_by_label("Hub port").select_option("")
        new.get_by_label("Name of the site").press("Enter")
        expect(page.locator("#plan")).to_be_visible()
        sound(page, page.locator("#plan"), width)


def test_a_scheduled_lane_goes_with_its_track_and_an_undo_returns_both(browser: Browser, tmp_path: Path) -> None:
    with served(PlayingHouse(tmp_path, DAY.read_text())) as site, visit(browser, site) as page:
        before = asked(site.house)
        page.get_by_role("button", name="Remove london").click()
        plan = page.locator("#plan")
        expect(plan.locator("#plan-warnings")).to_have_text("the schedule loses 1 track, which changed only london")
        plan.get_by_role("button", name="Remove london").click()
        expect(page.get_by_role("button", name="london", exact=True)).to_have_count(0)
        site.look()
        after = asked(site.house)
        assert before.schedule and after.schedule
        assert len(after.schedule.tracks) == len(before.schedule.tracks) - 1
        page.get_by_role("button", name="Undo the last change").click()
        expect(page.get_by_role("button", name="london", exact=True)).to_be_visible()
        assert asked(site.house) == before
