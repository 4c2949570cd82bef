"""Probes as lines of a file, and the two directions that they tell of."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.made_recordings import EVERY_NS, MS, one_way, round_trips

from emulator.model.traces import read_csv
from emulator.record import probes
from emulator.record.probes import (
    BACK,
    HEADER,
    SOMEWHERE,
    THERE,
    DirectionSeries,
    PacketRecord,
    RecordedProbe,
    TraceStep,
)

COUNTS = st.integers(0, 10**12)
NUMBERS = st.integers(0, probes.MOST_PROBES - 1)
DELAYS = st.none() | COUNTS


@given(
    st.lists(
        st.builds(RecordedProbe, NUMBERS, NUMBERS, COUNTS, DELAYS, DELAYS, DELAYS, st.sampled_from(["", THERE, BACK]))
    )
)
def test_what_is_written_is_read(found: list[RecordedProbe]) -> None:
    text = "".join(f"{line}\n" for line in [HEADER, *(probe.line() for probe in found)])
    assert probes.parse(text) == found
    assert probes.parse(text + "0,17,34") == found


@pytest.mark.parametrize(("text", "where"), [("number\n", "line 1"), (f"{HEADER}\n0,1,2,3,,,\n0,x,2,3,,,\n", "line 3")])
def test_what_is_no_recording_says_where(text: str, where: str) -> None:
    with pytest.raises(ValueError, match=where):
        probes.parse(text)


def test_probes_without_a_line_were_lost() -> None:
    """Answers may come in any order."""
    found = [
        RecordedProbe(1, 1, 70, 5),
        RecordedProbe(0, 4, 50, 5),
        RecordedProbe(0, 2, 20, 5),
        RecordedProbe(0, 2, 20, 5),
    ]
    runs = probes.complete(found, 10)
    assert [[(p.number, p.sent_ns, p.lost) for p in run] for run in runs] == [
        [(0, 0, SOMEWHERE), (1, 10, SOMEWHERE), (2, 20, ""), (3, 35, SOMEWHERE), (4, 50, "")],
        [(0, 60, SOMEWHERE), (1, 70, "")],
    ]


def test_the_way_back_of_a_ping_is_half_the_least_trip() -> None:
    there, back = probes.ways([round_trips([100, None, 120, 101])], one_clock=False)
    assert there.delays == [[50 * MS, 70 * MS, 51 * MS]]
    assert there.lost == [[False, True, False, False]]
    assert (back.delays, back.lost) == ([[50 * MS] * 3], [[False] * 3])


def test_each_way_on_one_clock_is_as_it_is() -> None:
    runs = [
        [
            RecordedProbe(0, 0, 0, 70, 40, 30),
            RecordedProbe(0, 1, 1, lost=THERE),
            RecordedProbe(0, 2, 2, lost=BACK),
            RecordedProbe(0, 3, 3, 75, 45, 30),
        ]
    ]
    there, back = probes.ways(runs, one_clock=True)
    assert (there.delays, there.lost) == ([[40, 45]], [[False, True, False, False]])
    assert (back.delays, back.lost) == ([[30, 30]], [[False, True, False]])


@settings(max_examples=30)
@given(st.integers(-(10**12), 10**12), st.integers(-(10**12), 10**12))
def test_clocks_that_differ_change_nothing_but_the_split(first: int, second: int) -> None:
    """Each series has its own difference; what is left is the least way, half the least round trip in each series."""
    true = [[RecordedProbe(n, i, i, 100 + i + j, 60 + i, 40 + j) for i, j in ((0, 0), (7, 3), (2, 9))] for n in (0, 1)]
    shifted = [
        [RecordedProbe(p.run, p.number, p.sent_ns, p.rtt_ns, p.there_ns + ahead, p.back_ns - ahead) for p in run]  # type: ignore[operator]
        for run, ahead in zip(true, (first, second), strict=True)
    ]
    there, back = probes.ways(shifted, one_clock=False)
    for out, home in zip(there.delays, back.delays, strict=True):
        assert [a + b for a, b in zip(out, home, strict=True)] == [100, 110, 111]
        assert [ns - out[0] for ns in out] == [0, 7, 2]
        assert abs(out[0] - 50) <= 1


def test_nothing_answered_is_said() -> None:
    with pytest.raises(ValueError, match="no probe was answered"):
        probes.ways([[RecordedProbe(0, 0, 0, lost=SOMEWHERE)]], one_clock=True)


def test_a_trace_has_mean_spread_and_loss_of_each_step() -> None:
    points = [(0, 40), (10, 40), (20, 46), (30, None), (2_000, None), (3_000, 44)]
    way = DirectionSeries((tuple(PacketRecord(at, ns is None, ns) for at, ns in points),))
    found = probes.trace_steps(way, 1_000)
    assert found == [TraceStep(0, 42, 5, 0.25), TraceStep(2_000, None, None, 1), TraceStep(3_000, 44, 0, 0)]
    keys = read_csv(probes.trace(found))
    assert [key.at_ns for key in keys] == [0, 2_000, 3_000]
    assert dict(keys[0].values) == {
        "delay_ns": 42,
        "jitter_ns": 5,
        "loss_p32": (2**32 - 1) // 4 + 1,
        "loss_model": None,
    }
    assert dict(keys[1].values) == {"loss_p32": 2**32 - 1, "loss_model": None}


def test_the_spread_of_a_trace_is_the_spread_of_the_path() -> None:
    """Uniform within 8 ms: a jitter of 4 ms about 44 ms."""
    there, _ = probes.ways(probes.complete(one_way(1, 4_000), EVERY_NS), one_clock=True)
    found = probes.trace_steps(there, 100 * 10**9)[0]
    assert found.delay_ns == pytest.approx(44 * MS, rel=0.01)
    assert found.jitter_ns == pytest.approx(4 * MS, rel=0.05)


@pytest.mark.parametrize("line", [f"0,{probes.MOST_PROBES},0,,,,", "0,-1,0,,,,", f"{10**12},0,0,,,,"])
def test_a_number_that_no_recording_has_is_no_probe(line: str) -> None:
    """The probes before it would be filled in, one by one."""
    with pytest.raises(ValueError, match=r"^line 2: .* is not a probe$"):
        probes.parse(f"{probes.HEADER}\n{line}\n")
