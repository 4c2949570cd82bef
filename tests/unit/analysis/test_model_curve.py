"""The curve of theory: through every cell, and with its bends where the laws cross."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.analysis.model_curve import ModelPoint, theory
from emulator.analysis.throughput_models import CUBIC, LINE, MATHIS, RECEIVE_WINDOW, SEND_BUFFER

MS = 10**6
MIB = 2**20


def cell(rtt_ms: int, window_bytes: int = 4 * MIB, line: float = 1e9, law: str = SEND_BUFFER) -> ModelPoint:
    return ModelPoint(rtt_ms * MS, {LINE: line, law: window_bytes * 1000 / rtt_ms})


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=6, unique=True), st.integers(10_000, 10**9))
def test_one_window_and_one_line_are_the_law_itself_everywhere(rtts: list[int], window_bytes: int) -> None:
    for rtt_ns, bytes_per_s in theory(cell(rtt, window_bytes) for rtt in rtts):
        assert bytes_per_s == pytest.approx(min(1e9, window_bytes * 1e9 / rtt_ns), rel=1e-9)


def test_the_curve_goes_through_every_cell() -> None:
    cells = [cell(2, 3 * MIB), cell(10, 5 * MIB), cell(300, 4 * MIB)]
    curve = dict(theory(cells))
    assert [curve[point.rtt_ns] for point in cells] == [pytest.approx(min(point.laws.values())) for point in cells]
    assert list(curve) == sorted(curve)


def test_it_bends_where_the_laws_cross_and_not_at_a_cell() -> None:
    # 4 MiB fill 1e9 bytes/s up to 4.19 ms: between the cells.
    curve = theory([cell(1), cell(100)])
    assert all(value == pytest.approx(1e9) for rtt_ns, value in curve if rtt_ns < 4.19 * MS)
    assert all(value < 1e9 for rtt_ns, value in curve if rtt_ns > 4.2 * MS)


def test_a_law_known_at_one_end_is_drawn_on() -> None:
    # Old results name only the law that binds.
    curve = theory([ModelPoint(MS, {LINE: 1e9}), ModelPoint(100 * MS, {RECEIVE_WINDOW: 4e7})])
    for rtt_ns, bytes_per_s in curve:
        assert bytes_per_s == pytest.approx(min(1e9, 4e15 / rtt_ns))


def test_mathis_and_cubic_are_one_law_that_takes_turns() -> None:
    curve = theory([ModelPoint(MS, {LINE: 1e9, MATHIS: 4e8}), ModelPoint(100 * MS, {LINE: 1e9, CUBIC: 1e7})])
    assert all(value <= 4e8 * (1 + 1e-9) for _, value in curve)
    assert curve[12][1] == pytest.approx((4e8 * 1e7) ** 0.5)  # half way, on a straight line between both


def test_what_cannot_be_drawn_is_left_out() -> None:
    assert theory([]) == []
    assert theory([ModelPoint(0, {LINE: 1e9}), ModelPoint(MS, {})]) == []
    assert theory([cell(5)]) == [(5 * MS, pytest.approx(MIB * 800))]
    assert theory([ModelPoint(MS, {LINE: 0.0}), ModelPoint(2 * MS, {LINE: 1e9})])[0] == (MS, 0.0)
