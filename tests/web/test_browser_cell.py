"""A cell of a run opened in a real browser: over time, by mouse, keyboard and address, beside another run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect
from support.browser_visit import Site, accessible, fits, served, visit
from support.folders import ROOT
from support.made_results import MIB, cell_result, changed
from support.web_daemon import House, until

from emulator.analysis.tcp_path import Interval
from emulator.analysis.transfer import SenderSample
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.result_migrations import migrated
from emulator.experiment.run_folder import Asked, Execution, RunFolder

KEEP_PLOTS = """
Object.defineProperty(window, 'uPlot', {
  set(made) {
    window.plots = [];
    this.kept = class extends made { constructor(...said) { super(...said); window.plots.push(this); } };
  },
  get() { return this.kept; },
});
window.shown = () => window.plots.filter((plot) => plot.root.isConnected && plot.root.closest('#cell'));
"""
"""Makes the page's charts reachable: `shown()` are those of the opened cell."""
MS = 10**6
LOSSY = "lane-80ms-default-1-1Gbit-loss0.01%"


class Cells:
    """Measures a rate that rises to `factor` times 30 MiB/s in 3 s; the cell at 10 ms fails."""

    def __init__(self) -> None:
        self.factor = 1.0

    def __call__(self, spec: CellSpec) -> Execution:
        rates = [rate * self.factor for rate in (1, 3, 9, 27, 30, 31)]
        intervals = tuple(Interval(n / 2, n / 2 + 0.5, round(rate * MIB / 2)) for n, rate in enumerate(rates))
        ramp = tuple(SenderSample(n / 2 + 0.5, round(rate * MIB / 10), 80 * MS + n) for n, rate in enumerate(rates))
        result = cell_result(spec, 30 * self.factor * MIB)
        return Execution(changed(result, intervals=intervals, ramp=ramp, steady_from_s=2.0), {})


@pytest.fixture
def cells() -> Cells:
    """What runs measure."""
    return Cells()


@pytest.fixture
def site(tmp_path: Path, cells: Cells) -> Iterator[Site]:
    """A daemon whose cells the test says."""
    house = House(tmp_path, runner=cells)
    house.up()
    with served(house) as made:
        yield made


def ran(house: House, **said: Any) -> str:
    """A run that has ended: without and with loss."""
    asked = {"rtt": ["80ms"], "rate": "1Gbit", "in_lab": True, "repeats": 1, "loss": ["0", "0.01%"]}
    name = str(house.client.post("/api/runs", json=asked | said).json["id"])  # type: ignore[index]
    until(house, name, lambda run: run["state"] == "done")
    return name


def measured(page: Page, chart: int, line: int) -> Any:
    """The values of a line of a chart of the opened cell."""
    return page.evaluate(f"shown()[{chart}].data[{line}].map((value) => value === undefined ? null : value)")


def test_a_click_opens_the_cell_with_its_curves_and_their_theory(page: Page, site: Site) -> None:
    ran(site.house)
    page.add_init_script(KEEP_PLOTS)
    page.goto(f"{site.url}/runs")
    page.locator("#cells").get_by_role("button", name="lane, default").first.click()
    figures = page.locator("#cell-charts").get_by_role("img")
    expect(figures).to_have_count(3)
    expect(figures.nth(0)).to_have_attribute(
        "aria-label", re.compile("Throughput.* steady 30.0 MiB/s.* send buffer, 30.3 MiB/s.* the verdict names", re.I)
    )
    expect(figures.nth(1)).to_have_attribute(
        "aria-label", re.compile(r"Congestion window.* at most 3.10 MiB.* 996 KiB in flight carry", re.I)
    )
    expect(figures.nth(2)).to_have_attribute("aria-label", re.compile("RTT under load.* 80.00 ms asked"))
    assert page.evaluate("shown()[0].data[0].join()") == "0,0.5,1,1.5,2,2.5,3"
    assert [round(value, 6) for value in measured(page, 0, 1)] == [1, 1, 3, 9, 27, 30, 31]
    assert measured(page, 0, 2)[-1] == pytest.approx(30.3)
    assert [round(value, 3) for value in measured(page, 1, 1)] == [0.1, 0.3, 0.9, 2.7, 3.0, 3.1]
    assert set(measured(page, 2, 2)) == {80}
    chart = page.locator("#cell-charts .u-over").first
    chart.hover(position={"x": page.evaluate("shown()[0].valToPos(1.8, 'x')"), "y": 20})
    expect(page.locator("#cell-at")).to_have_text("At 1.80 s: 27 MiB/s, 0.9 MiB window, 80 ms RTT")
    page.get_by_label("Logarithmic").check()
    assert page.evaluate("shown().map((plot) => plot.scales.y.distr)") == [3, 3, 3]
    page.get_by_role("button", name="Close").click()
    expect(page.locator("#cell")).to_be_hidden()


