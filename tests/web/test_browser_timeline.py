"""The schedule as a timeline, in a real browser: by mouse, by keyboard, and beside other people's changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from support.browser_visit import Held, Site, accessible, fits, served
from support.playing_house import PlayingHouse
from support.web_daemon import asked

from emulator.model.schedule import Schedule

S = 10**9
DAY = """
name: day
hub: new-york
lanes:
  london: {rtt: 80ms, rate: 1Gbit}
  tokyo: {rtt: 160ms}
  ship: {rtt: 45ms}
schedule:
  loop: 100s
  tracks:
    - {lanes: [london], keys: [{at: 0s, rtt: 80ms}, {at: 40s, rtt: 120ms}, {at: 80s, rtt: 80ms, ramp: yes}]}
    - {lanes: [ship], direction: outbound, keys: [{at: 20s, down: yes}, {at: 21s, down: no}]}
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A daemon that plays a schedule."""
    with served(PlayingHouse(tmp_path, DAY)) as made:
        yield made


@pytest.fixture
def timeline(page: Page, site: Site) -> Page:
    """The page of the schedule, drawn."""
    page.goto(site.url + "/schedule")
    expect(page.locator("#link")).to_have_text("live")
    expect(strip(page, "london RTT").locator(".handle")).to_have_count(3)
    return page


def strip(page: Page, name: str) -> Locator:
    """A chart."""
    return page.get_by_role("group", name=name, exact=True)


def schedule(site: Site) -> Schedule:
    """What is up."""
    found = asked(site.house).schedule
    assert found
    return found


def rtts(site: Site) -> list[tuple[float, float]]:
    """The keys of the first track: (s, ms)."""
    return [(key.at_ns / 1e9, dict(key.values)["rtt_ns"] / 1e6) for key in schedule(site).tracks[0].keys]  # type: ignore[operator]


def dragged(page: Page, handle: Locator, right: float, down: float) -> None:
    """Drag a handle by so many pixels."""
    # Else the handle is still where an older draft had it, and moves away under the pointer.
    expect(page.locator("#board")).to_have_attribute("aria-busy", "false")
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    assert box
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for share in (0.25, 0.5, 0.75, 1):
        page.mouse.move(x + right * share, y + down * share)
    page.mouse.up()


def test_a_key_is_dragged_in_time_and_value_and_applied(timeline: Page, site: Site) -> None:
    chart = strip(timeline, "london RTT")
    time = timeline.get_by_label("Time, key 2 of london")
    value = timeline.get_by_label("RTT, key 2 of london")
    dragged(timeline, chart.locator(".handle").nth(1), 60, 0)
    expect(value).to_have_value("120ms")
    expect(time).not_to_have_value("40s")
    moved_s = float(time.input_value().removesuffix("s"))
    assert 45 < moved_s < 75
    dragged(timeline, chart.locator(".handle").nth(1), 0, 30)
    expect(time).to_have_value(f"{moved_s:g}s")
    expect(value).not_to_have_value("120ms")
    lower_ms = float(value.input_value().removesuffix("ms"))
    assert 60 < lower_ms < 115
    dragged(timeline, chart.locator(".handle").nth(1), 550, 0)
    expect(time).to_have_value("79.999s")
    assert rtts(site)[1] == (40, 120)
    timeline.get_by_role("button", name="Apply", exact=True).click()
    expect(timeline.locator("#notes")).to_contain_text("the schedule is changed")
    expect(timeline.get_by_text("This draft is not applied.")).to_be_hidden()
    assert rtts(site)[1] == (79.999, lower_ms)
    site.look()
    expect(timeline.locator("#playing")).to_contain_text("of a loop of 1 min 40 s")


def test_a_reroute_is_drawn_with_clicks(timeline: Page, site: Site) -> None:
    timeline.get_by_role("combobox", name="Lane", exact=True).select_option("tokyo")
    timeline.get_by_role("button", name="Add", exact=True).click()
    chart = strip(timeline, "tokyo RTT")
    expect(chart.locator(".handle")).to_have_count(1)
    box = chart.bounding_box()
    assert box
    chart.click(position={"x": box["width"] * 0.5, "y": 15})
    expect(chart.locator(".handle")).to_have_count(2)
    chart.click(position={"x": box["width"] * 0.7, "y": 40})
    expect(chart.locator(".handle")).to_have_count(3)
    timeline.get_by_role("button", name="Apply", exact=True).click()
    expect(timeline.locator("#notes")).to_contain_text("the schedule is changed")
    keys = schedule(site).tracks[2].keys
    first, second, third = (dict(key.values)["rtt_ns"] for key in keys)
    assert first == 160_000_000
    assert second > third > first  # type: ignore[operator]
    assert 30 * S < keys[1].at_ns < keys[2].at_ns < 80 * S


def test_a_chart_without_a_loop_stands_still_while_keys_are_added(timeline: Page, site: Site) -> None:
    timeline.get_by_label("Loop after").fill("")
    timeline.get_by_role("button", name="Remove the track").last.click()
    chart = strip(timeline, "london RTT")
    expect(chart.locator(".tick").filter(has_text="1 min 20 s")).to_be_visible()
    for _ in range(2):
        timeline.get_by_role("button", name="Remove key 2 of london").click()
    expect(chart.locator(".handle")).to_have_count(1)
    box = chart.bounding_box()
    assert box
    for count, share in ((2, 0.3), (3, 0.6), (4, 0.9)):
        chart.click(position={"x": box["width"] * share, "y": 30})
        expect(chart.locator(".handle")).to_have_count(count)
    timeline.get_by_role("button", name="Apply", exact=True).click()
    expect(timeline.locator("#notes")).to_contain_text("the schedule is changed")
    times = [at for at, _ in rtts(site)]
    assert times[1] * 2 < times[2] < times[3]
    assert times[3] - times[2] == pytest.approx(times[2] - times[1], rel=0.1)


def test_delete_removes_the_key_and_undo_brings_it_back(timeline: Page, site: Site) -> None:
    chart = strip(timeline, "london RTT")
    chart.locator(".handle").nth(1).click()
    expect(timeline.locator("tr.picked").get_by_label("Time, key 2 of london")).to_have_value("40s")
    chart.locator(".handle").nth(1).press("Delete")
    expect(chart.locator(".handle")).to_have_count(2)
    timeline.get_by_role("button", name="Apply", exact=True).click()
    expect(timeline.locator("#notes")).to_contain_text("the schedule is changed")
    assert [at for at, _ in rtts(site)] == [0, 80]
    timeline.get_by_role("button", name="Undo the last change").click()
    expect(chart.locator(".handle")).to_have_count(3)
    assert [at for at, _ in rtts(site)] == [0, 40, 80]


def test_everything_works_by_keyboard_alone(timeline: Page, site: Site) -> None:
    timeline.get_by_label("RTT, key 2 of london").focus()
    timeline.keyboard.press("ControlOrMeta+a")
    timeline.keyboard.type("140ms")
    timeline.keyboard.press("Tab")
    timeline.keyboard.press("Space")
    expect(timeline.get_by_label("Ramp to key 2 of london")).to_be_checked()
    timeline.get_by_role("button", name="Add a key").first.press("Enter")
    expect(timeline.get_by_label("Time, key 4 of london")).to_be_focused()
    timeline.keyboard.press("ControlOrMeta+a")
    timeline.keyboard.type("90s")
    timeline.keyboard.press("Tab")
    timeline.keyboard.press("ControlOrMeta+a")
    timeline.keyboard.type("85ms")
    handle = strip(timeline, "london RTT").locator(".handle").nth(3)
    expect(handle).to_have_attribute("aria-label", re.compile("85 ms at 1 min 30 s"))
    handle.focus()
    timeline.keyboard.press("ArrowRight")
    expect(timeline.get_by_label("Time, key 4 of london")).to_have_value("91s")
    timeline.get_by_role("button", name="Remove key 1 of ship outbound").press("Enter")
    expect(timeline.get_by_label("Time, key 1 of ship outbound")).to_be_focused()
    timeline.get_by_label("Add a setting to london").select_option("loss")
    timeline.get_by_label("Loss, key 2 of london").fill("0.5%")
    timeline.get_by_label("Loop after").fill("2min")
    timeline.get_by_role("button", name="Apply", exact=True).press("Enter")
    expect(timeline.locator("#notes")).to_contain_text("the schedule is changed")
    now = schedule(site)
    assert rtts(site) == [(0, 80), (40, 140), (80, 80), (91, 85)]
    assert [key.ramp for key in now.tracks[0].keys] == [False, True, True, False]
    assert [dict(key.values).get("loss_p32") for key in now.tracks[0].keys] == [0, round(0.005 * 2**32), None, None]
    assert (now.loop_ns, len(now.tracks[1].keys)) == (120 * S, 1)


def test_a_mistake_stands_at_its_field_as_typed_and_nothing_is_applied(timeline: Page, site: Site) -> None:
    value = timeline.get_by_label("RTT, key 2 of london")
    value.fill("120")
    expect(timeline.get_by_text("'120' has no unit: write 120ms for milliseconds")).to_be_visible()
    expect(value).to_have_attribute("aria-invalid", "true")
    timeline.get_by_role("button", name="Apply", exact=True).click()
    expect(value).to_have_attribute("aria-invalid", "true")
    assert rtts(site)[1] == (40, 120)
    value.fill("120ms")
    expect(value).not_to_have_attribute("aria-invalid", "true")
    timeline.get_by_label("Time, key 2 of london").fill("90s")
    expect(timeline.get_by_text("keys must be in time order: 80 s comes after 90 s")).to_be_visible()
    expect(timeline.get_by_label("Time, key 3 of london")).to_have_attribute("aria-invalid", "true")
    timeline.get_by_label("Time, key 2 of london").fill("")
    expect(timeline.get_by_text("is missing")).to_be_visible()
    expect(timeline.get_by_label("Time, key 2 of london")).to_have_attribute("aria-invalid", "true")


def test_a_preview_says_what_changes_and_what_comes_first(timeline: Page, site: Site) -> None:
    timeline.get_by_label("RTT, key 2 of london").fill("140ms")
    timeline.get_by_role("button", name="Preview").click()
    expect(timeline.locator("#plan-words")).to_have_text("london rtt: 140 ms from 40 s on, was 120 ms")
    coming = timeline.locator("#plan-coming > li")
    expect(coming.first).to_contain_text("at 20 s")
    expect(coming.first).to_contain_text("ship outbound: loss 0% -> 100%")
    expect(coming.nth(2)).to_contain_text("london, each way: delay 40ms -> 70ms")
    coming.nth(2).get_by_text("Commands").click()
    expect(coming.nth(2).locator("pre")).to_contain_text("netem delay 70000000ns")
    assert rtts(site)[1] == (40, 120)
    timeline.locator("#plan-apply").click()
    expect(timeline.locator("#notes")).to_contain_text("the schedule is changed")
    assert rtts(site)[1] == (40, 140)


def test_a_draft_survives_leaving_the_page_and_somebody_elses_schedule(timeline: Page, site: Site) -> None:
    timeline.get_by_label("RTT, key 2 of london").fill("140ms")
    expect(timeline.get_by_text("This draft is not applied.")).to_be_visible()
    timeline.goto(site.url + "/history")
    timeline.goto(site.url + "/schedule")
    expect(timeline.get_by_label("RTT, key 2 of london")).to_have_value("120ms")
    timeline.get_by_role("button", name="Go on with it").click()
    value = timeline.get_by_label("RTT, key 2 of london")
    expect(value).to_have_value("140ms")
    other = site.house.client.get("/api/schedule").json["schedule"]  # type: ignore[index]
    other["tracks"][1]["keys"][0]["at"] = "10s"
    assert site.house.client.put("/api/schedule?at=kept", json=other).status_code == 200
    site.look()
    expect(timeline.locator("#others")).to_contain_text("changed the schedule since you began")
    expect(value).to_have_value("140ms")
    timeline.get_by_role("button", name="Apply", exact=True).click()
    expect(timeline.locator("#notes")).to_contain_text("the schedule is changed")
    expect(timeline.locator("#others")).to_be_empty()
    assert (rtts(site)[1], schedule(site).tracks[1].keys[0].at_ns) == ((40, 140), 20 * S)


def test_the_panel_changes_a_lane_under_a_draft_and_both_stay(timeline: Page, site: Site) -> None:
    value = timeline.get_by_label("RTT, key 2 of london")
    value.fill("14")
    site.house.client.patch("/api/lanes/london", json={"rate": "500Mbit"})
    with timeline.expect_response("**/api/status"):
        site.look()
    value.press("End")
    value.press_sequentially("0ms")
    expect(value).to_have_value("140ms")
    expect(timeline.locator("#others")).to_be_empty()
    change = Held(timeline, "**/api/schedule?*", "PUT")
    timeline.get_by_role("button", name="Apply", exact=True).click()
    change.answered()
    change.go()
    expect(timeline.locator("#notes")).to_contain_text("the schedule is changed")
    assert (rtts(site)[1], asked(site.house).lane("london").outbound.rate_bps) == ((40, 140), 500 * 10**6)


def test_a_lane_that_was_changed_at_the_last_moment_is_no_loss(timeline: Page, site: Site) -> None:
    timeline.get_by_label("RTT, key 2 of london").fill("140ms")
    site.house.client.patch("/api/lanes/london", json={"rate": "500Mbit"})
    timeline.get_by_role("button", name="Apply", exact=True).click()
    expect(timeline.locator("#notes")).to_contain_text("Your draft is kept: apply it again.")
    timeline.get_by_role("button", name="Apply", exact=True).click()
    expect(timeline.locator("#notes")).to_contain_text("the schedule is changed")
    assert (rtts(site)[1], asked(site.house).lane("london").outbound.rate_bps) == ((40, 140), 500 * 10**6)


def test_the_play_head_and_what_is_asked_follow_and_a_jump_moves_them(timeline: Page, site: Site) -> None:
    site.look()
    now = timeline.locator(".strip-of", has=strip(timeline, "london RTT")).locator(".now")
    expect(now).to_have_text("asked now: 80 ms")
    first = strip(timeline, "london RTT").locator(".head")
    expect(first).to_have_attribute("display", "inline")
    before = float(first.get_attribute("x1") or "nan")
    timeline.get_by_label("Jump to").fill("60s")
    timeline.get_by_role("button", name="Jump", exact=True).click()
    expect(timeline.locator("#notes")).to_contain_text("The schedule has jumped.")
    site.look()
    expect(now).to_have_text("asked now: 99 ms")
    expect(timeline.locator("#playing")).to_contain_text(re.compile("at 1 min [0-9] s of a loop"))
    assert float(first.get_attribute("x1") or "nan") > before + 100
    with timeline.expect_response("**/api/schedule/jump*"):
        timeline.get_by_role("button", name="Begin again").click()
    site.look()
    expect(now).to_have_text("asked now: 80 ms")


def test_a_change_that_waits_is_reverted_and_the_page_follows(timeline: Page, site: Site) -> None:
    value = timeline.get_by_label("RTT, key 2 of london")
    value.fill("140ms")
    timeline.get_by_label("revert after 60 s unless confirmed").check()
    timeline.get_by_role("button", name="Apply", exact=True).click()
    expect(timeline.locator("#notes")).to_contain_text("the schedule is changed")
    site.look()
    expect(timeline.locator("#pending")).to_be_visible()
    timeline.get_by_role("button", name="Revert it now").click()
    expect(timeline.locator("#notes")).to_contain_text("The change was reverted.")
    site.look()
    expect(value).to_have_value("120ms")
    assert rtts(site)[1] == (40, 120)


def test_lanes_that_a_measurement_has_keep_the_schedule_on_the_page(timeline: Page, site: Site) -> None:
    value = timeline.get_by_label("RTT, key 2 of london")
    value.fill("140ms")
    with site.house.usecases.holding():
        site.look()
        expect(timeline.get_by_role("button", name="Apply", exact=True)).to_be_disabled()
        expect(timeline.locator("#playing")).to_contain_text("stands still while a measurement has the lanes")
        expect(value).to_have_value("140ms")
    site.look()
    timeline.get_by_role("button", name="Apply", exact=True).click()
    expect(timeline.locator("#notes")).to_contain_text("the schedule is changed")
    assert rtts(site)[1] == (40, 140)


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_the_page_is_accessible_and_fits(timeline: Page, site: Site, width: int, scheme: str) -> None:
    timeline.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    timeline.set_viewport_size({"width": width, "height": 900})
    timeline.get_by_label("RTT, key 2 of london").fill("120")
    expect(timeline.locator("#tracks .wrong")).to_be_visible()
    site.look()
    accessible(timeline)
    fits(timeline, width)
