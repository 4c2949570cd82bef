"""By hand: what a task costs on the page, in presses of a mouse button, keys and seconds.

Each task begins on an open page. Presses and keys are the browser's own events, as a user causes them; a choice in a
list counts as two presses. The seconds are reckoned, not measured: one for each press, 0.15 for each key. The
daemon is the real one over the kernel in memory. Takes about a minute.

Example:
  .venv/bin/python tests/bench/tasks.py
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from helped import parser
from playwright.sync_api import Browser, Locator, Page, expect

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.browser_visit import Site, chromium, log_in, served  # noqa: E402
from support.fake_machines import appliance_box  # noqa: E402
from support.furnished_house import furnished  # noqa: E402
from support.web_daemon import TOKENS, House, asked  # noqa: E402

LIMIT_MS = 60_000
PRESS_S, KEY_S = 1.0, 0.15
expect.set_options(timeout=LIMIT_MS)

COUNTING = """
for (const [kind, name] of [['pointerdown', 'presses'], ['keydown', 'keys']]) {
  addEventListener(kind, (event) => event.isTrusted && counted(name), true);
}
"""


class User:
    """Somebody at the page, whose presses and keys are counted."""

    def __init__(self, page: Page, site: Site) -> None:
        self.page, self.site = page, site
        self.counts = {"presses": 0, "keys": 0}

        def count(name: str) -> None:
            self.counts[name] += 1

        page.expose_function("counted", count)
        page.add_init_script(COUNTING)

    def press(self, where: Locator) -> None:
        """Press the mouse button there."""
        where.click()

    def button(self, name: str) -> None:
        """Press a button by its name."""
        self.press(self.page.get_by_role("button", name=name, exact=True).locator("visible=true").first)

    def type(self, where: Locator, text: str) -> None:
        """Press into a field, and type over what it holds."""
        where.click()
        where.evaluate("field => field.select()")
        self.page.keyboard.type(text)

    def key(self, name: str) -> None:
        """Press one key."""
        self.page.keyboard.press(name)

    def choose(self, where: Locator, label: str) -> None:
        """Choose in a list: one press opens it, one takes the line."""
        where.select_option(label)
        self.counts["presses"] += 2

    def said(self, text: str) -> None:
        """Wait until the page says that it is done."""
        expect(self.page.locator("#notes")).to_contain_text(text)


def lane_of(user: User, name: str) -> None:
    """Open the panel of a lane by its row."""
    user.press(user.page.locator(f"#table tr[data-lane={name}] th"))
    expect(user.page.locator("#panel-title")).to_have_text(f"Lane {name}")


def apply(user: User) -> None:
    """Enter shows what the change does, Enter applies it."""
    user.key("Enter")
    expect(user.page.locator("#plan-steps")).not_to_be_empty()
    user.key("Enter")


def set_an_rtt(user: User) -> None:
    """Set an RTT."""
    lane_of(user, "london")
    user.type(user.page.get_by_label("RTT", exact=True), "120ms")
    apply(user)
    user.said("london is at 120ms")


def lose_one_way(user: User) -> None:
    """Loss on one way."""
    lane_of(user, "london")
    user.press(user.page.get_by_label("both directions alike"))
    user.type(user.page.get_by_label("Outbound (hub to site) Loss", exact=True), "0.1%")
    apply(user)
    user.said("london is at")


def off_and_on(user: User) -> None:
    """All latency off and on."""
    switch = user.page.get_by_role("switch", name="Latency of all lanes")
    user.press(switch)
    expect(switch).not_to_be_checked()
    user.press(switch)
    expect(switch).to_be_checked()


def add_a_lane(user: User) -> None:
    """Add a lane to a place."""
    user.button("Add a lane")
    user.type(user.page.locator("#new-lane").get_by_label("Place"), "tokyo")
    expect(user.page.locator("#new-lane").get_by_label("RTT")).to_have_value("159.41ms")
    user.press(user.page.locator("#new-lane").get_by_role("button", name="Preview"))
    user.press(user.page.locator("#plan").get_by_role("button", name="Add the lane"))
    expect(user.page.locator("#table tbody tr")).to_have_count(4)


def remove_a_lane(user: User) -> None:
    """Remove a lane."""
    user.press(user.page.get_by_role("button", name="Remove london"))
    user.press(user.page.locator("#plan").get_by_role("button", name="Remove london"))
    expect(user.page.locator("#table tbody tr")).to_have_count(2)


def run_a_preset(user: User) -> None:
    """Run a preset."""
    user.press(user.page.get_by_role("link", name="Test runs"))
    user.choose(user.page.get_by_label("Preset"), "curl")
    expect(user.page.locator("#predicted")).to_contain_text("cells")
    user.button("Start")
    expect(user.page.locator("#cells tr.done")).not_to_have_count(0)


def compare_two_runs(user: User) -> None:
    """Compare two runs."""
    user.press(user.page.get_by_role("link", name="Test runs"))
    other = user.page.get_by_label("Compare with")
    expect(other.locator("option")).not_to_have_count(1)
    user.choose(other, other.locator("option:not(:checked)").last.inner_text())
    expect(user.page.locator("#comparison-said")).not_to_be_empty()


def draw_a_reroute(user: User) -> None:
    """Draw a re-route in the schedule."""
    page = user.page
    user.press(page.get_by_role("link", name="Schedule"))
    user.choose(page.get_by_role("combobox", name="Lane", exact=True), "london")
    user.button("Add")
    chart = page.get_by_role("group", name="london RTT")
    for keys, (share, y) in enumerate(((0.5, 15), (0.7, 40)), start=1):
        expect(chart.locator(".handle")).to_have_count(keys)
        box = chart.bounding_box()
        assert box
        chart.click(position={"x": box["width"] * share, "y": y})
    expect(chart.locator(".handle")).to_have_count(3)
    user.button("Apply")
    user.said("the schedule is changed")


def set_up_an_appliance(user: User) -> None:
    """Set up a new appliance with three lanes."""
    page = user.page
    user.button("Next: pairs")
    user.button("Next: places")
    user.type(page.get_by_label("Place of the hub"), "new-york")
    for number, place in enumerate(("london", "tokyo", "frankfurt")):
        user.type(page.get_by_label("Place of the site").nth(number), place)
    user.button("Next: plan")
    user.button("Bring it up")
    user.button("Keep it")
    expect(page.locator("#up-said")).to_contain_text("is up and stays")
    assert len(asked(user.site.house).lanes) == 3


TASKS = (
    set_an_rtt, lose_one_way, off_and_on, add_a_lane, remove_a_lane, run_a_preset, compare_two_runs, draw_a_reroute,
    set_up_an_appliance,
)  # fmt: skip


@contextmanager
def site_for(task: Callable[[User], None], folder: Path) -> Iterator[Site]:
    """A daemon with a past; a new box where one is to be set up."""
    if task is not set_up_an_appliance:
        with served(furnished(folder)) as made:
            yield made
        return
    house, box = House(folder), appliance_box()
    house.kernel.links.update(box.links)
    house.kernel.nics.update(box.nics)
    with served(house) as made:
        yield made


def measure(browser: Browser, task: Callable[[User], None]) -> dict[str, int]:
    """The presses and keys of one task."""
    with tempfile.TemporaryDirectory() as folder, site_for(task, Path(folder)) as site:
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(LIMIT_MS)
        user = User(page, site)
        log_in(page, site.url + "/", TOKENS.operator)
        expect(page.locator("#link")).to_have_text("live")
        user.counts.update(presses=0, keys=0)
        task(user)
        page.close()
        return dict(user.counts)


def main(names: list[str]) -> None:
    with chromium() as browser:
        print(f"{'task':44} presses  keys  seconds")
        for task in TASKS:
            if names and task.__name__ not in names:
                continue
            found = measure(browser, task)
            seconds = found["presses"] * PRESS_S + found["keys"] * KEY_S
            what = (task.__doc__ or "").rstrip(".")
            print(f"{what:44} {found['presses']:7} {found['keys']:5} {seconds:8.1f}", flush=True)


if __name__ == "__main__":
    said = parser(__doc__)
    said.add_argument("tasks", nargs="*", help="by the names of their functions; all unless said")
    main(said.parse_args().tasks)