def test_the_keyboard_opens_reads_and_closes_a_cell(page: Page, site: Site) -> None:
    name = ran(site.house)
    page.goto(f"{site.url}/runs")
    button = page.locator("#cells").get_by_role("button", name=re.compile("loss 0.01%"))
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#cell-title")).to_be_focused()
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(page).to_have_url(f"{site.url}/runs?run={name}&cell={quote(LOSSY)}")
    table = page.get_by_role("region", name="The cell over time")
    expect(page.locator("#cell summary")).to_be_visible()  # the figures come after the cell
    for _ in range(6):  # past the charts, which are pictures
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.tagName") == "SUMMARY":
            break
    page.keyboard.press("Enter")
    expect(table.get_by_role("row")).to_have_count(7)
    expect(table.get_by_role("row").nth(4)).to_have_text(
        re.compile(r"^2\.00\s*27\s*[\d.]+\s*2\.7\s*0\.9\d+\s*80\s*80$")
    )
    page.keyboard.press("Escape")
    expect(page.locator("#cell")).to_be_hidden()
    expect(button).to_be_focused()
    expect(page).to_have_url(f"{site.url}/runs?run={name}")


def test_an_address_opens_a_cell_of_two_runs_and_shows_both_curves(page: Page, site: Site, cells: Cells) -> None:
    before = ran(site.house)
    cells.factor = 0.5
    after = ran(site.house)
    page.add_init_script(KEEP_PLOTS)
    page.goto(f"{site.url}/runs?run={after}&with={before}&cell={quote(LOSSY)}")
    expect(page.locator("#cell-title")).to_have_text("lane, default, 1 stream, 1 Gbit/s, loss 0.01%, 80 ms")
    expect(page.locator("#cell-charts h4").first).to_contain_text(f"run {after}")
    expect(page.locator("#cell-charts h4").first).to_contain_text(f"run {before}")
    assert [round(value, 6) for value in measured(page, 0, 1)] == [0.5, 0.5, 1.5, 4.5, 13.5, 15, 15.5]
    assert [round(value, 6) for value in measured(page, 0, 3)] == [1, 1, 3, 9, 27, 30, 31]
    assert page.evaluate("shown()[0].series[1].dash ?? []") == []
    assert page.evaluate("shown()[0].series[3].dash") == [2, 3]  # told apart without colours, too
    expect(page.locator("#cell-charts figcaption").first).to_contain_text(f"run {before}: steady 30.0 MiB/s")
    page.get_by_label("Compare with").select_option("")
    expect(page.locator("#cell-charts h4").first).to_contain_text("measured")
    expect(page).to_have_url(f"{site.url}/runs?run={after}&cell={quote(LOSSY)}")


def test_a_run_of_an_old_format_is_compared_and_says_what_it_lacks(page: Page, site: Site, cells: Cells) -> None:
    old = json.loads((ROOT / "tests/captures/result-format-1.json").read_text())
    spec = CellResult.from_json(migrated(old)).spec
    runs = site.house.usecases.state_dir / "runs"
    for name, value in (("20260102-030405-000", old), ("20260103-030405-000", cells(spec).result.to_json())):
        folder = RunFolder.create(runs / name, {"created": "2026-01-02"}, Asked((spec,), True))
        (folder.path / f"cells/{spec.id}.0.json").write_text(json.dumps(value))
    page.add_init_script(KEEP_PLOTS)
    page.goto(f"{site.url}/runs?run=20260102-030405-000&cell={quote(spec.id)}")
    untold = page.locator("#cell-untold")
    expect(untold).to_contain_text("an older version of Longhaul wrote it")
    expect(page.locator("#cell-charts").get_by_role("img")).to_have_count(1)
    page.get_by_label("Compare with").select_option("20260103-030405-000")
    expect(page.locator("#cell-charts").get_by_role("img")).to_have_count(3)
    expect(untold).to_contain_text(
        "Run 20260102-030405-000: Congestion window and RTT over time are not in this result"
    )
    assert page.evaluate("shown().map((plot) => plot.series.length)") == [5, 3, 3]


def test_an_address_with_a_cell_that_is_not_there_says_so(page: Page, site: Site) -> None:
    name = ran(site.house)
    page.goto(f"{site.url}/runs?run={name}&cell=lane-1ms")
    expect(page.get_by_text(f"Run {name} has no cell lane-1ms.")).to_be_visible()
    expect(page).to_have_url(f"{site.url}/runs?run={name}")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1440, "dark"), (1920, "light")])
def test_an_opened_cell_of_both_directions_is_accessible_and_fits(
    browser: Browser, site: Site, cells: Cells, width: int, scheme: Any
) -> None:
    before, after = ran(site.house), ran(site.house)
    shown = f"/runs?run={after}&with={before}&cell={quote(LOSSY)}"
    with visit(browser, site, width, scheme, path=shown) as page:
        expect(page.locator("#cell-charts").get_by_role("img")).to_have_count(3)
        page.get_by_text("The same as a table").click()
        expect(page.get_by_role("region", name="The cell over time").get_by_role("row")).to_have_count(7)
        accessible(page)
        fits(page, width)
