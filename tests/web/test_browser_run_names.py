"""Names of runs in a real browser: given in the form, changed, searched, shown beside the id, told to other pages."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browser_visit import Scheme, Site, accessible, fill_login, fits, visit
from support.web_daemon import TOKENS, House, until


def ran(house: House, name: str) -> str:
    """The id of a run that has ended."""
    asked = {"rtt": ["1ms"], "rate": "1Gbit", "in_lab": True, "repeats": 1, "name": name}
    id = str(house.client.post("/api/runs", json=asked).json["id"])  # type: ignore[index]
    until(house, id, lambda run: run["state"] == "done")
    return id


def test_a_run_is_named_in_the_form_and_renamed_by_keyboard(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/runs")
    page.get_by_label("Round-trip times").fill("1ms")
    page.get_by_label("Name of the run").fill("before the new kernel")
    expect(page.locator("#predicted")).to_contain_text("cells")
    page.get_by_role("button", name="Start", exact=True).click()
    run = page.locator("#run")
    expect(run.locator("option")).to_have_text(re.compile(r"^before the new kernel \(\d{8}-\d{6}-\d{3}\)$"))
    title = page.get_by_role("textbox", name="Name", exact=True)
    expect(title).to_have_value("before the new kernel")
    title.fill("after it")
    title.press("Enter")
    expect(run.locator("option")).to_have_text(re.compile(r"^after it \("))
    (id,) = site.house.client.get("/api/runs").json["runs"]  # type: ignore[index]
    assert site.house.client.get(f"/api/runs/{id}").json["name"] == "after it"  # type: ignore[index]


def test_a_search_finds_runs_by_their_names_and_what_is_shown_stays(page: Page, site: Site) -> None:
    first, second, third = (ran(site.house, name) for name in ("nightly", "new kernel", "nightly"))
    page.goto(f"{site.url}/runs?run={second}&with={first}")
    expect(page.locator("#comparison-table th").nth(1)).to_have_text(f"nightly ({first})")
    expect(page.locator("#comparison-table th").nth(2)).to_have_text(f"new kernel ({second})")
    page.get_by_label("Search").fill("NIGHT")
    expect(page.locator("#matches")).to_have_text("2 of 3 runs found.")
    run = page.locator("#run")
    expect(run.locator("option")).to_have_text([f"nightly ({third})", f"new kernel ({second})", f"nightly ({first})"])
    expect(run).to_have_value(second)
    run.select_option(third)
    expect(run.locator("option")).to_have_count(2)
    expect(page).to_have_url(f"{site.url}/runs?run={third}&with={first}")
    page.get_by_label("Search").fill("")
    expect(run.locator("option")).to_have_count(3)


def test_another_users_name_arrives_and_what_is_typed_stays(page: Page, site: Site) -> None:
    first, second = ran(site.house, "one"), ran(site.house, "two")
    page.goto(f"{site.url}/runs?run={second}&with={first}&cell=lane-1ms-default-1-1Gbit")
    title = page.get_by_role("textbox", name="Name", exact=True)
    expect(title).to_have_value("two")
    expect(page.locator("#cell-charts h4").first).to_contain_text(f"run one ({first})")
    title.fill("two and a half")
    site.house.client.patch(f"/api/runs/{first}", json={"name": "another"})
    expect(page.locator("#comparison-table th").nth(1)).to_have_text(f"another ({first})")
    expect(page.locator("#cell-charts h4").first).to_contain_text(f"run another ({first})")
    expect(title).to_have_value("two and a half")


def test_what_another_user_starts_and_deletes_comes_and_goes(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/runs")
    expect(page.locator("#none")).to_be_visible()
    expect(page.locator("#link")).to_have_text("live")
    first = ran(site.house, "one")
    run = page.locator("#run")
    expect(run.locator("option")).to_have_text([f"one ({first})"])
    expect(page.locator("#left")).to_have_text("1 of 1 cells, done")
    second = ran(site.house, "two")
    expect(run.locator("option")).to_have_text([f"two ({second})", f"one ({first})"])
    expect(run).to_have_value(first)
    page.get_by_label("Compare with").select_option(second)
    expect(page.locator("#comparison-table th").nth(1)).to_have_text(f"two ({second})")
    site.house.client.delete(f"/api/runs/{second}")
    expect(page.locator("#notes")).to_contain_text(f"Run two ({second}) is deleted.")
    expect(run.locator("option")).to_have_text([f"one ({first})"])
    expect(page.locator("#comparison")).to_be_hidden()
    third = ran(site.house, "three")
    site.house.client.delete(f"/api/runs/{first}")
    expect(run).to_have_value(third)
    expect(page.get_by_role("textbox", name="Name", exact=True)).to_have_value("three")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("#none")).to_be_visible()
    expect(page.locator("#shown")).to_be_hidden()
    expect(page.locator("#notes")).to_contain_text(f"Run three ({third}) is deleted.")
    expect(page.locator("#notes .failed")).to_have_count(0)


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1440, "dark"), (1920, "light")])
def test_the_longest_name_fits_and_is_accessible(browser: Browser, site: Site, width: int, scheme: Scheme) -> None:
    first, second = ran(site.house, "w" * 80), ran(site.house, "a name of many words " * 3)
    with visit(browser, site, width, scheme, path=f"/runs?run={second}&with={first}") as page:
        expect(page.locator("#comparison-table th").nth(1)).to_contain_text("www")
        accessible(page)
        fits(page, width)


def test_whoever_logs_in_again_comes_back_to_the_same_two_runs(page: Page, site: Site) -> None:
    first, second = ran(site.house, "one"), ran(site.house, "two")
    shown = f"{site.url}/runs?run={second}&with={first}&cell=lane-1ms-default-1-1Gbit"
    page.goto(shown)
    expect(page.locator("#comparison-table th").nth(1)).to_have_text(f"one ({first})")
    # Who listens only from now on misses the event.
    expect(page.locator("#link")).to_have_text("live")
    page.context.clear_cookies()  # the session is over
    # The page asks for the run that got another name, and finds that its session is over.
    site.house.client.patch(f"/api/runs/{second}", json={"name": "three"})
    fill_login(page, TOKENS.write)
    expect(page).to_have_url(shown)
    expect(page.locator("#comparison-table th").nth(1)).to_have_text(f"one ({first})")
