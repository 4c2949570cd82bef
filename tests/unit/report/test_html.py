"""report.html and the figures: whole, self-contained, the same bytes from the same run; presets side by side."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.made_results import MIB, MS, cell_result, cell_spec, changed, execution

from emulator.analysis.observed import CapturedFile
from emulator.experiment.cell_result import CellResult
from emulator.experiment.cell_spec import CellSpec
from emulator.experiment.run_folder import Asked, RunFolder
from emulator.hosts import tcp_profiles
from emulator.report import html, published_results, write
from emulator.report.figures import draw

VOID = {"meta", "br", "img", "link", "hr", "input"}


class Reader(HTMLParser):
    """Checks that every element is closed, and collects text and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value for name, value in attrs if name in ("src", "href") and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def grid() -> tuple[list[CellSpec], dict[str, CellResult]]:
    """The founding experiment at three RTTs, 8 streams at two; one cell says what HTML must not take for its own."""
    most = tcp_profiles.maximum(10**10, 346 * MS)
    asked = [(rtt, profile, 1) for rtt in (0, 2 * MS, 346 * MS) for profile in (tcp_profiles.DEFAULT, most)]
    asked += [(rtt, tcp_profiles.DEFAULT, 8) for rtt in (2 * MS, 346 * MS)]
    plain = [cell_spec(rtt, streams, profile=profile) for rtt, profile, streams in asked]
    specs = [replace(spec, topology=replace(spec.topology, name="founding-10g")) for spec in plain]
    found = {spec.id: cell_result(spec, (n + 1) * 100 * MIB) for n, spec in enumerate(specs)}
    spoilt = specs[2].id
    found[spoilt] = changed(found[spoilt], invalid=("<script>alert(1)</script>",), repeats=(1e8, 1.1e8))
    return specs, found


@pytest.fixture(scope="module")
def figures(grid: tuple[list[CellSpec], dict[str, CellResult]]) -> list[draw.Figure]:
    return draw.draw(*grid)


def test_every_figure_is_there_in_both_forms(figures: list[draw.Figure]) -> None:
    assert [figure.name for figure in figures] == ["throughput", "ramp", "delays", "streams", "certificate"]
    assert figures[0].caption.endswith("An RTT of 0 is drawn apart, at the left.")
    for figure in figures:
        assert "<svg" in figure.svg
        assert "//matplotlib.org" not in figure.svg
        assert figure.png.startswith(b"\x89PNG")


def test_the_same_run_gives_the_same_bytes(
    grid: tuple[list[CellSpec], dict[str, CellResult]], figures: list[draw.Figure]
) -> None:
    specs, found = grid
    few = specs[:1]
    once, again = draw.draw(few, found), draw.draw(few, found)
    assert once == again
    assert [figure.name for figure in once] == ["throughput", "ramp", "delays", "certificate"]
    assert draw.draw(few, {}) == []


def test_the_page_is_whole_and_needs_nothing_from_elsewhere(
    grid: tuple[list[CellSpec], dict[str, CellResult]], figures: list[draw.Figure]
) -> None:
    said = ["lane-2ms-default-1 invalid: <script>alert(1)</script>"]
    page = html.page({"version": "1", "order_seed": 7}, {"sysctls": {"a": "<b>"}}, *grid, said, figures)
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert [a for a in reader.addresses if not a.startswith("#")] == []
    text = " ".join(reader.text)
    parts = (
        "seed 7",
        "steady MiB/s (Gbit/s)",
        "default, 8 streams",
        "tcp_wmem max from 4 MiB to 55 MiB",
        "<b>",
        "cell",
    )
    for part in parts:
        assert part in text, part
    assert "<script>" not in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_the_page_links_the_captured_frames(grid: tuple[list[CellSpec], dict[str, CellResult]]) -> None:
    specs, found = grid
    file = CapturedFile("pcap/a lane.0/x.pcapng", "c0ffee", 7, 2)
    with_file = {**found, specs[0].id: replace(found[specs[0].id], captures=(file,))}
    reader = Reader()
    reader.feed(page := html.page({}, {}, specs, with_file, [], []))
    assert reader.open == []
    assert "pcap/a%20lane.0/x.pcapng" in reader.addresses
    assert all(part in reader.text for part in ("Captured frames", "c0ffee", "7", "2"))
    assert "Captured frames" not in html.page({}, {}, specs, found, [], [])
    assert "<th>" not in page


def test_a_run_folder_is_rendered(tmp_path: Path, figures: list[draw.Figure], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw, "draw", lambda *_: figures)
    spec = cell_spec()
    folder = RunFolder.create(tmp_path / "run", {"version": "1"}, Asked((spec,), True))
    folder.save(execution(spec))
    written = write.write_all(folder, [spec], {spec.id: cell_result(spec)}, ["said"])
    assert written[0] == folder.path / "report.html"
    assert all(path.stat().st_size > 1000 for path in written)
    assert (folder.path / "table.md").read_text().endswith("only the receiver's figure is valid\n")
    assert (folder.path / "table.csv").read_text().count("\n") == 2


def published(name: str, spec: CellSpec, result: CellResult) -> published_results.Published:
    own = replace(spec, topology=replace(spec.topology, name=name))
    found = published_results.side_by_side([own], {own.id: replace(result, spec=own)})
    assert found is not None
    return found


def test_the_founding_table_stands_beside_ours() -> None:
    spec = cell_spec(profile=tcp_profiles.maximum(10**10, 32 * MS))
    found = published("founding-10g", spec, cell_result(spec, 1140 * MIB))
    (row,) = found.table.rows
    assert row[:6] == ("max", "32 ms", "341.4 (2.864)", "1106 (9.276)", "1140 (9.563)", "1151 (9.659)")
    assert row[6:] == ("10.9", "36.5", "x 3.24: their limit of 1000 packets")
    assert any("artefact" in text for text in found.words)


@pytest.mark.parametrize(
    ("rtt_ms", "profile", "mib", "difference"),
    [
        (2, "default", 1140, "+10%"),
        (8, "default", 340, "+39%: another kernel's default buffers, hence another window"),
        (64, "default", 43, "x 5.33: fewer bytes in flight than their window: they must have lost packets"),
        (4, "max", 1200, "+13%"),
        (346, "max", 1140, "not published"),
    ],
)
def test_why_ours_is_not_theirs(rtt_ms: int, profile: str, mib: int, difference: str) -> None:
    lane = cell_spec(rtt_ms * MS).lane
    chosen = tcp_profiles.choose(profile, {"default": tcp_profiles.DEFAULT}, lane, lane.outbound)
    spec = cell_spec(rtt_ms * MS, profile=chosen)
    assert published("founding-10g", spec, cell_result(spec, mib * MIB)).table.rows[0][-1] == difference


def test_the_transcontinental_result_stands_beside_ours() -> None:
    spec = cell_spec(71 * MS, streams=7)
    result = changed(cell_result(spec, 103.3e6), peer_window_bytes=1_020_000)
    row = published("transcontinental-1g", spec, result).table.rows[0]
    assert row[:5] == ("996 KiB", "7", "98.5 (0.826)", "95.6 (0.802)", "98.5 (0.826)")
    assert published("transcontinental-1g", spec, result).table.rows[0][-1] == "none"
    lost = changed(result, peer_window_bytes=2**19)
    assert published("transcontinental-1g", spec, lost).table.rows[0][-1] == "not published"


def test_other_runs_have_nothing_published() -> None:
    spec = cell_spec()
    assert published_results.side_by_side([spec], {spec.id: cell_result(spec)}) is None
    assert published_results.side_by_side([], {}) is None
