"""The page under a schedule, in a real browser: what is asked follows, and what somebody edits stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from support.browser_visit import Site, served
from support.playing_house import PlayingHouse

DAY = """
name: day
hub: new-york
lanes:
  london: {rtt: 80ms, rate: 1Gbit}
  tokyo: {rtt: 160ms}
  ship: {rtt: 45ms}
schedule:
  step: 1s
  tracks:
    - lanes: [london]
      keys: [{at: 0s, rtt: 40ms}, {at: 10s, rtt: 50ms, ramp: yes}, {at: 20s, rtt: 60ms, loss: 1%}]
"""
LOSS = "Outbound (hub to site) Loss"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A daemon that plays a schedule."""
    with served(PlayingHouse(tmp_path, DAY)) as made:
        yield made


def seconds(site: Site, count: int) -> None:
    """So many looks."""
    for _ in range(count):
        site.look()


def test_what_is_asked_follows_the_schedule_everywhere(page: Page, site: Site) -> None:
    site.look()
    row = page.locator("#table tr[data-lane=london]")
    expect(row.locator("[data-of=asked]")).to_have_text("41 ms")
    for count, rtt in ((4, 45), (5, 50), (11, 60)):
        seconds(site, count)
        expect(row.locator("[data-of=asked]")).to_have_text(f"{rtt} ms")
        expect(page.locator("#star [data-lane=london]")).to_contain_text(f"{rtt} ms → 32.4 ms")
        expect(page.get_by_label("RTT", exact=True)).to_have_value(str(rtt))
    expect(page.get_by_label(LOSS, exact=True)).to_have_value("1")
    expect(page.get_by_text("A schedule changes this lane")).to_be_visible()
    expect(page.locator("#drift")).to_be_hidden()
    page.get_by_role("button", name="tokyo", exact=True).click()
    expect(page.get_by_text("A schedule changes this lane")).to_be_hidden()


def test_an_edit_and_a_field_at_hand_stay_while_the_schedule_goes_on(page: Page, site: Site) -> None:
    site.look()
    rate = page.get_by_label("Outbound (hub to site) Rate", exact=True)
    expect(page.get_by_label("RTT", exact=True)).to_have_value("41")
    rate.fill("500")
    page.get_by_label("RTT", exact=True).focus()
    seconds(site, 4)
    expect(page.locator("#table tr[data-lane=london] [data-of=asked]")).to_have_text("45 ms")
    expect(rate).to_have_value("500")
    expect(page.get_by_label("RTT", exact=True)).to_have_value("41")
    expect(page.get_by_text("Not applied yet: Rate.")).to_be_visible()
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("london is at")
    topology = site.house.appliance.topology()
    assert topology
    assert (topology.lane("london").rtt_ns, topology.lane("london").outbound.rate_bps) == (80_000_000, 500 * 10**9)
    seconds(site, 2)
    expect(page.get_by_label("RTT", exact=True)).to_have_value("47")


def test_a_value_that_the_schedule_sets_is_taken_with_a_warning(page: Page, site: Site) -> None:
    site.look()
    page.get_by_label("RTT", exact=True).fill("70")
    page.get_by_role("button", name="Preview").click()
    warned = "london: the schedule sets rtt, in place of this change: change the schedule, too"
    expect(page.locator("#plan-warnings")).to_have_text(warned)
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("#notes")).to_contain_text(warned)
    site.look()
    expect(page.get_by_label("RTT", exact=True)).to_have_value("42")
