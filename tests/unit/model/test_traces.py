"""Traces of real paths: CSV and mahimahi's, to the keys of a schedule."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.config import loader
from emulator.errors import InputError
from emulator.model import traces
from emulator.model.loss_model import P32
from emulator.model.schedule import Keyframe

MS, S = 10**6, 10**9


def test_a_table_with_units_in_its_cells() -> None:
    assert traces.read_csv("time,delay,loss,rate\n0s,40ms,1%,10Mbit\n# a remark\n1.5s,50ms,,\n") == (
        Keyframe(0, (("delay_ns", 40 * MS), ("loss_p32", round(P32 / 100)), ("loss_model", None), ("rate_bps", 10**7))),
        Keyframe(1_500 * MS, (("delay_ns", 50 * MS),)),
    )


def test_a_table_with_units_in_its_header() -> None:
    keys = traces.read_csv("Time_s, rtt_ms, loss_percent, rate_Mbit\n0, 80.5, 0, 12\n0.25, 81, 2, 8\n")
    assert keys[0] == Keyframe(
        0, (("rtt_ns", 80_500_000), ("loss_p32", 0), ("loss_model", None), ("rate_bps", 12 * 10**6))
    )
    assert keys[1].at_ns == 250 * MS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the trace is empty: begin it with a header such as time,delay,loss,rate"),
        ("time\n0s\n", "the header is 'time': use time and one or more of rtt, delay, jitter, loss, rate"),
        (
            "time,speed\n0s,1\n",
            "the header is 'time,speed': use time and one or more of rtt, delay, jitter, loss, rate",
        ),
        ("time,delay\n0s,40\n", "row 2: '40' has no unit: write 40ms for milliseconds"),
        ("time,delay\n,40ms\n", "row 2 has no time"),
    ],
)
def test_tables_that_make_no_sense(text: str, message: str) -> None:
    with pytest.raises(ValueError) as wrong:
        traces.read_csv(text)
    assert str(wrong.value) == message


def test_a_link_trace_is_a_rate_per_bin() -> None:
    lines = [*range(1, 101), *range(102, 201, 2), 300]
    keys, loop_ns = traces.read_mahimahi("\n".join(map(str, lines)))
    assert loop_ns == 300 * MS
    assert keys == (
        Keyframe(0, (("rate_bps", 12 * 10**6),)),
        Keyframe(100 * MS, (("rate_bps", 6 * 10**6),)),
        Keyframe(200 * MS, (("rate_bps", 120_000),)),
    )


def test_a_stall_keeps_what_is_queued() -> None:
    keys, _ = traces.read_mahimahi("50\n350\n")
    assert [value for key in keys for _, value in key.values] == [120_000, traces.STALLED_BPS, 120_000]


@pytest.mark.parametrize("text", ["", "1\nx\n", "5\n3\n", "0\n0\n", "-1\n"])
def test_link_traces_that_make_no_sense(text: str) -> None:
    with pytest.raises(ValueError, match=r"line|milliseconds"):
        traces.read_mahimahi(text)


def test_traces_stand_beside_the_topology(tmp_path: Path) -> None:
    (tmp_path / "path.csv").write_text("time,delay\n0s,40ms\n1s,60ms\n")
    (tmp_path / "cell.down").write_text("100\n200\n")
    tracks = "{lanes: [a], direction: inbound, trace: path.csv}, {lanes: [a], direction: outbound, trace: cell.down}"
    text = f"{{name: x, hub: h, lanes: {{a: {{rtt: 80ms, rate: 1Gbit}}}}, schedule: {{tracks: [{tracks}]}}}}"
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(InputError, match=r"the loop of 200 ms ends before the last key at 1 s"):
        loader.load(tmp_path / "x.yaml")
    (tmp_path / "x.yaml").write_text(text.replace("{tracks", "{loop: 2s, tracks"))
    schedule = loader.load(tmp_path / "x.yaml").schedule
    assert schedule is not None
    assert [len(track.keys) for track in schedule.tracks] == [2, 1]
    (tmp_path / "path.csv").write_text("nonsense")
    with pytest.raises(InputError, match=r"path\.csv: the header is 'nonsense'"):
        loader.load(tmp_path / "x.yaml")
