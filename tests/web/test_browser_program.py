"""Programs in the page of test runs: typed commands measured in the lab, presets, mistakes at their fields."""

from __future__ import annotations

import json
import re
import threading
import time
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect
from support.browser_visit import Site, accessible
from support.made_programs import execution
from support.waiting import PATIENCE_S, until
from support.web_daemon import House

from emulator.config import shipped_topologies
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Execution
from web.api import programs
from web.runs import local_runners

PAGE_BYTES = 65536
CLIENT = """python3 -c "import urllib.request as u; u.urlopen('http://{server}:8000/page').read()\""""


def restarted(site: Site, house: House) -> None:
    """Another daemon at the same address."""
    site.stop()
    house.up()
    site.start(house)


def typed(page: Page, site: Site, rtts: str) -> None:
    """The form with both commands of a download."""
    page.goto(site.url + "/runs")
    page.get_by_label("a program").check()
    page.get_by_label("Server command").fill(
        f"head -c {PAGE_BYTES} /dev/zero > page && exec python3 -m http.server 8000"
    )
    page.get_by_label("Server is ready").fill("tcp:8000")
    page.get_by_label("Client command").fill(CLIENT)
    page.get_by_label("Bytes to carry").fill("64KiB")
    page.get_by_label("Runs of the client").fill("2")
    page.get_by_label("Round-trip times").fill(rtts)
    page.get_by_label("TCP profiles").fill("default")


def test_both_commands_typed_are_measured_in_the_lab_and_show_the_law(page: Page, site: Site, tmp_path: Path) -> None:
    restarted(site, House(tmp_path / "again", runners=local_runners, confines=lambda: True))
    typed(page, site, "20ms, 100ms")
    expect(page.locator("#predicted")).to_contain_text(
        "2 cells, 2 runs each; a run takes at least 25.24 ms to 105.2 ms"
    )
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#left")).to_have_text("2 of 2 cells, done")
    expect(page.locator("#cells th").nth(3)).to_have_text("Time")
    rows = page.locator("#cells tbody tr")
    times_s = [float(rows.nth(n).locator("td").nth(3).inner_text().split()[0]) / 1000 for n in range(2)]
    trips = (times_s[1] - times_s[0]) / 0.08
    assert 3 < trips < 6  # a handshake, the request, and 64 KiB in slow start from ten segments
    expect(page.locator("#laws")).to_contain_text(f"this program costs {trips:.3g} round trips")
    expect(page.locator("#commands")).to_contain_text(CLIENT)
    expect(page.locator("#law-chart canvas")).to_be_visible()
    expect(page.locator("#law-chart .plot")).to_have_attribute("aria-label", re.compile("at 20 ms: .*at 100 ms: "))


def test_requests_are_measured_in_the_lab_and_stand_in_the_table_of_the_command_line(
    page: Page, site: Site, tmp_path: Path
) -> None:
    restarted(site, House(tmp_path / "again", runners=local_runners))
    page.goto(site.url + "/runs")
    page.get_by_label("requests and answers").check()
    expect(page.get_by_label("Parallel streams")).to_be_hidden()
    for label, text in (("Round-trip times", "80ms"), ("TCP profiles", "default"), ("Connections", "1, 8"),
                        ("Requests at most", "0")):  # fmt: skip
        page.get_by_label(label, exact=True).fill(text)
    expect(page.locator("[id='workload.requests.count-wrong']")).to_contain_text("is not within 1..10000000")
    page.get_by_label("Requests at most").fill("200")
    expect(page.locator("#predicted")).to_contain_text("2 cells, about")
    expect(page.locator("#predicted")).to_contain_text("at most 12.5 to 100 requests a second.")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#left")).to_have_text("2 of 2 cells, done")
    heads = page.locator("#cells th").all_inner_texts()
    assert heads[3:9] == ["answered", "±", "of ceiling", "p50", "p90", "p99"]
    rows = [dict(zip(heads, one.locator("td").all_inner_texts(), strict=True))
            for one in page.locator("#cells tbody tr").all()]  # fmt: skip
    assert [one["answered"] for one in rows] == ["12.5/s", "100/s"]
    assert [one["p50"].partition(".")[0] for one in rows] == ["80", "80"]
    expect(page.locator("#legend")).to_contain_text("p50 to p99.9: the time of a request")


