"""The fields of numbers in a real browser: what somebody types is what is asked, or it is refused at the field."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect
from support.browser_visit import Site, drag_to_end


@pytest.fixture
def sent(page: Page) -> Callable[[], list[str]]:
    """The patches that the page has sent so far."""
    bodies: list[str] = []
    page.on("request", lambda request: bodies.append(request.post_data or "") if request.method == "PATCH" else None)
    return lambda: bodies


def rtt_ns(site: Site) -> int:
    """What is asked of the lane that the page shows first."""
    topology = site.house.appliance.topology()
    assert topology
    return topology.lane("california").rtt_ns


def field(page: Page, label: str) -> tuple[str, str]:
    """A quantity's number and unit."""
    return page.get_by_label(label, exact=True).input_value(), page.get_by_label(f"{label}, unit").input_value()


def apply(page: Page) -> None:
    """Press Apply."""
    page.get_by_role("button", name="Apply", exact=True).click()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a number is missing: write one"),
        ("1,000", "'1,000' can be 1000 or 1.000: write one of these"),
        ("3,5,1", "'3,5,1' is not a number: write one such as 3.5"),
        ("8 miles", "'miles' is no unit of this field: write us, ms, s"),
        ("8Gbit", "'Gbit' is no unit of this field: write us, ms, s"),
        ("1,000ms", "'1,000' can be 1000 or 1.000: write one of these"),
        ("o8", "'o8' is not a number: write one such as 3.5"),
    ],
)
def test_a_number_that_is_none_is_refused_at_its_field(
    page: Page, site: Site, sent: Callable[[], list[str]], text: str, said: str
) -> None:
    page.get_by_label("RTT", exact=True).fill(text)
    apply(page)
    row = page.locator(".quantity", has=page.get_by_label("RTT", exact=True))
    expect(row.locator(".wrong")).to_have_text(said)
    expect(page.get_by_label("RTT", exact=True)).to_be_focused()
    page.get_by_role("button", name="Preview").click()
    page.get_by_label("RTT", exact=True).fill("50")
    expect(row.locator(".wrong")).to_be_hidden()
    apply(page)
    expect(page.locator("#notes")).to_contain_text("california is at 50ms")
    assert (sent(), rtt_ns(site)) == (['{"outbound":{},"inbound":{},"rtt":"50ms"}'], 50_000_000)


def test_every_emptied_field_is_refused_and_none_takes_its_setting_away(
    page: Page, site: Site, sent: Callable[[], list[str]]
) -> None:
    site.house.client.patch("/api/lanes/california", json={"rate": "10Mbit", "buffer": "8KiB", "loss": "1%"})
    site.look()
    more = page.get_by_text("More impairments").first
    for label in ("Rate", "Jitter", "Buffer", "Loss", "Loss, packets in a row"):
        if label.endswith("row"):
            page.get_by_label("Outbound (hub to site) Loss pattern", exact=True).select_option("burst")
        box = page.get_by_label(f"Outbound (hub to site) {label}", exact=True)
        expect(box).not_to_have_value("")
        value = box.input_value()
        box.fill("")
        apply(page)
        row = page.locator(".loss" if "Loss" in label else ".quantity", has=box)
        expect(row.locator(".wrong:visible")).to_contain_text("a number is missing: write one")
        box.fill(value)
    more.click()
    page.get_by_label("Outbound (hub to site) Loss pattern", exact=True).select_option("gilbert")
    page.get_by_label("Outbound (hub to site) r: out of it").fill("")
    apply(page)
    expect(page.locator(".loss .wrong:visible")).to_have_text("r: out of it: a number is missing: write one")
    assert sent() == []


def test_a_decimal_comma_is_read_as_a_point(page: Page, site: Site) -> None:
    page.get_by_label("RTT", exact=True).fill("")
    page.get_by_label("RTT", exact=True).press_sequentially("3,5")
    apply(page)
    expect(page.locator("#notes")).to_contain_text("california is at 3.5ms")
    assert rtt_ns(site) == 3_500_000
    expect(page.get_by_label("RTT", exact=True)).to_have_value("3.5")


def test_a_seed_and_a_count_are_whole_and_lose_no_character(page: Page, site: Site) -> None:
    page.get_by_label("both directions alike").uncheck()
    page.get_by_text("More impairments").first.click()
    page.get_by_label("Outbound (hub to site) Seed").press_sequentially("1,5")
    apply(page)
    expect(page.locator(".quantity .wrong:visible")).to_have_text("'1.5' is not a whole number: write one such as 7")
    page.goto(site.url + "/certificates")
    page.get_by_label("Echoes per pair").fill("")
    page.get_by_label("Echoes per pair").press_sequentially("3,5")
    page.get_by_role("button", name="Measure now").click()
    expect(page.locator("#notes .failed")).to_contain_text("'3,5'")


def test_a_slider_at_nothing_keeps_the_unit_in_which_somebody_types_on(page: Page, site: Site) -> None:
    slider = page.get_by_label("RTT, slider")
    for key in ("Home", "ArrowRight", "Home"):
        slider.press(key)
        assert field(page, "RTT")[1] == "ms"
    assert field(page, "RTT") == ("0", "ms")
    page.get_by_label("RTT", exact=True).fill("345")
    apply(page)
    expect(page.locator("#notes")).to_contain_text("california is at 345ms")
    assert rtt_ns(site) == 345_000_000
    page.get_by_label("Outbound (hub to site) Jitter, slider").press("ArrowRight")
    assert field(page, "Outbound (hub to site) Jitter") == ("0.05", "ms")


def test_another_unit_says_the_same_value(page: Page, site: Site) -> None:
    page.get_by_label("RTT, unit").select_option("s")
    assert field(page, "RTT") == ("0.032", "s")
    page.get_by_label("RTT, unit").select_option("us")
    assert field(page, "RTT") == ("32000", "us")
    rate = "Outbound (hub to site) Rate"
    page.get_by_label(f"{rate}, unit").select_option("Mbit")
    assert field(page, rate) == ("10000", "Mbit")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#plan-steps")).to_have_text("Nothing to change.")
    page.get_by_role("button", name="Close").click()
    page.get_by_text("More impairments").first.click()
    buffer = "Outbound (hub to site) Buffer"
    page.get_by_label(f"{buffer}, unit").select_option("KiB")
    page.get_by_label(buffer, exact=True).fill("64")
    page.get_by_label(f"{buffer}, unit").select_option("p")
    assert field(page, buffer) == ("", "p")
    apply(page)
    row = page.locator(".quantity", has=page.get_by_label(buffer, exact=True))
    expect(row.locator(".wrong")).to_contain_text("a number is missing")


def test_the_arrow_keys_count(page: Page) -> None:
    rtt = page.get_by_label("RTT", exact=True)
    rtt.press("ArrowUp")
    expect(rtt).to_have_value("33")
    rtt.press("ArrowDown")
    rtt.press("ArrowDown")
    expect(rtt).to_have_value("31")


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("height", [700, 900, 1600])
def test_a_slider_is_dragged_to_its_end(page: Page, height: int, refused: bool) -> None:
    page.set_viewport_size({"width": 1280, "height": height})
    if refused:
        page.get_by_label("RTT", exact=True).fill("")
        apply(page)
        expect(page.locator(".quantity .wrong:visible")).to_be_visible()
    drag_to_end(page, "RTT, slider")
    expect(page.get_by_text("Not applied yet: RTT.")).to_be_visible()
    assert float(page.get_by_label("RTT", exact=True).input_value()) >= 390
