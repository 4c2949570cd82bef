"""What the graphs and the table show of seconds that went otherwise than the rest, in a real browser."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect
from support.browser_visit import Site, log_in, window
from support.waiting import PATIENCE_S

from emulator.control.rtt_monitor import Echoes, Rtts
from emulator.kernel.protocol import QueueCounters

MS = 10**6
KEEP_PLOTS = """
Object.defineProperty(window, 'uPlot', {
  set(made) {
    this.kept = class extends made { constructor(...said) { super(...said); (window.plots ??= []).push(this); } };
  },
  get() { return this.kept; },
});
"""
"""Makes the page's charts reachable as `plots`."""


class SaidEcho:
    """Measures what the test says; at first 80 ms, ten times."""

    def __init__(self, rtts_ms: list[float] | None = None) -> None:
        self.rtts_ms = rtts_ms or [80.0] * 10

    def take(self) -> Rtts:
        """What is said."""
        return Rtts(tuple(sorted(round(ms * MS) for ms in self.rtts_ms)), 0)

    def alive(self) -> bool:
        """Always."""
        return True

    def stop(self) -> None:
        """Nothing runs."""


@pytest.fixture
def echo(site: Site) -> SaidEcho:
    """Every lane's."""
    made = SaidEcho()
    site.house.live._echoes = Echoes(lambda *_: made)
    return made


@pytest.fixture
def page(browser: Browser, site: Site, echo: SaidEcho) -> Iterator[Page]:
    """Somebody who looks at london's graphs."""
    with window(browser, site, 1440) as made:
        made.add_init_script(KEEP_PLOTS)
        log_in(made, site.url + "/")
        expect(made.locator("#link")).to_have_text("live")
        made.locator("#star [data-lane=london] .dot").click()
        expect(made.get_by_role("heading", name="Live: london")).to_be_visible()
        yield made


def shown(page: Page, looks: int) -> list[list[Any]]:
    """The RTT chart's data once it has so many rows: seconds, minimum, p99, median, asked."""
    deadline = time.monotonic() + PATIENCE_S
    while len((data := page.evaluate("plots[0].data"))[0]) != looks:
        assert time.monotonic() < deadline, len(data[0])
        page.wait_for_timeout(20)
    found: list[list[Any]] = data
    return found


def test_one_slow_echo_does_not_press_the_chart_flat(page: Page, site: Site, echo: SaidEcho) -> None:
    for second in range(60):
        echo.rtts_ms = [80.0] * 9 + [81.0 if second != 30 else 4000.0]
        site.look()
    shown(page, 60)
    page.wait_for_function("plots[0].scales.y.min > 60 && plots[0].scales.y.min < 80")
    page.wait_for_function("plots[0].scales.y.max > 81 && plots[0].scales.y.max < 100")
    expect(page.locator("#charts figcaption").first).to_contain_text("The slowest took 4000 ms, beyond this scale")


def test_changes_of_the_lane_are_annotations_of_its_charts(page: Page, site: Site) -> None:
    site.house.live._wall = time.time  # as in the change log
    client, marks = site.house.client, page.get_by_role("list", name="Changes of the lane").get_by_role("listitem")
    site.look()
    client.patch("/api/lanes/japan", json={"rtt": "300ms"})
    client.patch("/api/lanes/london", json={"rtt": "95ms"})
    page.evaluate(
        "() => { const write = CanvasRenderingContext2D.prototype.fillText; window.written = [];"
        "CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {"
        "written.push(text); write.call(this, text, ...at); }; }"
    )
    for _ in range(3):
        site.look()
    expect(marks.last).to_contain_text("set london, by")
    site.look()
    expect(page.get_by_role("list", name="Changes of the lane")).not_to_contain_text("japan")
    count = marks.count()
    page.wait_for_function(f"written.includes('{count}')")
    site.house.live._wall = lambda: time.time() + 120
    page.get_by_label("Shown").select_option("60")
    site.look()
    expect(marks).to_have_count(0)


def test_what_all_echoes_of_some_seconds_say_is_in_sight(page: Page, site: Site, echo: SaidEcho) -> None:
    for second in range(60):
        echo.rtts_ms = [200.0 if second == 30 else 80.0] * 10
        site.look()
    shown(page, 60)
    page.wait_for_function("plots[0].scales.y.max > 200")


def test_a_look_that_comes_while_the_past_is_loaded_is_kept(page: Page, site: Site) -> None:
    site.look()
    shown(page, 1)

    def late(route: Route) -> None:
        answer = route.fetch()
        site.look()
        expect(page.locator("#table tr[data-lane=japan] [data-of=measured]")).to_have_text("81.0 ms")
        route.fulfill(response=answer)

    page.route("**/past?*", late)
    site.house.live._echoes.stop()
    site.house.live._echoes = Echoes(lambda *_: SaidEcho([81.0] * 10))
    page.get_by_role("button", name="japan", exact=True).click()
    assert len(shown(page, 2)[0]) == 2


def test_a_gap_is_a_gap(page: Page, site: Site) -> None:
    page.get_by_label("Shown").select_option("3600")
    for _ in range(3):
        site.look()
    site.house.tick(420)
    for _ in range(3):
        site.look()
    seconds, *lines = shown(page, 7)
    (gap,) = [i for i, value in enumerate(lines[3]) if value is None]
    assert [line[gap] for line in lines] == [None] * 4
    assert seconds[gap + 1] - seconds[gap - 1] > 400
    page.get_by_label("Shown").select_option("60")
    shown(page, 3)


def test_no_two_lines_of_a_chart_have_one_colour(page: Page, site: Site) -> None:
    site.look()
    shown(page, 1)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        colours = page.evaluate("plots.slice(-4).map((plot) => plot.series.slice(1).map((one) => one.stroke()))")
        assert all(len(set(lines)) == len(lines) for lines in colours), colours
        keys = page.evaluate(
            "[...document.querySelectorAll('.chart h3')].map((title) => "
            "[...title.querySelectorAll('.key')].map((key) => getComputedStyle(key, '::before').color))"
        )
        assert all(len(set(lines)) == len(lines) for lines in keys), keys


def test_drops_whose_cause_nobody_knows_are_unknown(page: Page, site: Site) -> None:
    drops = page.locator("#table tr[data-lane=london] [data-of=drops]")
    site.look()
    expect(drops).to_have_text("0/s")
    site.house.client.patch("/api/lanes/london", json={"loss": "1%"})
    site.look()
    expect(drops).to_have_text("unknown")
    expect(page.locator("#charts figcaption").last).to_contain_text("by the emulator's limit unknown")
    site.house.kernel.counted["lhs-london"] = QueueCounters(100, 250_000, 5, 4, 6000, 3)
    site.look()
    expect(drops).to_have_text("3/s, others unknown")


def test_drops_are_per_second_however_long_a_look_took(page: Page, site: Site) -> None:
    site.look()
    site.house.kernel.counted["lhs-london"] = QueueCounters(100, 250_000, 5, 4, 6000, 5)
    site.house.tick(3)
    site.look()
    expect(page.locator("#table tr[data-lane=london] [data-of=drops]")).to_have_text("1.25/s")
    expect(page.locator("#charts figcaption").last).to_contain_text("by the bottleneck's buffer 1.25/s")