def test_groups_of_flows_are_measured_in_the_lab_and_share_the_table(page: Page, site: Site, tmp_path: Path) -> None:
    restarted(site, House(tmp_path / "again", runners=local_runners))
    page.goto(site.url + "/runs")
    page.get_by_label("groups of flows").check()
    expect(page.get_by_label("Parallel streams")).to_be_hidden()
    for label, text in (
        ("Round-trip times", "20ms"),
        ("TCP profiles", "max"),
        ("Bottlenecks", "100Mbit"),
        ("Duration of a measurement", "10s"),
    ):
        page.get_by_label(label, exact=True).fill(text)
    against = page.get_by_label("Groups that share the lane")
    against.fill("cubic:0")
    expect(against).to_have_accessible_description(re.compile("0 flows are not within 1..256"))
    accessible(page)
    against.fill("cubic:1,cubic:1")
    expect(page.locator("#predicted")).to_contain_text("2 cells, about")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#left")).to_have_text("2 of 2 cells, done")
    assert page.locator("#cells th").all_inner_texts()[3] == "Shares of the throughput"
    both = page.locator("#cells tbody tr").filter(has_text="1 cubic against 1 cubic")
    shares, index = both.locator("td").nth(3).inner_text().split(", J ")
    assert sum(int(one.rstrip(" %")) for one in shares.split(" : ")) in (99, 100, 101)
    assert 0.5 <= float(index) <= 1
    expect(page.locator("#legend")).to_contain_text("harm: what the other groups take")
    both.get_by_role("button").click()
    groups = page.get_by_role("region", name="Groups of the cell")
    expect(groups.get_by_role("row", name="1 cubic")).to_have_count(2)
    rates = page.get_by_role("img", name="Throughput of each group, MiB/s over time. 1 cubic (1): ")
    expect(rates).to_have_accessible_name(re.compile(r"1 cubic \(2\): .* in the steady part, of a line of "))
    expect(page.locator("#cell-charts canvas")).to_have_count(3)
    rates.locator(".u-over").hover()
    expect(page.locator("#cell-at")).to_have_text(
        re.compile(r"^At .* s: 1 cubic \(1\): .* MiB/s, .* MiB window, .* ms queueing; ")
    )
    accessible(page)
    page.get_by_role("button", name="Close", exact=True).click()
    expect(groups).to_be_hidden()


def test_cells_of_a_program_appear_as_they_end(page: Page, site: Site, tmp_path: Path) -> None:
    may_end, begun = threading.Semaphore(0), threading.Semaphore(0)

    def runner(spec: CellSpec) -> Execution:
        begun.release()
        assert may_end.acquire(timeout=PATIENCE_S)
        return execution(spec)

    house = House(tmp_path / "again", runner=runner, confines=lambda: True)
    restarted(site, house)
    typed(page, site, "10ms, 80ms, 346ms")
    expect(page.locator("#predicted")).to_contain_text("3 cells")
    page.get_by_role("button", name="Start").click()
    may_end.release()
    expect(page.locator("#left")).to_contain_text("1 of 3 cells, running")
    expect(page.locator("#cells tr.done")).to_have_count(1)
    expect(page.locator("#laws")).to_contain_text("no law")
    for _ in range(2):
        assert begun.acquire(timeout=PATIENCE_S)
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Cancelled: cells at work end first.")).to_be_visible()
    may_end.release()
    expect(page.locator("#left")).to_contain_text("2 of 3 cells, stopped")
    page.get_by_role("button", name="Resume").click()
    may_end.release()
    expect(page.locator("#left")).to_contain_text("3 of 3 cells, done")
    expect(page.locator("#laws")).to_contain_text("costs 18.000 ± 0.001 round trips")


def test_an_answer_that_comes_after_a_newer_event_does_not_hide_it(page: Page, site: Site, tmp_path: Path) -> None:
    may_end, begun = threading.Semaphore(0), threading.Semaphore(0)

    def runner(spec: CellSpec) -> Execution:
        begun.release()
        assert may_end.acquire(timeout=PATIENCE_S)
        return execution(spec)

    def late(route: Route) -> None:
        answer = route.fetch()
        may_end.release()
        until(lambda: house.runs.get(house.runs.names()[0]).state == "stopped")
        time.sleep(0.5)  # the event is on its way to the page
        route.fulfill(response=answer)

    house = House(tmp_path / "again", runner=runner, confines=lambda: True)
    restarted(site, house)
    page.route("**/cancel", late)
    typed(page, site, "10ms, 80ms")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("#left")).to_contain_text("0 of 2 cells, running")
    assert begun.acquire(timeout=PATIENCE_S)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#left")).to_contain_text("1 of 2 cells, stopped")
    expect(page.get_by_text("Cancelled: cells at work end first.")).to_be_visible()
    expect(page.locator("#left")).to_contain_text("1 of 2 cells, stopped")


