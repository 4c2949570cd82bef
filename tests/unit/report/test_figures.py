"""What the figures choose to show, without drawing; test_report_html draws them."""

from __future__ import annotations

import math

import pytest
from support.made_results import MIB, MS, cell_result, cell_spec, changed

from emulator.experiment.cell_result import CellResult
from emulator.hosts import tcp_profiles
from emulator.report.figures import delays, matrix, ramp, style

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
