"""The panel by the keyboard alone, in a real browser: typed units, what is not applied yet, and the plan."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect
from support.browser_visit import Site

from emulator import units
from emulator.model.topology import Lane

OUT = "Outbound (hub to site)"


def lane(site: Site, name: str = "california") -> Lane:
    """What is asked of a lane, by default of the one that the page shows first."""
    topology = site.house.appliance.topology()
    assert topology
    return topology.lane(name)


def box(page: Page, label: str) -> Locator:
    """The field of a number."""
    return page.get_by_label(label, exact=True)


def typed(page: Page, label: str, text: str) -> Locator:
    """Type over what a field says, key by key."""
    field = box(page, label)
    field.select_text()
    field.press_sequentially(text)
    return field


def shows(page: Page, label: str, number: str, unit: str) -> None:
    """Wait until a field shows this number and this unit."""
    expect(box(page, label)).to_have_value(number)
    expect(page.get_by_label(f"{label}, unit")).to_have_value(unit)


@pytest.mark.parametrize(
    ("label", "text", "number", "unit"),
    [
        ("RTT", "40ms", "40", "ms"),
        ("RTT", "0.346 s", "0.346", "s"),
        ("RTT", "1,5MS", "1.5", "ms"),
        ("RTT", "2500µs", "2500", "us"),
        ("RTT", "100000 ns", "100", "us"),
        ("RTT", "1e2ms", "1e2", "ms"),
        (f"{OUT} Rate", "1.5gbit/s", "1.5", "Gbit"),
        (f"{OUT} Rate", "0.002Tbit", "2", "Gbit"),
        (f"{OUT} Loss", "0.1%", "0.1", "%"),
        (f"{OUT} Loss", "none", "", "none"),
        (f"{OUT} Buffer", "0.01s", "10", "ms"),
        (f"{OUT} Buffer", "100p", "100", "p"),
        (f"{OUT} Buffer", "500kB", "488.28125", "KiB"),
        (f"{OUT} Corrupted", "ber 1e-9", "1e-9", "bit errors"),
    ],
)
def test_a_unit_typed_behind_a_number_moves_to_its_place(
    page: Page, site: Site, label: str, text: str, number: str, unit: str
) -> None:
    page.get_by_text("More impairments").first.click()
    typed(page, label, text).press("Tab")
    shows(page, label, number, unit)


def test_loss_is_typed_and_applied(page: Page, site: Site) -> None:
    typed(page, f"{OUT} Loss", "0.1").press("Enter")
    expect(page.locator("#plan-words li")).to_have_text(["Loss none → 0.1%"])
    expect(page.locator("#plan-steps")).to_contain_text("loss")
    page.keyboard.press("Enter")
    expect(page.locator("#notes")).to_contain_text("california is at 32ms")
    both = [side.loss_p32 for side in (lane(site).outbound, lane(site).inbound)]
    assert both == [units.parse_probability_p32("0.1%")] * 2


def test_a_field_that_is_emptied_again_asks_for_nothing(page: Page, site: Site) -> None:
    field = typed(page, f"{OUT} Loss", "3")
    shows(page, f"{OUT} Loss", "3", "%")
    expect(page.get_by_text("1 change not applied yet: Loss.")).to_be_visible()
    field.press("Backspace")
    shows(page, f"{OUT} Loss", "", "none")
    expect(page.get_by_text("not applied yet")).to_be_hidden()


def test_the_arrow_keys_count_behind_a_typed_unit_and_leave_alone_what_is_no_number(page: Page) -> None:
    field = typed(page, "RTT", "2s")
    field.press("ArrowUp")
    shows(page, "RTT", "3", "s")
    typed(page, "RTT", "o8").press("ArrowUp")
    expect(field).to_have_value("o8")


def test_a_unit_half_typed_outlasts_the_change_of_somebody_else(page: Page, site: Site) -> None:
    """Their loss appears, and neither the text nor the caret moves."""
    field = typed(page, "RTT", "4 s")
    field.press("ArrowLeft")
    field.press("ArrowLeft")
    site.house.client.patch("/api/lanes/california", json={"loss": "2%", "rtt": "50ms"})
    site.look()
    shows(page, f"{OUT} Loss", "2", "%")
    expect(field).to_have_value("4 s")
    field.press_sequentially("5")
    field.press("Tab")
    shows(page, "RTT", "45", "s")


def test_what_is_not_applied_yet_is_counted_marked_and_always_in_sight(page: Page, site: Site) -> None:
    page.set_viewport_size({"width": 390, "height": 700})
    typed(page, "RTT", "40ms")
    page.get_by_label("both directions alike").uncheck()
    typed(page, f"{OUT} Loss", "1%").press("Tab")
    bar = page.get_by_text("2 changes not applied yet: RTT, Outbound Loss.")
    page.get_by_label("RTT", exact=True).scroll_into_view_if_needed()
    expect(bar).to_be_in_viewport()
    expect(page.get_by_role("button", name="Apply", exact=True)).to_be_in_viewport()
    expect(page.locator(".changed > label")).to_have_text(["RTT"])
    expect(page.locator(".changed .quantity:first-child > label")).to_have_text(["Loss"])
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#plan-words li")).to_have_text(["RTT 32ms → 40ms", "Outbound Loss none → 1%"])
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("california is at 40ms")
    expect(page.locator(".changed")).to_have_count(0)
    assert (lane(site).outbound.loss_p32, lane(site).inbound.loss_p32) == (units.parse_probability_p32("1%"), 0)