def test_each_mistake_stands_at_its_field(page: Page, site: Site) -> None:
    page.goto(site.url + "/runs")
    page.get_by_label("a program").check()
    page.get_by_label("Server command").fill("exec sshd -D")
    page.get_by_label("Client command").fill("scp {serer}:x .")
    page.get_by_label("Round-trip times").fill("soon")
    for key, text in (
        ("workload.client", "there is no placeholder 'serer'"),
        ("workload.ready", "use tcp:PORT"),
        ("rtt", "'soon'"),
    ):
        field = page.locator(f"[name='{key}']")
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(page.locator(f"[id='{key}-wrong']")).to_contain_text(text)
    expect(page.locator("#predicted")).to_have_text("3 fields need a change: see above.")
    expect(page.get_by_role("button", name="Start")).to_be_disabled()
    page.get_by_label("Client command").fill("scp {server}:x .")
    expect(page.locator("[id='workload.client-wrong']")).to_have_count(0)
    page.get_by_label("streams of TCP").check()
    page.get_by_label("Round-trip times").fill("1ms")
    expect(page.locator("#predicted")).to_contain_text("2 cells, about")
    expect(page.locator(".wrong")).to_have_count(0)


def test_a_preset_fills_the_form_with_its_files(
    page: Page, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = {
        "client": "cat a.conf",
        "files": {"a.conf": "rtt = {rtt_ms}\n"},
        "environment": {"A": "1=2"},
        "keep": ["x", "y"],
        "packages": ["nginx", "redis-server"],
    }
    sweep = {"rtt": ["5ms", "50ms"], "tcp_profile": "max", "workload": workload}
    folder = tmp_path / "shipped"
    folder.mkdir()
    (folder / "made.yaml").write_text(json.dumps({"name": "made", "hub": "h", "lanes": {"a": {}}, "sweep": sweep}))
    monkeypatch.setattr(shipped_topologies, "FOLDER", folder)
    programs.presets.cache_clear()
    try:
        page.goto(site.url + "/runs")
        page.get_by_label("a program").check()
        with page.expect_response(
            lambda one: one.url.endswith("dry_run=1") and "cat a.conf" in (one.request.post_data or "")
        ) as asked:
            page.get_by_label("Preset").select_option("made")
        sent = asked.value.request.post_data_json
    finally:
        programs.presets.cache_clear()
    assert sent["workload"] == workload
    assert (sent["rtt"], sent["tcp_profile"]) == ("5ms, 50ms", "max")
    assert not {"streams", "duration", "rate"} & sent.keys()
    expect(page.get_by_label("Debian packages")).to_have_value("nginx, redis-server")
    expect(page.locator("#packages-where")).to_contain_text("log in with the token in the file token-operator")
    page.get_by_text("More about the program").click()
    expect(page.get_by_label("Text of file 1")).to_have_value("rtt = {rtt_ms}\n")
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_label("Text of file 1")).to_have_count(0)


def test_a_preset_chooses_what_a_cell_runs_and_leaves_nothing_of_the_one_before(page: Page, site: Site) -> None:
    page.goto(site.url + "/runs")
    choice = page.get_by_label("Preset", exact=True)
    against, pairs = page.get_by_label("Groups that share the lane"), page.get_by_label("Every pair of")
    choice.select_option("bufferbloat")
    expect(page.get_by_label("groups of flows")).to_be_checked()
    expect(against).to_have_value("cubic:2,cubic:1:bytes=1KiB:think=100ms:keep")
    expect(page.locator("#predicted")).to_contain_text("24 cells, about")
    choice.select_option("congestion-controls")
    expect(pairs).to_have_value("cubic, bbr, reno")
    expect(against).to_have_value("")
    expect(page.locator("#predicted")).to_contain_text("54 cells, about")
    accessible(page)
    choice.select_option("founding-10g")
    expect(page.get_by_label("streams of TCP")).to_be_checked()
    expect(pairs).to_be_hidden()
    expect(page.get_by_label("Bottlenecks", exact=True)).to_have_value("10 Gbit/s")
    expect(page.locator("#predicted")).to_contain_text("24 cells, about")
    choice.focus()
    choice.press("t")
    expect(choice).to_have_value("transcontinental-1g")
    expect(page.locator("#predicted")).to_contain_text("4 cells, about")
