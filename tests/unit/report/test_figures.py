"""What the figures choose to show, without drawing; test_report_html draws them."""

from __future__ import annotations

import math
import re

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure as NewCanvas
from support.made_programs import connection, row, run, runs, turns_row, window_row
from support.made_results import MIB, MS, cell_result, cell_spec, changed

from emulator.errors import MissingError
from emulator.experiment.cell_result import CellResult
from emulator.hosts import tcp_profiles
from emulator.report import svg_theme
from emulator.report.figures import completion, delays, draw, matrix, ramp, style
from emulator.report.program_table import Series, series_of

MOST = tcp_profiles.maximum(10**10, 346 * MS)


def cells(rtts_ms: list[int], streams: tuple[int, ...] = (1,)) -> list[CellResult]:
    """Both profiles at every RTT."""
    return [
        cell_result(cell_spec(rtt * MS, number, profile=profile), 570 * MIB)
        for rtt in rtts_ms
        for profile in (tcp_profiles.DEFAULT, MOST)
        for number in streams
    ]


@pytest.mark.parametrize(
    ("many", "most", "chosen"), [(3, 6, [0, 1, 2]), (12, 4, [0, 4, 7, 11]), (12, 1, [11]), (0, 3, [])]
)
def test_the_first_and_the_last_are_among_the_chosen(many: int, most: int, chosen: list[int]) -> None:
    assert style.spread(range(many), most) == chosen


def test_columns_are_called_by_what_tells_them_apart() -> None:
    names, shared = style.names_of(["default, 1 stream, bbr", "max, 1 stream, bbr"])
    assert (names, shared) == ({"default, 1 stream, bbr": "default", "max, 1 stream, bbr": "max"}, "1 stream, bbr")
    assert style.names_of(["max, 1 stream"]) == ({"max, 1 stream": "max, 1 stream"}, "")


def test_every_line_has_a_look_of_its_own() -> None:
    looks = [tuple(style.style_of(number).values()) for number in range(42)]
    assert len(set(looks)) == 42


def test_a_ramp_of_many_rtts_has_a_panel_for_each_column_with_the_same_rtts() -> None:
    panels = ramp.panels(cells([1, 2, 4, 8, 16, 32, 64, 346]))
    assert [title for title, _ in panels] == ["default", "max"]
    assert [name for name, _ in panels[0][1]] == ["1 ms", "2 ms", "8 ms", "16 ms", "64 ms", "346 ms"]
    assert [name for name, _ in panels[1][1]] == [name for name, _ in panels[0][1]]


def test_a_ramp_of_many_columns_has_a_panel_for_each_rtt() -> None:
    panels = ramp.panels(cells([32], (1, 8)))
    assert [title for title, _ in panels] == ["32 ms"]
    assert [name for name, _ in panels[0][1]] == [
        "default, 1 stream", "default, 8 streams", "max, 1 stream", "max, 8 streams",
    ]  # fmt: skip


def test_a_cell_whose_ramp_was_not_seen_is_not_drawn() -> None:
    seen, unseen = cells([1])
    assert ramp.drawable([seen, changed(unseen, ramp=())]) == [seen]


def test_histograms_show_every_column_and_what_is_known() -> None:
    many = cells([1, 2, 4, 8, 16])
    assert [cell.spec.id for cell in delays.chosen(many)] == [
        f"lane-{rtt}ms-{profile}-1" for profile in ("default", "max") for rtt in (1, 4, 16)
    ]
    assert delays.chosen([changed(cell, loaded=None) for cell in many]) == []


def test_the_heat_map_has_a_panel_for_each_profile_and_holes_where_no_cell_is() -> None:
    most = cells([1, 32], (1, 8))
    streams, rtts, panels = matrix.streams_panels(most[:-1])
    assert (streams, rtts, [name for name, _ in panels]) == ([1, 8], [MS, 32 * MS], ["default", "max"])
    assert panels[0][1] == [[pytest.approx(50, abs=0.1)] * 2] * 2
    assert math.isnan(panels[1][1][1][1])
    assert matrix.streams_panels(cells([1, 32]))[2] == []


