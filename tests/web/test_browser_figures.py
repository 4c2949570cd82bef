"""Figures of a run drawn in the page, a cell opened, and two runs side by side, in a real browser."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from support.browser_visit import Site, served
from support.made_results import execution
from support.waiting import PATIENCE_S
from support.web_daemon import House, problem, until

from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution

MIB = 2**20
ASKED = {"rtt": ["10ms", "80ms"], "tcp_profile": ["default"], "rate": "1Gbit", "in_lab": True, "repeats": 3}
KEEP_PLOTS = """
Object.defineProperty(window, 'uPlot', {
  set(made) { this.kept = class extends made { constructor(...said) { super(...said); window.plot = this; } }; },
  get() { return this.kept; },
});
"""
"""Makes the page's last chart reachable as `plot`."""


class Cells:
    """Measures 80 MiB/s, or at 80 ms what `slow` says; each repeat waits until the test lets it go on."""

    def __init__(self) -> None:
        self.allowed, self.slow = threading.Semaphore(1000), 40.0

    def __call__(self, spec: CellSpec) -> Execution:
        assert self.allowed.acquire(timeout=PATIENCE_S)
        return execution(spec, MIB * (self.slow if spec.lane.rtt_ns > 50_000_000 else 80.0))


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
        cells.allowed.release(1000)


def ran(house: House) -> str:
    """A run that has ended."""
    name = str(house.client.post("/api/runs", json=ASKED).json["id"])  # type: ignore[index]
    until(house, name, lambda run: run["state"] == "done")
    return name


def test_theory_stands_first_and_cells_appear_as_they_come(page: Page, site: Site, cells: Cells) -> None:
    cells.allowed = threading.Semaphore(0)
    name: Any = site.house.client.post("/api/runs", json=ASKED).json["id"]  # type: ignore[index]
    page.add_init_script(KEEP_PLOTS)
    page.goto(f"{site.url}/runs?run={name}")
    figure = page.get_by_role("img", name=re.compile("Throughput against RTT, 0 of 2 cells measured"))
    expect(figure).to_be_visible()
    page.wait_for_function("plot.data[1].every((value) => value > 0) && plot.data[2].every((value) => value === null)")
    assert page.evaluate("[plot.scales.x.distr, plot.scales.y.distr]") == [3, 3]
    cells.allowed.release(3)
    expect(page.get_by_role("img", name=re.compile("1 of 2 cells measured"))).to_be_visible()
    cells.allowed.release(3)
    expect(page.get_by_role("img", name=re.compile("2 of 2 cells measured.* at 80 ms: 40.0 MiB"))).to_be_visible()
    page.wait_for_function("plot.data[2].join() === '80,40'")
    expect(page.locator("#left")).to_have_text("2 of 2 cells, done")
    cell = page.locator("#cell")
    expect(cell).to_be_hidden()
    page.evaluate("plot.root.scrollIntoView({block: 'center'})")
    at = page.evaluate("[plot.valToPos(80, 'x'), plot.valToPos(40, 'y')]")
    page.locator("#throughput .u-over").click(position={"x": at[0], "y": at[1] + 4})
    expect(cell.locator("#cell-title")).to_have_text("lane, default, 1 stream, 1 Gbit/s, 80 ms")
    expect(cell).to_contain_text("What would lift it")
    expect(cell).to_contain_text("Evidence")
    page.locator("#cells").get_by_role("button", name="lane, default").first.press("Enter")
    expect(cell.locator("#cell-title")).to_have_text("lane, default, 1 stream, 1 Gbit/s, 10 ms")


def test_two_runs_stand_side_by_side_under_an_address(page: Page, site: Site, cells: Cells) -> None:
    before = ran(site.house)
    cells.slow = 30.0
    after = ran(site.house)
    page.add_init_script(KEEP_PLOTS)
    page.goto(f"{site.url}/runs")
    page.get_by_label("Compare with").select_option(before)
    for address in (None, f"{site.url}/runs?run={after}&with={before}"):
        if address:
            page.goto(address)
        expect(page.locator("#comparison-said")).to_have_text("1 of 2 cells changed beyond the noise.")
        rows = page.locator("#comparison-table tbody tr")
        expect(rows.first).to_contain_text("-25.0 %")
        expect(rows.first).to_contain_text("REGRESSION")
        expect(rows.last).to_contain_text("within the noise")
        expect(page).to_have_url(f"{site.url}/runs?run={after}&with={before}")
        page.wait_for_function("plot.data[2].join() === '80,30' && plot.data[3].join() === '80,40'")
    page.get_by_label("Compare with").select_option("")
    expect(page.locator("#comparison")).to_be_hidden()
    expect(page).to_have_url(f"{site.url}/runs?run={after}")
    problem(site.house.client.get(f"/api/runs/{after}/comparison?other=20260102-030405-000"), 404)
