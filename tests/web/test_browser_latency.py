"""The first screen: switches of latency, the lanes' states, the last minute, and a map whose names do not collide."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, expect
from support.browser_visit import LIMIT_MS, Site, accessible, fits, log_in
from support.folders import TOPOLOGIES
from support.waiting import until
from support.web_daemon import TOKENS, asked, star

MANY = "name: many\nhub: hub\nlanes:\n" + "".join(f"  site-{n}: {{rtt: {5 * n}ms}}\n" for n in range(1, 33))
NAMES = """() => {
  const frame = document.querySelector('#star').getBoundingClientRect();
  const boxes = [...document.querySelectorAll('#star text')]
    .filter((one) => one.getClientRects().length && one.textContent.trim())
    .map((one) => [one.textContent.trim(), one.getBoundingClientRect()]);
  const common = (a, b) => [
    Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
  const wrong = [];
  boxes.forEach(([name, a], i) => {
    const [width, height] = common(a, frame);
    if (width < a.width - 1 || height < a.height - 1) wrong.push(`${name} is outside`);
    for (const [other, b] of boxes.slice(i + 1)) {
      const [across, down] = common(a, b);
      if (across > 1 && down > 3) wrong.push(`${name} lies on ${other}`);
    }
  });
  return {count: boxes.length, wrong};
}"""


def off(site: Site) -> list[bool]:
    """Of each lane, whether it is off."""
    return [lane.off for lane in asked(site.house).lanes]


def test_one_switch_turns_all_lanes_off_and_one_undo_turns_them_on(page: Page, site: Site) -> None:
    every, one = page.get_by_role("switch", name="Latency of all lanes"), page.get_by_role("switch", name="of london")
    expect(every).to_be_checked()
    every.click()
    expect(page.locator("#notes")).to_contain_text("Latency of all 3 lanes is off.")
    assert off(site) == [True] * 3
    expect(every).not_to_be_checked()
    site.look()
    expect(page.locator("#status-line")).to_contain_text("latency is off")
    row = page.locator("#table tr[data-lane=london]")
    expect(row.locator(".pill")).to_have_text("off")
    expect(row.locator("[data-of=asked]")).to_have_text("off 80 ms kept")
    expect(page.locator("#star [data-lane=london]")).to_contain_text("off → 32.4 ms")
    expect(page.get_by_text("Latency of this lane is off")).to_be_visible()
    expect(page.get_by_label("RTT", exact=True)).to_have_value("32")  # california's, kept
    page.get_by_role("button", name="Undo the last change").click()
    expect(page.locator("#all-said")).to_have_text("on")
    assert asked(site.house) == star()
    one.click()
    expect(page.locator("#all-said")).to_have_text("on for 2 of 3 lanes")
    expect(row.locator(".pill")).to_have_text("off")
    assert off(site) == [False, True, False]


def test_the_keyboard_turns_a_lane_off_and_a_reader_can_not(page: Page, browser: Browser, site: Site) -> None:
    page.get_by_role("switch", name="of japan").focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("switch", name="of japan")).not_to_be_checked()
    assert off(site) == [False, False, True]
    context = browser.new_context()
    context.set_default_timeout(LIMIT_MS)
    reader = context.new_page()
    log_in(reader, site.url + "/", TOKENS.read)
    expect(reader.locator("#table tbody tr")).to_have_count(3)
    for name in ("of all lanes", "of japan"):
        expect(reader.get_by_role("switch", name=name)).to_be_disabled()
    context.close()


def test_each_lane_says_what_is_asked_and_how_it_has_been(page: Page, site: Site) -> None:
    body = {"jitter": "2ms", "loss": "1%", "outbound": {"rate": "1Gbit"}}
    site.house.client.patch("/api/lanes/london", json=body)
    site.house.client.patch("/api/lanes/japan", json={"inbound": {"loss": "100%"}})
    for _ in range(3):
        site.look()
    row, down = (page.locator(f"#table tr[data-lane={name}]") for name in ("london", "japan"))
    for of, text in {
        "asked": "80 ms",
        "measured": "32.4 ms",
        "loss": "1%",
        "jitter": "2ms",
        "rate": "1Gbit / 10Gbit",
    }.items():
        expect(row.locator(f"[data-of={of}]")).to_have_text(text)
    expect(row.locator(".spark")).to_have_attribute("aria-label", "measured 32.4 ms to 32.4 ms in the last minute")
    expect(row.locator(".spark .measured")).to_have_attribute("d", re.compile("L.*L"))
    expect(down.locator(".pill")).to_have_text("down")
    expect(down.locator(".pill")).to_have_attribute("title", "every packet is lost inbound")
    expect(page.locator("#status-line")).to_contain_text("all lanes as asked")
    ports = site.house.kernel.ports
    ports["lhs-california"] = replace(ports["lhs-california"], egress=None)
    site.house.usecases.repair()
    site.look()
    expect(page.locator("#table tr[data-lane=california] .pill")).to_have_text("drifted")
    expect(page.locator("#status-line .bad")).to_contain_text("drifted")


@pytest.mark.parametrize("width", [390, 1440])
def test_no_name_lies_on_another_and_the_page_is_accessible(page: Page, site: Site, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for text, lanes, least in (((TOPOLOGIES / "wide-star.yaml").read_text(), 12, 8), (MANY, 32, 15)):
        site.house.client.put("/api/topology", data=text, content_type="application/yaml")
        site.house.client.patch(f"/api/lanes/{asked(site.house).sites[1]}", json={"disabled": True})
        page.goto(site.url + "/")
        expect(page.locator("#table tbody tr")).to_have_count(lanes)
        site.look()
        expect(page.locator("#table [data-of=measured]").last).to_have_text("32.4 ms")

        def placed(least: int = least) -> bool:
            names = page.evaluate(NAMES)
            return bool(names["wrong"] == [] and names["count"] >= least)

        assert until(placed), page.evaluate(NAMES)
        accessible(page)
        fits(page, width)