def programs() -> list[Series]:
    """A chatty program at four RTTs, and one that a window limits at two rates."""
    chat = [turns_row("redis, max", rtt, 17) for rtt in (0, 10, 80, 346)]
    load = [window_row("curl, default", rtt, 20, rate) for rtt in (80, 200, 346) for rate in (10**9, 10**10)]
    return series_of([*chat, *load])


def test_completion_times_and_their_parts_are_drawn() -> None:
    rows = [row for one in programs() for row in one.rows]
    figures = draw.draw_programs(rows)
    assert [figure.name for figure in figures] == ["completion", "time-parts"]
    for figure in figures:
        assert figure.png.startswith(b"\x89PNG")
        unthemed = set(re.findall("#[0-9a-f]{6}", figure.svg)) - svg_theme.NAMES.keys() - {"#000000", "#ffffff"}
        assert unthemed == set(), "every colour follows the page's theme"
    assert "receive window" in figures[1].svg or "<path" in figures[1].svg
    assert draw.draw_programs(rows) == figures
    assert draw.draw_programs([]) == []


def test_one_rtt_is_no_line_but_its_parts_are_shown() -> None:
    one = [turns_row("redis, max", 80, 17)]
    assert [figure.name for figure in draw.draw_programs(one)] == ["time-parts"]
    assert completion.drawable(series_of(one)) == []


def drawn(all: list[Series]) -> Axes:
    canvas = NewCanvas()
    completion.against_rtt(all, canvas)
    return canvas.axes[0]


def test_marks_are_the_measurements_and_lines_the_laws() -> None:
    axes = drawn(programs())
    marks = [line for line in axes.lines if line.get_label().startswith(("redis", "curl"))]  # type: ignore[union-attr]
    assert [line.get_label() for line in marks] == ["redis, max", "curl, default, 1 Gbit/s", "curl, default, 10 Gbit/s"]
    assert list(marks[0].get_xdata()) == [0, 10, 80, 346]  # type: ignore[arg-type]
    laws = [line for line in axes.lines if len(line.get_xdata()) > 10]  # type: ignore[arg-type]
    assert len(laws) == 3
    assert list(laws[0].get_ydata())[-1] == pytest.approx(0.005 + 18 * 0.346)  # type: ignore[arg-type]
    assert (laws[1].get_xdata()[0], laws[1].get_xdata()[-1]) == (80, 346)  # type: ignore[index]


def test_times_without_a_law_are_drawn_without_a_line() -> None:
    times = {0: 3000.0, 10: 200.0, 80: 4000.0, 200: 700.0, 346: 3000.0}
    rows = [row("odd", rtt, runs(run(time, connection()), quiet_ms=time * 0.9)) for rtt, time in times.items()]
    assert [line for line in drawn(series_of(rows)).lines if len(line.get_xdata()) > 10] == []  # type: ignore[arg-type]


def test_the_parts_of_every_cell_fill_its_bar() -> None:
    canvas = NewCanvas()
    completion.parts(programs(), canvas)
    ends: dict[float, float] = {}
    for bar in (patch for patch in canvas.axes[0].patches if patch.get_width()):  # type: ignore[attr-defined]
        ends[bar.get_y()] = max(ends.get(bar.get_y(), 0.0), bar.get_x() + bar.get_width())  # type: ignore[attr-defined]
    assert list(ends.values()) == [pytest.approx(100)] * 10


def test_a_matplotlib_that_is_too_old_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Debian 12 has 3.6, which does not know where our legends stand."""
    monkeypatch.setattr("matplotlib.__version_info__", (3, 6, 3))
    monkeypatch.setattr("matplotlib.__version__", "3.6.3")
    with pytest.raises(MissingError, match=r"3\.8 or newer, 3\.6\.3 is installed: .*install"):
        draw.draw_programs([turns_row("redis, max", 80, 17)])
