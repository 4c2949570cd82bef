"""By hand: every page and state of the web UI as pictures, at three widths, light and dark, to be looked at.

The daemon is the real one over the kernel in memory; traffic, round trips and results are made up and always the same.
Takes a few minutes for all scenes, less for some; Debian's chromium draws them.

Example:
  .venv/bin/python tests/bench/screenshots.py /tmp/pictures lanes report
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from helped import parser
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, expect

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support import made_recordings  # noqa: E402
from support.browser_visit import Site, chromium, fill_login, log_in, served  # noqa: E402
from support.furnished_house import Once, furnished, past, ran  # noqa: E402
from support.waiting import until  # noqa: E402
from support.web_daemon import House  # noqa: E402

from emulator.control.rtt_monitor import Echoes, Rtts  # noqa: E402
from emulator.kernel.protocol import QueueCounters  # noqa: E402
from emulator.plan.qdisc_ops import DelEgress  # noqa: E402

LIMIT_MS = 180_000
expect.set_options(timeout=LIMIT_MS)
WIDTHS, SCHEMES = (390, 1440, 1920), ("light", "dark")


def visit(page: Page, site: Site, path: str) -> None:
    """A page that has heard of the daemon."""
    page.goto("about:blank")  # else a page that differs by its fragment alone would not be loaded again
    page.goto(site.url + path)
    expect(page.locator("#link")).to_have_text("live")
    past(site.house, 1)


def lanes(page: Page, site: Site) -> None:
    """The star, the panel of a lane, its graphs."""
    visit(page, site, "/#london")
    expect(page.locator("#charts figcaption").first).to_contain_text("median")


def panel(page: Page, site: Site) -> None:
    """Every impairment of two directions."""
    lanes(page, site)
    page.get_by_label("both directions alike").uncheck()
    for more in page.locator(".more summary").all():
        more.click()
    out = "Outbound (hub to site) "
    page.get_by_label(out + "Loss pattern", exact=True).select_option("gilbert")
    page.get_by_label(out + "Duplicated, unit").select_option("%")
    page.get_by_label(out + "Duplicated", exact=True).fill("200")
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator(".quantity .wrong:visible").first).to_be_visible()


def flow(page: Page, site: Site) -> None:
    """One of two flows in a lane."""
    flows = {"voice": {"match": {"dscp": "ef"}, "rtt": "120ms"}, "backup": {"match": {"port": 873}, "loss": "1%"}}
    site.house.client.patch("/api/lanes/london", json={"flows": flows})
    counted = site.house.kernel.counted
    counted |= {port: replace(counted[port], flows=(QueueCounters(0, 0, 0, 0, 0, 0),) * 2) for port in counted}
    lanes(page, site)
    page.get_by_label("Shown below").select_option("voice")
    past(site.house, 1)
    expect(page.locator(".flows")).to_contain_text("kbit/s")


def refused(page: Page, site: Site) -> None:
    """Edits that somebody else's change did not take away, and a number that is none."""
    lanes(page, site)
    page.get_by_label("RTT", exact=True).fill("1,000")
    site.house.client.patch("/api/lanes/london", json={"rtt": "95ms", "rate": "500Mbit"})
    past(site.house, 1)
    expect(page.get_by_text("Your edits are kept.")).to_be_visible()
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator(".quantity .wrong:visible")).to_be_visible()


def slow(page: Page, site: Site) -> None:
    """A chart with a gap of some minutes and one slow echo."""
    site.house.tick(90)
    lanes(page, site)
    past(site.house, 20)
    usual = site.house.live._echoes
    site.house.live._echoes = Echoes(lambda *_: Once(Rtts((80_000_000,) * 9 + (4_000_000_000,))))
    past(site.house, 1)
    site.house.live._echoes = usual
    past(site.house, 20)
    expect(page.locator("#charts figcaption").first).to_contain_text("beyond this scale")


def draft(page: Page, site: Site) -> None:
    """A draft of the last visit, and another of this one."""
    visit(page, site, "/topology")
    expect(page.locator("#text")).not_to_be_empty()
    page.locator("#text").fill("name: x\nhub: y\nlanes:\n  a: {rtt: 32ms}\n")
    visit(page, site, "/topology")
    expect(page.locator("#offered")).to_be_visible()
    page.locator("#text").press("x")
    expect(page.locator("#drafted")).to_be_visible()


def plan(page: Page, site: Site) -> None:
    """The plan before it is applied."""
    lanes(page, site)
    page.get_by_label("RTT", exact=True).fill("120")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#plan-steps")).to_contain_text("delay")


