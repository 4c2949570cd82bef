"""Traces that clients import: checked as on the command line, kept, and played as tracks of the schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import FilePayload, Page, expect
from support.browser_visit import Site
from support.web_daemon import House, asked, problem

from emulator.config import loader
from emulator.errors import InputError
from emulator.system import bounded_file
from web.traces import MOST_TRACES

OCTETS = "application/octet-stream"
TRACE = b"time,delay_ms,loss\n" + b"".join(b"%ds,%d,0.1%%\n" % (at, 20 + at % 7) for at in range(300))
MAHIMAHI = b"".join(b"%d\n" % at for at in range(1, 2001, 2))


def imported(house: House, name: str, content: bytes, **query: int) -> Any:
    """Send a file, or a part of it."""
    return house.client.post("/api/traces", data=content, content_type=OCTETS, query_string={"name": name, **query})


def with_trace(house: House, name: str, lane: str = "london", direction: str = "outbound") -> Any:
    """A schedule that plays a trace."""
    tracks = [{"lanes": [lane], "direction": direction, "trace": name}]
    return house.client.put("/api/schedule", json={"tracks": tracks})


def test_a_trace_is_kept_played_and_no_longer_needed(up: House) -> None:
    trace = imported(up, "lte.csv", TRACE).json["trace"]
    assert (trace["keys"], trace["last_ns"], trace["settings"]) == (300, 299 * 10**9, ["delay", "loss"])
    assert with_trace(up, "lte.csv").status_code == 200
    schedule = asked(up).schedule
    assert schedule
    assert [len(track.keys) for track in schedule.tracks] == [300]
    assert up.client.get("/api/schedule").json["schedule"]["tracks"][0]["trace"] == "lte.csv"
    assert up.client.delete("/api/traces/lte.csv").status_code == 204
    left = up.client.get("/api/schedule").json["schedule"]
    assert left["tracks"][0]["trace"].startswith("up:")
    assert up.client.put("/api/schedule", json=left).json["differences"] == []
    assert asked(up).schedule == schedule
    up.client.delete("/api/schedule")
    (mistake,) = problem(up.client.put("/api/schedule", json=left), 422)["mistakes"]
    assert (mistake["path"], "import its file again" in mistake["text"]) == ("schedule.tracks.0.trace", True)


def test_a_link_trace_repeats_as_on_the_command_line(up: House, tmp_path: Path) -> None:
    assert imported(up, "cable.down", MAHIMAHI).json["trace"]["loop_ns"] == 2 * 10**9
    assert with_trace(up, "cable.down").status_code == 200
    (tmp_path / "cable.down").write_bytes(MAHIMAHI)
    (tmp_path / "x.yaml").write_text(
        "name: x\nhub: hub\nlanes: {london: {rtt: 80ms}}\n"
        "schedule:\n  tracks: [{lanes: [london], direction: outbound, trace: cable.down}]\n"
    )
    assert asked(up).schedule == loader.load(tmp_path / "x.yaml").schedule


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", b"time,colour\n1s,red\n"), ("a.csv", b"time,delay\n1s,5\n"), ("a", b"x\n"), ("a.csv", b"")],
)
def test_what_is_no_trace_is_refused_in_the_words_of_the_command_line(
    up: House, tmp_path: Path, name: str, content: bytes
) -> None:
    (mistake,) = problem(imported(up, name, content), 422)["mistakes"]
    (tmp_path / name).write_bytes(content)
    text = f"name: x\nhub: hub\nlanes: {{a: {{rtt: 80ms}}}}\nschedule:\n  tracks: [{{trace: {name}}}]\n"
    with pytest.raises(InputError) as refused:
        loader.loads(text, folder=tmp_path)
    assert refused.value.mistakes[0].text == mistake["text"]
    assert up.client.get("/api/traces").json == {"traces": []}


def test_a_file_comes_in_parts_that_follow_one_another(up: House) -> None:
    first = imported(up, "lte.csv", TRACE[:1000], offset=0, total=len(TRACE))
    assert first.json == {"received": 1000, "trace": None}
    assert up.client.get("/api/traces").json == {"traces": []}
    problem(imported(up, "lte.csv", TRACE[2000:], offset=2000, total=len(TRACE)), 422)
    problem(imported(up, "other.csv", TRACE[1000:], offset=1000, total=len(TRACE)), 422)
    assert imported(up, "lte.csv", TRACE[1000:], offset=1000, total=len(TRACE)).json["trace"]["keys"] == 300
    most = bounded_file.TRACE.most_bytes
    (mistake,) = problem(imported(up, "lte.csv", b"x", offset=0, total=most + 1), 422)["mistakes"]
    assert "the most that a trace may have" in mistake["text"]


@pytest.mark.parametrize(
    "name", ["../lte.csv", "/proc/lte.csv", "a/b.csv", ".hidden", "", "a" * 65, "a.partial", "a\nb"]
)
def test_no_name_leaves_the_folder(up: House, name: str) -> None:
    (mistake,) = problem(imported(up, name, TRACE), 422)["mistakes"]
    assert mistake["path"] == "name"
    (mistake,) = problem(with_trace(up, name or "x"), 422)["mistakes"]
    assert mistake["path"] == "schedule.tracks.0.trace"
    assert "there is no imported trace" in mistake["text"]


def test_the_folder_does_not_grow_without_end(up: House) -> None:
    for number in range(MOST_TRACES):
        assert imported(up, f"{number}.csv", b"time,delay\n1s,5ms\n").status_code == 200
    problem(imported(up, "more.csv", b"time,delay\n1s,5ms\n"), 422)
    assert imported(up, "7.csv", b"time,delay\n1s,6ms\n").status_code == 200


def test_a_file_is_imported_in_the_page_and_drawn_as_a_track(page: Page, site: Site) -> None:
    page.goto(site.url + "/schedule")
    expect(page.locator("#no-tracks")).to_be_visible()
    page.get_by_role("combobox", name="Lane", exact=True).select_option("london")
    page.get_by_role("combobox", name="Direction", exact=True).first.select_option("outbound")
    chosen = page.get_by_label("Import a file")
    chosen.set_input_files(FilePayload(name="no trace.csv", mimeType="text/csv", buffer=b"time,colour\n1s,red\n"))
    expect(page.locator("#trace-wrong")).to_contain_text("the header is 'time,colour'")
    large = TRACE + b"# a remark of the operator\n" * 10_000
    assert len(large) > 256 * 1024
    chosen.set_input_files(FilePayload(name="my lte.csv", mimeType="text/csv", buffer=large))
    expect(page.get_by_text("Plays my-lte.csv: 300 keys.")).to_be_visible()
    expect(page.get_by_role("group", name="london outbound Delay").locator(".curve")).to_be_attached()
    expect(page.get_by_role("group", name="london outbound Delay").locator(".handle")).to_have_count(0)
    page.get_by_role("button", name="Apply", exact=True).click()
    expect(page.locator("#notes")).to_contain_text("the schedule is changed")
    schedule = asked(site.house).schedule
    assert schedule
    assert (len(schedule.tracks[0].keys), schedule.tracks[0].direction) == (300, "outbound")
