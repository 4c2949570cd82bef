"""The page Recordings in a real browser: a path recorded, watched, stopped, replayed, and played in the schedule."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from support import made_recordings
from support.browser_visit import Scheme, Site, accessible, fits, visit
from support.made_recordings import one_way
from support.web_daemon import asked, star

from emulator.errors import MeasureError
from emulator.record import file

MS = 10**6


def kept(site: Site, name: str = "paris") -> None:
    """A recording that is there."""
    made_recordings.folder(site.house.appliance.state_dir / "recordings" / name, one_way(1, 3000))


def opened(page: Page, site: Site) -> Locator:
    """A recording that is kept, opened on the page."""
    kept(site)
    page.goto(f"{site.url}/recordings")
    one = page.locator("#recording-paris")
    one.locator("summary").click()
    return one


def test_a_host_is_recorded_watched_and_stopped_by_mouse(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/recordings")
    expect(page.get_by_text("No path is recorded yet.")).to_be_visible()
    accessible(page)
    page.get_by_label("Host", exact=True).fill("paris.example.org")
    page.get_by_label("Probe interval").fill("20ms")
    page.get_by_role("button", name="Record", exact=True).click()
    expect(page.locator("#active-title")).to_have_text("Recording paris-example-org")
    ping = site.house.paths.ping()
    for _ in range(51):
        ping.answer(80)
    while site.house.recordings.last.probes < 50:  # type: ignore[union-attr]
        page.wait_for_timeout(5)
    expect(page.get_by_role("button", name="Record", exact=True)).to_be_hidden()
    expect(page.get_by_role("button", name="Stop and keep it")).to_be_focused()
    page.reload()
    expect(page.locator("#now")).to_have_text("It probes: 50 answers, 0 lost, the last RTT 80.000 ms.")
    growing = page.get_by_role("img", name="RTT, ms over time. 80.000 ms to 80.000 ms, in steps of 0.5 s.")
    expect(growing.locator("canvas")).to_be_visible()
    accessible(page)
    page.get_by_role("button", name="Stop and keep it").click()
    one = page.locator("#recording-paris-example-org")
    expect(one.locator("summary")).to_have_text(re.compile("^paris-example-org done ?RTT 80.000 ms at least,"))
    expect(page.locator("#active")).to_be_hidden()
    one.locator("summary").click()
    expect(one.get_by_role("row", name="outbound")).to_contain_text("0% of 50")
    expect(one.get_by_role("img", name="RTT, ms over time. 80.000 ms to 80.000 ms").locator("canvas")).to_be_visible()
    expect(one.get_by_role("img", name="Lost probes over time")).to_have_count(0)
    expect(page.locator("#notes")).to_contain_text("The recording paris-example-org is kept.")
    accessible(page)


def test_a_lane_is_recorded_and_deleted_by_keyboard(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/recordings")
    page.get_by_label("from here to a host").press("ArrowRight")
    lane = page.get_by_label("Lane", exact=True)
    lane.select_option("london")
    page.get_by_label("Name of the recording").fill("before")
    page.get_by_label("Name of the recording").press("Enter")
    expect(page.locator("#active-title")).to_have_text("Recording before")
    assert site.house.paths.ping()
    assert site.house.paths.asked == ["new-york/london"]
    page.get_by_role("button", name="Stop and keep it").press("Enter")
    expect(page.locator("#notes")).to_contain_text("before was not recorded: no probe was answered")
    one = page.locator("#recording-before")
    expect(one.locator("summary")).to_contain_text("failed")
    one.locator("summary").press("Enter")
    one.get_by_role("button", name="Delete the recording before").press("Enter")
    expect(one).to_have_count(0)
    expect(page.locator("#kept-title")).to_be_focused()


def test_mistakes_stand_at_their_fields_and_a_dead_path_is_told(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/recordings")
    record = page.get_by_role("button", name="Record", exact=True)
    page.get_by_label("Probe interval").fill("1ms")
    record.click()
    host = page.get_by_label("Host", exact=True)
    expect(host).to_have_accessible_description(re.compile("name a host's address or a lane"))
    expect(host).to_be_focused()
    expect(page.get_by_label("Probe interval")).to_have_accessible_description(re.compile("use at least 10 ms"))
    accessible(page)
    site.house.paths.wrong = MeasureError("ping: nowhere: Name or service not known")
    host.fill("nowhere")
    page.get_by_label("Probe interval").fill("100ms")
    record.click()
    expect(page.locator("#recording-nowhere summary")).to_contain_text("Name or service not known")


def test_a_recording_is_replayed_after_its_plan_beside_other_people_and_undone(page: Page, site: Site) -> None:
    one = opened(page, site)
    page.get_by_label("Lane that replays paris").select_option("london")
    one.get_by_role("button", name="Preview").click()
    plan = page.locator("#plan")
    expect(plan.locator("#plan-words li").first).to_have_text("london gets the delays, jitter and losses of paris.")
    expect(plan.locator("#plan-steps")).to_contain_text("netem")
    accessible(page)
    assert asked(site.house) == star()
    site.house.client.patch("/api/lanes/japan", json={"rtt": "90ms"})
    plan.get_by_role("button", name="Replay on london").click()
    expect(plan.locator("#plan-note")).to_have_text("The lanes have changed meanwhile: this is the plan from there.")
    plan.get_by_role("button", name="Replay on london").click()
    expect(page.locator("#notes")).to_contain_text("london behaves as paris did.")
    profile = file.load(site.house.appliance.state_dir / "recordings/paris")
    now = asked(site.house)
    assert now.lane("london").outbound.delay_ns == profile.outbound.delay_ns
    assert now.lane("japan").rtt_ns == 90 * MS
    assert site.house.client.post("/api/undo").status_code == 200
    assert asked(site.house).lane("london") == star().lane("london")


def test_a_recording_plays_over_time_in_the_schedules_draft(page: Page, site: Site) -> None:
    one = opened(page, site)
    page.get_by_label("Lane that replays paris").select_option("japan")
    one.get_by_role("button", name="Play it over time").click()
    expect(page).to_have_url(f"{site.url}/schedule")
    expect(page.locator("#drafted-text")).to_contain_text("This draft is not applied.")
    assert asked(site.house).schedule is None
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("#drafted")).to_be_hidden()
    schedule = asked(site.house).schedule
    assert schedule
    assert [(track.lanes, track.direction, len(track.keys)) for track in schedule.tracks] == [
        (("japan",), "outbound", 60), (("japan",), "inbound", 60),
    ]  # fmt: skip


def test_what_a_crash_interrupted_is_computed(page: Page, site: Site) -> None:
    kept(site)
    (site.house.appliance.state_dir / "recordings/paris/profile.yaml").unlink()
    page.goto(f"{site.url}/recordings")
    one = page.locator("#recording-paris")
    one.locator("summary").click()
    one.get_by_role("button", name="Compute the profile of paris").click()
    expect(one.locator("summary")).to_contain_text("done")
    expect(one.get_by_role("row", name="outbound")).to_contain_text("of 3000")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1440, "dark"), (1920, "dark")])
def test_the_page_fits(browser: Browser, site: Site, width: int, scheme: Scheme) -> None:
    kept(site)
    with visit(browser, site, width, scheme) as page:
        page.goto(f"{site.url}/recordings")
        page.locator("#recording-paris summary").click()
        expect(page.get_by_role("row", name="outbound")).to_be_visible()
        fits(page, width)
        accessible(page)