def countdown(page: Page, site: Site) -> None:
    """A change that waits to be confirmed."""
    site.house.client.patch("/api/lanes/japan?confirm=60s", json={"rtt": "320ms"})
    lanes(page, site)
    expect(page.locator("#pending")).to_be_visible()


def off(page: Page, site: Site) -> None:
    """A lane without its latency."""
    site.house.client.patch("/api/lanes/london", json={"disabled": True})
    past(site.house, 20)
    lanes(page, site)


def wide(page: Page, site: Site) -> None:
    """Twelve lanes in the places of the shipped star."""
    text = (ROOT / "topologies/wide-star.yaml").read_text()
    site.house.client.put("/api/topology", data=text, content_type="application/yaml")
    past(site.house, 60)
    lanes(page, site)


def many(page: Page, site: Site) -> None:
    """Thirty-two lanes between places that no map has."""
    text = "name: many\nhub: hub\nlanes:\n" + "".join(f"  site-{n}: {{rtt: {5 * n}ms}}\n" for n in range(1, 33))
    site.house.client.put("/api/topology", data=text, content_type="application/yaml")
    past(site.house, 60)
    lanes(page, site)


def drift(page: Page, site: Site) -> None:
    """Somebody changed a queue."""
    site.house.kernel.apply(DelEgress("lhs-japan"))
    site.house.usecases.repair()
    lanes(page, site)
    expect(page.locator("#drift")).to_be_visible()


def gone(page: Page, site: Site) -> None:
    """The daemon does not answer."""
    lanes(page, site)
    site.stop()
    expect(page.locator("#gone")).to_be_visible()
    site.start(site.house)


def mistakes(page: Page, site: Site) -> None:
    """A topology with mistakes."""
    visit(page, site, "/topology")
    expect(page.locator("#text")).not_to_be_empty()
    page.locator("#text").fill((ROOT / "tests/golden/errors/five-at-once.yaml").read_text())
    expect(page.locator("#mistakes li")).to_have_count(5)


def runs(page: Page, site: Site) -> None:
    """A run that is done, compared with another."""
    visit(page, site, "/runs")
    page.locator("#run").select_option(index=1)
    page.locator("#other").select_option(index=1)
    expect(page.locator("#cells tbody tr")).to_have_count(8)


def program(page: Page, site: Site) -> None:
    """A preset with packages in the form, and a program's run with its law."""
    (preset,) = (one for one in site.house.client.get("/api/programs").json["presets"] if one["name"] == "redis")
    name = ran(site.house, preset["axes"] | {"rate": "1Gbit", "workload": preset["workload"]})
    visit(page, site, "/runs")
    page.locator("#run").select_option(name)
    page.get_by_label("a program").check()
    page.get_by_label("Preset").select_option("redis")
    expect(page.locator("#law-chart canvas")).to_be_visible()
    expect(page.locator("#predicted")).to_contain_text("token-operator")


def requests(page: Page, site: Site) -> None:
    """The form of requests, with a mistake, and the table of a run."""
    of_users = {"connections": ["1", "8", "64"], "answer": ["1KiB", "1MiB"]}
    name = ran(site.house, {"rtt": "80ms", "rate": "1Gbit", "workload": {"requests": of_users}})
    visit(page, site, "/runs")
    page.locator("#run").select_option(name)
    page.get_by_label("requests and answers").check()
    page.get_by_label("Connections", exact=True).fill("1, 8, 5000")
    expect(page.locator("[id='workload.requests.connections-wrong']")).to_be_visible()
    expect(page.locator("#cells tbody tr")).to_have_count(6)


def matrix(page: Page, site: Site) -> None:
    """All pairs verified, one of them not as asked, and a lane changed since."""
    site.house.tools.off_ns["california", "london"] = 5_300_000
    site.house.client.post("/api/verification?impairments=1")
    site.house.verifications.wait()
    site.house.client.patch("/api/lanes/japan", json={"rtt": "300ms"})
    visit(page, site, "/matrix")
    page.get_by_role("gridcell", name="not as asked").last.click()
    expect(page.locator("#pair h3").first).to_be_visible()


def schedule(page: Page, site: Site) -> None:
    """A day on three lanes, an edit that is not applied and one that is wrong."""
    text = (ROOT / "topologies/day.yaml").read_text()
    site.house.client.put("/api/topology", data=text, content_type="application/yaml")
    site.house.client.post("/api/schedule/jump?at=20.1h")
    visit(page, site, "/schedule")
    page.get_by_label("RTT, key 1 of tokyo").fill("230ms")
    page.get_by_label("Loss, key 3 of london").fill("0,1%")
    expect(page.locator("#tracks .wrong")).to_be_visible()


def recordings(page: Page, site: Site) -> None:
    """A recording that is made, one that is kept and one that a crash interrupted."""
    kept = site.house.appliance.state_dir / "recordings"
    for seed, name in enumerate(("paris", "rome")):
        made_recordings.folder(kept / name, made_recordings.one_way(seed, 3000))
    (kept / "rome/profile.yaml").unlink()
    site.house.client.post("/api/recordings", json={"host": "oslo.example.org", "every": "20ms"})
    ping = site.house.paths.ping()
    for number in range(120):
        ping.answer(40 + number % 3)
    until(lambda: site.house.daemon.recordings.get("oslo-example-org").probes == 119)
    visit(page, site, "/recordings")
    page.locator("#recording-paris summary").click()
    expect(page.locator("#now")).to_contain_text("119 answers")


def schedule_plan(page: Page, site: Site) -> None:
    """What a change of the schedule does."""
    schedule(page, site)
    page.get_by_label("Loss, key 3 of london").fill("0.2%")
    expect(page.locator("#tracks .wrong")).to_have_count(0)
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#plan-coming li").first).to_be_visible()


def report(page: Page, site: Site) -> None:
    """The report with figures."""
    runs(page, site)
    page.goto(site.url + str(page.locator("#report").get_attribute("href")))


def wrong_token(page: Page, site: Site) -> None:
    """A login that failed."""
    page.context.clear_cookies()
    page.goto(site.url + "/runs")
    fill_login(page, "guess")
    expect(page.get_by_role("alert")).to_be_visible()


def plain(path: str, filled: str = "main") -> Callable[[Page, Site], None]:
    """A page as it is, once there is something in what the daemon fills."""

    def scene(page: Page, site: Site) -> None:
        visit(page, site, path)
        expect(page.locator(filled).locator("visible=true").first).not_to_be_empty()

    return scene


FURNISHED: dict[str, Callable[[Page, Site], None]] = {
    "lanes": lanes, "refused": refused, "slow": slow, "draft": draft,
    "matrix": matrix, "panel": panel, "flow": flow, "plan": plan, "countdown": countdown,
    "off": off, "wide": wide, "many": many, "drift": drift, "runs": runs,
    "report": report, "program": program, "requests": requests,
    "topology": plain("/topology", "#text"), "mistakes": mistakes, "history": plain("/history", "#entries"),
    "nics": plain("/nics", "#nics tbody"), "certificates": plain("/certificates", "#all"),
    "docs": plain("/docs", "#endpoints"), "gone": gone,
    "schedule": schedule, "schedule-plan": schedule_plan, "recordings": recordings,
    "login-failed": wrong_token,
}  # fmt: skip
BARE = {f"empty-{name}": plain(f"/{name}".replace("/lanes", "/")) for name in
        ("lanes", "setup", "matrix", "schedule", "recordings", "runs", "topology", "history", "nics",
         "certificates")}  # fmt: skip


def take(browser: Browser, folder: Path, wanted: list[str]) -> None:
    """All pictures, or those of some scenes."""
    for width, scheme in itertools.product(WIDTHS, SCHEMES):
        for furniture, scenes in ((furnished, FURNISHED), (House, BARE)):
            chosen = {name: scene for name, scene in scenes.items() if not wanted or name in wanted}
            if not chosen:
                continue
            with tempfile.TemporaryDirectory() as state, served(furniture(Path(state))) as site:
                context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
                page = context.new_page()
                page.set_default_timeout(LIMIT_MS)
                log_in(page, site.url + "/")
                for name, scene in chosen.items():
                    asked = site.house.client.get("/api/topology")
                    scene(page, site)
                    if name not in ("gone", "login-failed", "report"):
                        past(site.house, 1)
                        expect(page.locator("#link")).to_have_text("live")
                    page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=True)
                    site.house.client.post("/api/confirm")
                    if asked.status_code == 200:
                        site.house.client.put("/api/topology", data=asked.data, content_type="application/yaml")
                context.close()


def main(folder: str, *wanted: str) -> None:
    """One round with one browser."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        take(browser, Path(folder), list(wanted))


if __name__ == "__main__":
    said = parser(__doc__)
    said.add_argument("folder", help="where the pictures go")
    said.add_argument("scene", nargs="*", help="which alone; all unless said")
    asked = said.parse_args()
    main(asked.folder, *asked.scene)
